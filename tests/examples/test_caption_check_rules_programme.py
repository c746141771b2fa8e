"""A programme beside a file: what may be written, and which cues are outside it."""

from __future__ import annotations

import re

import pytest
from caption_cues import at, cleared, popon, shown
from caption_encoder import line, scc
from caption_reports import HOUSE, found

from examples.recipes.caption_qc.check import GivenError, Report, check, parse, parse_programme, parse_sidecar

A_MINUTE = parse_programme("00:00:10:00-00:01:10:00")  # Frames 300 to 2100.


def outside(data: bytes, programme: str = "00:00:10:00-00:01:10:00") -> list[tuple[str, float | None]]:
    report = check(data, HOUSE, programme=parse_programme(programme))
    return [
        (finding.rule, finding.measured) for finding in report.findings if finding.rule.startswith("PROG_")
    ]


# The cues


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (300, 2100, []),
        (299, 2100, [("PROG_EARLY", 1)]),
        (300, 2101, [("PROG_LATE", 1)]),
        (2099, 2100, []),
        (2100, 2200, [("PROG_LATE", 100)]),
        (100, 200, [("PROG_EARLY", 200)]),
        (100, 2200, [("PROG_EARLY", 200), ("PROG_LATE", 100)]),
    ],
)
def test_cue_outside_the_programme_is_found_to_the_frame(
    start: int, end: int, wanted: list[tuple[str, int]]
) -> None:
    """From its first frame on; its end is the first frame that is no part of it."""
    assert outside(popon((start, end, "A"))) == wanted


@pytest.mark.parametrize(("start", "wanted"), [(2099, []), (2100, [("PROG_LATE", 1)])])
def test_cue_of_unknown_end_is_late_where_it_starts_late(start: int, wanted: list[tuple[str, int]]) -> None:
    """How long it stays nobody knows, so nothing is invented."""
    assert outside(scc(shown(start, "A"))) == wanted


def test_finding_says_which_cue_and_where() -> None:
    """The line and the word that show it; severity, unit and threshold are the rule's."""
    report = check(popon((400, 500, "IN"), (2050, 2130, "OUT")), HOUSE, programme=A_MINUTE)

    (late,) = found(report, "PROG_LATE")
    assert (late.severity, late.cue, late.line, late.frame, late.channel) == ("error", 2, 7, 2050, "CC1")
    assert (late.measured, late.threshold, late.unit) == (30, 0, "frames")
    assert "the programme 00:00:10:00-00:01:10:00 ends" in late.message


def test_without_a_programme_nothing_is_found() -> None:
    """A file alone has no limits."""
    report = check(popon((1, 9000, "A")), HOUSE)

    assert [finding for finding in report.findings if finding.rule.startswith("PROG_")] == []


def test_profile_sets_the_tolerance() -> None:
    """Ten frames before the start, twenty after the end."""
    profile = parse(
        b'name = "x"\n[rules.PROG_EARLY]\nthreshold = 10\n[rules.PROG_LATE]\nthreshold = 20', "x.toml"
    )

    def rules_of(start: int, end: int) -> list[str]:
        report = check(popon((start, end, "A")), profile, programme=A_MINUTE)
        return [finding.rule for finding in report.findings if finding.rule.startswith("PROG_")]

    assert (rules_of(290, 2120), rules_of(289, 2121)) == ([], ["PROG_EARLY", "PROG_LATE"])


@pytest.mark.parametrize(
    ("programme", "first", "wanted"),
    [
        ("23:59:50:00-00:00:10:00", "23:59:55:00", []),
        ("23:59:50:00-00:00:10:00", "00:00:05:00", []),
        ("23:59:50:00-00:00:10:00", "23:59:45:00", ["PROG_EARLY"]),
        ("23:59:50:00-00:00:10:00", "00:00:20:00", ["PROG_LATE"]),
        ("00:00:00:00-01:00:00:00", "23:59:55:00", ["PROG_EARLY"]),
        ("22:00:00:00-23:59:59:00", "00:00:01:00", ["PROG_LATE"]),
    ],
)
def test_programme_may_pass_midnight(programme: str, first: str, wanted: list[str]) -> None:
    """It is on the day that is nearest to the first cue, before midnight or after it."""
    words = shown(100, "A").partition("\t")[2]
    hour, minute, second = map(int, first.split(":")[:3])
    clear = f"{hour:02}:{minute:02}:{second + 2:02}:00"
    data = scc(f"{first}\t{words}", line(clear, ["942c", "942c"]))

    assert [rule for rule, _ in outside(data, programme)] == wanted


def test_file_that_passes_midnight_within_its_programme_is_inside() -> None:
    """Its frames go on counting, and so do the programme's."""
    words = shown(100, "A").partition("\t")[2]
    data = scc(f"23:59:58:00\t{words}", line("00:00:02:00", ["942c", "942c"]))

    assert outside(data, "23:00:00:00-00:30:00:00") == []
    assert outside(data, "23:00:00:00-00:00:01:00") == [("PROG_LATE", 30)]


@pytest.mark.parametrize(
    ("separators", "programme", "lines"),
    [
        (";;", "00:00:50:00-00:00:51:00", 2),
        ("::", "00:00:50;00-00:00:51;00", 2),
        (";:", "00:00:50;00-00:00:51;00", 1),
    ],
)
def test_other_time_base_is_the_one_finding(separators: str, programme: str, lines: int) -> None:
    """Frames of two time bases can't be compared, so no cue is called early or late."""
    first, second = (at(frame, separator=mark) for frame, mark in zip((60, 300), separators, strict=True))
    words = shown(100, "A").partition("\t")[2]
    data = scc(f"{first}\t{words}", line(second, ["942c", "942c"]))

    assert outside(data, programme) == [("PROG_TIMEBASE", lines)]


def test_file_of_the_programmes_time_base_is_compared() -> None:
    """In drop-frame too: a minute has two labels less, in both."""
    words = shown(100, "A").partition("\t")[2]
    data = scc(f"00:01:00;02\t{words}", line("00:01:05;00", ["942c", "942c"]))

    assert outside(data, "00:01:00;02-00:01:05;00") == []
    assert outside(data, "00:01:01;00-00:01:04;00") == [("PROG_EARLY", 21), ("PROG_LATE", 30)]


def test_file_without_cues_is_not_outside() -> None:
    """Its lines still have a time base."""
    assert outside(b"") == []
    assert outside(scc(cleared(100))) == []
    assert outside(scc(cleared(100)), "00:00:01;00-00:00:02;00") == [("PROG_TIMEBASE", 1)]


# What may be written


@pytest.mark.parametrize(
    "text", ["00:00:00:00-23:59:59:29", "00:01:00;02-00:00:59;29", "10:00:00:00-09:00:00:00"]
)
def test_programme_is_what_was_written(text: str) -> None:
    """And is written so again."""
    assert str(parse_programme(text)) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "'' is no START-END; write one like 01:00:00:00-01:28:30:00"),
        ("01:00:00:00", "'01:00:00:00' is no START-END"),
        ("01:00:00:00 - 02:00:00:00", "is no START-END"),
        ("1:00:00:00-2:00:00:00", "is no START-END"),
        ("01:00:00:00-02:00:00:00\n", "is no START-END"),
        ("\u0661\u0661:00:00:00-02:00:00:00", "is no START-END"),
        ("x" * 5000, r"'x{59}\.\.\. is no START-END"),
        ("01:00:00:30-02:00:00:00", "01:00:00:30 does not exist"),
        ("01:00:00:00-24:00:00:00", "24:00:00:00 does not exist"),
        ("01:01:00;00-02:00:00;00", "01:01:00;00 does not exist"),
        (
            "01:00:00;00-02:00:00:00",
            "01:00:00;00 and 02:00:00:00 are of two time bases; write both with : or ;",
        ),
        ("01:00:00:00-01:00:00:00", "it ends where it starts"),
    ],
)
def test_wrong_programme_is_one_line_that_says_what_is_wanted(text: str, wanted: str) -> None:
    """It says what was found, and how to write one."""
    with pytest.raises(GivenError, match=f"^programme .*{wanted}") as caught:
        parse_programme(text)

    assert str(caught.value).isprintable()


def test_sidecar_names_the_programme() -> None:
    """A TOML file of one key."""
    assert parse_sidecar(b'# Reel 1\nprogramme = "00:00:10:00-00:01:10:00"\n', "reel.toml") == A_MINUTE


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", 'no programme; write programme = "01:00:00:00-01:28:30:00"'),
        (b"programme = 5", 'programme is 5; write programme = "'),
        (b'programme = "now"', "programme 'now' is no START-END"),
        (b"programme = ", r"Invalid value .*; write programme = "),
        (b'start = "00:00:00:00"', "unknown key 'start'; write programme = "),
        (b"\xff", "byte 0 is not UTF-8, which TOML must be"),
        (b"a = " + b"[" * 5000, "recursion"),
        (b"programme = [" + b"1," * 5000 + b"]", re.escape("programme is [1, 1")),
    ],
)
def test_wrong_sidecar_is_one_line_that_says_what_is_wanted(data: bytes, wanted: str) -> None:
    """It names the file, what was found and what is wanted."""
    with pytest.raises(GivenError, match=rf"^sidecar 'reel\.toml': .*{wanted}") as caught:
        parse_sidecar(data, "reel.toml")

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_report_is_the_same_report_without_a_programme_of_consequence() -> None:
    """A programme that holds every cue changes nothing."""
    data = popon((400, 500, "IN"))
    plain: Report = check(data, HOUSE)

    assert check(data, HOUSE, programme=A_MINUTE) == plain
