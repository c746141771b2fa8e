"""The rules of time codes: labels, lines beside each other, and the room that words have."""

from __future__ import annotations

import pytest
from caption_cues import SHOW, padded, timed
from caption_encoder import (
    EDM,
    ENM,
    RCL,
    RDC,
    RU2,
    labels,
    line,
    scc,
    twice,
)
from caption_reports import checked, found, rules

from examples.recipes.caption_qc.check import check, parse


@pytest.mark.parametrize(
    ("timecode", "value", "greatest"),
    [("00:00:01:30", 30, 29), ("00:00:60:00", 60, 59), ("00:60:00;00", 60, 59), ("24:00:00:00", 24, 23)],
)
def test_label_out_of_range_is_one_finding_and_no_other(timecode: str, value: int, greatest: int) -> None:
    """It is counted as written, and the lines around it are compared with each other."""
    report = checked(
        timed("00:00:01:00").replace(b"00:00:01:00", timecode.encode()) + b"\n00:00:02:00\t8080\n"
    )

    (finding,) = found(report, "TC_RANGE")
    assert (finding.severity, finding.line) == ("error", 5)
    assert (finding.measured, finding.threshold) == (value, greatest)
    others = {"TC_MIXED_DF_NDF"} if ";" in timecode else set()
    assert {rule for rule, _ in rules(report)} - {"TC_RANGE"} == others


def test_greatest_label_is_in_range() -> None:
    """23:59:59:29 exists."""
    assert found(checked(timed("23:59:59:29")), "TC_RANGE") == []


def test_line_before_the_line_above_is_backward() -> None:
    """One finding, though its words overlap too; what follows is measured against it."""
    report = checked(timed("00:00:05:00", "00:00:03:00", "00:00:04:00"))

    assert rules(report) == [("TC_BACKWARD", 7)]
    assert (report.findings[0].severity, report.findings[0].measured) == ("error", 60)


def test_line_at_the_frame_of_the_line_above_is_a_duplicate() -> None:
    """By the frame, not by the label: a dropped label is that of two frames before."""
    report = checked(timed("00:00:05:00", "00:00:05:00"))
    assert [(finding.rule, finding.line) for finding in found(report, "TC_DUPLICATE")] == [
        ("TC_DUPLICATE", 7)
    ]
    assert found(report, "TC_DUPLICATE")[0].severity == "warn"
    assert found(report, "TC_BACKWARD") == []

    dropped = checked(timed("00:00:59;28", "00:01:00;00"))
    assert len(found(dropped, "TC_DUPLICATE")) == 1


@pytest.mark.parametrize(
    ("mode", "severity"), [(twice(RCL), "error"), (twice(RU2), "warn"), (twice(RDC), "warn"), ([], "warn")]
)
def test_overlap_counts_the_missing_frames(mode: list[str], severity: str) -> None:
    """An error where the mode is pop-on, a warning elsewhere."""
    above = line("00:00:01:00", mode, ["8080"] * (20 - len(mode)))
    missing = {
        following: [
            (finding.severity, finding.line, finding.measured)
            for finding in found(checked(scc(above, padded(following))), "TC_LOAD_OVERLAP")
        ]
        for following in ("00:00:01:19", "00:00:01:20", "00:00:01:00")
    }

    assert missing == {
        "00:00:01:19": [(severity, 5, 1)],
        "00:00:01:20": [],
        "00:00:01:00": [(severity, 5, 20)],
    }


def test_overlap_is_judged_by_the_mode_of_the_line_above() -> None:
    """It is that line's caption that is late."""
    popon, rollup = twice(RCL, 0x1470, ENM, ENM), twice(RU2, 0x1470, 0x1470, 0x1470)
    for above, below, severity in ((popon, rollup, "error"), (rollup, popon, "warn")):
        report = checked(scc(line("00:00:01:00", above), line("00:00:01:05", below)))
        assert [finding.severity for finding in found(report, "TC_LOAD_OVERLAP")] == [severity]


def test_first_hour_that_is_not_0_is_noted() -> None:
    """Programmes often start at hour 1 or 10; once a file."""
    report = checked(scc(line("10:00:01:00", SHOW), line("10:00:04:00", twice(EDM))))

    assert rules(report) == [("TC_HOUR_OFFSET", 3)]
    assert (report.status, report.findings[0].measured) == ("pass", 10)


def test_dropped_labels_are_found_and_others_are_not() -> None:
    """Frames 00 and 01 of a minute that ten does not divide; only in drop-frame."""
    report = checked(
        timed("00:00:59;29", "00:01:00;00", "00:01:00;02", "00:02:00;01", "00:10:00;00", "00:11:00:00")
    )

    assert [finding.line for finding in found(report, "TC_DROPPED_FRAME_LABEL")] == [7, 11]
    assert {finding.severity for finding in found(report, "TC_DROPPED_FRAME_LABEL")} == {"error"}


def test_two_time_bases_are_one_finding() -> None:
    """At the first line that differs, with how many do."""
    report = checked(timed("00:00:04;00", "00:00:05:00", "00:00:06;00"))

    (finding,) = found(report, "TC_MIXED_DF_NDF")
    assert (finding.severity, finding.line, finding.measured) == ("error", 5, 2)
    assert report.figures.time_base == "mixed"


def test_jump_is_over_ten_minutes() -> None:
    """17,982 frames are 599.999 s, one more is over the limit."""
    at = list(labels([0], drop=False))
    assert found(checked(timed(at[17_982])), "TC_JUMP") == []
    report = checked(timed(at[17_983]))

    assert rules(report) == [("TC_JUMP", 5)]
    jump = report.findings[0]
    assert (jump.severity, jump.threshold, jump.unit) == ("warn", 600, "seconds")
    assert jump.measured == pytest.approx(600.0328, abs=1e-4)


@pytest.mark.parametrize(("lines", "frame", "findings"), [(50, 23, 1), (49, 23, 0), (50, 24, 0)])
def test_fifty_lines_without_a_frame_over_23_are_suspect(lines: int, frame: int, findings: int) -> None:
    """The file may count 24 or 25 frames a second."""
    timecodes = [f"00:00:{second:02}:{frame if second == 1 else second % 24:02}" for second in range(lines)]
    report = checked(scc(*map(padded, timecodes)))

    suspect = found(report, "TC_FRAME_RATE")
    assert len(suspect) == findings
    assert [(finding.severity, finding.measured, finding.line) for finding in suspect] == [
        ("warn", 23, None)
    ] * findings


def test_jump_compares_whole_frames() -> None:
    """1,001 s are 30,000 frames to the frame: at the limit there is no finding; a limit of 0 finds every line."""
    at = list(labels([0], drop=False))
    profile = {
        limit: parse(f'name="x"\n[rules.TC_JUMP]\nthreshold={limit}'.encode(), "x") for limit in (0, 1001)
    }

    assert found(check(timed(at[30_000]), profile[1001]), "TC_JUMP") == []
    assert len(found(check(timed(at[30_001]), profile[1001]), "TC_JUMP")) == 1
    assert len(found(check(timed(at[20], at[21]), profile[0]), "TC_JUMP")) == 2
