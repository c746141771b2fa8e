"""The busiest second of a file: where the most characters are to be read within any one second.

A cue's characters are spread evenly over its time. So the count up to a moment is a line of straight parts,
and the fullest second is one that starts with a cue or ends with one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.limits import A_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.recipes.caption_qc.check.measures import Measures
    from examples.recipes.caption_qc.check.report import Cue

_SECOND = float(A_SECOND)


def busiest_second(cues: Sequence[Cue], measures: Measures) -> float | None:
    """Count the characters of the fullest second; `None` where no cue has a known time."""
    count = _Count(cues, measures)
    starts = (count.up_to(frame + _SECOND) - count.up_to(frame) for frame in count.starts)
    ends = (count.up_to(frame) - count.up_to(frame - _SECOND) for frame in count.ends)
    return max(chain(starts, ends)) if count.starts else None


class _Count:
    """How many characters have been shown up to a frame."""

    def __init__(self, cues: Sequence[Cue], measures: Measures) -> None:
        self.starts, self.ends = array("q"), array("q")
        slopes: dict[int, float] = {}
        for cue, frames, characters in zip(cues, measures.frames, measures.characters, strict=True):
            if frames:
                start, end, slope = cue.start_frame, cue.start_frame + frames, characters / frames
                self.starts.append(start)
                self.ends.append(end)
                slopes[start] = slopes.get(start, 0) + slope
                slopes[end] = slopes.get(end, 0) - slope
        self._frames = array("q", sorted(slopes))
        self._slopes = array("d", accumulate(map(slopes.__getitem__, self._frames)))
        parts = zip(self._slopes, pairwise(self._frames), strict=False)
        self._counts = array("d", accumulate((slope * (b - a) for slope, (a, b) in parts), initial=0.0))

    def up_to(self, frame: float) -> float:
        place = bisect_right(self._frames, frame) - 1
        if place < 0:
            return 0.0
        return self._counts[place] + self._slopes[place] * (frame - self._frames[place])
