"""The rules of reading speed: how many characters a second, and words a minute, a cue asks of its reader.

A cue's characters are its printing ones and the spaces within its rows, its words what spaces and rows part.
They are read while it is on screen; a roll-up cue is the row of one carriage return. A cue whose end is
unknown has no speed. One fast cue is a warning; it is an error where over a tenth of at least twenty are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.cue_rules import frames_of
from examples.recipes.caption_qc.check.faults import Fault, each
from examples.recipes.caption_qc.check.limits import A_SECOND, exact
from examples.recipes.caption_qc.check.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.rule import Subject

_ENOUGH_CUES = 20
_TOO_MANY = 10  # One in so many.
_A_MINUTE = 60


def characters(cue: Cue) -> int:
    """Count the printing characters and the spaces within rows."""
    return sum([len(row.text) for row in cue.rows])


def words(cue: Cue) -> int:
    """Count what spaces and rows part."""
    return sum([len(row.text.split()) for row in cue.rows])


def cps_of(cue: Cue) -> float | None:
    """Say how many characters a second a cue asks for; `None` where its time is unknown."""
    return _CHARACTERS.speed(cue)


def wpm_of(cue: Cue) -> float | None:
    """Say how many words a minute a cue asks for; `None` where its time is unknown."""
    return _WORDS.speed(cue)


@dataclass(frozen=True, slots=True)
class _Measure:
    """What is counted, over how many seconds, and its unit in words."""

    count: Callable[[Cue], int]
    seconds: int
    unit: str

    def speed(self, cue: Cue) -> float | None:
        frames = frames_of(cue)
        return self.count(cue) * self.seconds * 30000 / (frames * 1001) if frames else None

    def faster_than(self, limit: float, cues: Iterable[Cue]) -> Iterator[Cue]:
        """Pick the cues that are over the limit, in whole numbers."""
        allowed = exact(limit) / (self.seconds * A_SECOND)
        count, most, per = self.count, allowed.numerator, allowed.denominator
        return (cue for cue in cues if count(cue) * per > most * frames_of(cue))

    def find(self, subject: Subject, limit: float) -> Iterator[Fault]:
        measured = sum(map(bool, map(frames_of, subject.cues)))
        fast = list(self.faster_than(limit, timed(subject.cues)))
        severe = measured >= _ENOUGH_CUES and len(fast) * _TOO_MANY > measured

        def tell(cue: Cue) -> Fault:
            speed = self.speed(cue)
            return Fault(
                message=f"cue {cue.number} asks for {speed:.1f} {self.unit}; at most {limit:g} are wanted "
                f"({len(fast)} of {measured} cues are over it)",
                place=subject.track.place_of(cue),
                cue=cue.number,
                measured=speed,
                severity="error" if severe else None,
            )

        return each(fast, tell)


_CHARACTERS = _Measure(characters, 1, "characters a second")
_WORDS = _Measure(words, _A_MINUTE, "words a minute")


def timed(cues: Iterable[Cue]) -> Iterator[Cue]:
    """Pick the cues that are on screen for a known time."""
    return (cue for cue in cues if frames_of(cue))


def cps(subject: Subject, limit: float) -> Iterator[Fault]:
    """RATE_CPS: more characters a second than the limit."""
    return _CHARACTERS.find(subject, limit)


def wpm(subject: Subject, limit: float) -> Iterator[Fault]:
    """RATE_WPM: more words a minute than the limit."""
    return _WORDS.find(subject, limit)


def share_over(cues: Sequence[Cue], limit: float) -> float | None:
    """Say how great a share of the cues of known time is over so many characters a second."""
    measured = sum(map(bool, map(frames_of, cues)))
    return sum(1 for _ in _CHARACTERS.faster_than(limit, timed(cues))) / measured if measured else None


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
