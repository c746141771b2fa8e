"""One batch as it forms, and who sits where in it: places, holes, sharers, crowds.

Law: what is in one of its lists at one place is of one item; who has left is found in none of them.

An item whose caller leaves early becomes a hole; holes are closed when the batch leaves. Where a waiter sits is looked
up in an index, which is built at the first withdrawal; most batches never have one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from collections.abc import Hashable, MutableMapping, Sequence
    from collections.abc import Set as AbstractSet

    from async_batcher._events import Reason
    from async_batcher._waiter import Crowd, Waiter

_HOLE: Final = None
_NONE: Final[AbstractSet[Any]] = frozenset()
NOBODY: Final[MutableMapping[Any, Any]] = WeakKeyDictionary()  # of all the batches that never gave any away


class Sharers:
    """Callers whose items are equal, in one place: it is settled as one waiter, and each of them gets the outcome.

    Mutable state: the callers, in the order in which they came.
    """

    __slots__ = ("__weakref__", "batch", "callers", "key")

    def __init__(self, key: Hashable, first: Waiter) -> None:
        self.key: Hashable = key
        self.callers: dict[Waiter, None] = {first: None}
        self.batch: Batch
        """Where they sit; set when they get their place."""

    def done(self) -> bool:
        """Say whether nobody waits any more."""
        return all(waiter.done() for waiter in self.callers)


class Batch:
    """Items that leave the queue together, and those who wait for them: parallel lists.

    Mutable state: the lists, `holes` and `weight` while it forms; the rest as it leaves. What is seldom needed is
    made when it is.
    """

    __slots__ = (
        "__weakref__",
        "_first",
        "_indexed",
        "_places",
        "begun",
        "crowds",
        "dropped",
        "expired",
        "flushed",
        "forsaken",
        "holes",
        "items",
        "moved",
        "notes",
        "reason",
        "shares",
        "taken_at",
        "times",
        "waiters",
        "weight",
        "weights",
    )

    def __init__(self, weights: list[float] | None = None) -> None:
        self.items: list[Any] = []
        self.waiters: list[Any] = []  # a waiter, sharers, or a hole
        self.times: list[float] = []
        self.holes = 0
        self.weights = weights
        """Of the items, where they are weighed."""
        self.weight: float = 0
        """Of all that came, holes too: what is left can only be lighter."""
        self.shares = False
        """Whether a place may be shared."""
        self.crowds: Sequence[Crowd] = ()
        """Those who came together."""
        self.flushed = False
        """Whether it need not wait for company any more."""
        self.reason: Reason = "due"
        self.taken_at: float | None = None
        self.begun = False
        self.moved: MutableMapping[Any, Batch] = NOBODY
        """Where those went who topped up an earlier batch. Weak, or it would keep their results."""
        self.notes: dict[Any, object] | None = None
        """What a witness wants to be remembered of those who sit here."""
        self.forsaken: AbstractSet[Waiter] = _NONE
        """Those who are counted as stopped though nobody could tell them."""
        self.dropped: AbstractSet[Waiter] = _NONE
        """Those whose item never reached the processor, and who are counted, though they may still sit here."""
        self.expired: AbstractSet[Waiter] = _NONE
        """Those whose item was too old. Weak: a batch may form as long as the backend hangs, and must not keep them."""
        self._places: dict[Any, int] | None = None
        self._indexed = self._first = 0

    @property
    def live(self) -> int:
        """Places with an item."""
        return len(self.items) - self.holes

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
        if not self.holes and not self.shares:
            return self.waiters
        return [caller for seat in self.waiters if seat is not None for caller in callers_of(seat)]

    @property
    def crowded(self) -> bool:
        """Whether all who sit in it came in crowds, and nobody of them has left."""
        end = 0
        for crowd in self.crowds:
            start, end = end, end + len(crowd.seats)
            if not crowd.together or self.waiters[start:end] != crowd.seats:
                return False
        return 0 < end == len(self.waiters)

    def set_results(self, results: Sequence[Any]) -> None:
        """Give all who sit in it, which must be `crowded`, their results."""
        end = 0
        for crowd in self.crowds:
            start, end = end, end + len(crowd.seats)
            crowd.set_results(results[start:end])

    def remember(self, waiter: Waiter, note: object) -> None:
        """Keep what a witness said of a caller that sits here."""
        if self.notes is None:
            self.notes = {}
        self.notes[waiter] = note

    def remembered(self) -> list[object]:
        """List what a witness said of those who sit here. What it said of those who left is forgotten already."""
        if not self.notes:
            return []
        dropped = self.dropped
        return [note for caller, note in self.notes.items() if caller not in dropped]

    def drop(self, waiter: Waiter) -> None:
        """Note that this caller is counted, and that the processor never gets its item."""
        if self.dropped is _NONE:
            self.dropped = set()
        cast("set[Waiter]", self.dropped).add(waiter)

    def expire(self, waiter: Waiter) -> None:
        """Note that the item of this caller was too old."""
        if self.expired is _NONE:
            self.expired = WeakSet()
        cast("WeakSet[Waiter]", self.expired).add(waiter)

    def vacate(self, seat: object) -> float | None:
        """Make a hole where `seat` is, and return what the item weighed; `None` if it is not here."""
        if self._places is None:
            self._places = {}
        self._places.update(
            zip(self.waiters[self._indexed :], range(self._indexed, len(self.waiters)), strict=True)
        )
        self._indexed = len(self.waiters)
        place = self._places.pop(seat, None)
        if place is None:
            return None
        if self.notes is not None:
            self.notes.pop(seat, None)
        self.items[place] = _HOLE
        self.waiters[place] = None
        self.holes += 1
        if self.weights is None:
            return 0
        weight, self.weights[place] = self.weights[place], 0
        return weight

    def close_holes(self) -> int:
        """Move the items together, and return how many holes there were."""
        return self.keep([seat is not None for seat in self.waiters]) if self.holes else 0

    def keep(self, wanted: list[bool]) -> int:
        """Keep the places that are wanted, and return how many went."""
        before = len(self.items)
        self.items = list(itertools.compress(self.items, wanted))
        self.waiters = list(itertools.compress(self.waiters, wanted))
        self.times = list(itertools.compress(self.times, wanted))
        if self.weights is not None:
            self.weights = list(itertools.compress(self.weights, wanted))
            self.weight = sum(self.weights)
        self.holes = 0
        self._forget_places()
        return before - len(self.items)

    def give(self, other: Batch, count: int) -> None:
        """Move the first `count` places, which have no holes among them, to the end of `other`."""
        if self.moved is NOBODY:
            self.moved = WeakKeyDictionary()
        self.moved.update(dict.fromkeys(self.waiters[:count], other))
        other.shares |= self.shares
        if self.notes is not None:
            moving = [caller for seat in self.waiters[:count] for caller in callers_of(seat)]
            for caller in moving:
                if caller in self.notes:
                    other.remember(caller, self.notes.pop(caller))
        for mine, theirs in (
            (self.items, other.items),
            (self.waiters, other.waiters),
            (self.times, other.times),
        ):
            theirs.extend(mine[:count])
            del mine[:count]
        if self.weights is not None and other.weights is not None:
            other.weights.extend(self.weights[:count])
            del self.weights[:count]
            self.weight, other.weight = sum(self.weights), sum(other.weights)
        self._forget_places()

    def halves(self) -> list[Batch]:
        """Make two batches of this one, the second half first: what is popped first came first."""
        middle = (len(self.items) + 1) // 2
        return [self._part(middle, None), self._part(0, middle)]

    def leave_out_gone(self) -> None:
        """Drop the places of which all callers are gone."""
        if any(seat.done() for seat in self.waiters):
            self.keep([not seat.done() for seat in self.waiters])

    def fan_out(self, results: Sequence[Any]) -> tuple[Sequence[Waiter], Sequence[Any]]:
        """Pair every caller with the result of its place: two parallel sequences."""
        if not self.shares:
            return self.waiters, results
        pairs = zip(self.waiters, results, strict=True)
        each = [(caller, result) for seat, result in pairs for caller in callers_of(seat)]
        return [caller for caller, _ in each], [result for _, result in each]

    def forget(self) -> None:
        """Let go of the items and of those who waited for them."""
        self.items, self.waiters, self.times, self.weights, self.crowds = [], [], [], None, ()
        self.notes = None
        self.holes = 0
        self._forget_places()

    def _part(self, start: int, stop: int | None) -> Batch:
        part = Batch()
        part.items, part.waiters = self.items[start:stop], self.waiters[start:stop]
        part.times = self.times[start:stop]
        part.shares = self.shares
        return part

    def _forget_places(self) -> None:
        self._places = None
        self._indexed = self._first = 0


def callers_of(seat: Any) -> Sequence[Waiter] | dict[Waiter, None]:
    """List those who sit in one place."""
    return seat.callers if type(seat) is Sharers else (seat,)
