"""What the decoder notices on its way: kept by rule, and no more of it than a report lists.

A file may have millions of faults. Of each rule the first ones are kept, the others are counted.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from examples.recipes.caption_qc.check.faults import MOST_LISTED

if TYPE_CHECKING:
    from collections.abc import Callable

NotedRule: TypeAlias = Literal[
    "608_CTRL_NOT_DOUBLED",
    "608_UNKNOWN_CTRL",
    "608_CHANNEL2",
    "608_FIELD2",
    "608_TEXT_MODE",
    "608_TEXT_NO_MODE",
    "608_EXT_NO_BASE_CHAR",
    "608_EOC_EMPTY",
    "608_LOAD_ON_OLD_TEXT",
    "608_OLD_CAPTION_SHOWN",
    "608_LOADED_NEVER_SHOWN",
    "608_NO_FINAL_CLEAR",
    "608_ROLLUP_BASE_ROW",
    "608_MODE_CHANGE",
    "608_ROLLUP_DEPTH_CHANGE",
    "608_XDS",
    "608_FLASH",
    "LAY_OVER_32_COLS",
    "LAY_EXT_COL_32",
    "CUE_BLANK",
]


@dataclass(slots=True)
class Here:
    """Where the decoder is."""

    line: int = 0
    """The number in the file of the line that it reads."""


@dataclass(slots=True)
class Note:
    """One thing that was noticed, in one word of one line."""

    line: int
    frame: int
    detail: str = ""
    """What the message has to name."""
    measured: int | None = None
    threshold: int | None = None
    channel: str | None = None
    """Where it is not the one that is judged."""
    cue: int | None = None
    """The cue that it is about: while the decoder runs its place among all opened, from 0, and then its number."""
    listed: bool = True

    def grow(self, amount: int | None) -> None:
        """Measure more of the same."""
        self.measured = (self.measured or 0) + (amount or 0)


@dataclass(slots=True)
class Kept:
    """The notes of one rule."""

    notes: list[Note] = field(default_factory=list)
    """The first ones: as many as a report lists, and one more."""
    more: int = 0
    """How many there are beside those."""


class Notes:
    """The notes of one channel, by rule."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self._kept: dict[NotedRule, Kept] = {}
        self._last_line: dict[NotedRule, int] = {}
        self.shown_again: array[int] = array("l")
        """The cues that showed a caption another time: places among all opened, and then numbers, in order."""

    def of(self, rule: NotedRule) -> Kept:
        """Give what there is of a rule."""
        return self._kept.get(rule) or Kept()

    def add(self, rule: NotedRule, note: Note) -> Note:
        """Keep a note, or count it if a report would not list it."""
        kept = self._kept.get(rule)
        if kept is None:
            kept = self._kept[rule] = Kept()
        note.listed = len(kept.notes) <= MOST_LISTED
        if note.listed:
            kept.notes.append(note)
        else:
            kept.more += 1
        return note

    def add_to_line(self, rule: NotedRule, note: Note) -> None:
        """Note how much there is of something; all of one line is one note, at the first place."""
        if self._last_line.get(rule) != note.line:
            self._last_line[rule] = note.line
            self.add(rule, note)
        elif not self._kept[rule].more:
            self._kept[rule].notes[-1].grow(note.measured)

    def add_to_file(
        self, rule: NotedRule, line: int, frame: int, amount: int, channel: str | None = None
    ) -> None:
        """Note how much there is of something; all of the file is one note, at the first place."""
        if kept := self._kept.get(rule):
            kept.notes[0].grow(amount)
        else:
            self.add(rule, Note(line, frame, measured=amount, channel=channel))

    def number_cues(self, number_of: Callable[[int], int | None]) -> None:
        """Say which number each cue got; `None` if it never showed anything."""
        for kept in self._kept.values():
            for note in kept.notes:
                note.cue = None if note.cue is None else number_of(note.cue)
        self.shown_again = array("l", filter(None, map(number_of, self.shown_again)))
