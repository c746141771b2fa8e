"""A caption memory: a grid of 15 rows by 32 columns, counted from 1."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.report import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

ROWS = 15
COLUMNS = 32

_EMPTY = "\0"  # Never written: shows as a space, but is none. No code prints it.
_SPACE = " "


class Memory:
    """The rows that hold text, and when it was loaded."""

    def __init__(self) -> None:
        self._rows: dict[int, list[str]] = {}
        self._shown: dict[int, tuple[Row, ...]] = {}
        """What `rows_at` gave since a row last changed: cues that show the same rows share them."""
        self.loaded = 0
        """The frame in which the text that stands here began to be loaded; without text it says nothing."""
        self._fresh = False

    def read(self, row: int, column: int) -> str:
        """Give the character of a cell; an empty one, or one outside the grid, has none."""
        cells = self._rows.get(row)
        return cells[column - 1].strip(_EMPTY) if cells and 1 <= column <= COLUMNS else ""

    def write(self, row: int, column: int, text: str) -> None:
        """Write from a column on. What goes past the last column overwrites it."""
        cells = self._to_change(row)
        cells[column - 1 : column - 1 + len(text)] = text
        if len(cells) > COLUMNS:
            cells[COLUMNS - 1 :] = cells[-1:]

    def erase(self, row: int, first: int, last: int) -> None:
        """Empty the cells from one column to another, both included."""
        self._to_change(row)[first - 1 : last] = [_EMPTY] * (last - first + 1)

    def mark_loaded(self, frame: int) -> None:
        """Note that visible text arrived; the first note since the memory was cleared or shown counts."""
        if not self._fresh:
            self.loaded, self._fresh = frame, True

    def retire(self) -> None:
        """Note that what stands here was shown: what comes next is another load, on top of it."""
        self._fresh = False

    def clear(self) -> None:
        """Empty the whole memory."""
        self._rows.clear()
        self._shown.clear()
        self._fresh = False

    def shift(self, down: int, first: int, last: int) -> None:
        """Move all rows down (up, below 0), and keep those that then stand from `first` to `last`."""
        moved = {row + down: cells for row, cells in self._rows.items()}
        self._rows = {row: cells for row, cells in moved.items() if first <= row <= last}
        self._shown.clear()

    def rows(self) -> tuple[Row, ...]:
        """Give the rows with visible text from top to bottom."""
        return tuple(chain.from_iterable(map(self.rows_at, sorted(self._rows))))

    def rows_at(self, number: int) -> tuple[Row, ...]:
        """Give one row as `rows` does: none if it shows nothing. Spaces around the text are no part of it."""
        shown = self._shown.get(number)
        if shown is None:
            shown = self._shown[number] = _visible(number, self._rows.get(number, ()))
        return shown

    def _to_change(self, row: int) -> list[str]:
        self._shown.pop(row, None)
        cells = self._rows.get(row)
        if cells is None:
            cells = self._rows[row] = [_EMPTY] * COLUMNS
        return cells


def _visible(number: int, cells: Iterable[str]) -> tuple[Row, ...]:
    text = "".join(cells).replace(_EMPTY, _SPACE)
    visible = text.lstrip(_SPACE)
    if not visible:
        return ()
    return (Row(row=number, column=1 + len(text) - len(visible), text=visible.rstrip(_SPACE)),)
