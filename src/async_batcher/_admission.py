"""Who waits: in the row, in a place that they share, or in line for one; and who has waited too long.

Law: an item is accepted once, sits in one place, and leaves it once: taken with its batch, withdrawn by the last of
its callers, expired, or stopped.

Counts are of callers, limits are of places: callers whose items are equal may share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from async_batcher._batch import Batch, Sharers
from async_batcher._errors import BatcherStopped, EnqueueTimeout, ItemExpired, ItemTooHeavy, QueueFull
from async_batcher._events import Counts, Present
from async_batcher._expiry import Expiries
from async_batcher._line import InLine, Line, Ticket, seat_of, still_waits, watched_by
from async_batcher._queue import Row
from async_batcher._steps import Tell

if TYPE_CHECKING:
    from collections.abc import Hashable

    from async_batcher._events import Reason
    from async_batcher._options import Options
    from async_batcher._waiter import Waiter


class Admission:
    """Those who wait for one batcher.

    Mutable state: the row, the line, who shares and who expires, whether it is closed, and the counts.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._limit, self._max_weight = options.max_queue_size, options.max_batch_weight
        self.present = Present()
        self.row = Row(
            options.max_batch_size,
            self._max_weight,
            weighs=options.weigh is not None,
            present=self.present,
        )
        self.line = Line(options.enqueue_timeout, self.present)
        self.expiries = Expiries(still_waits)
        self._sharers: dict[Hashable, Sharers] = {}
        self.closed = False
        self._joined = 0
        self.counts = Counts()

    @property
    def accepted(self) -> int:
        """Callers that were ever accepted."""
        return self.row.appended + self._joined

    # Coming in

    def refuse_if_closed(self) -> None:
        """Refuse whoever comes.

        Raises:
            BatcherStopped: It is closed.
        """
        if self.closed:
            self.counts.rejected += 1
            raise BatcherStopped

    def refuse_too_heavy(self, weight: float) -> None:
        """Refuse an item that no batch could hold.

        Raises:
            ItemTooHeavy: It is one.
        """
        if self._max_weight is not None and weight > self._max_weight:
            self.counts.rejected += 1
            raise ItemTooHeavy(
                f"the item weighs {weight}, and max_batch_weight is {self._max_weight}: no batch could hold it. "
                "Split the item, or raise max_batch_weight"
            )

    def has_room(self) -> bool:
        """Whether who comes now may have a place: there is one, and nobody stands in line for it."""
        return (self._limit is None or self.row.places() < self._limit) and not self.line.all

    def stand_in_line(self, entry: InLine, now: float, *, patient: bool) -> None:
        """Let a caller wait for room.

        Raises:
            QueueFull: Callers do not wait for it.
        """
        if patient or self._options.on_full == "wait":
            entry.since = now
            self.line.add(entry, None if patient else now)
            return
        self.counts.rejected += 1
        raise QueueFull(
            f"the queue is full: {self.row.places()} items wait, and max_queue_size is {self._limit}. For many items "
            'at once there is process_many, which waits for room; single callers wait for it with on_full="wait"; '
            "otherwise send again later, or raise max_queue_size"
        )

    def share(self, key: Hashable, waiter: Waiter) -> Sharers | None:
        """Let a caller share the place of an equal item that waits, if there is one."""
        sharers = self._sharers.get(key)
        if sharers is None or sharers.batch.taken_at is not None:
            return None
        sharers.callers[waiter] = None
        self._joined += 1
        self.present.sharing += 1
        return sharers

    def seat(self, item: object, waiter: Waiter, now: float, weight: float, key: Hashable) -> Batch | Sharers:
        """Give an item a place at the end of the row; there must be room."""
        if key is None:
            return self.row.append(item, waiter, now, weight)
        sharers = Sharers(key, waiter)
        sharers.batch = self.row.append(item, sharers, now, weight)
        sharers.batch.shares = True
        try:  # noqa: SIM105  (`suppress` takes a twelfth of the whole way in)
            self._sharers[key] = sharers
        except Exception:  # noqa: BLE001, S110  (a key that can't be compared now: its place is not shared)
            pass
        return sharers

    # Leaving

    def withdraw(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Take a caller out of the line or the row, and say whether it was there."""
        batch, seat = seat_of(ticket, waiter)
        if batch is None:
            self.line.discard(waiter)
        elif self._unseat(batch, seat, waiter):
            self.counts.withdrawn += 1
        else:
            return False
        return True

    def take(self, now: float, reason: Reason) -> tuple[Batch, int]:
        """Take the first batch out of the row; return it, and how many callers are in it."""
        batch = self.row.take(now, reason)
        callers = len(batch.items)
        if batch.shares:
            for seat in batch.waiters:
                if isinstance(seat, Sharers):
                    self._share_no_more(seat)
                    seat.batch = batch
                    callers += len(seat.callers) - 1
            self.present.sharing -= callers - len(batch.items)
        return batch, callers

    def clear(self, now: float) -> list[Batch]:
        """Take everything out of the row, as it stands."""
        self._sharers.clear()
        self.expiries.clear()
        self.present.sharing = 0
        return self.row.clear(now)

    def clear_line(self) -> list[Tell]:
        """Take everyone out of the line, and list what to tell them."""
        return [self._refuse(entry) for entry in self.line.clear()]

    # Whom to tell

    def next_told(self, now: float) -> Tell | None:
        """Say whom to tell next: who expired, who got a place of those in line, who stood there too long."""
        if (expired := self.next_expired(now)) is not None:
            return expired
        while (entry := self.line.head) is not None:
            if self.closed:
                self.line.discard(entry.waiter)
                return self._refuse(entry)
            seat = self._seat_from_line(entry, now)
            if seat is None:
                late = self.line.late(now)
                return None if late is None else self._refuse_late(late)
            waiter = entry.sit(seat)
            self.line.discard(waiter)
            self.counts.waited += 1
            self.counts.waited_seconds += now - entry.since
            if entry.expires is not None:  # found by its place from now on: nobody need keep the entry
                self.expiries.add(entry.expires, seat, waiter)
            if entry.admitted is not None:
                return Tell(entry.admitted, None)
        return None

    def next_expired(self, now: float) -> Tell | None:
        """Take out an item that is too old, if there is one."""
        expired = self.expiries.pop(now)
        return None if expired is None else self._expire(*expired)

    # Helpers

    def _seat_from_line(self, entry: InLine, now: float) -> Batch | Sharers | None:
        try:
            sharers = None if entry.key is None else self.share(entry.key, entry.waiter)
        except Exception:  # noqa: BLE001  (a key that can't be compared now, which is not this batch's concern)
            sharers = None
        if sharers is not None:
            return sharers
        if self._limit is not None and self.row.places() >= self._limit:
            return None
        return self.seat(entry.item, entry.waiter, now, entry.weight, entry.key)

    def _unseat(self, batch: Batch, seat: Waiter | Sharers, waiter: Waiter) -> bool:
        """Take a caller out of the row, and its item with it unless others share it; say whether it was there."""
        if not isinstance(seat, Sharers):
            return self.row.discard(batch, seat)
        if batch.taken_at is not None or waiter not in seat.callers:
            return False
        if batch.notes is not None:
            batch.notes.pop(waiter, None)
        if len(seat.callers) > 1:
            del seat.callers[waiter]
            self.present.sharing -= 1
            return True
        self._share_no_more(seat)
        return self.row.discard(batch, seat)

    def _share_no_more(self, sharers: Sharers) -> None:
        """Forget by which key others would find a place."""
        try:
            self._sharers.pop(sharers.key, None)
        except Exception:  # noqa: BLE001  (a key that can't be compared now; then none that waits is shared further)
            self._sharers.clear()

    def _expire(self, ticket: Ticket, waiter: Waiter) -> Tell:
        """Take out an item that is too old."""
        error = ItemExpired(
            "the item was not in a batch in time (expires_after); the processor never saw it, so sending it again is "
            "safe. The backend is slower than its callers are patient: raise expires_after or concurrency, or send less"
        )
        batch, seat = seat_of(ticket, waiter)
        if batch is None:
            self.line.discard(waiter)
            self.counts.rejected += 1
        else:
            self._unseat(batch, seat, waiter)
            batch.expire(waiter)
            self.counts.expired += 1
        return Tell(watched_by(ticket, waiter), error)

    def _refuse(self, entry: InLine) -> Tell:
        self.counts.rejected += 1
        return Tell(entry.watched, BatcherStopped())

    def _refuse_late(self, entry: InLine) -> Tell:
        self.counts.rejected += 1
        error = EnqueueTimeout(
            f"no room within enqueue_timeout={self._options.enqueue_timeout} s: the queue has held "
            f"max_queue_size={self._limit} items all the time. Send again later"
        )
        return Tell(entry.watched, error)
