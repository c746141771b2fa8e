"""What the batchers of this process have counted, summed by name, those that have gone among them.

Law: a batcher is never kept alive here, and no count of its is lost when it goes: of what has gone its `Counts` are
kept until they are added to a sum, since a counter that is read again and again must not fall.

It is read in other threads than those in which batchers work. Nothing here waits for a reader but another reader.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from async_batcher._events import BatcherStats, Counts

    Reading: TypeAlias = tuple[float, dict[str, str]]

NAME: Final = "async_batcher.name"
OUTCOME: Final = "async_batcher.outcome"

_OUTCOMES: Final = ("succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped")


class Counted(Protocol):
    """What has the counts of a batcher."""

    counts: Counts

    def stats(self) -> BatcherStats:
        """Count as of now."""
        ...


class _Entry:
    """One batcher, by its name and by what it counts."""

    __slots__ = ("counted", "counts", "name")

    def __init__(self, name: str | None, counted: Counted, gone: Callable[[object], object]) -> None:
        self.name = name
        self.counts = counted.counts
        self.counted = weakref.ref(counted, gone)


class Ledger:
    """The counts of all batchers.

    Mutable state: the batchers, and by name the sums of those that have gone.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._entries: dict[int, _Entry] = {}
        self._gone: dict[str | None, defaultdict[str, float]] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Have a lock that nobody holds: a fork may have left the old one held by a thread that is not there."""
        self._lock = threading.Lock()

    def add(self, name: str | None, counted: Counted) -> None:
        """Count a batcher in from now on."""
        number = next(self._numbers)
        self._entries[number] = _Entry(name, counted, partial(self._has_gone, number))

    def read(self, field: str) -> Iterator[Reading]:
        """Read this field of `Counts`, over all that ever were."""
        for name, number in self._sums(field).items():
            yield number, named(name)

    def read_outcomes(self) -> Iterator[Reading]:
        """Read what became of those who were accepted, over all that ever were."""
        for outcome in _OUTCOMES:
            for name, number in self._sums(outcome).items():
                yield number, {**named(name), OUTCOME: outcome}

    def read_now(self, field: str) -> Iterator[Reading]:
        """Read this field of `BatcherStats`, over all that are alive; 0 for a name of which none is."""
        with self._lock:
            self._fold_all()
            sums: dict[str | None, float] = dict.fromkeys(self._gone, 0)  # ints, as one alive gives them
            for entry in self._entries.copy().values():
                counted = entry.counted()
                now = 0 if counted is None else max(0, getattr(counted.stats(), field))
                sums[entry.name] = sums.get(entry.name, 0) + now
        for name, number in sums.items():
            yield number, named(name)

    # Helpers

    def _has_gone(self, number: int, _: object) -> None:
        """Fold what has gone, unless somebody reads, in this very thread perhaps: who reads folds too."""
        if self._lock.acquire(blocking=False):
            try:
                self._fold(number)
            finally:
                self._lock.release()

    def _sums(self, field: str) -> dict[str | None, float]:
        with self._lock:
            self._fold_all()
            sums = {name: gone[field] for name, gone in self._gone.items()}
            for entry in self._entries.copy().values():
                sums[entry.name] = sums.get(entry.name, 0) + getattr(entry.counts, field)
        return sums

    def _fold_all(self) -> None:
        for number, entry in self._entries.copy().items():  # one step: a batcher may be built meanwhile
            if entry.counted() is None:
                self._fold(number)

    def _fold(self, number: int) -> None:
        """Add what a batcher that has gone had counted to the sums, once. The lock is held."""
        if (entry := self._entries.pop(number, None)) is not None:
            gone = self._gone.setdefault(entry.name, defaultdict(int))
            for field in entry.counts.__slots__:
                gone[field] += getattr(entry.counts, field)


def named(name: str | None) -> dict[str, str]:
    """Return the attributes that say which batcher it is of."""
    return {} if name is None else {NAME: name}
