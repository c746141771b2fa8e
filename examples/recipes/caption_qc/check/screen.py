"""A caption memory: a grid of 15 rows by 32 columns, counted from 1."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.report import PLAIN, Row, Span, Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS = 15
COLUMNS = 32

_EMPTY = "\0"  # Never written: shows as a space, but is none. No code prints it.
_SPACE = " "
_BLANKS = re.compile(f"[{_EMPTY}{_SPACE}]+")


class _Cells:
    """The cells of one row: their characters, and their styles from the first one on that is not plain.

    Cues that show the same row share it, and rows of the same styles share these: a file can have so many cues
    that each would matter.
    """

    __slots__ = ("_changed", "_restyled", "_row", "_styles", "text")

    def __init__(self) -> None:
        self.text = [_EMPTY] * COLUMNS
        self._styles: list[Style] | None = None
        self._row: Row | None = None
        """What `row` gave last, and whether anything, or any style, has changed since then."""
        self._changed = self._restyled = False

    def write(self, column: int, text: str, style: Style) -> None:
        """Write from a column on. What goes past the last column overwrites it."""
        self._changed = True
        column = min(column, COLUMNS)
        if len(text) > COLUMNS - column + 1:
            text = text[: COLUMNS - column] + text[-1]
        cells = slice(column - 1, column - 1 + len(text))
        self.text[cells] = text
        if self._styles is None and style is not PLAIN:
            self._styles = [PLAIN] * COLUMNS
        if self._styles is not None:
            styles = [style] * len(text)
            if self._styles[cells] != styles:
                self._restyled = True
                self._styles[cells] = styles

    def erase(self, first: int, last: int) -> None:
        """Empty the cells from one column to another, both included."""
        self.write(first, _EMPTY * (last - first + 1), PLAIN)

    def shows(self, first: int, last: int) -> bool:
        """Say whether any character from one column to another, both included, is visible."""
        return max(self.text[first - 1 : last], default=_SPACE) > _SPACE

    def row(self, number: int) -> tuple[Row, ...]:
        """Give what shows, if anything does. Spaces around the text are no part of it."""
        if self._changed or (self._row and self._row.row != number):
            self._row = self._look(number)
            self._changed = self._restyled = False
        return (self._row,) if self._row else ()

    def _look(self, number: int) -> Row | None:
        cells = "".join(self.text)
        text = cells.replace(_EMPTY, _SPACE)
        visible = text.strip(_SPACE)
        if not visible:
            return None
        first, old = len(text) - len(text.lstrip(_SPACE)), self._row
        unwritten = _unwritten(cells[first : first + len(visible)])
        if old and not self._restyled and (old.column, len(old.text)) == (first + 1, len(visible)):
            if (old.text, old.row, old.unwritten) == (visible, number, unwritten):
                return old
            spans = old.styles
        else:
            styles = self._styles[first : first + len(visible)] if self._styles else ()
            spans = tuple(_spans(first + 1, styles))
        return Row(row=number, column=first + 1, text=visible, styles=spans, unwritten=unwritten)


def _unwritten(cells: str) -> int:
    """Count the cells that stand for nothing: those without a space of their own, less one that parts words."""
    if _EMPTY not in cells:
        return 0
    blanks = _BLANKS.findall(cells)
    return sum(blank.count(_EMPTY) - (_SPACE not in blank) for blank in blanks)


class Memory:
    """The rows that hold text, and when it was loaded."""

    def __init__(self) -> None:
        self._rows: dict[int, _Cells] = {}
        self._shown: tuple[Row, ...] = ()
        """What `rows` gave last: cues that show the same share it."""
        self._changed = False
        self.loaded = (0, 0)
        """Line and frame in which the text that stands here began to be loaded; without text they say nothing."""
        self.fresh = False
        """Whether visible text arrived since the memory was cleared or shown."""

    def read(self, row: int, column: int) -> str:
        """Give the character of a cell; an empty one, or one outside the grid, has none."""
        cells = self._rows.get(row)
        return cells.text[column - 1].strip(_EMPTY) if cells and 1 <= column <= COLUMNS else ""

    def write(self, row: int, column: int, text: str, style: Style) -> None:
        """Write from a column on. What goes past the last column overwrites it."""
        self._changed = True
        cells = self._rows.get(row)
        if cells is None:
            cells = self._rows[row] = _Cells()
        cells.write(column, text, style)

    def erase(self, row: int, first: int, last: int) -> None:
        """Empty the cells from one column to another, both included."""
        self._changed = True
        if cells := self._rows.get(row):
            cells.erase(first, last)

    def mark_loaded(self, line: int, frame: int) -> None:
        """Note that visible text arrived, the first since the memory was cleared or shown."""
        self.loaded, self.fresh = (line, frame), True

    def retire(self) -> None:
        """Note that what stands here was shown: what comes next is another load, on top of it."""
        self.fresh = False

    def clear(self) -> None:
        """Empty the whole memory."""
        self._rows.clear()
        self._shown, self._changed = (), False
        self.fresh = False

    def shift(self, down: int, first: int, last: int) -> None:
        """Move all rows down (up, below 0), and keep those that then stand from `first` to `last`."""
        self._changed = True
        kept = range(first - down, last - down + 1)
        self._rows = {row + down: cells for row, cells in self._rows.items() if row in kept}

    def rows(self) -> tuple[Row, ...]:
        """Give the rows with visible text from top to bottom."""
        if self._changed:
            rows = tuple(chain.from_iterable(map(self.rows_at, sorted(self._rows))))
            if rows != self._shown:
                self._shown = rows
            self._changed = False
        return self._shown

    def rows_at(self, number: int) -> tuple[Row, ...]:
        """Give one row as `rows` does: none if it shows nothing."""
        cells = self._rows.get(number)
        return cells.row(number) if cells else ()

    def shows(self) -> bool:
        """Say whether any character is visible."""
        return any(cells.shows(1, COLUMNS) for cells in self._rows.values())

    def shows_at(self, row: int, first: int = 1, last: int = COLUMNS) -> bool:
        """Say whether any character of a row from one column to another, both included, is visible."""
        cells = self._rows.get(row)
        return cells is not None and cells.shows(first, last)

    def spaces(self) -> int:
        """Count the spaces that were written."""
        return sum(cells.text.count(_SPACE) for cells in self._rows.values())

    def spaces_at(self, number: int) -> int:
        """Count the spaces that were written in one row."""
        cells = self._rows.get(number)
        return cells.text.count(_SPACE) if cells else 0


class Stood(NamedTuple):
    """Text that is being wiped, as it stood before."""

    rows: tuple[Row, ...]
    """Those of the cue."""
    screen: tuple[Row, ...]


NOTHING_STOOD = Stood((), ())


class Light:
    """Whether a screen shows anything, and since when it does not any more."""

    def __init__(self) -> None:
        self._is_on = False
        self._dark_since: int | None = None
        """`None` while it is on, and before it ever was."""

    def on(self, frame: int) -> int:
        """Note that text appears, and say for how many frames there was none; 0 before the first."""
        dark, self._dark_since, self._is_on = self._dark_since, None, True
        return 0 if dark is None else frame - dark

    def look(self, displayed: Memory, frame: int) -> None:
        """See what is displayed once something may have left it."""
        if self._is_on and not displayed.shows():
            self._is_on, self._dark_since = False, frame


# A file can change one cell of a coloured row for each of its cues: most spans of the row are as they were.
_span = lru_cache(maxsize=1 << 12)(Span)


def _spans(column: int, styles: Sequence[Style]) -> Iterator[Span]:
    """Join equal styles that stand side by side; what is plain needs no span."""
    for _, alike in groupby(styles, key=id):  # Equal styles are one object.
        style, *others = alike
        length = 1 + len(others)
        if style is not PLAIN:
            yield _span(column, length, style)
        column += length
