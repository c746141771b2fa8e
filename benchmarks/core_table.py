"""The marks of `core.py`, what was found, and the table of both."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVEL = 0.03
"""Ratios to the floor that differ by less do not differ."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a line is to reach, or with `at_most` to keep to."""

    what: str
    value: float
    stretch: float | None = None
    at_most: bool = False
    unit: str = ""
    level: float = 0.0

    def verdict(self, measured: float) -> str:
        """Say whether it is met."""
        if self.stretch is not None and self._reached(measured, self.stretch):
            return "met, the stretch too"
        if self._reached(measured, self.value):
            return "met"
        return "level" if abs(measured - self.value) < self.level else "missed"

    @property
    def text(self) -> str:
        """Write it."""
        bound = "at most " if self.at_most else ""
        return f"{bound}{self.value:g}{self.unit}"

    def _reached(self, measured: float, value: float) -> bool:
        return measured <= value if self.at_most else measured >= value


@dataclasses.dataclass(frozen=True)
class Found:
    """What was measured for a mark: the median of `values`, or `measured` where it is another statistic."""

    mark: Mark
    values: Sequence[float]
    beside: str = ""
    measured: float | None = None

    def row(self) -> list[str]:
        """Write the cells of its row."""
        ordered, mark = sorted(self.values), self.mark
        measured = statistics.median(ordered) if self.measured is None else self.measured
        spread = f"{ordered[0]:.2f} to {ordered[-1]:.2f}" if len(ordered) > 1 else ""
        stretch = "" if mark.stretch is None else f"{mark.stretch:g}{mark.unit}"
        verdict = mark.verdict(measured)
        return [mark.what, mark.text, stretch, f"{measured:.2f}{mark.unit}", spread, verdict, self.beside]


HEADER = ["what", "mark", "stretch", "measured", "least to greatest", "", "beside it"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows of cells, the first of which is the header, as Markdown that lines up."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]
    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([lines[0], rule, *lines[1:]])
