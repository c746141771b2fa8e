"""The rules about rows and modes: what each finds, where, and what it lets pass."""

from __future__ import annotations

import pytest
from caption_encoder import (
    BS,
    CR,
    EDM,
    ENM,
    EOC,
    RCL,
    RDC,
    RU2,
    RU3,
    RU4,
    preamble,
    text,
    twice,
)
from caption_one_line import LOAD, ROLL, one_line, only
from caption_reports import found, texts

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


# Over 32 columns


@pytest.mark.parametrize("lost", range(6))
def test_characters_past_column_32_are_counted(lost: int) -> None:
    """One finding a row, at the word that holds the first of them."""
    report = one_line(LOAD, text(ALPHABET + "6789xyz"[:lost]), twice(EOC))

    over = found(report, "LAY_OVER_32_COLS")
    assert [(finding.measured, finding.word) for finding in over] == ([(lost, 6 + 16)] if lost else [])


def test_each_row_that_is_too_long_is_a_finding() -> None:
    """Also those of one caption, and the next row is measured from its own start."""
    long = text(ALPHABET + "67")
    report = one_line(
        twice(RCL, ENM),
        preamble(14),
        long,
        preamble(15),
        long,
        text("8"),
        twice(EOC, RCL, ENM),
        preamble(1),
        long,
    )

    assert [(finding.measured, finding.cue) for finding in found(report, "LAY_OVER_32_COLS")] == [
        (2, 1),
        (3, 1),
        (2, None),
    ]


def test_row_that_fits_after_a_correction_loses_nothing() -> None:
    """Backspaces make room; what was lost before stays lost."""
    fits = one_line(LOAD, text(ALPHABET), twice(BS), text("!"), twice(EOC))
    lost = one_line(LOAD, text(ALPHABET + "6"), twice(BS), text("!"), twice(EOC))

    assert found(fits, "LAY_OVER_32_COLS") == []
    assert only(lost, "LAY_OVER_32_COLS").measured == 1


def test_codes_that_take_a_column_lose_a_character_too() -> None:
    """A mid-row code after a full row overwrites its end."""
    over = only(one_line(LOAD, text(ALPHABET), twice(0x1120), twice(EOC)), "LAY_OVER_32_COLS")

    assert (over.measured, over.word) == (1, 6 + 16)


@pytest.mark.parametrize(
    ("codes", "why"),
    [
        ((), ""),
        (twice(0x1120), ", in which a code of style takes a column,"),
        ([*twice(0x1120), *twice(0x112E)], ", in which codes of style take columns,"),
        (twice(0x1020), ", in which a code of style takes a column,"),
        ([*text(" "), *twice(0x1020)], ""),
    ],
)
def test_a_row_whose_codes_take_columns_says_so(codes: list[str], why: str) -> None:
    """Its text alone would fit, so nobody would see why; a background code takes the column of the space before."""
    over = only(one_line(LOAD, codes, text(ALPHABET), text("!"), twice(EOC)), "LAY_OVER_32_COLS")

    assert over.message == f"row 15{why} goes past column 32: characters lost {over.measured:.0f}"


@pytest.mark.parametrize(("mode", "cue"), [(ROLL, 1), ([*twice(RDC), *preamble(15)], 1)])
def test_rows_that_show_at_once_are_measured_too(mode: list[str], cue: int) -> None:
    """The finding is of the cue that is on screen."""
    over = only(one_line(mode, text(ALPHABET + "678")), "LAY_OVER_32_COLS")

    assert (over.measured, over.cue) == (3, cue)


# Roll-up


@pytest.mark.parametrize(
    ("depth", "row", "told"), [(RU2, 1, True), (RU2, 2, False), (RU3, 2, True), (RU4, 4, False)]
)
def test_base_row_smaller_than_the_depth_is_told_at_its_preamble(depth: int, row: int, told: bool) -> None:
    """The row, the depth, and the cue that is then written."""
    report = one_line(twice(depth, CR), preamble(row), text("A"))

    high = found(report, "608_ROLLUP_BASE_ROW")
    rows = depth - RU2 + 2
    assert [(finding.word, finding.measured, finding.threshold, finding.unit) for finding in high] == (
        [(4, row, rows, "rows")] if told else []
    )
    assert [finding.cue for finding in high] == [1] * told


def test_base_row_smaller_than_a_new_depth_is_told_at_its_code() -> None:
    """RU4 on base row 2."""
    report = one_line(twice(RU2, CR), preamble(2), text("A"), twice(RU4), text("B"))

    high = only(report, "608_ROLLUP_BASE_ROW")
    assert (high.word, high.measured, high.threshold) == (7, 2, 4)
    assert [row.row for row in report.cues[0].rows] == [4]


def test_preamble_in_another_mode_is_no_base_row() -> None:
    """Pop-on may stand anywhere."""
    assert (
        found(
            one_line(ROLL, twice(EDM, RCL, ENM), preamble(1), text("TOP"), twice(EOC)), "608_ROLLUP_BASE_ROW"
        )
        == []
    )


def test_depth_that_changes_on_screen_is_told() -> None:
    """From and to; the same depth again is none, nor is one after another mode."""
    report = one_line(
        twice(RU3),
        preamble(15),
        text("A"),
        twice(RU3),
        text("B"),
        twice(RU2),
        text("C"),
        twice(RCL, RU4),
        text("D"),
    )

    deeper = only(report, "608_ROLLUP_DEPTH_CHANGE")
    assert (deeper.word, deeper.measured, deeper.severity, deeper.cue) == (8, 2, "info", 1)
    assert "3 to 2" in deeper.message
    assert texts(report)[0] == ("ABC",)


def test_changes_of_mode_are_told() -> None:
    """From what to what, at the code; the first mode and the same one are none."""
    report = one_line(twice(RCL, RU2, RU3, RDC, RDC, EOC, RCL))

    changes = [
        (finding.word, finding.message.rpartition("from ")[2]) for finding in found(report, "608_MODE_CHANGE")
    ]
    assert changes == [(2, "pop-on to roll-up"), (6, "roll-up to paint-on"), (10, "paint-on to pop-on")]
