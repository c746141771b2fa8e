"""Callers that wait for room, first come first served, and where a caller is.

Law: nobody overtakes the head of the line, and nobody stands in it longer than it was ready to.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from async_batcher._batch import NOBODY, Batch, Sharers

if TYPE_CHECKING:
    from collections.abc import Hashable

    from async_batcher._events import Present
    from async_batcher._waiter import Waiter


class InLine:
    """A caller that waits for room.

    Mutable state: `seat` is where its item got a place, once it has; then `waiter` is unset, and `item` is gone.
    """

    __slots__ = (
        "__weakref__",
        "admitted",
        "deadline",
        "expires",
        "item",
        "key",
        "note",
        "seat",
        "since",
        "waiter",
        "weight",
    )

    def __init__(
        self, item: object, waiter: Waiter, admitted: Waiter | None, weight: float, key: Hashable
    ) -> None:
        self.item: object = item
        self.waiter: Waiter = waiter
        self.admitted: Waiter | None = admitted
        self.weight: float = weight
        self.key: Hashable = key
        self.deadline: float | None = None
        self.expires: float | None = None
        self.note: object | None = None
        self.seat: Batch | Sharers | None = None
        self.since: float = 0

    @property
    def watched(self) -> Waiter:
        """What its caller awaits now."""
        return self.waiter if self.admitted is None else self.admitted

    def sit(self, seat: Batch | Sharers) -> Waiter:
        """Take a place, and return the waiter."""
        waiter = self.waiter
        del self.waiter  # whoever remembers this entry must not keep the result alive
        self.item = None
        self.seat = seat
        if self.note is not None:
            batch_of(seat).remember(waiter, self.note)
        return waiter


Ticket: TypeAlias = Batch | Sharers | InLine
"""What finds a caller again: together with its waiter it says where it is."""


def batch_of(seat: Batch | Sharers) -> Batch:
    """Return the batch of a place in the row."""
    return seat.batch if isinstance(seat, Sharers) else seat


def remember(ticket: Ticket, waiter: Waiter, note: object) -> None:
    """Keep what a witness said of a caller, wherever that goes."""
    if isinstance(ticket, InLine):
        ticket.note = note
    else:
        batch_of(ticket).remember(waiter, note)


def seat_of(ticket: Ticket, waiter: Waiter) -> tuple[Batch | None, Waiter | Sharers]:
    """Find the batch of a caller, which may have moved to an earlier one, and what sits there for it.

    The batch is `None` while it stands in line.
    """
    place = ticket.seat if isinstance(ticket, InLine) else ticket
    if place is None:
        return None, waiter
    if isinstance(place, Sharers):
        return place.batch.moved.get(place, place.batch), place
    return place.moved.get(waiter, place), waiter


def watched_by(ticket: Ticket, waiter: Waiter) -> Waiter:
    """Say what a caller awaits now: that it gets a place, or its outcome."""
    return ticket.watched if isinstance(ticket, InLine) and ticket.seat is None else waiter


def still_waits(ticket: Ticket, waiter: Waiter) -> bool:
    """Say whether a caller that was accepted, or stands in line, waits for its batch to leave."""
    if isinstance(ticket, Batch) and ticket.moved is NOBODY:  # as nearly all, a third of the whole
        return ticket.taken_at is None and not waiter.done()
    batch, _ = seat_of(ticket, waiter)
    return (batch is None or batch.taken_at is None) and not watched_by(ticket, waiter).done()


class Line:
    """Those who stand in line.

    Mutable state: all of them in their order, those of them whose patience ends, and in `present` how many they are.
    """

    def __init__(self, enqueue_timeout: float | None, present: Present) -> None:
        self._enqueue_timeout = enqueue_timeout
        self._present = present
        self.all: OrderedDict[Waiter, InLine] = OrderedDict()
        """Whoever stands here, or has gone unsaid; to be read alone: one sees at a glance whether there is anybody."""
        self._impatient: OrderedDict[Waiter, InLine] = (
            OrderedDict()
        )  # the patience of all is the same: it is sorted

    @property
    def head(self) -> InLine | None:
        """The first that has not gone."""
        return self._first(self.all)

    @property
    def patience(self) -> float | None:
        """When the patience of the next of them ends."""
        entry = self._first(self._impatient)
        return None if entry is None else entry.deadline

    def add(self, entry: InLine, now: float | None) -> None:
        """Have a caller stand at the end, from now on for `enqueue_timeout` at most; `None`: as long as it takes."""
        self.all[entry.waiter] = entry
        self._present.in_line = len(self.all)
        if now is not None and self._enqueue_timeout is not None:
            entry.deadline = now + self._enqueue_timeout
            self._impatient[entry.waiter] = entry

    def discard(self, waiter: Waiter) -> None:
        """Take a caller out, if it stands here."""
        self.all.pop(waiter, None)
        self._present.in_line = len(self.all)
        self._impatient.pop(waiter, None)

    def late(self, now: float) -> InLine | None:
        """Take out one whose patience has ended."""
        entry = self._first(self._impatient)
        if entry is None or entry.deadline is None or entry.deadline > now:
            return None
        self.discard(entry.waiter)
        return entry

    def clear(self) -> list[InLine]:
        """Take all out, and list those who have not gone."""
        entries = [entry for entry in self.all.values() if not entry.watched.done()]
        self.all.clear()
        self._present.in_line = 0
        self._impatient.clear()
        return entries

    def _first(self, entries: OrderedDict[Waiter, InLine]) -> InLine | None:
        while entries:
            waiter, entry = next(iter(entries.items()))
            if not entry.watched.done():
                return entry
            self.discard(waiter)
        return None
