"""The row of forming batches: places, holes, and who sits where.

Law: items leave in the order in which they came, each once, or not at all where its caller left first.

A batch forms on admission. The row is some closed batches, which have their full size, and the tail, which takes
what comes. So a batch leaves without work per item. An item whose caller leaves early becomes a hole; a batch
with holes closes them when it leaves, and is topped up from those behind it. Where a waiter sits is looked up in
an index, which a batch builds at its first withdrawal; most batches never have one.

Nothing is counted per item: how many wait, and how many ever came, follow from the lengths of the lists.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from async_batcher._events import Reason
    from async_batcher._waiter import Waiter

_HOLE: Final = None
_FEW_HOLES: Final = 32  # below this, closing holes at once costs more than carrying them

_NOBODY: Final[MutableMapping[Any, Any]] = WeakKeyDictionary()  # of all the batches that never gave any away


class Batch:
    """Items that leave the queue together, and those who wait for them: three parallel lists.

    Mutable state: the lists and `holes` while it forms; `reason`, `taken_at`, `begun` and `dropped` as it leaves.
    """

    __slots__ = (
        "_first",
        "_indexed",
        "_places",
        "begun",
        "dropped",
        "forsaken",
        "holes",
        "items",
        "moved",
        "reason",
        "taken_at",
        "times",
        "waiters",
    )

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.waiters: list[Waiter | None] = []
        self.times: list[float] = []
        self.holes = 0
        self._places: dict[Waiter | None, int] = {}
        self._indexed = 0
        self._first = 0
        self.moved: MutableMapping[Waiter, Batch] = _NOBODY
        """Where those went who topped up an earlier batch. Weak, or it would keep their results."""
        self.reason: Reason = "due"
        self.taken_at: float | None = None
        self.begun = False
        self.forsaken: set[Waiter] = set()
        """Those who are counted as stopped though nobody could tell them."""
        self.dropped: set[Waiter] = set()
        """Those whose item never reached the processor though it had left the row, and who are counted."""

    @property
    def live(self) -> int:
        """Places with an item."""
        return len(self.items) - self.holes

    @property
    def oldest(self) -> float:
        """When the first item that is still here came. There must be one."""
        while self.waiters[self._first] is None:
            self._first += 1
        return self.times[self._first]

    def came(self, place: int) -> float:
        """Say when the item at this place came, counted from 0 and without holes."""
        times = [time for time, waiter in zip(self.times, self.waiters, strict=True) if waiter is not None]
        return times[place]

    @property
    def callers(self) -> list[Waiter]:
        """Those who sit in it, in order."""
        return [waiter for waiter in self.waiters if waiter is not None]

    def append(self, item: object, waiter: Waiter, now: float) -> None:
        """Give `item` the next place."""
        self.items.append(item)
        self.waiters.append(waiter)
        self.times.append(now)

    def vacate(self, waiter: Waiter) -> bool:
        """Make a hole where `waiter` sits, and say whether it sat here."""
        unknown = range(self._indexed, len(self.waiters))
        self._places.update((self.waiters[place], place) for place in unknown)
        self._indexed = len(self.waiters)
        place = self._places.pop(waiter, -1)
        if place < 0:
            return False
        self.items[place] = _HOLE
        self.waiters[place] = None
        self.holes += 1
        return True

    def close_holes(self) -> int:
        """Move the items together, and return how many holes there were."""
        return self.keep([waiter is not None for waiter in self.waiters]) if self.holes else 0

    def keep(self, wanted: list[bool]) -> int:
        """Keep the places that are wanted, and return how many went."""
        before = len(self.items)
        self.items = [item for item, want in zip(self.items, wanted, strict=True) if want]
        self.waiters = [waiter for waiter, want in zip(self.waiters, wanted, strict=True) if want]
        self.times = [time for time, want in zip(self.times, wanted, strict=True) if want]
        self.holes = 0
        self._forget_places()
        return before - len(self.items)

    def give(self, other: Batch, count: int) -> None:
        """Move the first `count` places, which have no holes among them, to the end of `other`."""
        self.moved = WeakKeyDictionary(self.moved)
        self.moved.update(dict.fromkeys(self.callers[:count], other))
        for mine, theirs in (
            (self.items, other.items),
            (self.waiters, other.waiters),
            (self.times, other.times),
        ):
            theirs.extend(mine[:count])  # type: ignore[arg-type]  # parallel lists of three types
            del mine[:count]
        self._forget_places()

    def forget(self) -> None:
        """Let go of the items and of those who waited for them."""
        self.items, self.waiters, self.times = [], [], []
        self.holes = 0
        self._forget_places()

    def _forget_places(self) -> None:
        self._places = {}
        self._indexed = self._first = 0


class Row:
    """The batches that form, oldest first.

    Mutable state: the closed batches, the tail, and two sums that make counting per item needless.
    """

    __slots__ = ("_closed", "_gone", "_in_closed", "size", "tail")

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.tail = Batch()
        self._closed: OrderedDict[Batch, None] = (
            OrderedDict()
        )  # a batch may leave from the middle, when empty
        self._in_closed = 0
        self._gone = 0

    @property
    def places(self) -> int:
        """Items that wait now."""
        tail = self.tail
        return self._in_closed + len(tail.items) - tail.holes

    @property
    def appended(self) -> int:
        """Items that ever came."""
        return self._gone + len(self.tail.items)

    def came(self, place: int) -> float:
        """Say when the item at this place came, counted from 0 and without holes. There must be one."""
        if not place:
            return self._head.oldest
        behind = self.places - place  # from the end, where those are who are asked for
        batches = itertools.chain((self.tail,), reversed(self._closed))
        batch = next(batches)
        while behind > batch.live:
            behind -= batch.live
            batch = next(batches)
        return batch.came(batch.live - behind)

    @property
    def _head(self) -> Batch:
        return next(iter(self._closed)) if self._closed else self.tail

    def append(self, item: object, waiter: Waiter, now: float) -> Batch:
        """Give `item` a place at the end, and return the batch in which it sits."""
        batch = self.tail
        batch.append(item, waiter, now)
        if batch.live == self.size:
            self._closed[batch] = None
            self._in_closed += batch.live
            self._new_tail()
        return batch

    def discard(self, batch: Batch, waiter: Waiter) -> bool:
        """Take out the item of `waiter`, which came into `batch`, and say whether it still waited."""
        if batch.taken_at is not None or not batch.vacate(waiter):
            return False
        if batch is self.tail:
            if batch.holes > batch.live + _FEW_HOLES or not batch.live:
                self._gone += batch.close_holes()
            return True
        self._in_closed -= 1
        if not batch.live:
            del self._closed[batch]
        return True

    def take(self, now: float, reason: Reason) -> Batch:
        """Take the first batch out, topped up from those behind it."""
        batch = self._head
        self._remove(batch)
        batch.taken_at = now
        batch.reason = reason
        batch.close_holes()
        self._top_up(batch)
        return batch

    def clear(self, now: float) -> list[Batch]:
        """Take everything out, as it stands."""
        batches = [batch for batch in (*self._closed, self.tail) if batch.live]
        for batch in batches:
            self._remove(batch)
            batch.taken_at = now
            batch.close_holes()
        return batches

    def _remove(self, batch: Batch) -> None:
        if batch is self.tail:
            self._new_tail()
        else:
            del self._closed[batch]
            self._in_closed -= batch.live

    def _new_tail(self) -> None:
        self._gone += len(self.tail.items)
        self.tail = Batch()

    def _top_up(self, batch: Batch) -> None:
        while self.places and self.size is not None and (room := self.size - batch.live):
            source = self._head
            count = min(room, source.live)
            closed = source.close_holes()
            source.give(batch, count)
            if source is self.tail:
                self._gone += closed + count
            else:
                self._in_closed -= count
                if not source.live:
                    del self._closed[source]
