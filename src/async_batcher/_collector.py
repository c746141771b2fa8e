"""Admission, and when a batch leaves.

Law: what happens next is decided here, from the facts and a time that is handed in; nothing here waits, reads a
clock or calls anyone. The runner asks `next_step` until it says `Rest`, and does each step.

How a batch leaves: it needs a slot, of which there are `concurrency`. With a slot free it leaves when it is full
(at its size or its weight, or because the queue is), when the oldest item has waited out the window, when it was
flushed, or when the batcher is closing. Where slots are shared with others (`backend_slots`), the step is `Reserve`:
the batch is taken only when the shared slot has been entered, and until then its items wait, count, and may leave.

How a place is handed on: everything that frees one is followed by `next_step`, which begins with those who stand
in line. So nobody else can take a freed place, and whoever gets it need not wake up first.

How often anything is decided: an item that is neither the first nor the last of its batch changes no decision.
`_edge` says up to which length of the tail that is so; one setter, `_reckon`, knows how far. `undecided` says whether
`next_step` must be asked.

Counts are of callers, limits are of places: callers whose items are equal may share one.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from async_batcher._errors import BatcherStopped, EnqueueTimeout, ItemExpired, ItemTooHeavy, QueueFull
from async_batcher._events import BatcherStats
from async_batcher._expiry import Expiries
from async_batcher._line import InLine, Line, Ticket, seat_of, still_waits
from async_batcher._queue import Batch, Row, Sharers, callers_of
from async_batcher._steps import Release, Reserve, Rest, Start, Tell

if TYPE_CHECKING:
    from collections.abc import Hashable

    from async_batcher._events import Reason
    from async_batcher._options import Options
    from async_batcher._steps import Step
    from async_batcher._waiter import Waiter

_NO_EDGE: Final = 1 << 62  # longer than any list: no item changes a decision
_REST: Final = Rest(None)


class Collector:
    """The decisions of one batcher.

    Mutable state: the row, the line, who shares and who expires, the slots that are taken, whether it is closed,
    and the counts.
    """

    def __init__(self, options: Options, *, shares_slots: bool = False) -> None:
        self._options = options
        self._size, self._limit = options.max_batch_size, options.max_queue_size
        self._concurrency, self._window = options.concurrency, options.max_queue_time
        self._max_weight = options.max_batch_weight
        self._shares_slots = shares_slots
        self._row = Row(self._size, self._max_weight, weighs=options.weigh is not None)
        self._line = Line(options.enqueue_timeout)
        self._sharers: dict[Hashable, Sharers] = {}
        self._expiries = Expiries(still_waits)
        self._running: dict[Batch, None] = {}
        self._reserved = 0
        self._released = False
        self._closed = False
        self._edge = 0
        self._looks_at: float | None = None
        self.undecided = False
        """Whether `next_step` must be asked."""
        self.slot_free = True
        """Whether another batch may run."""
        self._joined = self._joined_waiting = 0
        self._succeeded = self._failed = self._withdrawn = self._abandoned = self._expired = self._stopped = 0
        self._rejected = self._batches = self._callers_running = 0

    # What is so

    @property
    def closed(self) -> bool:
        """Whether it refuses new items for good."""
        return self._closed

    @property
    def waits(self) -> bool:
        """Whether an item waits."""
        return bool(self._row.places)

    @property
    def waiting(self) -> int:
        """Callers whose item waits."""
        return self._row.places + self._joined_waiting

    @property
    def idle(self) -> bool:
        """Whether nothing waits, stands in line or runs."""
        return not (self._running or self._row.places or self._line or self._reserved)

    def stats(self) -> BatcherStats:
        """Count."""
        return BatcherStats(
            accepted=self._row.appended + self._joined,
            succeeded=self._succeeded,
            failed=self._failed,
            withdrawn=self._withdrawn,
            abandoned=self._abandoned,
            expired=self._expired,
            stopped=self._stopped,
            waiting=self.waiting,
            running=self._callers_running,
            rejected=self._rejected,
            in_line=len(self._line),
            batches=self._batches,
        )

    # Admission

    def join(self, item: object, waiter: Waiter, now: float) -> Batch | None:
        """Accept an item that changes no decision. `None`: it might change one, so `admit` it.

        Only where items have no weight, no key and no expiry.
        """
        batch = self._row.tail
        items = batch.items
        if len(items) >= self._edge:
            return None
        items.append(item)
        batch.waiters.append(waiter)
        batch.times.append(now)
        return batch

    def admit(  # noqa: PLR0913  (what there is to know of an item)
        self,
        item: object,
        waiter: Waiter,
        now: float,
        *,
        admitted: Waiter | None = None,
        weight: float = 0,
        key: Hashable = None,
        expires: float | None = None,
        patient: bool = False,
    ) -> Ticket:
        """Accept an item, or let its caller stand in line. `next_step` must be asked after it where `undecided`.

        Args:
            item: The payload.
            waiter: What is settled with the item's outcome.
            now: The time.
            admitted: What is settled should the item get a place later, where the caller waits for that first.
            weight: Of the item; at most `max_batch_weight`.
            key: Callers with equal keys share a place; `None` is not shared.
            expires: When the item is too old; `None` is never.
            patient: Whether its caller stands in line whatever the options say, and without a limit of time.

        Raises:
            BatcherStopped: It is closed.
            ItemTooHeavy: No batch may be so heavy.
            QueueFull: There is no room, and callers do not wait for it.
        """
        if self._closed:
            self._rejected += 1
            raise BatcherStopped
        if self._max_weight is not None and weight > self._max_weight:
            self._rejected += 1
            raise ItemTooHeavy(
                f"the item weighs {weight}, and max_batch_weight is {self._max_weight}: no batch could hold it. "
                "Split the item, or raise max_batch_weight"
            )
        ticket: Ticket | None = None if key is None else self._share(key, waiter)
        if ticket is None:
            if not self._line and (self._limit is None or self._row.places < self._limit):
                ticket = self._place(item, waiter, now, weight, key)
            elif patient or self._options.on_full == "wait":
                entry = InLine(item, waiter, admitted, weight, key)
                self._line.add(entry, None if patient else now)
                self.undecided = True
                ticket = entry
            else:
                self._rejected += 1
                raise QueueFull(
                    f"the queue is full: {self._row.places} items wait, and max_queue_size is {self._limit}. "
                    "For many items at once there is process_many, which waits for room; single callers wait for it "
                    'with on_full="wait"; otherwise send again later, or raise max_queue_size'
                )
        if expires is not None:
            self._expiries.add(expires, ticket, waiter)
            self.undecided |= self._looks_at is None or expires < self._looks_at
        return ticket

    def withdraw(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Take an item back unless its batch has begun. `next_step` must be asked after it.

        Returns:
            Whether the processor has never seen the item for this caller and never will.
        """
        batch, seat = seat_of(ticket, waiter)
        if batch is None:
            self._line.discard(waiter)
        elif self._unseat(batch, seat, waiter):
            self._withdrawn += 1
        elif batch.begun and waiter not in batch.dropped:
            return False
        elif waiter not in batch.dropped:
            self._callers_running -= 1
            self._withdrawn += 1
            batch.drop(waiter)
        return True

    def leave(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Let a caller leave whose `waiter` is cancelled. `next_step` must be asked after it.

        Returns:
            Whether the processor has never seen the item for this caller and never will.
        """
        if self.withdraw(ticket, waiter):
            return True
        batch, _ = seat_of(ticket, waiter)
        if batch is not None and waiter in batch.forsaken:
            return False
        self._callers_running -= 1
        self._abandoned += 1
        return False

    def never_ran(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Say of a settled waiter whether its item never reached the processor."""
        batch, _ = seat_of(ticket, waiter)
        return batch is None or waiter in batch.dropped

    def flush(self) -> None:
        """Let what waits now leave as soon as a slot is free. `next_step` must be asked after it."""
        self._row.flush()

    def close(self) -> None:
        """Refuse new items, and let what waits leave at once. `next_step` must be asked after it."""
        self._closed = True
        self._edge = 0

    # What to do next

    def next_step(self, now: float) -> Step:
        """Decide the next thing to do at this time, and take it as done."""
        self._edge = 0  # until it is reckoned again, no item passes unasked
        if (self._line or self._expiries) and (tell := self._see_to_callers(now)) is not None:
            return tell
        places = self._row.places
        window_ends = None
        if places:
            self._released = False
            if self.slot_free and (beyond := self._beyond_reserved(places)):
                came, flushed = self._row.first_of(beyond)
                window_ends = came + self._window
                reason = self._reason(beyond, places, flushed=flushed, is_due=window_ends <= now)
                if reason is not None:
                    return self._let_go(now, reason)
        elif self._reserved and not self._released:
            self._released = True
            return Release()
        self._reckon(places)
        self.undecided = False
        # Where a line stands the queue is full, so no window is open: its head's patience is what ends next.
        until = self._line.patience if self._line else window_ends
        soonest = self._expiries.soonest
        if soonest is not None and (until is None or soonest < until):
            until = soonest
        self._looks_at = until
        return _REST if until is None else Rest(until)

    def take_reserved(self, now: float) -> Batch | None:
        """Take the batch for which a slot was reserved; `None` where all its callers have left.

        `next_step` must be asked before it, at the same time, so that what has expired is gone, and after it.
        """
        self._reserved -= 1
        self._see_slots()
        places = self._row.places
        if not places:
            return None
        _, flushed = self._row.first_of(places)
        return self._take(now, self._reason(places, places, flushed=flushed, is_due=True) or "due")

    def give_up_reserved(self) -> None:
        """Give the slot that was reserved back without a batch. `next_step` must be asked after it."""
        self._reserved -= 1
        self._see_slots()

    # A running batch

    def begin(self, batch: Batch) -> int:
        """Leave out those who are gone, and count those who still wait for this batch."""
        batch.begun = True
        if any([seat.done() for seat in batch.waiters]):  # noqa: C419  (a list is the faster half of each batch)
            self._leave_out(batch)
        callers = len(batch.items)
        if batch.shares:
            callers = sum(caller not in batch.dropped for caller in batch.callers)
        self._batches += bool(callers)
        return callers

    def settled(self, succeeded: int, failed: int) -> None:
        """Count callers of a running batch that got their outcome."""
        self._succeeded += succeeded
        self._failed += failed
        self._callers_running -= succeeded + failed

    def ended(self, batch: Batch) -> None:
        """Give the batch's slot back. `next_step` must be asked after it."""
        del self._running[batch]
        self._see_slots()

    def abort(self, now: float) -> list[Tell]:
        """Close, take everything out, and list what to tell those who wait for anything at all."""
        self.close()
        tells = [self._refuse(entry) for entry in self._line.clear()]
        for batch in self._clear_row(now):
            tells += self._stop_callers(batch)
        for batch in self._running:
            tells += self._stop_callers(batch)
        return tells

    def never_began(self, batch: Batch) -> None:
        """Take back that a batch began: it was handed to an executor, which has not started it and never will."""
        batch.begun = False
        self._batches -= 1

    def forsake(self, now: float) -> None:
        """Take everything out and count it as stopped, though nobody can be told: their loop has ended."""
        for batch in [*self._clear_row(now), *self._running]:
            self.forsake_batch(batch)
        self._line.clear()
        self._edge = 0
        self._looks_at = None

    def forsake_batch(self, batch: Batch) -> None:
        """Count the callers of a batch as stopped, though nobody can be told."""
        forsaken = {tell.waiter for tell in self._stop_callers(batch)}
        batch.forsaken = forsaken | batch.forsaken
        batch.forget()

    # Helpers

    def _place(
        self, item: object, waiter: Waiter, now: float, weight: float, key: Hashable
    ) -> Batch | Sharers:
        """Give an item a place, and see whether that may change a decision."""
        tail = self._row.tail
        if self.slot_free or self._reserved:
            within = self._max_weight is None or self._row.weight + weight < self._max_weight
            self.undecided |= len(tail.items) >= self._edge or not within
        ticket = self._seat(item, waiter, now, weight, key)
        if not self.undecided and (not self._edge or self._row.tail is not tail):
            self._reckon(self._row.places)
        return ticket

    def _share(self, key: Hashable, waiter: Waiter) -> Sharers | None:
        """Let a caller share the place of an equal item that waits, if there is one."""
        sharers = self._sharers.get(key)
        if sharers is not None and sharers.batch.taken_at is None:
            sharers.callers[waiter] = None
            self._joined += 1
            self._joined_waiting += 1
            return sharers
        return None

    def _unseat(self, batch: Batch, seat: Waiter | Sharers, waiter: Waiter) -> bool:
        """Take a caller out of the row, and its item with it unless others share it; say whether it still waited."""
        if not isinstance(seat, Sharers):
            return self._row.discard(batch, seat)
        if batch.taken_at is not None or waiter not in seat.callers:
            return False
        if len(seat.callers) > 1:
            del seat.callers[waiter]
            self._joined_waiting -= 1
            return True
        self._share_no_more(seat)
        return self._row.discard(batch, seat)

    def _see_to_callers(self, now: float) -> Tell | None:
        """Say whom to tell: who expired, who got a place of those in line, who stood there too long."""
        if (expired := self._expiries.pop(now)) is not None:
            return self._expire(*expired)
        while (entry := self._line.head) is not None:
            if self._closed:
                self._line.discard(entry.waiter)
                return self._refuse(entry)
            seat = self._seat_from_line(entry, now)
            if seat is None:
                late = self._line.late(now)
                return None if late is None else self._refuse_late(late)
            self._line.discard(entry.sit(seat))
            if entry.admitted is not None:
                return Tell(entry.admitted, None)
        return None

    def _seat_from_line(self, entry: InLine, now: float) -> Batch | Sharers | None:
        try:
            sharers = None if entry.key is None else self._share(entry.key, entry.waiter)
        except Exception:  # noqa: BLE001  (a key that can't be compared now, which is not this batch's concern)
            sharers = None
        if sharers is not None:
            return sharers
        if self._limit is not None and self._row.places >= self._limit:
            return None
        return self._seat(entry.item, entry.waiter, now, entry.weight, entry.key)

    def _seat(
        self, item: object, waiter: Waiter, now: float, weight: float, key: Hashable
    ) -> Batch | Sharers:
        if key is None:
            return self._row.append(item, waiter, now, weight)
        sharers = Sharers(key, waiter)
        sharers.batch = self._row.append(item, sharers, now, weight)
        sharers.batch.shares = True
        with suppress(Exception):  # a key that can't be compared now: its place is not shared
            self._sharers[key] = sharers
        return sharers

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
        if batch is None and isinstance(ticket, InLine):
            self._line.discard(waiter)
            self._rejected += 1
            return Tell(ticket.watched, error)
        if batch is not None:
            self._unseat(batch, seat, waiter)
            batch.drop(waiter)
        self._expired += 1
        return Tell(waiter, error)

    def _refuse(self, entry: InLine) -> Tell:
        self._rejected += 1
        return Tell(entry.watched, BatcherStopped())

    def _refuse_late(self, entry: InLine) -> Tell:
        self._rejected += 1
        error = EnqueueTimeout(
            f"no room within enqueue_timeout={self._options.enqueue_timeout} s: the queue has held "
            f"max_queue_size={self._limit} items all the time. Send again later"
        )
        return Tell(entry.watched, error)

    def _reckon(self, places: int) -> None:
        """Compute up to which length of the tail an item changes no decision."""
        if self._closed or not places or (self._reserved and self.slot_free):
            return
        tail, size, limit = self._row.tail, self._size, self._limit
        held = len(tail.items)
        edge = _NO_EDGE
        if size is not None:
            edge = size + tail.holes  # there the tail is closed
            if places < size:
                edge = held + size - places  # there a batch is full
        if limit is not None:
            edge = min(edge, held + limit - places)  # there the queue is full
        self._edge = edge - 1

    def _see_slots(self) -> None:
        limit = self._concurrency
        self.slot_free = limit is None or len(self._running) + self._reserved < limit

    def _beyond_reserved(self, places: int) -> int:
        """Count the places that are left to those who come when every reservation has taken its batch."""
        return self._row.behind(self._reserved) if self._reserved else places

    def _reason(self, waiting: int, places: int, *, flushed: bool, is_due: bool) -> Reason | None:
        """Say why a batch may leave, of which so many items wait; slots aside."""
        if (self._size is not None and waiting >= self._size) or (
            self._limit is not None and places >= self._limit
        ):
            return "full"
        if self._max_weight is not None and self._row.weight_of(waiting) >= self._max_weight:
            return "weight"
        if self._closed:
            return "drain"
        if flushed:
            return "flush"
        return "due" if is_due else None

    def _let_go(self, now: float, reason: Reason) -> Start | Reserve:
        if not self._shares_slots:
            return Start(self._take(now, reason))
        self._reserved += 1
        self._released = False
        self._see_slots()
        return Reserve()

    def _take(self, now: float, reason: Reason) -> Batch:
        batch = self._row.take(now, reason)
        self._running[batch] = None
        self._count_out(batch)
        self._see_slots()
        return batch

    def _clear_row(self, now: float) -> list[Batch]:
        batches = self._row.clear(now)
        self._sharers.clear()
        self._expiries.clear()
        self._joined_waiting = 0
        return batches

    def _count_out(self, batch: Batch) -> None:
        """Count the callers of a batch that leaves the row as running."""
        callers = len(batch.items)
        if batch.shares:
            for seat in batch.waiters:
                if isinstance(seat, Sharers):
                    self._share_no_more(seat)
                    seat.batch = batch
                    callers += len(seat.callers) - 1
        self._joined_waiting -= callers - len(batch.items)
        self._callers_running += callers

    def _leave_out(self, batch: Batch) -> None:
        """Leave out the places of which all callers are gone."""
        wanted = [not seat.done() for seat in batch.waiters]
        for seat in itertools.compress(batch.waiters, [not want for want in wanted]):
            for caller in callers_of(seat):
                if caller not in batch.dropped:
                    self._callers_running -= 1
                    self._withdrawn += 1
                    batch.drop(caller)
        batch.keep(wanted)

    def _stop_callers(self, batch: Batch) -> list[Tell]:
        """Settle the callers of a batch for good: those who still wait are to be told."""
        told = [waiter for waiter in batch.callers if not waiter.done()]
        self._stopped += len(told)
        running = batch in self._running
        if running:
            self._callers_running -= len(told)
        if not batch.begun:
            gone = [] if running else [waiter for waiter in batch.callers if waiter.done()]
            self._withdrawn += len(gone)
            for waiter in (*told, *gone):
                batch.drop(waiter)
        if not running:
            batch.forget()
        return [Tell(waiter, BatcherStopped(withdrawn=not batch.begun)) for waiter in told]
