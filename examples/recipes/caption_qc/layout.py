"""Text in columns, for a terminal of any width and for a pipe.

A table is printed where it fits, and else its caller has another form: a table that is squeezed can't be read.
Rows are made twice, once to find the widths and once to be printed, so that none is kept: a file may have
many thousand cues.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.console import Console
from rich.text import Text

from .job.assets import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Cell: TypeAlias = tuple[str, str]
"""Text and its style. Text is data: no markup, and nothing that acts on the terminal."""
Row: TypeAlias = tuple[Cell, ...]

QUIET: Final = "dim"
SEVERITIES: Final = {"error": "red", "warn": "yellow", "info": "cyan"}
_NARROWEST: Final = 32


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. The last one is not padded; it takes what room is left, and wraps."""

    title: str
    right: bool = False
    spare: bool = False
    """Left out where room is short and all rows say the same in it."""


class Page:
    """Standard output, line by line."""

    def __init__(self) -> None:
        self._console = Console()
        told = self._console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
        self.width = max(self._console.width, _NARROWEST) if told else None
        """`None` where nothing says how wide a line may be: in a pipe, where nothing is wrapped."""
        self.ascii_only = self._console.options.ascii_only

    def line(self, *cells: Cell) -> None:
        """Print one line as it is."""
        self._print(_text(cells))

    def hanging(self, lead: Row, *cells: Cell) -> None:
        """Print text behind its lead; what does not fit goes on below its beginning."""
        indent = _length(lead)
        text = _text(cells)
        if self.width is None or indent + text.cell_len <= self.width:
            self.line(*lead, *cells)
            return
        first, *rest = text.wrap(self._console, self.width - indent)
        self._print(_text(lead) + first)
        for part in rest:
            self._print(Text(" " * indent) + part)

    def flow(self, lead: Row, parts: Iterable[Cell]) -> None:
        """Print parts behind their lead, two columns apart; one that does not fit begins the next line."""
        line: list[Cell] = []
        for part in parts:
            if line and not self._has_room(lead, [*line, _GAP, part]):
                self.hanging(lead, *line)
                lead, line = ((" " * _length(lead), ""),), []
            line += [_GAP, part] if line else [part]
        self.hanging(lead, *line)

    def table(self, columns: Sequence[Column], rows: Callable[[], Iterable[Row]], least: int) -> bool:
        """Print a table, if one fits in which the last column has `least` columns of room, or all it needs.

        Returns:
            Whether it was printed.
        """
        sizes = _sizes(columns, rows())
        form = next((form for form in _forms(columns, sizes) if self._fits(form, sizes[-1], least)), None)
        if form is None:
            return False
        for row in chain([tuple((column.title, QUIET) for column in columns)], rows()):
            self.hanging(form.lead_of(row), row[-1])
        return True

    def _print(self, text: Text) -> None:
        text.rstrip()
        if self._console.is_terminal:
            self._console.print(text, soft_wrap=True)
        else:  # Without styles there is nothing to render, which takes ten times as long.
            print(text.plain)

    def _has_room(self, lead: Row, cells: Iterable[Cell]) -> bool:
        return self.width is None or _length(lead) + _length(cells) <= self.width

    def _fits(self, form: _Form, last: _Size, least: int) -> bool:
        return self.width is None or form.lead + min(last.width, least) <= self.width


_GAP: Final[Cell] = ("  ", "")


@dataclass(slots=True)
class _Size:
    """How wide a column has to be, and whether all rows that have something in it say the same."""

    width: int
    said: str = ""
    varies: bool = False

    def take(self, text: str) -> None:
        self.width = max(self.width, len(text))
        self.varies = self.varies or (text != "" and self.said not in {"", text})
        self.said = text or self.said


@dataclass(frozen=True, slots=True)
class _Form:
    """How the columns before the last one stand: which, how wide, and how far apart."""

    columns: tuple[tuple[int, int, bool], ...]
    gap: int

    @property
    def lead(self) -> int:
        return sum(width + self.gap for _, width, _ in self.columns)

    def lead_of(self, row: Row) -> Row:
        return tuple(self._cell(*row[number], width, right) for number, width, right in self.columns)

    def _cell(self, text: str, style: str, width: int, right: bool) -> Cell:
        return (text.rjust(width) if right else text.ljust(width)) + " " * self.gap, style


def _sizes(columns: Sequence[Column], rows: Iterable[Row]) -> list[_Size]:
    sizes = [_Size(len(column.title)) for column in columns]
    for row in rows:
        for size, (text, _) in zip(sizes, row, strict=True):
            size.take(text)
    return sizes


def _forms(columns: Sequence[Column], sizes: Sequence[_Size]) -> Iterator[_Form]:
    """Try the roomy ones first; a column with nothing in it is in none."""
    numbered = list(enumerate(zip(columns[:-1], sizes[:-1], strict=True)))
    filled = [(n, column, size) for n, (column, size) in numbered if size.said]
    telling = [(n, column, size) for n, column, size in filled if size.varies or not column.spare]
    for chosen in (filled, telling):
        for gap in (2, 1):
            yield _Form(tuple((n, size.width, column.right) for n, column, size in chosen), gap)


def _text(cells: Iterable[Cell]) -> Text:
    return Text.assemble(*((printable(text), style) for text, style in cells))


def _length(cells: Iterable[Cell]) -> int:
    return sum(len(text) for text, _ in cells)
