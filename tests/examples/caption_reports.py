"""What tests of the caption checker ask of a report, in short."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, twice

from examples.recipes.caption_qc.check import check, load

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check import Finding, Report

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "recipes" / "caption_qc" / "samples"
CASES = Path(__file__).parent / "captions"
CORPUS = ROOT.parent / "shared" / "corpus" / "scc"
HOUSE = load("house")


def checked(data: bytes) -> Report:
    """Check under the profile `house`."""
    return check(data, HOUSE)


def found(report: Report, rule: str) -> list[Finding]:
    """Give the findings of one rule."""
    return [finding for finding in report.findings if finding.rule == rule]


def rules(report: Report) -> list[tuple[str, int | None]]:
    """Give every finding as its rule and its line."""
    return [(finding.rule, finding.line) for finding in report.findings]


def texts(report: Report) -> list[tuple[str, ...]]:
    """Give the rows' text of every cue."""
    return [tuple(row.text for row in cue.rows) for cue in report.cues]


def times(report: Report) -> list[tuple[int, int | None]]:
    """Give the first frame of every cue, and the first after it."""
    return [(cue.start_frame, cue.end_frame) for cue in report.cues]


def shown(*words: list[str]) -> tuple[tuple[int, int, str], ...]:
    """Send words into the hidden memory of CC1, show them, and read row, column and text of the only cue."""
    load = line("00:00:01:00", twice(RCL, ENM), *words, twice(EOC))
    (cue,) = checked(scc(load, line("00:00:09:00", twice(EDM)))).cues
    return tuple((row.row, row.column, row.text) for row in cue.rows)


def row_15(*words: list[str]) -> str:
    """Send words to row 15 of CC1, and read what it shows."""
    ((row, _, characters),) = shown(preamble(15), *words)
    assert row == 15
    return characters


def assert_sound(report: Report, data: bytes) -> None:
    """Whatever the file, a report keeps these promises."""
    severities = {finding.severity for finding in report.findings}
    assert report.status == ("fail" if "error" in severities else "warn" if "warn" in severities else "pass")
    assert all(finding.message.isprintable() for finding in report.findings)
    assert all(finding.line is None or finding.line >= 1 for finding in report.findings)
    assert [cue.number for cue in report.cues] == list(range(1, len(report.cues) + 1))
    for cue in report.cues:
        assert cue.rows
        assert cue.load_frame <= cue.start_frame or report.status != "pass"
        assert cue.start == cue.start_frame * 1001 / 30000
        for row in cue.rows:
            assert 1 <= row.row <= 15
            assert 1 <= row.column <= row.column - 1 + len(row.text) <= 32
            assert row.text.strip() == row.text != ""
            assert all(row.column <= span.column for span in row.styles)
            assert all(span.column + span.length <= row.column + len(row.text) for span in row.styles)
    for finding in report.findings:
        assert finding.cue is None or 1 <= finding.cue <= len(report.cues)
        assert finding.word is None or finding.word >= 0
        assert finding.word is None or None not in {finding.line, finding.timecode, finding.frame}
    assert report.figures.words <= len(data)
    numbers = [number for finding in report.findings for number in (finding.measured, finding.threshold)]
    frames = [finding.frame for finding in report.findings]
    assert all(abs(number) < 2**63 for number in [*numbers, *frames] if number is not None)
