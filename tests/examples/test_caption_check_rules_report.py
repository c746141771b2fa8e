"""What a report lists of many findings, in which order, and the figures of a file."""

from __future__ import annotations

import pytest
from caption_cues import CLEAN, SHOW, SHOWN, padded
from caption_encoder import (
    EDM,
    RCL,
    RDC,
    RU2,
    line,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import checked, found, rules

from examples.recipes.caption_qc.check import check, parse
from examples.recipes.caption_qc.check.faults import plain

# What is reported


def test_findings_are_listed_in_the_order_of_the_file() -> None:
    """By line, then by word; what has no place comes last."""
    report = checked(b"x\n\nbad\n00:00:05:00 zz 4141 yy c1c1\n00:00:04:00\t8080\n")

    places = [(finding.line, finding.word) for finding in report.findings]
    assert places == sorted(places, key=lambda place: (place[0] or 99, -1 if place[1] is None else place[1]))
    assert rules(report) == [
        ("FMT_HEADER", 1),
        ("FMT_BAD_LINE", 3),
        ("FMT_NO_TAB", 4),
        ("HEX_BAD_WORD", 4),
        ("608_PARITY", 4),
        ("608_TEXT_NO_MODE", 4),
        ("HEX_BAD_WORD", 4),
        ("TC_BACKWARD", 5),
        ("FMT_NO_CAPTIONS", None),
    ]


def test_finding_names_the_channel_that_it_is_about() -> None:
    """What reads the whole file names none; what judges a channel names it, in the summary too."""
    lines = [line(f"00:00:{second:02}:00", SHOW[:-1], ["c1c1 zz"]) for second in range(1, 59)]
    report = checked(scc(*lines, *(line(f"00:0{n}:00;00", SHOW) for n in range(1, 9))))

    channels = {finding.rule: finding.channel for finding in report.findings}
    assert len(channels) > 5
    for name, channel in channels.items():
        whole_file = name.startswith(("FMT_", "HEX_", "TC_")) or name == "608_PARITY"
        assert channel == (None if whole_file else "CC1"), name


@pytest.mark.parametrize(("faults", "listed"), [(100, 100), (101, 101), (250, 101)])
def test_a_hundred_findings_of_a_rule_are_listed_and_the_rest_counted(faults: int, listed: int) -> None:
    """One more finding says how many there were, and is as severe."""
    findings = found(checked(scc(line("00:00:01:00", SHOW, ["zz"] * faults))), "HEX_BAD_WORD")

    assert len(findings) == listed
    assert [finding.word for finding in findings[:100]] == list(range(len(SHOW), len(SHOW) + 100))
    if faults > 100:
        assert (findings[-1].measured, findings[-1].severity, findings[-1].line) == (faults, "error", None)


def overlapping(mode: list[str], overlaps: int, minute: int) -> list[str]:
    """Write so many overlaps of lines of a mode, and one line that comes in time."""
    clocks = [f"00:{minute:02}:{number // 25:02}:{number % 25:02}" for number in range(overlaps + 1)]
    return [*(line(clock, mode, ["8080"] * 20) for clock in clocks), padded(f"00:{minute:02}:30:00")]


@pytest.mark.parametrize("warnings", [99, 100, 104, 300])
@pytest.mark.parametrize("errors", [1, 2])
def test_error_after_a_hundred_warnings_decides_the_status(warnings: int, errors: int) -> None:
    """Errors are listed before warnings; in the file's order, as all findings are."""
    rollups = overlapping(twice(RU2), warnings, minute=1)
    report = checked(scc(*rollups, *overlapping(twice(RCL), errors, minute=2)))

    overlaps = found(report, "TC_LOAD_OVERLAP")
    more = warnings + errors > 100
    assert report.status == "fail"
    assert [finding.severity for finding in overlaps] == [
        *["warn"] * min(warnings, 100 - errors),
        *["error"] * errors,
        *["warn"] * more,
    ]
    if more:
        assert (overlaps[-1].line, overlaps[-1].measured) == (None, warnings + errors)


def test_errors_that_are_not_listed_make_the_summary_an_error() -> None:
    """What is left out is as severe as the worst of it; a warning more does not make it milder."""
    report = checked(scc(*overlapping(twice(RCL), 150, 1), *overlapping(twice(RU2), 150, 2)))

    overlaps = found(report, "TC_LOAD_OVERLAP")
    assert [finding.severity for finding in overlaps] == ["error"] * 101
    assert (overlaps[-1].measured, report.status) == (300, "fail")


def shown_for(frames: list[int]) -> bytes:
    """Write a pop-on cue for each, on screen for so many frames, two seconds apart."""
    lines = []
    for number, time in enumerate(frames):
        at, off = 60 + 60 * number, 60 + 60 * number + time
        lines += [line(clock(at - len(SHOW) + 2), SHOW), line(clock(off), twice(EDM))]
    return scc(*lines)


def clock(frame: int) -> str:
    """Write a frame number as a time code."""
    return f"{frame // 108000:02}:{frame // 1800 % 60:02}:{frame // 30 % 60:02}:{frame % 30:02}"


@pytest.mark.parametrize("rule", ["RATE_CPS", "CUE_SHORT"])
def test_the_worst_hundred_findings_are_listed_in_the_order_of_the_file(rule: str) -> None:
    """Not the first ones: those that go furthest over the limit, and the last finding says so."""
    times = [4, 5] * 60 + [3, 3]
    findings = found(checked(shown_for(times)), rule)

    fastest = [number for number, time in enumerate(times, 1) if time < 5]
    rest = [number for number, time in enumerate(times, 1) if time == 5][: 100 - len(fastest)]
    assert [finding.cue for finding in findings[:-1]] == sorted(fastest + rest)
    assert findings[-1].message == f"{rule} was found 122 times; only the worst 100 are listed"
    assert (findings[-1].measured, findings[-1].cue) == (122, None)


def test_of_faults_without_a_measure_the_first_are_listed_and_it_says_so() -> None:
    """One bad word is as bad as another."""
    findings = found(checked(scc(line("00:00:01:00", SHOW, ["zz"] * 103))), "HEX_BAD_WORD")
    assert findings[-1].message == "HEX_BAD_WORD was found 103 times; only the first 100 are listed"


@pytest.mark.parametrize("faults", [100, 101, 102, 300])
@pytest.mark.parametrize(
    "bad", ["x", "\0", "00:00:09:29 8080", "25:00:00:29\t8080", "00:00:09:29\tzz", "\xff"]
)
def test_every_rule_counts_what_it_does_not_list(bad: str, faults: int) -> None:
    """Whatever the rule, so many lines are so many findings, and one more record says how many."""
    report = checked(CLEAN + (bad + "\n").encode("latin-1") * faults)

    counted = {name: found(report, name) for name, _ in rules(report)}
    for name, findings in counted.items():
        listed = [finding.line for finding in findings if finding.unit != "findings"]
        summary = [finding.measured for finding in findings if finding.unit == "findings"]
        count = faults - (
            name in {"TC_DUPLICATE", "TC_LOAD_OVERLAP"}
        )  # They compare a line with the one above.
        assert len(set(listed)) == len(listed) == min(count, 100), name
        assert summary == [count] * (count > 100), name
    assert {"FMT_BAD_LINE", "FMT_NO_TAB", "TC_RANGE", "HEX_BAD_WORD"} & set(counted)


def test_messages_are_one_printable_line() -> None:
    """What a file holds is quoted, and cut short."""
    report = checked(b"\x1b[31m\x07" * 30 + b"\n<script>\n00:00:01:00\t" + b"\xff" * 500)

    for finding in report.findings:
        assert finding.message.isprintable()
        assert finding.message.isascii()
        assert len(finding.message) < 250


def test_equal_bytes_give_an_equal_report() -> None:
    """The checker keeps nothing between files."""
    faulty = CLEAN.replace(b"942c", b"942d")
    first = checked(faulty)
    checked(CLEAN)

    assert checked(faulty) == first


def test_profile_sets_severity_and_threshold() -> None:
    """Both are the profile's where it names them; the report names the profile."""
    profile = parse(
        b'name = "strict"\n[rules.TC_JUMP]\nseverity = "error"\nthreshold = 2.5\n'
        b'[rules.TC_LOAD_OVERLAP]\nseverity = "info"\nthreshold = 5\n[rules.FMT_NO_TAB]\nseverity = "info"\n',
        "strict.toml",
    )
    late, early = line("00:00:04:00", ["8080"] * 20), padded("00:00:04:16")
    report = check(scc(line("00:00:00:00", SHOWN), late, early).replace(b"\t", b" "), profile)

    assert [(finding.rule, finding.severity, finding.threshold) for finding in report.findings] == [
        ("FMT_NO_TAB", "info", None),
        ("FMT_NO_TAB", "info", None),
        ("TC_JUMP", "error", 2.5),
        ("FMT_NO_TAB", "info", None),
    ]
    assert (report.profile, report.profile_sha256) == ("strict", profile.sha256)


# Figures


def test_figures_count_what_the_file_holds() -> None:
    """Frames to the last word, words of the stream, and the cues of the profile's channel."""
    other = line("00:00:03;00", twice(RDC + 0x800), text("CC2 IS LONGER"))
    rolled = line("00:00:05;00", twice(RU2), preamble(15), text("ROLL"))
    painted = line("00:00:06;00", twice(RDC), preamble(14), text("PA"), preamble(15), text("INT"))
    data = scc(line("00:00:01;00", SHOW), other, rolled, painted)
    figures = checked(data).figures

    assert (figures.time_base, figures.first_tc, figures.last_tc) == ("df", "00:00:01;00", "00:00:06;00")
    assert (figures.duration_frames, figures.words) == (150 + 9, 10 + 9 + 6 + 9)
    assert (figures.cues, figures.mode_pop, figures.mode_roll, figures.mode_paint) == (3, 1, 1, 1)
    assert (figures.max_rows, figures.max_cols) == (2, 4)

    cc2 = check(data, parse(b'name = "cc2"\nchannel = "CC2"', "cc2.toml")).figures
    assert (cc2.cues, cc2.mode_paint, cc2.max_rows, cc2.max_cols) == (1, 1, 1, 13)


def test_file_without_lines_has_no_figures() -> None:
    """Counts are 0, all else is unknown."""
    figures = checked(b"").figures

    assert (figures.cues, figures.words, figures.parity_errors) == (0, 0, 0)
    assert (figures.first_tc, figures.last_tc, figures.duration_frames, figures.max_rows) == (None,) * 4


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        (0, "0"),
        (2, "2"),
        (20.0, "20"),
        (5 / 6, "0.833"),
        (0.5, "0.5"),
        (100, "100"),
        (1_000_000, "1000000"),
        (1234567.5, "1234567.5"),
        (0.00001, "0.00001"),
    ],
)
def test_limit_is_written_as_a_plain_number(limit: float, written: str) -> None:
    """Nobody reads 1e+06."""
    assert plain(limit) == written


@pytest.mark.parametrize(
    "rule", ["LAY_ROWS", "CUE_SHORT", "CUE_GAP", "RATE_CPS", "RATE_WPM", "CUE_LONG", "TC_JUMP"]
)
@pytest.mark.parametrize("limit", ["0.00001", "1000000"])
def test_message_names_a_limit_of_any_size_plainly(rule: str, limit: str) -> None:
    """Whatever a profile wants."""
    profile = parse(f'name = "x"\n[rules.{rule}]\nthreshold = {limit}'.encode(), "x.toml")
    gap = ["8080" for _ in range(30)]
    data = scc(
        line("00:00:01:00", SHOW, gap, twice(EDM), SHOW, gap, twice(EDM)), line("00:30:00:00", twice(EDM))
    )
    messages = [finding.message for finding in found(check(data, profile), rule)]

    assert messages or limit == ("0.00001" if rule in {"CUE_SHORT", "CUE_GAP"} else "1000000")
    assert all(limit in message for message in messages)
