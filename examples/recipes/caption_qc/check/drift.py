"""Drift: how a file's distance from a reference track changes while it runs.

Cues are matched by their letters and digits, those that each track has once. A distance that stays the same
is no drift: the reference may count from another hour. A steady rate shows as a slope, a lost reel as a
step; one cue that was moved for a cut tells nothing, and where too few match to know it for one, that is
noted and no drift is found.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault
from examples.recipes.caption_qc.check.limits import exact
from examples.recipes.caption_qc.check.reference import Moment
from examples.recipes.caption_qc.check.report import Drift
from examples.recipes.caption_qc.check.rule import Rule
from examples.recipes.caption_qc.check.trend import Match, trend_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.rule import Subject

_AN_HOUR = 3_600_000  # In milliseconds.
_FEWEST = 2  # With one match there is nothing that could change.
_A_NANOSECOND = 6  # Decimals of a millisecond; what binary fractions add is less.
_A_THOUSANDTH = 3600  # Milliseconds an hour.


def drift_of(cues: Iterable[Cue], reference: Iterable[Moment]) -> Drift:
    """Compare a file's cues with a reference."""
    ours = [Moment(cue.start * 1000, " ".join(row.text for row in cue.rows)) for cue in cues]
    matches = _matches(ours, reference)
    if len(matches) < _FEWEST:
        return Drift(matched=len(matches))
    trend = trend_of(matches)
    return Drift(
        matched=len(matches),
        first_ms=_rounded(trend.first),
        last_ms=_rounded(trend.last),
        spread_ms=_rounded(trend.spread),
        ms_an_hour=_rounded(trend.slope * _AN_HOUR),
        steady=trend.steady,
    )


def untold(drift: Drift, limit: float) -> str | None:
    """Say that too few cues match to tell whether the distance drifts, where it may."""
    if not _is_over(drift, limit) or drift.steady is not None:
        return None
    return (
        f"cues that match the reference: {drift.matched}, too few to tell drift from a cue that was moved; "
        f"their distances differ by {(drift.spread_ms or 0) / 1000:.3f} s"
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
    elif _is_over(drift, limit) and drift.steady is not None:
        yield Fault(message=_told(drift), measured=drift.spread_ms / 1000)


def _is_over(drift: Drift, limit: float) -> bool:
    return drift.spread_ms is not None and exact(drift.spread_ms) > exact(limit) * 1000


def _rounded(number: float) -> float:
    return round(number, _A_NANOSECOND) + 0.0  # A zero is one that has no sign.


def _told(drift: Drift) -> str:
    first, last, rate = drift.first_ms or 0, drift.last_ms or 0, drift.ms_an_hour or 0
    how = f"by {rate / 1000:+z.1f} s an hour" if drift.steady else "in steps"
    hint = (
        "; one of the two may count drop-frame and the other not"
        if drift.steady and 0.9 < abs(rate) / _A_THOUSANDTH < 1.1  # noqa: PLR2004 - a tenth off is still that
        else ""
    )
    return (
        f"the file drifts from the reference {how}: {first / 1000:+z.3f} s at the first and "
        f"{last / 1000:+z.3f} s at the last of {drift.matched} cues that match{hint}"
    )


def _matches(ours: Sequence[Moment], theirs: Iterable[Moment]) -> list[Match]:
    here, there = _once(ours), _once(theirs)
    return sorted(Match(there[key], here[key] - there[key]) for key in here.keys() & there.keys())


def _once(moments: Iterable[Moment]) -> dict[str, float]:
    """Take the texts that a track has once; what has no letter or digit (music) says nothing."""
    keyed = [("".join(filter(str.isalnum, text.casefold())), time) for time, text in moments]
    counts = Counter(key for key, _ in keyed)
    return {key: time for key, time in keyed if key and counts[key] == 1}


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
