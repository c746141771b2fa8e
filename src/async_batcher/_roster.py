"""Which keys have a batcher, which of those are at rest, and the counts of those that are gone.

Law: a batcher is let go only when nothing waits, stands in line or runs in it and nobody is on the way in, so that
no key has two that work; and of one that is gone only its counts are kept, added to the others', so that nothing
here grows with the keys ever seen.

A group is in use from the moment in which an item's key is looked up, before it is admitted, until its batcher has
come to rest. Those at rest stand in the order in which they came to it.

How much waits in all of them is counted anew only in those in which it may have changed: each item that is sent, and
each time that a batcher acts, makes one such group at most, so that a count costs an item the same however many
groups there are.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from async_batcher._events import BatcherStats
from async_batcher._results import R

if TYPE_CHECKING:
    from collections.abc import Hashable

    from async_batcher._batcher import AsyncBatcher
    from async_batcher._running import Runner

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")

_counts: Final = operator.attrgetter(*(field.name for field in dataclasses.fields(BatcherStats)))


class Group(Generic[K, T, R]):
    """One key and its batcher.

    Mutable state: `in_use`, how much waited in it when that was counted last, and whether that may have changed.
    """

    __slots__ = ("batcher", "changed", "counted", "in_use", "key", "runner")

    def __init__(self, key: K, batcher: AsyncBatcher[T, R], runner: Runner) -> None:
        self.key = key
        self.batcher = batcher
        self.runner = runner
        self.in_use = True
        self.counted = 0
        self.changed = False

    @property
    def settled(self) -> bool:
        """Whether nothing goes on in it, and its counts are final.

        A caller who was cancelled while its batch ran is counted as running until its task has had its turn.
        """
        collector = self.runner.collector
        return collector.idle and not collector.stats().running


class Roster(Generic[K, T, R]):
    """The groups that are alive.

    Mutable state: the groups, since when those at rest are, what waits in all of them as far as it has been
    counted, the groups in which that may have changed since, and the counts of those that are gone.
    """

    __slots__ = ("_changed", "_counted", "_gone", "_resting", "alive")

    def __init__(self) -> None:
        self.alive: dict[K, Group[K, T, R]] = {}
        self._resting: OrderedDict[Group[K, T, R], float] = OrderedDict()
        self._counted = 0
        self._changed: set[Group[K, T, R]] = set()
        self._gone = BatcherStats(*(0 for _ in dataclasses.fields(BatcherStats)))

    @property
    def rest_began(self) -> float | None:
        """Since when the group rests that has rested for longest; `None` where none does."""
        return next(iter(self._resting.values()), None)

    def rest(self, group: Group[K, T, R], now: float) -> None:
        """Note that a group that was in use has come to rest."""
        group.in_use = False
        self._resting[group] = now

    def rest_all(self, now: float) -> None:
        """Let every group begin its rest now, by another event loop's clock; who rested first stays first."""
        for group in self.alive.values():
            self.rest(group, now)

    def use(self, group: Group[K, T, R]) -> None:
        """Note that a group that was at rest is in use again."""
        group.in_use = True
        del self._resting[group]

    def let_go(self, now: float, *, rested: float) -> bool:
        """Let go of the group that has rested for longest, if that is for so many seconds now.

        One whose counts are not final is passed over: it comes to rest anew when they are.

        Returns:
            Whether there was one.
        """
        while self._resting:
            group, began = next(iter(self._resting.items()))
            if began + rested > now:
                return False
            if group.settled:
                self._remove(group)
                return True
            self.use(group)
        return False

    def changed(self, group: Group[K, T, R]) -> None:
        """Note that what waits in this group may be more or less than when it was counted last."""
        group.changed = True
        self._changed.add(group)

    def waiting(self) -> int:
        """Count the places that are taken in all queues together, anew only where that may have changed."""
        for group in self._changed:
            waiting = group.runner.collector.places
            self._counted += waiting - group.counted
            group.counted = waiting
            group.changed = False
        self._changed.clear()
        return self._counted

    def stats(self) -> BatcherStats:
        """Return the counts of all groups together, of those that are gone too."""
        alive = list(self.alive.values())  # at one blow: a thread of metrics may ask while keys come and go
        return _total(self._gone, *(group.batcher.stats() for group in alive))

    def _remove(self, group: Group[K, T, R]) -> None:
        del self._resting[group], self.alive[group.key]
        self._changed.discard(group)
        self._counted -= group.counted  # where it was not counted since it came to rest
        self._gone = _total(self._gone, group.batcher.stats())
        group.runner.on_act = None  # a circle: it has this group
        group.runner.rest()


def _total(first: BatcherStats, *others: BatcherStats) -> BatcherStats:
    return BatcherStats(*map(sum, zip(*map(_counts, (first, *others)), strict=True)))
