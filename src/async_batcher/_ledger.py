"""What the batchers of this process have counted, summed by name, those that have gone among them.

Law: of a batcher nothing is held here but its numbers, not even for a moment: what its user gave it would be thrown
away by whoever holds it last, in a thread where that may be wrong. And no count is lost when a batcher goes, or found
twice, since a counter that is read again and again must not fall.

It is read in other threads than those in which batchers work, and wherever the garbage collector calls one who reads,
in the middle of a reading too: so nobody waits here for anybody. Who reads takes a copy of all entries, and whatever
changes the sums puts that into place in one step, as a dictionary's `copy` and `update` are for each other. Only one at
a time adds up what has gone; who comes second leaves it to the next, and what is not added up is an entry as before.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from async_batcher._events import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from async_batcher._events import Present

    Reading: TypeAlias = tuple[float, dict[str, str]]

NAME: Final = "async_batcher.name"
OUTCOME: Final = "async_batcher.outcome"

_OUTCOMES: Final = ("succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped")


class Counted(Protocol):
    """What has the counts of a batcher."""

    counts: Counts
    present: Present


class _Entry:
    """The numbers of one batcher, or of some that have gone.

    Mutable state: `present`, which is `None` once the batcher has gone, and what tells of that.
    """

    __slots__ = ("counts", "name", "present", "watch")

    def __init__(self, name: str | None, counts: Counts, present: Present | None = None) -> None:
        self.name = name
        self.counts = counts
        self.present = present
        self.watch: object = None

    def now(self, field: str) -> int:
        """Read this field of `Present`; 0 where it has gone."""
        return 0 if (present := self.present) is None else max(0, getattr(present, field))


class Ledger:
    """The counts of all batchers.

    Those that live come first in what is read: the SDK keeps so many series of an instrument, and adds up the rest.

    Mutable state: the entries by a number, which of them has the sum of those of its name that have gone, and which
    have gone and are still to be added to that.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._entries: dict[int, _Entry] = {}
        self._sums: dict[str | None, int] = {}
        self._gone: deque[int] = deque()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Have a lock that nobody holds: a fork may have left the old one held by a thread that is not there."""
        self._adding = threading.Lock()

    def add(self, name: str | None, counted: Counted) -> None:
        """Count a batcher in from now on."""
        number = next(self._numbers)
        entry = _Entry(name, counted.counts, counted.present)
        entry.watch = weakref.ref(
            counted, partial(self._has_gone, number)
        )  # never called: that would hold it
        self._entries[number] = entry

    def read(self, field: str) -> Iterator[Reading]:
        """Read this field of `Counts`, over all that ever were."""
        for name, number in _summed(self._all(), attrgetter(f"counts.{field}")).items():
            yield number, named(name)

    def read_outcomes(self) -> Iterator[Reading]:
        """Read what became of those who were accepted, over all that ever were."""
        entries = self._all()
        for outcome in _OUTCOMES:
            for name, number in _summed(entries, attrgetter(f"counts.{outcome}")).items():
                yield number, {**named(name), OUTCOME: outcome}

    def read_now(self, field: str) -> Iterator[Reading]:
        """Read this field of `Present`, over all that are alive; 0 for a name of which none is."""
        for name, number in _summed(self._all(), lambda entry: entry.now(field)).items():
            yield number, named(name)

    # Helpers

    def _all(self) -> list[_Entry]:
        """List the entries as they are now, those of batchers that live first."""
        self._add_up()
        return sorted(self._entries.copy().values(), key=lambda entry: entry.present is None)

    def _has_gone(self, number: int, _: object) -> None:
        """Hear, in whatever thread dropped it last, that a batcher has gone."""
        self._entries[number].present = None
        self._gone.append(number)
        self._add_up()

    def _add_up(self) -> None:
        """Add what has gone to the sums, unless that is being done, in this very thread perhaps."""
        if self._adding.acquire(blocking=False):
            try:
                while self._gone:
                    self._add_to_sum(self._gone.popleft())
            finally:
                self._adding.release()

    def _add_to_sum(self, number: int) -> None:
        entry = self._entries[number]
        place = self._sums.setdefault(entry.name, number)
        if place != number:  # else it is the first of its name that went, and their sum from now on
            both = _Entry(entry.name, _added(self._entries[place].counts, entry.counts))
            nothing = _Entry(entry.name, Counts())
            self._entries.update({place: both, number: nothing})
            del self._entries[number]


def _summed(entries: Iterable[_Entry], read: Callable[[_Entry], float]) -> dict[str | None, float]:
    sums: dict[str | None, float] = {}
    for entry in entries:
        sums[entry.name] = sums.get(entry.name, 0) + read(entry)
    return sums


def _added(one: Counts, other: Counts) -> Counts:
    both = Counts()
    for field in Counts.__slots__:
        setattr(both, field, getattr(one, field) + getattr(other, field))
    return both


def named(name: str | None) -> dict[str, str]:
    """Return the attributes that say which batcher it is of."""
    return {} if name is None else {NAME: name}
