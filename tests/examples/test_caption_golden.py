"""The project's SCC cases: each file shows one fault or edge, and has a right value and findings."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from caption_reports import CASES, checked

from examples.recipes.caption_qc.check import Row


class Shown(NamedTuple):
    """A cue that must be there; times in seconds, to a millisecond."""

    start: float
    end: float | None
    rows: tuple[Row, ...]
    channel: str = "CC1"
    mode: str = "pop-on"


class Case(NamedTuple):
    cues: tuple[Shown, ...]
    findings: tuple[tuple[str, str, int | None], ...] = ()


def at(text: str, row: int = 15, column: int = 1) -> tuple[Row, ...]:
    return (Row(row=row, column=column, text=text),)


GOLDEN = {
    "01_popon_show_time_is_eoc": Case((Shown(10.410, 14.014, at("SHOW AT EOC")),)),
    "02_ndf_hour_drift": Case((Shown(3603.934, 3605.602, at("ONE HOUR")),), (("TC_HOUR_OFFSET", "info", 3),)),
    "03_dropped_frame_label": Case(
        (Shown(60.360, 62.996, at("BAD LABEL")),), (("TC_DROPPED_FRAME_LABEL", "error", 3),)
    ),
    "04_frame_31": Case((Shown(10.377, 12.579, at("FRAME 31")),), (("TC_RANGE", "error", 3),)),
    "05_doubled_codes_cost_frames": Case((Shown(1.301, 4.004, at("AB")),)),
    "07_extended_char_replaces_base": Case((Shown(1.335, 4.004, at("SÁX")),)),
    "08_no_tab_space_separated": Case(
        (Shown(1.368, 4.004, at("SPACE SEP")),), (("FMT_NO_TAB", "warn", 3), ("FMT_NO_TAB", "warn", 5))
    ),
    "09_bom_crlf": Case((Shown(1.335, 4.004, at("BOM CRLF")),), (("FMT_BOM", "info", 1),)),
    "10_wrong_header": Case((Shown(1.268, 4.004, at("HDR")),), (("FMT_HEADER", "error", 1),)),
    "11_text_without_mode_or_pac": Case((), (("FMT_NO_CAPTIONS", "error", None),)),
    "13_last_cue_never_cleared": Case((Shown(1.335, None, at("NO CLEAR")),)),
    "14_popon_after_rollup_repeats": Case(
        (
            Shown(1.201, 4.271, at("ROLL"), mode="roll-up"),
            Shown(4.271, 7.274, at("POP1")),
            Shown(7.274, 10.010, at("POP2")),
        )
    ),
    "15_two_positions_same_cue": Case((Shown(1.435, 4.004, at("TOP", row=1) + at("BOTTOM")),)),
    "17_backspace": Case((Shown(1.368, 4.004, at("CATS")),)),
    "18_field2_pac": Case((Shown(1.268, 4.004, at("CC3", row=1), channel="CC3"),)),
    "20_load_overlaps_next_line": Case(
        (Shown(1.702, 1.668, at("THIS LINE NEEDS MANY FRAMES OK")), Shown(1.668, 5.005, at("TOO SOON"))),
        (("TC_LOAD_OVERLAP", "error", 5),),
    ),
    "22_parity_error": Case((Shown(1.301, 4.004, at("█ARITY")),), (("608_PARITY", "error", 3),)),
    "23_truncated_word": Case((Shown(1.268, None, at("CUT")),), (("HEX_BAD_WORD", "error", 3),)),
    "25_over_32_columns": Case((Shown(1.802, 6.006, at("ABCDEFGHIJKLMNOPQRSTUVWXYZ012349")),)),
    "27_mixed_df_ndf": Case(
        (Shown(1.235, 4.271, at("DF")), Shown(4.271, 7.007, at("NDF"))), (("TC_MIXED_DF_NDF", "error", 5),)
    ),
    "28_header_only": Case((), (("FMT_NO_CAPTIONS", "error", None),)),
    "29_empty_file": Case((), (("FMT_HEADER", "error", 1), ("FMT_NO_CAPTIONS", "error", None))),
    "30_single_control_codes": Case((Shown(1.201, 4.004, at("SINGLE")),)),
    "32_zero_duration": Case((Shown(1.301, 1.368, at("FLASH")),)),
    "33_unknown_command": Case((Shown(1.335, 4.004, at("UNK")),)),
    "34_ascii_no_parity_file": Case((Shown(1.335, 4.004, at("NOPARITY")),), (("608_PARITY", "error", None),)),
    "36_upper_case_hex": Case((Shown(1.301, 4.004, at("UPPER")),)),
    "39_utf16": Case((Shown(10.410, 14.014, at("SHOW AT EOC")),), (("FMT_ENCODING", "error", 1),)),
    "41_channel_2_owns_the_text": Case((), (("FMT_NO_CAPTIONS", "error", None),)),
    "42_special_character": Case((Shown(1.301, 4.004, at("♪ A")),)),
}


def test_every_case_file_has_a_right_value() -> None:
    """No file of the folder is left out, and none is missing."""
    assert {path.stem for path in CASES.glob("*.scc")} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_case_shows_what_it_must(name: str) -> None:
    """Each cue has its text, its place, its channel and its mode, and its times to a millisecond."""
    report = checked((CASES / f"{name}.scc").read_bytes())

    shown = [Shown(cue.start, cue.end, cue.rows, cue.channel, cue.mode) for cue in report.cues]
    assert [cue[2:] for cue in shown] == [cue[2:] for cue in GOLDEN[name].cues]
    for cue, right in zip(shown, GOLDEN[name].cues, strict=True):
        assert cue.start == pytest.approx(right.start, abs=0.001)
        assert cue.end == (None if right.end is None else pytest.approx(right.end, abs=0.001))


@pytest.mark.parametrize("name", GOLDEN)
def test_case_has_its_findings_and_no_other(name: str) -> None:
    """Each rule finds its case, at its line, and no rule finds more."""
    report = checked((CASES / f"{name}.scc").read_bytes())

    findings = tuple((finding.rule, finding.severity, finding.line) for finding in report.findings)
    assert findings == GOLDEN[name].findings
    worst = {severity for _, severity, _ in findings}
    assert report.status == ("fail" if "error" in worst else "warn" if "warn" in worst else "pass")


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("04_frame_31", (None, 31, 29, None)),
        ("20_load_overlaps_next_line", (None, 13, 0, "frames")),
        ("22_parity_error", (6, 1, None, "bytes")),
        ("23_truncated_word", (9, None, None, None)),
        ("34_ascii_no_parity_file", (None, 16, None, "bytes")),
    ],
)
def test_case_is_measured(name: str, measure: tuple[object, ...]) -> None:
    """A finding carries its word, what was measured, against what, and the unit."""
    (finding,) = checked((CASES / f"{name}.scc").read_bytes()).findings

    assert (finding.word, finding.measured, finding.threshold, finding.unit) == measure


def test_frame_of_a_finding_is_that_of_its_word() -> None:
    """A word goes out at its line's frame + word, and its finding says so."""
    report = checked((CASES / "22_parity_error.scc").read_bytes())

    (finding,) = report.findings
    assert (finding.timecode, finding.frame) == ("00:00:01:00", 36)


def test_time_bases_are_told_apart() -> None:
    """The record says ndf, df or mixed."""
    bases = {
        name: checked((CASES / f"{name}.scc").read_bytes()).figures.time_base
        for name in ("02_ndf_hour_drift", "03_dropped_frame_label", "27_mixed_df_ndf", "29_empty_file")
    }

    assert list(bases.values()) == ["ndf", "df", "mixed", None]
