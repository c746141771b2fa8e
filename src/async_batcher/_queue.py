"""The row of forming batches.

Law: items leave in the order in which they came, each once, or not at all where its callers left first; and no batch
is larger or heavier than it may be.

A batch forms on admission. The row is some closed batches, to which nothing more is added as long as they form, and
the tail, which takes what comes. So a batch leaves without work per item. One with holes closes them when it leaves,
and is topped up from those behind it.

Nothing is counted per item: how many wait, and how many ever came, follow from the lengths of the lists.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from async_batcher._batch import Batch
from async_batcher._events import Present

if TYPE_CHECKING:
    from async_batcher._events import Reason
    from async_batcher._waiter import Crowd

_FEW_HOLES: Final = 32  # below this, closing holes at once costs more than carrying them


class Row:
    """The batches that form, oldest first.

    Mutable state: the closed batches, the tail, what all weigh, and two sums that make counting per item needless: one
    of them in `present`, with what else others need of the tail to count those who wait.
    """

    def __init__(
        self,
        size: int | None,
        max_weight: float | None = None,
        *,
        weighs: bool = False,
        present: Present | None = None,
    ) -> None:
        self.size = size
        self.weight: float = 0
        """Of all that wait, where they are weighed."""
        self._max_weight = max_weight
        self._weighs = weighs
        self._closed: OrderedDict[Batch, None] = OrderedDict()  # one may leave from the middle, when empty
        self._present = present or Present()
        self._gone = 0
        self.tail = Batch([] if self._weighs else None)
        self._show_tail()

    def places(self) -> int:
        """Items that wait now."""
        tail = self.tail
        return self._present.closed + len(tail.items) - tail.holes

    @property
    def appended(self) -> int:
        """Items that ever came."""
        return self._gone + len(self.tail.items)

    def first(self) -> tuple[float, bool]:
        """Say when the first item that waits came, and whether it was flushed. There must be one."""
        head = self._head()
        return head.oldest(), head.flushed

    def first_of(self, waiting: int) -> tuple[float, bool]:
        """As `first`, of the last so many items that wait; there must be as many."""
        batches = itertools.chain((self.tail,), reversed(self._closed))
        batch = next(batches)
        while waiting > batch.live:
            waiting -= batch.live
            batch = next(batches)
        return batch.came(batch.live - waiting), batch.flushed

    def behind(self, batches: int) -> tuple[int, float]:
        """Count and weigh what is left when so many batches have left. Where items are weighed, at most."""
        places, weight = self.places(), self.weight
        if not batches:
            return places, weight
        if self._max_weight is None:
            return (0 if self.size is None else max(0, places - batches * self.size)), weight
        left = max(
            0, len(self._closed) + 1 - batches
        )  # few: a full one is not left long while a slot is free
        rest = list(itertools.islice(itertools.chain((self.tail,), reversed(self._closed)), left))
        return sum(batch.live for batch in rest), sum(sum(batch.weights or ()) for batch in rest)

    def _head(self) -> Batch:
        return next(iter(self._closed)) if self._closed else self.tail

    def append(self, item: object, seat: object, now: float, weight: float = 0) -> Batch:
        """Give `item` a place at the end, and return the batch in which it sits."""
        batch = self.tail
        if self._max_weight is not None and batch.weight + weight > self._max_weight and batch.items:
            self.close_tail()
            batch = self.tail
        if batch.weights is not None:
            batch.weight, self.weight = batch.weight + weight, self.weight + weight
            batch.weights.append(weight)
        batch.items.append(item)
        batch.waiters.append(seat)
        batch.times.append(now)
        if len(batch.items) - batch.holes == self.size:
            self.close_tail()
        return batch

    def pass_by(self, item: object, seat: object, now: float, reason: Reason) -> Batch:
        """Make a batch of one item, which leaves as it comes; nothing may wait."""
        batch = Batch()
        batch.items.append(item)
        batch.waiters.append(seat)
        batch.times.append(now)
        batch.taken_at = now
        batch.reason = reason
        self._gone += 1
        return batch

    def extend(self, items: list[Any], crowd: Crowd, now: float) -> Batch:
        """Give items that come together, and have no weight, places at the end of one batch, which must have room."""
        batch = self.tail
        batch.items += items
        batch.waiters += crowd.seats
        batch.times += itertools.repeat(now, len(items))
        batch.crowds = (*batch.crowds, crowd)
        if len(batch.items) - batch.holes == self.size:
            self.close_tail()
        return batch

    def close_tail(self) -> None:
        """Have what comes from now on form another batch."""
        batch = self.tail
        live = len(batch.items) - batch.holes
        if live:
            self._closed[batch] = None
            self._present.closed += live
        self._new_tail()

    def flush(self) -> None:
        """Mark what waits now: it need not wait for company any more."""
        self.close_tail()
        for batch in reversed(self._closed):
            if batch.flushed:
                break
            batch.flushed = True

    def discard(self, batch: Batch, seat: object) -> bool:
        """Take out the item of `seat`, which came into `batch`, and say whether it still waited."""
        if batch.taken_at is not None or (weight := batch.vacate(seat)) is None:
            return False
        if batch is self.tail:
            if batch.holes > batch.live + _FEW_HOLES or not batch.live:
                self._gone += batch.close_holes()
            self._show_tail()
        else:
            self._present.closed -= 1
            if not batch.live:
                del self._closed[batch]
        self._lighten(weight)
        return True

    def take(self, now: float, reason: Reason) -> Batch:
        """Take the first batch out, topped up from those behind it."""
        batch = self._head()
        self._remove(batch, now)
        if len(batch.items) != self.size and self.places():
            self._top_up(batch)
        if batch.weights is not None:
            self._lighten(batch.weight)
        batch.reason = self._limit_reached(batch) or reason
        return batch

    def clear(self, now: float) -> list[Batch]:
        """Take everything out, as it stands."""
        batches = [batch for batch in (*self._closed, self.tail) if batch.live]
        for batch in batches:
            self._remove(batch, now)
        self.weight = 0
        return batches

    # Helpers

    def _lighten(self, weight: float) -> None:
        # Floats drift by what is added and taken away again; an empty row weighs nothing.
        self.weight = self.weight - weight if self.places() else 0

    def _limit_reached(self, batch: Batch) -> Reason | None:
        if batch.live == self.size:
            return "full"
        if self._max_weight is not None and (self.places() or batch.weight >= self._max_weight):
            return "weight"
        return None

    def _remove(self, batch: Batch, now: float) -> None:
        if batch is self.tail:
            self._new_tail()
        else:
            del self._closed[batch]
            self._present.closed -= len(batch.items) - batch.holes
        batch.taken_at = now
        if batch.holes:
            batch.close_holes()

    def _new_tail(self) -> None:
        self._gone += len(self.tail.items)
        self.tail = Batch([] if self._weighs else None)
        self._show_tail()

    def _show_tail(self) -> None:
        self._present.times, self._present.holes = self.tail.times, self.tail.holes

    def _top_up(self, batch: Batch) -> None:
        while self.places():
            source = self._head()
            closed = source.close_holes()
            count = self._fitting(batch, source)
            if count:
                source.give(batch, count)
            if source is self.tail:
                self._gone += closed + count
                self._show_tail()
            else:
                self._present.closed -= count
                if not source.live:
                    del self._closed[source]
            if source.live:
                return

    def _fitting(self, batch: Batch, source: Batch) -> int:
        """Count the items of `source`, from its first, that `batch` has room for."""
        room = source.live if self.size is None else min(source.live, self.size - batch.live)
        if self._max_weight is None or source.weights is None:
            return room
        weight = batch.weight
        for place, more in enumerate(itertools.islice(source.weights, room)):
            weight += more
            if weight > self._max_weight:
                return place
        return room
