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
from contextlib import contextmanager
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

    def now(self, field: str) -> int:
        """Read this field of its `BatcherStats`, and hold it no longer than that; 0 where it has gone."""
        counted = self.counted()
        return 0 if counted is None else max(0, getattr(counted.stats(), field))


class Ledger:
    """The counts of all batchers.

    Those that live come first in what is read: the SDK keeps so many series of an instrument, and adds up the rest.

    Mutable state: the batchers, and by name the sums of those that have gone; whether somebody reads or folds.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._entries: dict[int, _Entry] = {}
        self._gone: dict[str | None, defaultdict[str, float]] = {}
        self.renew_lock()

    def renew_lock(self) -> None:
        """Have a lock that nobody holds: a fork may have left the old one held by a thread that is not there."""
        self._lock = threading.RLock()
        self._busy = False

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
        sums: dict[str | None, float] = {}
        with self._alone(waits=True) as alone:
            for entry in self._alive() if alone else ():
                sums[entry.name] = sums.get(entry.name, 0) + entry.now(field)
            for name in self._gone if alone else ():
                sums.setdefault(name, 0)
        for name, number in sums.items():
            yield number, named(name)

    # Helpers

    def _has_gone(self, number: int, _: object) -> None:
        """Fold what has gone, unless somebody reads, in this very thread perhaps: who reads folds too."""
        with self._alone(waits=False) as alone:
            if alone:
                self._fold(number)

    @contextmanager
    def _alone(self, *, waits: bool) -> Iterator[bool]:
        """Say whether nobody else reads or folds until this has ended.

        Whoever comes in the middle of it in this very thread, called by the garbage collector, is not alone, and finds
        nothing: to wait for itself would be for ever.
        """
        if not self._lock.acquire(blocking=waits):
            yield False
            return
        try:
            if self._busy:
                yield False
                return
            self._busy = True
            try:
                yield True
            finally:
                self._busy = False
        finally:
            self._lock.release()

    def _sums(self, field: str) -> dict[str | None, float]:
        sums: dict[str | None, float] = {}
        with self._alone(waits=True) as alone:
            for entry in self._alive() if alone else ():
                sums[entry.name] = sums.get(entry.name, 0) + getattr(entry.counts, field)
            for name, gone in self._gone.items() if alone else ():
                sums[name] = sums.get(name, 0) + gone[field]
        return sums

    def _alive(self) -> list[_Entry]:
        self._fold_all()
        return list(self._entries.copy().values())

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
