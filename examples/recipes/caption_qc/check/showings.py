"""The cues of a file while it is decoded: opened in the order of the file, made when they leave the screen.

What a row or a burst says is known only then, and it may be nothing: such a cue is dropped at the end, and
the others are numbered without it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.report import Cue, Mode, Row
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.recipes.caption_qc.check.notes import Here

    Screen = Callable[[], tuple[Row, ...]]
    """Gives all that stands on screen."""


class Showing(NamedTuple):
    """A cue that is on screen."""

    place: int
    """Among all that were opened, from 0."""
    line: int
    mode: Mode
    loaded: tuple[int, int]
    """Line and frame in which its text begins."""
    start_frame: int


class Showings:
    """All cues of a file."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._cues: list[Cue | None] = []
        self.blank_before: array[int] = array("q")
        """For how many frames the screen of a cue's channel was blank before the cue; of those that were kept."""
        self._dropped: array[int] = array("l")

    @property
    def line(self) -> int:
        """The line that is read."""
        return self._here.line

    def open(self, mode: Mode, loaded: tuple[int, int], start_frame: int, blank_before: int) -> Showing:
        """Begin a cue in the line that is read."""
        self._cues.append(None)
        self.blank_before.append(blank_before)
        return Showing(len(self._cues) - 1, self.line, mode, loaded, start_frame)

    def close(
        self, showing: Showing, channel: str, end_frame: int | None, rows: tuple[Row, ...], _screen: Screen
    ) -> None:
        """End a cue, `None` where the file does not say when. Without rows it never was one."""
        if rows:
            self._cues[showing.place] = _cue(showing, channel, end_frame, rows)

    def screen(self, _screen: Screen) -> tuple[Row, ...]:
        """Look at the screen if it is to be kept."""
        return ()

    def finish(self) -> tuple[Cue, ...]:
        """Give the cues, numbered from 1."""
        kept = 0
        for place, cue in enumerate(self._cues):
            if cue is None:
                self._dropped.append(place)
                continue
            kept += 1
            self._cues[kept - 1] = cue if cue.number == kept else replace(cue, number=kept)
            self.blank_before[kept - 1] = self.blank_before[place]
        del self._cues[kept:], self.blank_before[kept:]
        return tuple(cue for cue in self._cues if cue)

    def number_of(self, place: int) -> int | None:
        """Say which number a cue got, after the end; `None` if it was dropped."""
        before = bisect_left(self._dropped, place)
        if before < len(self._dropped) and self._dropped[before] == place:
            return None
        return place + 1 - before


def _cue(showing: Showing, channel: str, end_frame: int | None, rows: tuple[Row, ...]) -> Cue:
    load_line, load_frame = showing.loaded
    return Cue(
        number=showing.place + 1,
        channel=channel,
        mode=showing.mode,
        load_frame=load_frame,
        start_frame=showing.start_frame,
        end_frame=end_frame,
        start=seconds(showing.start_frame),
        end=None if end_frame is None else seconds(end_frame),
        rows=rows,
        line=showing.line,
        load_line=load_line,
    )


class Screens(Showings):
    """Keeps what stood on screen beside each cue, too."""

    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._screens: dict[int, tuple[Row, ...]] = {}

    def close(
        self, showing: Showing, channel: str, end_frame: int | None, rows: tuple[Row, ...], screen: Screen
    ) -> None:
        """Keep the screen of a cue that has rows."""
        super().close(showing, channel, end_frame, rows, screen)
        if rows:
            self._screens[showing.place] = screen()

    def screen(self, screen: Screen) -> tuple[Row, ...]:
        """Look at the screen: a cue that is about to be wiped stands on it."""
        return screen()

    def screens(self) -> tuple[tuple[Row, ...], ...]:
        """Give them in the order of the cues."""
        return tuple(self._screens[place] for place in sorted(self._screens))
