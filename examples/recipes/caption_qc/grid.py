"""The caption grid as it shows: 15 rows of 32 columns, a picture a cue, as many beside each other as fit."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from .check.screen import COLUMNS, ROWS
from .layout import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .check import Row as CaptionRow
    from .check.report import Span
    from .layout import Cell, Page, Row

    Picture: TypeAlias = tuple[Sequence[str], Sequence[CaptionRow]]
    """The lines above a grid, and what stands in it."""

_WIDTH: Final = 2 + 1 + COLUMNS + 1
_GAP: Final[Cell] = ("  ", "")
_PIPE: Final = 80  # Where nothing says how wide a line may be.
_RULER: Final = "".join(f"{column:>5}" for column in range(5, COLUMNS, 5)).ljust(COLUMNS)
_UNSHOWN: Final = "\N{REPLACEMENT CHARACTER}"


def print_grids(page: Page, pictures: Iterable[Picture]) -> None:
    """Print each grid under the lines that belong above it."""
    beside = max(1, ((page.width or _PIPE) + len(_GAP[0])) // (_WIDTH + len(_GAP[0])))
    rest = iter(pictures)
    while some := list(islice(rest, beside)):
        for lines in zip(*(_picture(page, *picture) for picture in some), strict=True):
            page.line(*_beside(lines))
        page.line()


def _beside(lines: Iterable[Row]) -> Iterator[Cell]:
    for number, line in enumerate(lines):
        if number:
            yield _GAP
        yield from line


def _picture(page: Page, title: Sequence[str], rows: Sequence[CaptionRow]) -> Iterator[Row]:
    across, down, corners = ("-", "|", "++++") if page.ascii_only else ("─", "│", "┌┐└┘")
    shown = {row.row: row for row in rows}
    for line in title:
        yield ((line.ljust(_WIDTH), "bold"),)
    yield ((f"   {_RULER} ", QUIET),)
    yield ((f"  {corners[0]}{across * COLUMNS}{corners[1]}", QUIET),)
    for number in range(1, ROWS + 1):
        inside = _row(shown.get(number), ascii_only=page.ascii_only)
        yield ((f"{number:>2}{down}", QUIET), *inside, (down, QUIET))
    yield ((f"  {corners[2]}{across * COLUMNS}{corners[3]}", QUIET),)


def _row(row: CaptionRow | None, *, ascii_only: bool) -> Iterator[Cell]:
    """Give the 32 columns of a row, its styled parts apart; each character has its one column, whatever it is."""
    if row is None:
        yield " " * COLUMNS, ""
        return
    line = (" " * (row.column - 1) + "".join(_column(char, ascii_only) for char in row.text)).ljust(COLUMNS)
    done = 0
    for span in row.styles:
        first = span.column - 1
        yield line[done:first], ""
        done = first + span.length
        yield line[first:done], _style(span)
    yield line[done:], ""


def _column(char: str, ascii_only: bool) -> str:
    if ascii_only:
        return char if char.isascii() and char.isprintable() else "?"
    return char if char.isprintable() else _UNSHOWN


def _style(span: Span) -> str:
    style = span.style
    words = (style.colour, f"on {style.background}", *(name for name in ("italic",) if style.italics))
    return " ".join(words)
