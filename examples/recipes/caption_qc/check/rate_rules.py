"""The rules of reading speed: how many characters a second, and words a minute, a cue asks of its reader.

A cue's characters are its printing ones and the spaces within its rows, its words what spaces and rows part.
Cells that nothing was written to count as one space where they alone part two words, and else as nothing.
They are read while it is on screen; a roll-up cue is the row of one carriage return. A cue whose end is
unknown has no speed. One fast cue is a warning; it is an error where over a tenth of at least twenty are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault, plain, worst
from examples.recipes.caption_qc.check.limits import A_SECOND, exact
from examples.recipes.caption_qc.check.measures import cps_of, wpm_of
from examples.recipes.caption_qc.check.rule import Rule

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from examples.recipes.caption_qc.check.measures import Measures
    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.rule import Subject

_ENOUGH_CUES = 20
_TOO_MANY = 10  # One in so many.
_A_MINUTE = 60


def cps(subject: Subject, limit: float) -> Iterator[Fault]:
    """RATE_CPS: more characters a second than the limit."""
    measures = subject.measures
    speeds = _Speeds(measures.characters, measures.frames, exact(limit) / A_SECOND)
    return _find(subject, speeds, cps_of, ("characters a second", limit))


def wpm(subject: Subject, limit: float) -> Iterator[Fault]:
    """RATE_WPM: more words a minute than the limit."""
    measures = subject.measures
    speeds = _Speeds(measures.words, measures.frames, exact(limit) / (_A_MINUTE * A_SECOND))
    return _find(subject, speeds, wpm_of, ("words a minute", limit))


def over_cps(measures: Measures, limit: float) -> Iterator[bool]:
    """Say of each cue whether it has more characters a second than the limit."""
    return _Speeds(measures.characters, measures.frames, exact(limit) / A_SECOND).over()


@dataclass(frozen=True, slots=True)
class _Speeds:
    """What cues ask of their reader: so many in so many frames, 0 where those are unknown."""

    counts: array[int]
    frames: array[int]
    most: Fraction
    """The limit, for a frame."""

    def over(self) -> Iterator[bool]:
        """Say of each whether it is over the limit."""
        most, per = self.most.numerator, self.most.denominator  # Whole numbers: nothing is rounded.
        pairs = zip(self.counts, self.frames, strict=True)
        return (time > 0 and count * per > most * time for count, time in pairs)

    def of(self, place: int) -> float:
        """Say how many there are a frame."""
        return self.counts[place] / self.frames[place]


def _find(
    subject: Subject, speeds: _Speeds, speed_of: Callable[[Cue], float | None], limit: tuple[str, float]
) -> Iterator[Fault]:
    cues, timed = subject.cues, subject.measures.timed
    fast = list(compress(range(len(cues)), speeds.over()))
    severe = timed >= _ENOUGH_CUES and len(fast) * _TOO_MANY > timed
    unit, most = limit

    def tell(place: int) -> Fault:
        cue = cues[place]
        speed = speed_of(cue)
        return Fault(
            message=f"cue {cue.number} asks for {speed:.1f} {unit}; at most {plain(most)} are wanted "
            f"({len(fast)} of {timed} cues are over it)",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=speed,
            severity="error" if severe else None,
        )

    return worst(fast, speeds.of, tell)


RULES = (
    Rule(
        "RATE_CPS",
        "warn",
        cps,
        "A cue has more characters a second than the limit; an error where over 10 % of at least 20 cues do.",
        threshold=20,
        unit="characters a second",
        also="error",
    ),
    Rule(
        "RATE_WPM",
        "warn",
        wpm,
        "A cue has more words a minute than the limit; an error where over 10 % of at least 20 cues do.",
        threshold=180,
        unit="words a minute",
        also="error",
    ),
)
