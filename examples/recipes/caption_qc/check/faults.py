"""A fault as a rule's function finds it, before the profile has said how severe it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Severity
    from examples.recipes.caption_qc.check.scc import Line

_LONGEST_QUOTE = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file; a part that makes no sense for the fault is `None`."""

    line: int | None = None
    word: int | None = None
    timecode: str | None = None
    frame: int | None = None


NOWHERE = Place()
"""The place of a fault of the whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was found. `None` in the last three means: as the rule says."""

    message: str
    place: Place = NOWHERE
    measured: float | None = None
    threshold: float | None = None
    unit: str | None = None
    severity: Severity | None = None


def at_line(line: Line) -> Place:
    """Give the place of a whole caption line."""
    return Place(line.number, None, str(line.timecode), line.frame)


def at_word(line: Line, word: int) -> Place:
    """Give the place of one word of a caption line, with the frame in which it goes out."""
    return Place(line.number, word, str(line.timecode), line.frame + word)


def quote(text: bytes) -> str:
    """Show bytes of a file in a message: cut short, in quotes, and with nothing but printable ASCII."""
    shown = ascii(text[:_LONGEST_QUOTE].decode("latin-1"))
    return shown if len(text) <= _LONGEST_QUOTE else f"{shown}..."
