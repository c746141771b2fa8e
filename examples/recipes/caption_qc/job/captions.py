"""Which caption a finding belongs to: the text that shows there, and when.

1. The finding's cue, where it names one.
2. Else what is on screen at the finding's frame, in the finding's channel or the one that is judged.
3. Else what is loaded then, or appears in the finding's line, and shows later.
4. Else none: what is said of the whole file shows nowhere.

It imports the pure check modules alone, since workers do this.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from examples.recipes.caption_qc.check.report import Cue, Finding


@dataclass(frozen=True, slots=True)
class Caption:
    """What shows."""

    text: str
    """Its rows from the top, joined by line feeds."""
    start: float
    """In seconds."""
    end: float | None
    """In seconds; `None` where the file does not say when the text leaves."""


@dataclass(frozen=True, slots=True)
class _Showing:
    """The cues of one channel."""

    cues: Sequence[Cue]
    """By start."""
    starts: Sequence[int]


class Captions:
    """The captions of one file. Of each there is one value, however many findings it has."""

    def __init__(self, cues: Sequence[Cue], channel: str) -> None:
        """Take all cues of a report, in their order, and the channel that it judges."""
        self._cues = cues
        self._channel = channel
        self._made: dict[int, Caption] = {}

    def of(self, finding: Finding) -> Caption | None:
        """Return the caption of a finding; `None` where nothing shows."""
        cue = self._cue_of(finding)
        if cue is None:
            return None
        if cue.number not in self._made:
            text = "\n".join(row.text for row in cue.rows)
            self._made[cue.number] = Caption(text, cue.start, cue.end)
        return self._made[cue.number]

    def _cue_of(self, finding: Finding) -> Cue | None:
        if finding.cue is not None:
            return self._cues[finding.cue - 1] if 0 < finding.cue <= len(self._cues) else None
        if finding.line is None:
            return None
        showing = self._by_channel.get(finding.channel or self._channel, _NOTHING)
        if finding.frame is None:
            return self._in_line.get((finding.channel or self._channel, finding.line))
        return _on_screen(showing, finding.frame) or self._loaded(showing, finding.line, finding.frame)

    def _loaded(self, showing: _Showing, line: int, frame: int) -> Cue | None:
        """Find what shows next, if it is being loaded by then or the line brings it up."""
        place = bisect_right(showing.starts, frame)
        if place == len(showing.cues):
            return None
        cue = showing.cues[place]
        return cue if cue.load_frame <= frame or cue.line == line else None

    @cached_property
    def _by_channel(self) -> dict[str, _Showing]:
        def by_channel(cues: Iterable[Cue]) -> list[Cue]:
            return sorted(cues, key=attrgetter("channel", "start_frame"))

        return {
            channel: _Showing(cues := tuple(of_channel), [cue.start_frame for cue in cues])
            for channel, of_channel in groupby(by_channel(self._cues), key=attrgetter("channel"))
        }

    @cached_property
    def _in_line(self) -> dict[tuple[str, int], Cue]:
        """Name the first cue that appears in each line."""
        return {(cue.channel, cue.line): cue for cue in reversed(self._cues)}


_NOTHING = _Showing((), ())


def captions_of(findings: Iterable[Finding], cues: Sequence[Cue], channel: str) -> tuple[Caption | None, ...]:
    """Return each finding's caption, in their order."""
    captions = Captions(cues, channel)
    return tuple(map(captions.of, findings))


def _on_screen(showing: _Showing, frame: int) -> Cue | None:
    """Find the cue that began last and has not ended; one of unknown end stays until the next begins."""
    place = bisect_right(showing.starts, frame)
    if not place:
        return None
    cue = showing.cues[place - 1]
    return cue if cue.end_frame is None or frame < cue.end_frame else None
