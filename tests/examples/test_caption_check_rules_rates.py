"""Reading speed: characters a second and words a minute, a cue at a time and over the file."""

from __future__ import annotations

from fractions import Fraction

import pytest
from caption_cues import at, cleared, lines_of, load, popon, shown
from caption_encoder import (
    CR,
    DER,
    EDM,
    ENM,
    EOC,
    RCL,
    RDC,
    RU2,
    TO1,
    TO2,
    TO3,
    line,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import HOUSE, checked, found
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.recipes.caption_qc.check import check, cps_of, parse, wpm_of
from examples.recipes.caption_qc.check.busiest import busiest_second
from examples.recipes.caption_qc.check.measures import characters_of, frames_of, measure, words_of
from examples.recipes.caption_qc.check.report import Cue, Row
from examples.recipes.caption_qc.check.timecode import seconds

SLOW, FAST = "A WORD", "X" * 32


def file_of(fast: int, slow: int, *, last: bool = True) -> bytes:
    """Show fast cues and slow ones for 40 frames each, a word each; the last may stay."""
    texts = [FAST] * fast + [SLOW] * slow
    lines = [shown(200 + 40 * number, row) for number, row in enumerate(texts)]
    return scc(*lines, *([cleared(200 + 40 * len(texts))] if last else []))


# One cue


@pytest.mark.parametrize(("characters", "findings"), [(20, 0), (21, 1)])
def test_characters_a_second_are_judged_exactly(characters: int, findings: int) -> None:
    """Thirty frames are 1.001 s: 20 characters are 19.98 a second, 21 are 20.98."""
    report = checked(popon((100, 130, "X" * characters)))

    fast = found(report, "RATE_CPS")
    assert len(fast) == findings
    for finding in fast:
        assert (finding.severity, finding.threshold, finding.cue) == ("warn", 20, 1)
        assert (finding.measured, finding.unit) == (21 / 1.001, "characters a second")


@pytest.mark.parametrize(("frames", "findings"), [(29, 1), (30, 0)])
def test_words_a_minute_are_judged_exactly(frames: int, findings: int) -> None:
    """Three words in 30 frames are 179.82 a minute, in 29 they are 186.02."""
    fast = found(checked(popon((100, 100 + frames, "I AM IT"))), "RATE_WPM")

    assert len(fast) == findings
    for finding in fast:
        assert (finding.severity, finding.threshold, finding.unit) == ("warn", 180, "words a minute")
        assert finding.measured == pytest.approx(186.0209, abs=1e-4)


def test_limit_is_the_decimal_number_that_was_written() -> None:
    """Two characters in 30 frames are 1.998001998... a second."""
    for limit, findings in (("1.998001998", 1), ("1.998001999", 0)):
        profile = parse(f'name = "x"\n[rules.RATE_CPS]\nthreshold = {limit}'.encode(), "x.toml")
        assert len(found(check(popon((100, 130, "XX")), profile), "RATE_CPS")) == findings


def test_characters_are_those_that_print_and_the_spaces_within_rows() -> None:
    """Spaces around a row are none, nor is the place of a row; rows part words, as spaces do."""
    rows = ("  A BC  ", " D")
    (cue,) = checked(scc(shown(100, *rows), cleared(130))).cues

    assert cps_of(cue) == pytest.approx(5 / 1.001)
    assert wpm_of(cue) == pytest.approx(3 * 60 / 1.001)


def test_several_spaces_part_words_once() -> None:
    """Each of them is a character to the eye."""
    (cue,) = checked(popon((100, 130, "A   B"))).cues

    assert cps_of(cue) == pytest.approx(5 / 1.001)
    assert wpm_of(cue) == pytest.approx(120 / 1.001)


@pytest.mark.parametrize(
    ("written", "shown", "characters"),
    [
        ([*text("No."), *preamble(15, 25), *text("Yes.")], "No.                     Yes.", 8),
        ([*text("No. "), *preamble(15, 9), *text("Yes.")], "No.     Yes.", 8),
        ([*text("No."), *preamble(15, 8), *text(" Yes.")], "No.     Yes.", 8),
        ([*text("No.   "), *preamble(15, 9), *text("Yes.")], "No.     Yes.", 10),
        ([*text("No."), *twice(TO2), *text("Yes.")], "No.  Yes.", 8),
        ([*text("No."), *twice(TO1), *text("Yes."), *twice(TO3), *text("Oh")], "No. Yes.   Oh", 11),
        (
            [*text("No, maybe,"), *preamble(15, 5), *twice(DER), *preamble(15, 9), *text("yes")],
            "No,     yes",
            7,
        ),
        ([*text("No.  "), *text("Yes.")], "No.  Yes.", 9),
        ([*text("No."), *preamble(15, 9), *twice(0x1120), *text("Yes.")], "No.      Yes.", 8),
        ([*text("No."), *preamble(15, 9), *twice(0x1139), *text("Yes.")], "No.      Yes.", 8),
        ([*preamble(15, 9), *text("No."), *preamble(15, 21)], "No.", 3),
    ],
)
@pytest.mark.parametrize("mode", [RCL, RDC, RU2])
def test_cells_that_nobody_wrote_are_one_space_at_most(
    mode: int, written: list[str], shown: str, characters: int
) -> None:
    """They part words where nothing else does; spaces that were written count each."""
    words = [*twice(mode, ENM), *preamble(15), *written, *(twice(EOC) if mode == RCL else [])]
    report = checked(scc(line(at(30), words), cleared(300)))
    (cue,) = report.cues

    assert cue.rows[0].text == shown
    assert characters_of(cue) == characters
    assert words_of(cue) == len(shown.split())
    assert report.figures.max_cps == cps_of(cue) == pytest.approx(characters * 30000 / 1001 / frames_of(cue))
    assert report.figures.busiest_second == pytest.approx(report.figures.max_cps)


def test_spaces_that_are_written_into_a_row_later_count() -> None:
    """The text is the same as before, and the memory too."""
    apart = line(at(30), twice(RCL), preamble(15), text("A"), preamble(15, 5), text("B"), twice(EOC))
    filled = line(at(90), twice(EOC), twice(RCL), preamble(15, 2), text("   "), twice(EOC))
    report = checked(scc(apart, filled, cleared(150)))

    assert [(cue.rows[0].text, characters_of(cue)) for cue in report.cues] == [("A   B", 3), ("A   B", 5)]


def test_rollup_is_read_by_the_carriage_return() -> None:
    """The characters of one row, from its first to the next CR; the rows above it are not read again."""
    words = [*twice(RU2, CR), *preamble(15)]
    rows = [[*text("X" * 20), *["8080"] * 20, *twice(CR)], [*text("Y" * 24), *["8080"] * 18, *twice(CR)]]
    report = checked(scc(line(at(30), words, *rows)))

    assert [(cue.end_frame or 0) - cue.start_frame for cue in report.cues] == [30, 30]
    assert [cps_of(cue) for cue in report.cues] == [pytest.approx(20 / 1.001), pytest.approx(24 / 1.001)]
    assert [finding.cue for finding in found(report, "RATE_CPS")] == [2]


def test_painton_is_read_by_the_burst() -> None:
    """Its characters while it is the last that was painted."""
    words = [*twice(RDC), *preamble(15), *text("X" * 22), *["8080"] * 19, *twice(EDM)]
    report = checked(scc(line(at(30), words)))

    assert [finding.measured for finding in found(report, "RATE_CPS")] == [pytest.approx(22 / 1.001)]


@pytest.mark.parametrize("end", [None, 100, 90])
def test_cue_of_unknown_or_negative_time_has_no_speed(end: int | None) -> None:
    """It is not measured, and counts neither as fast nor as slow."""
    words = load(FAST)
    lines = [line(at(100 - len(words)), words, twice(EOC))] + ([] if end is None else [cleared(end)])
    report = checked(scc(*lines))

    assert [cue.start_frame for cue in report.cues] == [100]
    assert (cps_of(report.cues[0]), wpm_of(report.cues[0])) == (None, None)
    assert found(report, "RATE_CPS") + found(report, "RATE_WPM") == []
    figures = report.figures
    assert (
        figures.max_cps,
        figures.p95_cps,
        figures.wpm,
        figures.share_over_cps,
        figures.busiest_second,
    ) == ((None,) * 5)


# Many cues


@pytest.mark.parametrize(
    ("fast", "slow", "severity"),
    [(19, 0, "warn"), (1, 19, "warn"), (2, 18, "warn"), (3, 17, "error"), (3, 27, "warn"), (4, 26, "error")],
)
def test_more_than_a_tenth_of_twenty_cues_is_an_error(fast: int, slow: int, severity: str) -> None:
    """A tenth is not over a tenth, and nineteen cues are too few to tell."""
    findings = found(checked(file_of(fast, slow)), "RATE_CPS")

    assert [finding.severity for finding in findings] == [severity] * fast
    assert [finding.cue for finding in findings] == list(range(1, fast + 1))
    assert f"({fast} of {fast + slow} cues are over it)" in findings[0].message


def test_cues_of_unknown_time_are_not_among_the_twenty() -> None:
    """Nineteen that are measured, and one that stays."""
    report = checked(file_of(3, 17, last=False))

    assert [finding.severity for finding in found(report, "RATE_CPS")] == ["warn"] * 3
    assert report.figures.share_over_cps == 3 / 19


def test_words_have_a_share_of_their_own() -> None:
    """Fast characters in few words make no fast words."""
    report = checked(file_of(5, 20))

    assert {finding.severity for finding in found(report, "RATE_CPS")} == {"error"}
    assert found(report, "RATE_WPM") == []


def test_severity_of_the_profile_holds_whatever_the_share() -> None:
    """A house that only wants to be told is only told."""
    profile = parse(b'name = "told"\n[rules.RATE_CPS]\nseverity = "info"', "told.toml")

    assert {finding.severity for finding in found(check(file_of(20, 0), profile), "RATE_CPS")} == {"info"}


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(30, 90), st.integers(2, 520), st.integers(1, 32), st.booleans()),
        min_size=1,
        max_size=24,
    )
)
def test_cues_are_judged_as_fractions_say(parts: list[tuple[int, int, int, bool]]) -> None:
    """Time, characters and words of every cue, worked out apart from the rules in exact numbers."""
    frame, cues = 100, []
    for gap, frames, length, spaced in parts:
        frame += gap
        cues.append((frame, frame + frames, ("A " * 16 if spaced else "X" * 32)[:length].strip()))
        frame += frames
    wanted: dict[str, set[int]] = {}
    for number, (start, end, row) in enumerate(cues, 1):
        time = Fraction((end - start) * 1001, 30000)
        for rule, wrong in (
            ("CUE_SHORT", time < Fraction(5, 6)),
            ("CUE_LONG", time > 7),
            ("CUE_STUCK", time > 16),
            ("RATE_CPS", len(row) / time > 20),
            ("RATE_WPM", len(row.split()) * 60 / time > 180),
        ):
            if wrong:
                wanted.setdefault(rule, set()).add(number)
    report = checked(popon(*cues))

    over_info = {finding.rule for finding in report.findings if finding.severity != "info"}
    assert over_info == set(wanted)
    for rule, numbers in wanted.items():
        findings = found(report, rule)
        assert {finding.cue for finding in findings} == numbers
        many = (
            rule.startswith("RATE_")
            and len(cues) >= 20
            and Fraction(len(numbers), len(cues)) > Fraction(1, 10)
        )
        assert {finding.severity for finding in findings} == {"error" if many else "warn"}


# Figures


def test_figures_are_about_the_cues_of_known_time() -> None:
    """The greatest speed, the one that 95 of 100 do not pass, the share over the limit, and all words together."""
    lengths = range(1, 21)
    texts = ["X" * (n + 10) for n in sorted(lengths, key=lambda n: n * 7 % 20)]
    cues = ((300 + 60 * n, 330 + 60 * n, row) for n, row in enumerate(texts))
    figures = checked(scc(*lines_of(cues), shown(2000, "THIS ONE STAYS"))).figures

    assert figures.max_cps == pytest.approx(30 / 1.001)
    assert figures.p95_cps == pytest.approx(29 / 1.001)
    assert figures.share_over_cps == 10 / 20
    assert figures.wpm == pytest.approx(60 / 1.001)


def test_share_is_about_the_limit_of_the_profile() -> None:
    """Half of the cues have over 20 characters a second, three in four over 15."""
    data = popon(*((300 + 60 * n, 330 + 60 * n, "X" * (n + 10)) for n in range(1, 21)))
    profile = parse(b'name = "x"\n[rules.RATE_CPS]\nthreshold = 15', "x.toml")

    assert check(data, profile).figures.share_over_cps == 15 / 20


def test_busiest_second_adds_what_short_cues_show_within_it() -> None:
    """Two cues of 15 frames and 12 characters; alone one of them would have 24 a second."""
    lines = [shown(100, "X" * 12), shown(115, "Y" * 12), cleared(130)]
    report = checked(scc(*lines))

    assert [cps_of(cue) for cue in report.cues] == [pytest.approx(24 / 1.001)] * 2
    assert report.figures.busiest_second == pytest.approx(24 / 1.001 - 24 / 1.001 + 24, abs=0.03)


def cue(start: int, end: int | None, characters: int) -> Cue:
    return Cue(
        number=1,
        channel="CC1",
        mode="pop-on",
        load_frame=start,
        start_frame=start,
        end_frame=end,
        start=seconds(start),
        end=None if end is None else seconds(end),
        rows=(Row(row=15, column=1, text="X" * characters),),
    )


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-5, 90), st.integers(1, 32)), min_size=1, max_size=8)
)
def test_busiest_second_is_the_greatest_of_all_seconds(cues: list[tuple[int, int, int]]) -> None:
    """No second that starts at any tenth of a frame holds more; cues may overlap, as those of bad files do."""
    shown_cues = [cue(start, start + frames, characters) for start, frames, characters in cues]
    second = 30000 / 1001

    def within(start: float) -> float:
        parts = (
            count * max(0.0, min(begin + frames, start + second) - max(begin, start)) / frames
            for begin, frames, count in cues
            if frames > 0
        )
        return sum(parts)

    found_second = busiest_second(shown_cues, measure(shown_cues))
    tried = max(within(tenth / 10) for tenth in range(-400, 4000, 23))
    if found_second is None:
        assert tried == 0
    else:
        assert tried - 1e-6 <= found_second <= sum(count for _, _, count in cues) + 1e-6
        edges = [edge for begin, frames, _ in cues for edge in (begin, begin + frames - second)]
        assert found_second == pytest.approx(max(map(within, edges)))


def test_file_without_cues_has_no_speed() -> None:
    """Nor a share of none."""
    figures = check(b"", HOUSE).figures

    assert (
        figures.max_cps,
        figures.p95_cps,
        figures.wpm,
        figures.share_over_cps,
        figures.busiest_second,
    ) == ((None,) * 5)
