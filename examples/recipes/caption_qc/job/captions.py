"""Which caption a finding belongs to: the text that the fault spoils, and when it shows.

The law: who mends a file has to find the caption that is wrong, and not the one on screen meanwhile.

1. The finding's cue, where it names one.
2. Else what is being loaded at its place, or what its line loads after it: codes come before the text that they
   are for. Roll-up and paint-on text is loaded by the line that writes it. TC_LOAD_OVERLAP alone is said of the
   words of the line above: it belongs to what these load.
3. Else what is on screen, until the very frame that takes it off.
4. Else none: what is said of the whole file shows nowhere.

All of it in the finding's channel, or the one that is judged. What is being loaded goes by the order of the file,
since times may overlap or run back; what is on screen goes by time. It imports the pure check modules alone,
since workers do this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from examples.recipes.caption_qc.check.report import Cue, Finding

_ABOUT_THE_LINE_ABOVE = "TC_LOAD_OVERLAP"

_by_channel = attrgetter("channel")
_by_start = attrgetter("start_frame")
_loaded_at = attrgetter("load_line", "load_frame")


@dataclass(frozen=True, slots=True)
class Caption:
    """What shows."""

    text: str
    """Its rows from the top, joined by line feeds."""
    start: float
    """In seconds."""
    end: float | None
    """In seconds; `None` where the file does not say when the text leaves."""


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
        shown = self._shown.get(finding.channel or self._channel)
        if finding.line is None or shown is None:
            return None
        if finding.frame is None:
            return shown.of_line(finding.line)
        of_it = shown.at(finding.line, finding.frame)
        if finding.rule == _ABOUT_THE_LINE_ABOVE:
            return shown.of_line_above(finding.line, finding.frame) or of_it
        return of_it

    @cached_property
    def _shown(self) -> dict[str, _Shown]:
        by_channel = groupby(sorted(self._cues, key=_by_channel), key=_by_channel)
        return {channel: _Shown(tuple(cues)) for channel, cues in by_channel}


def captions_of(findings: Iterable[Finding], cues: Sequence[Cue], channel: str) -> tuple[Caption | None, ...]:
    """Return each finding's caption, in their order."""
    captions = Captions(cues, channel)
    return tuple(map(captions.of, findings))


class _Shown:
    """The cues of one channel."""

    def __init__(self, cues: Sequence[Cue]) -> None:
        """Take them in the order of the file."""
        self._cues = cues
        self._loads = sorted(_loads(cues), key=_loaded_at)

    def of_line(self, line: int) -> Cue | None:
        """Find the first cue that a line loads, or else shows."""
        return self._loaded_after(line, -1) or self._by_line.get(line)

    def of_line_above(self, line: int, frame: int) -> Cue | None:
        """Find the last cue that lines above loaded, unless it has left the screen before a frame of this one."""
        place = bisect_left(self._loads, (line, 0), key=_loaded_at)
        cue = self._loads[place - 1] if place else None
        return None if cue is None or (cue.start_frame <= frame and _has_left(cue, frame - 1)) else cue

    def at(self, line: int, frame: int) -> Cue | None:
        """Find the cue of one frame of a line."""
        return self._loading(line, frame) or self._loaded_after(line, frame) or self._on_screen(frame)

    def _loading(self, line: int, frame: int) -> Cue | None:
        """Find what began to be loaded last, unless all of it has been loaded."""
        place = bisect_right(self._loads, (line, frame), key=_loaded_at)
        if not place:
            return None
        cue = self._loads[place - 1]
        if cue.mode == "pop-on":
            return cue if (line, frame) < (cue.line, cue.start_frame) else None
        return cue if cue.load_line == line and not _has_left(cue, frame) else None

    def _loaded_after(self, line: int, frame: int) -> Cue | None:
        """Find the first cue that a line loads after a frame."""
        place = bisect_right(self._loads, (line, frame), key=_loaded_at)
        cue = self._loads[place] if place < len(self._loads) else None
        return cue if cue and cue.load_line == line else None

    def _on_screen(self, frame: int) -> Cue | None:
        """Find the cue that began last of those that have not ended before."""
        place = bisect_right(self._by_start, frame, key=_by_start) - 1
        while place >= 0 and self._ends[place] < frame:
            place = self._longer[place]
        return self._by_start[place] if place >= 0 else None

    @cached_property
    def _by_start(self) -> list[Cue]:
        return sorted(self._cues, key=_by_start)

    @cached_property
    def _ends(self) -> list[float]:
        """Give the last frame of each by start; one of unknown end stays until the next begins."""
        following = [*(cue.start_frame - 1 for cue in self._by_start[1:]), inf]
        ends = (cue.end_frame for cue in self._by_start)
        return [new if end is None else end for end, new in zip(ends, following, strict=True)]

    @cached_property
    def _longer(self) -> list[int]:
        """Give the place of the last one before each that ends after it: what is between has left, too."""
        longer: list[int] = []
        for place, end in enumerate(self._ends):
            before = place - 1
            while before >= 0 and self._ends[before] <= end:
                before = longer[before]
            longer.append(before)
        return longer

    @cached_property
    def _by_line(self) -> dict[int, Cue]:
        """Name the first cue that appears in each line."""
        return {cue.line: cue for cue in reversed(self._cues)}


def _loads(cues: Iterable[Cue]) -> Iterator[Cue]:
    """Leave out what shows again: it was loaded for another time."""
    loaded = set()
    for cue in cues:
        if (load := _loaded_at(cue)) not in loaded:
            loaded.add(load)
            yield cue


def _has_left(cue: Cue, frame: int) -> bool:
    return cue.end_frame is not None and cue.end_frame <= frame
