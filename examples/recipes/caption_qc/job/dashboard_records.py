"""A window's records as the dashboards count them: one look at all of them, and which are the worst.

Counts are true: of a rule that a report doesn't list whole, its last finding says how many there were. A record
has its counts beside it; only where it has not are its findings looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from math import floor, inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from examples.recipes.caption_qc.check.report import Severity
from examples.recipes.caption_qc.check.tally import COUNTED

from .dashboard_state import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .ledger import Ledger
    from .recording import Key

MOST_ASSETS: Final = 10_000
MOST_PROFILES: Final = 100
SPEED_WIDTH: Final = 1
SPEED_BINS: Final = 40
WORST_FIRST: Final = get_args(Severity)[::-1]
_STATUSES: Final = ("error", "fail", "warn", "pass")


class Worst(NamedTuple):
    """One record, in the order of the dashboards: what weighs most is the least."""

    status: int
    errors: int
    warns: int
    infos: int
    asset_id: str
    content_sha256: str
    profile_sha256: str
    queue: str
    listed: int
    """How many findings the ledger has of it."""
    superseded: bool
    """Whether the file was delivered again, with other bytes, and checked since."""

    @property
    def key(self) -> Key:
        """What names the record."""
        return self.queue, self.asset_id, self.content_sha256, self.profile_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What all records of a window add up to."""

    totals: dict[str, int]
    superseded: dict[str, int]
    """Of these, those whose file was delivered again and checked since."""
    profiles: Sequence[dict[str, Any]]
    rules: Sequence[dict[str, Any]]
    speeds: Mapping[int | None, int]
    """Records by the bin of their reading speed; `None`: it is unknown."""
    over: int | None
    """Records whose speed is over what the run's profile allows."""
    worst: Sequence[Worst]


class RuleCount(NamedTuple):
    """How often a record has a rule in one severity."""

    rule: str
    severity: str
    found: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What a record's findings add up to."""

    listed: int
    """How many the ledger has."""
    rules: Sequence[RuleCount]


def survey(ledger: Ledger, window: int | None, threshold: float | None) -> Surveyed:
    """Look at all records of a window once; the ledger has to be trusted meanwhile."""
    counting = _Counting(ledger, inf if threshold is None else threshold)
    worst = nsmallest(MOST_ASSETS, counting.records(window))
    return Surveyed(
        totals=counted(counting.statuses),
        superseded=counted(counting.superseded),
        profiles=counting.most_used(),
        rules=counting.broken(),
        speeds=counting.speeds,
        over=None if threshold is None else counting.over,
        worst=worst,
    )


def tally_of(ledger: Ledger, key: Key, kept: str | None) -> Tally:
    """Read a record's tally as it was kept, or count its findings."""
    if kept is None:
        return _counted(ledger, key)
    listed, rules = json.loads(kept)
    return Tally(int(listed), [RuleCount(*rule) for rule in rules])


def _counted(ledger: Ledger, key: Key) -> Tally:
    rows = ledger.read(_RULES, (COUNTED, COUNTED, *key)).fetchall()
    here: Counter[str] = Counter()
    for rule, _, listed, *_ in rows:
        here[rule] += listed
    rules = [
        RuleCount(rule, severity, listed if total is None else listed + int(total) - here[rule])
        for rule, severity, listed, total, _ in rows
    ]
    return Tally(sum(row[-1] for row in rows), rules)


def by_severity(rules: Sequence[RuleCount]) -> dict[str, int]:
    """Add up what was found, worst severity first."""
    return {name: sum(one.found for one in rules if one.severity == name) for name in WORST_FIRST}


class _Counting:
    """Counts records while they are looked at. Mutable state: all of it."""

    def __init__(self, ledger: Ledger, threshold: float) -> None:
        self._ledger = ledger
        self._threshold = threshold
        self.statuses: Counter[str] = Counter()
        self.superseded: Counter[str] = Counter()
        self.over = 0
        self.speeds: Counter[int | None] = Counter()
        self._profiles: Counter[tuple[str, str]] = Counter()
        self._found: Counter[tuple[str, str]] = Counter()
        self._files: Counter[tuple[str, str]] = Counter()
        self._last_file: dict[tuple[str, str], tuple[str, str]] = {}
        self._digests: dict[str, str] = {}

    def records(self, window: int | None) -> Iterator[Worst]:
        """Count each record and weigh it; those of one file come one after the other."""
        for *key, status, profile, p95, kept, superseded in self._ledger.read(_RECORDS, (window,)):
            queue, asset_id, content, judged_by = key
            self.statuses[status] += 1
            self.superseded[status] += superseded
            self.over += p95 is not None and p95 > self._threshold
            self._profiles[profile, judged_by] += 1
            self.speeds[_bin_of(p95)] += 1
            tally = tally_of(self._ledger, (queue, asset_id, content, judged_by), kept)
            self._count_rules(tally.rules, (queue, asset_id))
            errors, warns, infos = by_severity(tally.rules).values()
            # Of ten thousand records each digest of a profile is one string.
            digest = self._digests.setdefault(judged_by, judged_by)
            weight = (_STATUSES.index(status), -errors, -warns, -infos)
            yield Worst(*weight, asset_id, content, digest, queue, tally.listed, bool(superseded))

    def _count_rules(self, rules: Sequence[RuleCount], file: tuple[str, str]) -> None:
        for rule, severity, count in rules:
            self._found[rule, severity] += count
            if self._last_file.get((rule, severity)) != file:
                self._last_file[rule, severity] = file
                self._files[rule, severity] += 1

    def most_used(self) -> list[dict[str, Any]]:
        """List the profiles that most records have."""
        most = sorted(self._profiles.items(), key=lambda one: (-one[1], one[0]))[:MOST_PROFILES]
        return [{"name": name, "sha256": digest, "assets": count} for (name, digest), count in most]

    def broken(self) -> list[dict[str, Any]]:
        """List the rules, what matters most first."""
        rules = [
            {"rule": rule, "severity": severity, "count": count, "assets": self._files[rule, severity]}
            for (rule, severity), count in self._found.items()
        ]
        return sorted(rules, key=_weight)


def _weight(rule: dict[str, Any]) -> tuple[int, int, str]:
    return WORST_FIRST.index(rule["severity"]), -rule["count"], rule["rule"]


def _bin_of(speed: float | None) -> int | None:
    return None if speed is None else min(floor(speed / SPEED_WIDTH), SPEED_BINS)


_RECORDS: Final = """
SELECT queue, asset_id, content_sha256, profile_sha256, status, profile, p95_cps, tally, EXISTS (
    SELECT 1 FROM assets now
    WHERE now.queue = r.queue AND now.asset_id = r.asset_id AND now.content_sha256 != r.content_sha256
    AND now.state IN ('done', 'dead'))
FROM records r WHERE window_start = ? ORDER BY queue, asset_id, content_sha256, profile_sha256
"""
_RULES: Final = """
SELECT rule, severity, SUM(unit IS NOT ?), MAX(CASE WHEN unit = ? THEN measured END), COUNT(*) FROM findings
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ? GROUP BY rule, severity
"""
