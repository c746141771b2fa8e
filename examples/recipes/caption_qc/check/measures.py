"""What is counted of each cue, once: the frames on screen, the characters, the words.

A file can have half a million cues, so they are numbers side by side and not a record a cue.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.recipes.caption_qc.check.report import Cue

_A_MINUTE = 60


def frames_of(cue: Cue) -> int:
    """Say for how many frames a cue is on screen; 0 where its end is unknown, or not after its start."""
    end, start = cue.end_frame, cue.start_frame
    return 0 if end is None or end <= start else end - start


def characters_of(cue: Cue) -> int:
    """Count the printing characters and the spaces within rows; unwritten cells side by side are one at most."""
    return sum([len(row.text) - row.unwritten for row in cue.rows])


def words_of(cue: Cue) -> int:
    """Count what spaces and rows part."""
    return sum([len(row.text.split()) for row in cue.rows])


def cps_of(cue: Cue) -> float | None:
    """Say how many characters a second a cue asks for; `None` where its time is unknown."""
    return speed(characters_of(cue), frames_of(cue))


def wpm_of(cue: Cue) -> float | None:
    """Say how many words a minute a cue asks for; `None` where its time is unknown."""
    return speed(words_of(cue) * _A_MINUTE, frames_of(cue))


def speed(count: int, frames: int) -> float | None:
    """Say how many there are a second; `None` in no frame."""
    return count * 30000 / (frames * 1001) if frames else None


@dataclass(frozen=True, slots=True)
class Measures:
    """The numbers of some cues, in their order."""

    frames: array[int]
    """0 where the time on screen is unknown or none."""
    characters: array[int]
    words: array[int]

    @property
    def timed(self) -> int:
        """How many cues are on screen for a known time."""
        return len(self.frames) - self.frames.count(0)


def measure(cues: Sequence[Cue]) -> Measures:
    """Count each cue once."""
    return Measures(
        frames=array("q", map(frames_of, cues)),
        characters=array("H", map(characters_of, cues)),
        words=array("H", map(words_of, cues)),
    )
