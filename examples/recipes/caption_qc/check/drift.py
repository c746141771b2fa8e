"""Drift: how a file's distance from a reference track changes while it runs.

Cues are matched by their letters and digits, those that each track has once. A distance that stays the same
is no drift: the reference may count from another hour. It is smoothed by running medians, so that one cue
that was moved for a cut tells nothing; a steady rate shows as a slope, a lost reel as a step.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.faults import Fault
from examples.recipes.caption_qc.check.reference import Moment
from examples.recipes.caption_qc.check.report import Drift
from examples.recipes.caption_qc.check.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.rule import Subject

_AN_HOUR = 3_600_000  # In milliseconds.
_FEWEST = 2  # With one match there is nothing that could change.
_MOST_FOR_A_SLOPE = 150  # All pairs of so many: 11,175.
_A_THOUSANDTH = 3600  # Milliseconds an hour.


class Match(NamedTuple):
    """A cue and its like in the reference, in milliseconds."""

    at: float
    """When the reference shows it."""
    distance: float
    """How much later the file does."""


def drift_of(cues: Iterable[Cue], reference: Iterable[Moment]) -> Drift:
    """Compare a file's cues with a reference."""
    ours = [Moment(cue.start * 1000, " ".join(row.text for row in cue.rows)) for cue in cues]
    matches = _matches(ours, reference)
    if len(matches) < _FEWEST:
        return Drift(matched=len(matches))
    smooth = _smooth(matches)
    distances = [match.distance for match in smooth]
    slope = _slope(smooth)
    level = [match.distance - slope * match.at for match in smooth]
    spread = max(distances) - min(distances)
    return Drift(
        matched=len(matches),
        first_ms=distances[0],
        last_ms=distances[-1],
        spread_ms=spread,
        ms_an_hour=slope * _AN_HOUR,
        steady=2 * (max(level) - min(level)) <= spread,
    )


def find(subject: Subject, limit: float) -> Iterator[Fault]:
    """DRIFT: the distance from the reference changes by more than the limit, or nothing matches."""
    drift = subject.drift
    if drift is None:
        return
    if drift.spread_ms is None:
        if len(subject.cues) >= _FEWEST:
            yield Fault(
                message=f"cues that match the reference: {drift.matched}; drift can't be told, "
                "so see whether it is of this programme",
                measured=drift.matched,
                threshold=_FEWEST,
                unit="cues",
            )
    elif drift.spread_ms > limit * 1000:
        yield Fault(message=_told(drift), measured=drift.spread_ms / 1000)


def _told(drift: Drift) -> str:
    first, last, rate = drift.first_ms or 0, drift.last_ms or 0, drift.ms_an_hour or 0
    how = f"by {rate / 1000:+.1f} s an hour" if drift.steady else "in steps"
    hint = (
        "; one of the two may count drop-frame and the other not"
        if drift.steady and 0.9 < abs(rate) / _A_THOUSANDTH < 1.1  # noqa: PLR2004 - a tenth off is still that
        else ""
    )
    return (
        f"the file drifts from the reference {how}: {first / 1000:+.3f} s at the first and "
        f"{last / 1000:+.3f} s at the last of {drift.matched} cues that match{hint}"
    )


def _matches(ours: Sequence[Moment], theirs: Iterable[Moment]) -> list[Match]:
    here, there = _once(ours), _once(theirs)
    return sorted(Match(there[key], here[key] - there[key]) for key in here.keys() & there.keys())


def _once(moments: Iterable[Moment]) -> dict[str, float]:
    """Take the texts that a track has once; what has no letter or digit (music) says nothing."""
    keyed = [("".join(filter(str.isalnum, text.casefold())), time) for time, text in moments]
    counts = Counter(key for key, _ in keyed)
    return {key: time for key, time in keyed if key and counts[key] == 1}


def _smooth(matches: Sequence[Match]) -> list[Match]:
    """Take the median of each match and its neighbours: more of them the more there are."""
    reach = min(len(matches) // 10, 2)
    return [
        Match(match.at, median(near.distance for near in matches[max(place - reach, 0) : place + reach + 1]))
        for place, match in enumerate(matches)
    ]


def _slope(matches: Sequence[Match]) -> float:
    """Give the median of the slopes between all pairs (Theil-Sen), of an even selection where there are many."""
    step = -(-len(matches) // _MOST_FOR_A_SLOPE)
    pairs = combinations(matches[::step], 2)
    slopes = [(b.distance - a.distance) / (b.at - a.at) for a, b in pairs if b.at > a.at]
    return median(slopes) if slopes else 0.0


RULES = (
    Rule(
        "DRIFT",
        "error",
        find,
        "The distance from a reference track changes over the file by more than the limit, or no cues match it.",
        threshold=0.5,
        unit="seconds",
    ),
)
