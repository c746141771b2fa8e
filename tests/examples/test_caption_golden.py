"""The right value of every SCC case, worked out by hand from what each case is about.

A frame is written as that of its line and how many words come before: 300 + 12 is the word 12 of a line at
00:00:10:00. Control codes are sent twice in most cases, so that text begins at word 6. The seconds of the
second table are those that the users' reports gave; the first table's frames have to come out at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import ANY

import pytest
from caption_reports import CASES, ROOT, checked

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check import Cue, Finding


SHARED = ROOT.parent / "shared" / "cases" / "captions"


class Shown(NamedTuple):
    """A cue: the frames of its load, start and end, and each row as row, column and text."""

    load: int
    start: int
    end: int | None
    rows: tuple[tuple[int, int, str], ...]
    channel: str = "CC1"
    mode: str = "pop-on"


class Found(NamedTuple):
    """A finding; of several of one rule at one place there is none here."""

    rule: str
    severity: str
    line: int | None = None
    word: int | None = None
    frame: int | None = None
    measured: float | None = None
    cue: int | None = None


class Case(NamedTuple):
    cues: tuple[Shown, ...]
    findings: tuple[Found, ...] = ()


def cue(load: int, start: int, end: int | None, text: str) -> Shown:
    """Expect what most cases show: text at the left of the last row."""
    return Shown(load, start, end, ((15, 1, text),))


NEVER_CLEARED = "608_NO_FINAL_CLEAR"
NOTHING_SHOWN = Found("FMT_NO_CAPTIONS", "error", measured=0)

GOLDEN = {
    "01_popon_show_time_is_eoc": Case((cue(300 + 6, 300 + 12, 420, "SHOW AT EOC"),)),
    "02_ndf_hour_drift": Case(
        (cue(108000 + 6, 108000 + 10, 108060, "ONE HOUR"),),
        (Found("TC_HOUR_OFFSET", "info", line=3, frame=108000, measured=1),),
    ),
    "03_dropped_frame_label": Case(  # 1800 labels before it, two of which do not exist.
        (cue(1798 + 6, 1798 + 11, 1888, "BAD LABEL"),),
        (Found("TC_DROPPED_FRAME_LABEL", "error", line=3, frame=1798),),
    ),
    "04_frame_31": Case(
        (cue(301 + 6, 301 + 10, 377, "FRAME 31"),),
        (Found("TC_RANGE", "error", line=3, frame=301, measured=31),),
    ),
    "05_doubled_codes_cost_frames": Case((cue(30 + 6, 30 + 9, 120, "AB"),)),
    "07_extended_char_replaces_base": Case((cue(30 + 6, 30 + 10, 120, "SÁX"),)),
    "08_no_tab_space_separated": Case(
        (cue(30 + 6, 30 + 11, 120, "SPACE SEP"),),
        (Found("FMT_NO_TAB", "warn", line=3, frame=30), Found("FMT_NO_TAB", "warn", line=5, frame=120)),
    ),
    "09_bom_crlf": Case((cue(30 + 6, 30 + 10, 120, "BOM CRLF"),), (Found("FMT_BOM", "info", line=1),)),
    "10_wrong_header": Case((cue(30 + 6, 30 + 8, 120, "HDR"),), (Found("FMT_HEADER", "error", line=1),)),
    "11_text_without_mode_or_pac": Case(
        (), (Found("608_TEXT_NO_MODE", "warn", line=3, word=0, frame=30), NOTHING_SHOWN)
    ),
    "13_last_cue_never_cleared": Case(
        (cue(30 + 6, 30 + 10, None, "NO CLEAR"),),
        (Found(NEVER_CLEARED, "warn", line=3, word=10, frame=40, cue=1),),
    ),
    "14_popon_after_rollup_repeats": Case(
        (
            Shown(30 + 6, 30 + 6, 120 + 8, ((15, 1, "ROLL"),), mode="roll-up"),
            cue(120 + 6, 120 + 8, 210 + 8, "POP1"),
            cue(210 + 6, 210 + 8, 300, "POP2"),
        ),
        (Found("608_MODE_CHANGE", "info", line=5, word=0, frame=120),),
    ),
    "15_two_positions_same_cue": Case(
        (Shown(30 + 6, 30 + 13, 120, ((1, 1, "TOP"), (15, 1, "BOTTOM"))),),
    ),
    "17_backspace": Case((cue(30 + 6, 30 + 11, 120, "CATS"),)),
    "18_field2_pac": Case(
        (Shown(30 + 6, 30 + 8, 120, ((1, 1, "CC3"),), channel="CC3"),),
        (Found("608_FIELD2", "info", line=3, word=0, frame=30, measured=12),),
    ),
    "20_load_overlaps_next_line": Case(  # 23 words from frame 30 on, but the next line starts at 40.
        (
            cue(30 + 6, 30 + 21, 40 + 10, "THIS LINE NEEDS MANY FRAMES OK"),
            cue(40 + 6, 40 + 10, 150, "TOO SOON"),
        ),
        (
            Found("CUE_ZERO_OR_NEGATIVE", "error", line=3, word=21, frame=51, measured=-1, cue=1),
            Found("TC_LOAD_OVERLAP", "error", line=5, frame=40, measured=23 - 10),
        ),
    ),
    "22_parity_error": Case(
        (cue(30 + 6, 30 + 9, 120, "█ARITY"),),
        (Found("608_PARITY", "error", line=3, word=6, frame=36, measured=1),),
    ),
    "23_truncated_word": Case(
        (cue(30 + 6, 30 + 8, None, "CUT"),),
        (
            Found("HEX_BAD_WORD", "error", line=3, word=9, frame=39),
            Found(NEVER_CLEARED, "warn", line=3, word=8, frame=38, cue=1),
            Found("608_CTRL_NOT_DOUBLED", "info", line=3, word=8, frame=38, measured=1),
        ),
    ),
    "25_over_32_columns": Case(  # Letters and digits; from the 32nd on each overwrites the one before.
        (cue(30 + 6, 30 + 24, 180, "ABCDEFGHIJKLMNOPQRSTUVWXYZ01234" + "9"),),
        (Found("LAY_OVER_32_COLS", "error", line=3, word=6 + 32 // 2, frame=52, measured=36 - 32, cue=1),),
    ),
    "27_mixed_df_ndf": Case(
        (cue(30 + 6, 30 + 7, 120 + 8, "DF"), cue(120 + 6, 120 + 8, 210, "NDF")),
        (Found("TC_MIXED_DF_NDF", "error", line=5, frame=120, measured=1),),
    ),
    "28_header_only": Case((), (NOTHING_SHOWN,)),
    "29_empty_file": Case((), (Found("FMT_HEADER", "error", line=1), NOTHING_SHOWN)),
    "30_single_control_codes": Case(
        (cue(30 + 3, 30 + 6, 120, "SINGLE"),),
        (Found("608_CTRL_NOT_DOUBLED", "info", line=3, word=0, frame=30, measured=5),),
    ),
    "32_zero_duration": Case(
        (cue(30 + 6, 30 + 9, 30 + 11, "FLASH"),),
        (
            Found("CUE_SHORT", "warn", line=3, word=9, frame=39, measured=2 * 1001 / 30000, cue=1),
            Found("RATE_CPS", "warn", line=3, word=9, frame=39, measured=5 * 30000 / 2002, cue=1),
            Found("RATE_WPM", "warn", line=3, word=9, frame=39, measured=60 * 30000 / 2002, cue=1),
        ),
    ),
    "33_unknown_command": Case(
        (cue(30 + 8, 30 + 10, 120, "UNK"),),
        (Found("608_UNKNOWN_CTRL", "error", line=3, word=6, frame=36),),
    ),
    "34_ascii_no_parity_file": Case(  # Ten 14, two 2e, and 4e, 50, 41 and 59 once each have even parity.
        (cue(30 + 6, 30 + 10, 120, "NOPARITY"),),
        (Found("608_PARITY", "error", measured=16),),
    ),
    "36_upper_case_hex": Case((cue(30 + 6, 30 + 9, 120, "UPPER"),)),
    "39_utf16": Case(
        (cue(300 + 6, 300 + 12, 420, "SHOW AT EOC"),), (Found("FMT_ENCODING", "error", line=1),)
    ),
    "41_channel_2_owns_the_text": Case(
        (),
        (
            Found("608_CHANNEL2", "info", line=3, word=6, frame=36, measured=4),
            Found("608_EOC_EMPTY", "info", line=3, word=10, frame=40),
            NOTHING_SHOWN,
        ),
    ),
    "42_special_character": Case((cue(30 + 6, 30 + 9, 120, "♪ A"),)),
}

SECONDS = {
    "01_popon_show_time_is_eoc": [(10.410, 14.014)],
    "02_ndf_hour_drift": [(3603.934, 3605.602)],
    "03_dropped_frame_label": [(60.360, 62.996)],
    "04_frame_31": [(10.377, 12.579)],
    "05_doubled_codes_cost_frames": [(1.301, 4.004)],
    "08_no_tab_space_separated": [(1.368, 4.004)],
    "10_wrong_header": [(1.268, 4.004)],
    "15_two_positions_same_cue": [(1.435, 4.004)],
    "22_parity_error": [(1.301, 4.004)],
    "39_utf16": [(10.410, 14.014)],
}
TIME_BASES = {
    "02_ndf_hour_drift": "ndf",
    "03_dropped_frame_label": "df",
    "27_mixed_df_ndf": "mixed",
    "29_empty_file": None,
}


def test_every_case_file_has_a_right_value() -> None:
    """No file of the folder is left out, and none is missing."""
    assert {path.stem for path in CASES.glob("*.scc")} == set(GOLDEN)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the cases that these were taken from are not here")
def test_cases_are_those_that_are_shared() -> None:
    """To the byte, and none is left out."""
    assert {path.name: path.read_bytes() for path in CASES.glob("*.scc")} == {
        path.name: path.read_bytes() for path in SHARED.glob("*.scc")
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_case_shows_what_it_must(name: str) -> None:
    """Each cue: its frames, its rows with their places, its channel and its mode."""
    report = checked((CASES / f"{name}.scc").read_bytes())

    assert tuple(map(as_shown, report.cues)) == GOLDEN[name].cues
    assert [each.number for each in report.cues] == list(range(1, len(report.cues) + 1))


@pytest.mark.parametrize("name", GOLDEN)
def test_case_has_its_findings_and_no_other(name: str) -> None:
    """Each with its place and what was measured; the status is that of the worst."""
    report = checked((CASES / f"{name}.scc").read_bytes())

    assert sorted(map(as_found, report.findings), key=str) == [
        as_measured(found) for found in sorted(GOLDEN[name].findings, key=str)
    ]
    worst = {finding.severity for finding in report.findings}
    assert report.status == ("fail" if "error" in worst else "warn" if "warn" in worst else "pass")


@pytest.mark.parametrize("name", GOLDEN)
def test_seconds_of_a_case_are_its_frames_at_30000_over_1001(name: str) -> None:
    """Exactly, and to the millisecond what the report of the case gave."""
    cues = checked((CASES / f"{name}.scc").read_bytes()).cues
    times = [(each.start, each.end) for each in cues]

    assert times == [
        (right.start * 1001 / 30000, None if right.end is None else right.end * 1001 / 30000)
        for right in GOLDEN[name].cues
    ]
    if name in SECONDS:
        assert times == [pytest.approx(given, abs=0.0005) for given in SECONDS[name]]


@pytest.mark.parametrize("name", TIME_BASES)
def test_time_base_of_a_case_is_told(name: str) -> None:
    """Drop-frame, non-drop, both, or none where there is no line."""
    assert checked((CASES / f"{name}.scc").read_bytes()).figures.time_base == TIME_BASES[name]


def test_units_and_limits_of_a_case_are_told() -> None:
    """What a finding measured, it measured in something, and mostly against something."""
    measures = {
        (finding.rule, finding.threshold, finding.unit)
        for name in ("20_load_overlaps_next_line", "25_over_32_columns", "32_zero_duration")
        for finding in checked((CASES / f"{name}.scc").read_bytes()).findings
    }
    assert measures == {
        ("CUE_ZERO_OR_NEGATIVE", None, "frames"),
        ("TC_LOAD_OVERLAP", 0, "frames"),
        ("LAY_OVER_32_COLS", 0, "characters"),
        ("CUE_SHORT", 5 / 6, "seconds"),
        ("RATE_CPS", 20, "characters a second"),
        ("RATE_WPM", 180, "words a minute"),
    }


def as_shown(each: Cue) -> Shown:
    rows = tuple((row.row, row.column, row.text) for row in each.rows)
    return Shown(each.load_frame, each.start_frame, each.end_frame, rows, each.channel, each.mode)


def as_found(finding: Finding) -> tuple[object, ...]:
    place = (finding.rule, finding.severity, finding.line, finding.word, finding.frame, finding.cue)
    return (*place, finding.measured)


def as_measured(found: Found) -> tuple[object, ...]:
    """What a case does not measure may be anything."""
    measured = ANY if found.measured is None else pytest.approx(found.measured)
    return (found.rule, found.severity, found.line, found.word, found.frame, found.cue, measured)
