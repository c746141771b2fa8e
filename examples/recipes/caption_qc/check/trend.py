"""How a distance changes over time, whatever single points say of it.

Two models are held against the points. A line of repeated medians: each point's median slope to all others,
and the median of those, which nearly half of the points may spoil. And running medians, which keep a step
where it is, but lag behind a slope at both ends. Where the line leaves little of what the medians show, the
change is read off the line; else it is what the medians span.

Among few points two that lie close together would give the line any slope with what rounding puts between
them, and one that lies far away the weight of many. So there one that makes most of the spread, and to which the rest
does not lead, is left out first.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST_TO_JUDGE = 4  # Of so many one may be out of line and not be taken for a change.
_FEWEST_IN_LINE = 3  # Two points are always in line.
_MOST_FOR_A_LINE = 150  # All pairs of so many: 11,175.
_MANY = 20
_TIGHT = 8  # Through a step among few points a line may leave a sixth, and be a third too long.
_WINDOW = 3  # The fewest whose median one outlier can't be.
_LITTLE = 67.0  # Two frames, in milliseconds: what rounding alone may put between a point and the line.


class Match(NamedTuple):
    """A cue and its like in the reference, in milliseconds."""

    at: float
    """When the reference shows it."""
    distance: float
    """How much later the file does."""


class Trend(NamedTuple):
    """What became of the distance; all but the slope in milliseconds."""

    first: float
    last: float
    spread: float
    slope: float
    """Milliseconds a millisecond."""
    steady: bool | None
    """`None`: of so few points any may be out of line."""


class _Line(NamedTuple):
    slope: float
    level: float

    def at(self, time: float) -> float:
        return self.level + self.slope * time


def trend_of(matches: Sequence[Match]) -> Trend:
    """Judge two matches or more, in the order of their times."""
    matches = _without_outlier(matches)
    smooth = _smooth(matches)
    line = _line(matches if len(matches) <= _MOST_FOR_A_LINE else _some(smooth))
    left = [Match(match.at, match.distance - line.at(match.at)) for match in matches]
    spread, unexplained = _spread(smooth), _spread(_smooth(left))
    first, last = _ends(line, left)
    change = abs(last - first)
    steady = _is_steady(len(matches), unexplained, spread)
    if steady and _TIGHT * unexplained <= change:
        return Trend(first, last, max(spread, change), line.slope, steady)
    return Trend(smooth[0].distance, smooth[-1].distance, spread, line.slope, steady)


def _without_outlier(matches: Sequence[Match]) -> Sequence[Match]:
    """Leave out the one of few matches that makes most of what the distances span, if the rest does not lead there."""
    if not _FEWEST_TO_JUDGE <= len(matches) < _MANY:
        return matches
    by_distance = sorted(matches, key=lambda match: match.distance)
    without_first, without_last = sorted(by_distance[1:]), sorted(by_distance[:-1])
    rest, outlier = min(
        ((without_first, by_distance[0]), (without_last, by_distance[-1])), key=lambda pair: _spread(pair[0])
    )
    spread = _spread(matches)
    leads_there = 4 * abs(outlier.distance - _line(rest).at(outlier.at)) <= spread
    return matches if leads_there or 2 * _spread(rest) >= spread else rest


def _is_steady(count: int, unexplained: float, spread: float) -> bool | None:
    if count >= _FEWEST_TO_JUDGE:
        return 2 * unexplained <= spread
    # An outlier among three leaves half of itself to the line, so what is taken for one must leave less.
    return True if count == _FEWEST_IN_LINE and 4 * unexplained <= spread else None


def _ends(line: _Line, left: Sequence[Match]) -> tuple[float, float]:
    """Read the line at the first and last match near it: beyond them nothing says that it goes on."""
    near = max(_LITTLE, 4 * median(abs(match.distance) for match in left))
    times = [match.at for match in left if abs(match.distance) <= near]
    return line.at(times[0]), line.at(times[-1])


def _smooth(matches: Sequence[Match]) -> Sequence[Match]:
    """Take the median of each match and its neighbours: more of them the more there are."""
    if len(matches) < _FEWEST_TO_JUDGE:
        return matches
    reach = 1 if len(matches) < _MANY else 2
    windows = ((max(place - reach, 0), place + reach + 1) for place in range(len(matches)))
    last = len(matches) - _WINDOW
    return [
        Match(match.at, median(near.distance for near in matches[min(begin, last) : max(end, _WINDOW)]))
        for match, (begin, end) in zip(matches, windows, strict=True)
    ]


def _line(matches: Sequence[Match]) -> _Line:
    slopes = [median(to_others) for match in matches if (to_others := _slopes(match, matches))]
    slope = median(slopes) if slopes else 0.0
    return _Line(slope, median(match.distance - slope * match.at for match in matches))


def _slopes(match: Match, others: Sequence[Match]) -> list[float]:
    return [
        (other.distance - match.distance) / (other.at - match.at) for other in others if other.at != match.at
    ]


def _some(matches: Sequence[Match]) -> Sequence[Match]:
    return matches[:: -(-len(matches) // _MOST_FOR_A_LINE)]


def _spread(matches: Sequence[Match]) -> float:
    distances = [match.distance for match in matches]
    return max(distances) - min(distances)
