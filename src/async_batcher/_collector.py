"""When a batch leaves.

Law: what happens next is decided here, from the facts and a time that is handed in; nothing here waits, reads a
clock or calls anyone. The runner asks `next_step` until nothing is undecided, and does each step.

How a batch leaves: it needs a slot, of which there are `concurrency`. With a slot free it leaves when it is full
(at its size or its weight, or because the queue is), when the oldest item has waited out the window, when it was
flushed, or when the batcher is closing. Where slots are shared with others (`backend_slots`), the step is `Reserve`:
the batch is taken only when the shared slot has been entered, and until then its items wait, count, and may leave.

How a place is handed on: everything that frees one is followed by `next_step`, which begins with those who stand
in line. So nobody else can take a freed place, and whoever gets it need not wake up first.

How often anything is decided: an item that is neither the first nor the last of its batch changes no decision, and
while no slot is free none does. `_edge` says up to which length of the tail that is so; one setter, `_reckon`, knows
how far. `_quick` is the same where an item need not be looked at, having no weight, no key and no age. `undecided`
says whether `next_step` must be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from async_batcher._accounting import Accounting
from async_batcher._batch import Batch
from async_batcher._line import InLine, Ticket, remember, seat_of
from async_batcher._steps import Release, Reserve, Rest, Start, Tell

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from async_batcher._events import Reason
    from async_batcher._options import Options
    from async_batcher._steps import Step
    from async_batcher._waiter import Crowd, Waiter

_NO_EDGE: Final = 1 << 62  # longer than any list: no item changes a decision
_REST: Final = Rest(None)


class Collector(Accounting):
    """The decisions of one batcher.

    Mutable state, beside the account: up to where nothing is to be decided, and when to look again.
    """

    def __init__(self, options: Options, *, shares_slots: bool = False) -> None:
        super().__init__(options)
        self._size, self._limit = options.max_batch_size, options.max_queue_size
        self._window = options.max_queue_time
        self._max_weight = options.max_batch_weight
        self._plain = options.plain
        self._shares_slots = shares_slots
        self._lone: Reason | None = None
        """Why an item leaves that is alone, where that is at once."""
        if options.plain and not (self._window or shares_slots):
            self._lone = "full" if 1 in (self._size, self._limit) else "due"
        self._released = False
        self._edge = self._quick = 0
        self._looks_at: float | None = None

    # Coming in

    def join(self, item: object, waiter: Waiter, now: float) -> Batch | None:
        """Accept an item that changes no decision. `None`: it might change one, so `admit` it.

        Only where items have no weight, no key and no expiry.
        """
        batch = self._row.tail
        items = batch.items
        if len(items) >= self._quick:
            return None
        items.append(item)
        batch.waiters.append(waiter)
        batch.times.append(now)
        return batch

    def join_asked(
        self, item: object, waiter: Waiter, now: float, weight: float, expires: float | None
    ) -> Batch | None:
        """As `join`, for an item that has no key, and may have a weight or an age."""
        row, cap = self._row, self._max_weight
        batch = row.tail
        if len(batch.items) >= self._edge or not (cap is None or self._is_light(batch, weight, cap)):
            return None
        batch.items.append(item)
        batch.waiters.append(waiter)
        batch.times.append(now)
        if batch.weights is not None:
            batch.weights.append(weight)
            batch.weight += weight
            row.weight += weight
        if expires is not None:
            self._expiries.add(expires, batch, waiter)
            if self._looks_at is None or expires < self._looks_at:
                self.undecided = True
        return batch

    def take_lone(self, item: object, waiter: Waiter, now: float, note: object | None = None) -> Batch | None:
        """Accept an item that leaves as it comes, being alone where a slot is free and there is no window.

        Nothing else is decided by it: whoever comes finds what was so before, but for the slot. `None`: it can't,
        so `admit` it. Only where items have no weight, no key and no expiry.
        """
        waits = self._admission
        if self._lone is None or not self.slot_free or self.undecided or waits.closed or self._row.places():
            return None
        batch = self._row.pass_by(item, waiter, now, self._lone)
        if note is not None:
            batch.remember(waiter, note)
        self._running[batch] = None
        self.present.running += 1
        self._see_slots()
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
        note: object | None = None,
    ) -> Ticket:
        """Accept an item, or let its caller stand in line. `next_step` must be asked after it where `undecided`.

        Args:
            item: The payload.
            waiter: What is settled with the item's outcome.
            now: The time.
            admitted: What is settled should the item get a place later, where the caller waits for that first.
            weight: Of the item.
            key: Callers with equal keys share a place; `None` is not shared.
            expires: When the item is too old; `None` is never.
            patient: Whether its caller stands in line whatever the options say, and without a limit of time.
            note: What to remember of its caller; `None` is nothing.

        Raises:
            BatcherStopped: It is closed.
            ItemTooHeavy: No batch may be so heavy.
            QueueFull: There is no room, and callers do not wait for it.
        """
        waits, tail, cap = self._admission, self._row.tail, self._max_weight
        waits.refuse_if_closed()
        if cap is not None:
            waits.refuse_too_heavy(weight)
        ticket: Ticket | None = None if key is None else waits.share(key, waiter)
        if ticket is not None:
            pass
        elif len(tail.items) < self._edge and (cap is None or self._is_light(tail, weight, cap)):
            ticket = waits.seat(item, waiter, now, weight, key)
        elif waits.has_room():
            self._expect(1, weight)
            ticket = waits.seat(item, waiter, now, weight, key)
            self._look_behind(tail)
        else:
            ticket = InLine(item, waiter, admitted, weight, key)
            waits.stand_in_line(ticket, now, patient=patient)
            self.undecided = True
        if note is not None:
            remember(ticket, waiter, note)
        if expires is not None:
            if isinstance(ticket, InLine):
                ticket.expires = expires
            self._expiries.add(expires, ticket, waiter)
            self.undecided |= self._looks_at is None or expires < self._looks_at
        return ticket

    def note_all(self, note: Callable[[], object | None]) -> None:
        """Remember from now on what `note` says of each caller that comes in by `join`."""
        self.__class__ = NotingCollector
        cast("NotingCollector", self).note = note

    def fits(self) -> int:
        """Count how many items may be accepted together now; 0 where each must come by itself."""
        if self.closed or not self._plain or not self._admission.has_room():
            return 0
        room = _NO_EDGE if self._size is None else self._size - self._row.tail.live
        return room if self._limit is None else min(room, self._limit - self._row.places())

    def admit_crowd(self, items: list[object], crowd: Crowd, now: float) -> Batch:
        """Accept items that come together, no more than `fits` says. `next_step` must be asked where `undecided`."""
        tail = self._row.tail
        self._expect(len(items), 0)
        batch = self._row.extend(items, crowd, now)
        self._look_behind(tail)
        return batch

    # Leaving

    def withdraw(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Take an item back unless its batch has begun. `next_step` must be asked after it.

        Returns:
            Whether the processor has never seen the item for this caller and never will.
        """
        self._edge = self._quick = 0  # should `next_step` not be asked, the next item is not passed unasked
        self.undecided = True
        if self._admission.withdraw(ticket, waiter):
            return True
        batch, _ = seat_of(ticket, waiter)
        if batch is None or waiter in batch.dropped:
            return True
        if batch.begun or waiter in batch.forsaken:
            return False
        self.present.running -= 1
        self.counts.withdrawn += 1
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
        self.present.running -= 1
        self.counts.abandoned += 1
        return False

    def flush(self) -> None:
        """Let what waits now leave as soon as a slot is free. `next_step` must be asked after it."""
        self._edge = self._quick = 0  # they were reckoned for a tail that is closed now
        self._row.flush()

    def start_clock(self) -> None:
        """Forget the times of an earlier event loop, whose clock was another; nothing waits now."""
        self._expiries.clear()
        self._looks_at = None

    def close(self) -> None:
        """Refuse new items, and let what waits leave at once. `next_step` must be asked after it."""
        self._admission.closed = True
        self._edge = self._quick = 0

    # What to do next

    def next_step(self, now: float) -> Step:
        """Decide the next thing to do at this time, and take it as done."""
        self._edge = self._quick = 0  # until it is reckoned again, no item passes unasked
        self.undecided = True
        if (self._standing or self._aging) and (tell := self._admission.next_told(now)) is not None:
            return tell
        places = self._row.places()
        window_ends = None
        if places:
            self._released = False
            beyond, weight = places, self._row.weight
            if self._reserved:
                beyond, weight = self._row.behind(self._reserved)
            if beyond and self.slot_free:
                came, flushed = self._row.first() if beyond == places else self._row.first_of(beyond)
                window_ends = came + self._window
                reason = self._reason(beyond, places, weight, flushed=flushed, is_due=window_ends <= now)
                if reason is not None:
                    return self._let_go(now, reason)
        elif self._reserved and not self._released:
            self._released = True
            return Release()
        self._rest(places, window_ends)
        return _REST if self._looks_at is None else Rest(self._looks_at)

    def next_expired(self, now: float) -> Tell | None:
        """Take out an item that is too old, if there is one."""
        return self._admission.next_expired(now)

    def take_reserved(self, now: float) -> Batch | None:
        """Take the batch for which a slot was reserved; `None` where all its callers have left.

        `next_expired` must be asked before it, at the same time, and `next_step` after it.
        """
        self._reserved -= 1
        self._see_slots()
        places = self._row.places()
        if not places:
            return None
        _, flushed = self._row.first()
        reason = self._reason(places, places, self._row.weight, flushed=flushed, is_due=True)
        return self._take(now, reason or "due")

    def give_up_reserved(self) -> None:
        """Give the slot that was reserved back without a batch. `next_step` must be asked after it."""
        self._reserved -= 1
        self.undecided = True
        self._see_slots()

    # A running batch

    def abort(self, now: float) -> list[Tell]:
        """Close, take everything out, and list what to tell those who wait for anything at all."""
        self.close()
        tells = self._admission.clear_line()
        for batch in self._admission.clear(now):
            tells += self._stop_callers(batch)
        for batch in self._running:
            tells += self._stop_callers(batch)
        return tells

    def forsake(self, now: float) -> None:
        """Take everything out and count it as stopped, though nobody can be told: their loop has ended."""
        for batch in [*self._admission.clear(now), *self._running]:
            self.forsake_batch(batch)
        self.counts.abandoned += self.present.running  # who was cancelled too late to say so
        self.present.running = 0
        for entry in self._line.clear():
            nowhere = Batch()
            nowhere.taken_at = now
            nowhere.forsaken = {entry.sit(nowhere)}
        self._edge = self._quick = 0
        self._looks_at = None

    # Helpers

    def _is_light(self, tail: Batch, weight: float, cap: float) -> bool:
        """Say whether an item fits into the tail by its weight, and changes no decision by it."""
        return tail.weight + weight <= cap and (not self.slot_free or self._row.weight + weight < cap)

    def _expect(self, places: int, weight: float) -> None:
        """See whether so many more places, so heavy together, may change a decision: only with a slot free."""
        if self.slot_free or self._reserved:
            light = self._max_weight is None or self._row.weight + weight < self._max_weight
            self.undecided |= not light or len(self._row.tail.items) + places > self._edge

    def _look_behind(self, tail: Batch) -> None:
        """Reckon again how far the next items change nothing, unless that is to be decided anyhow."""
        if not self.undecided and (self._row.tail is not tail or len(tail.items) > self._edge):
            self._reckon(self._row.places())

    def _rest(self, places: int, window_ends: float | None) -> None:
        """Note that all is decided, and when to look again."""
        self._reckon(places)
        self.undecided = False
        # Where a line stands the queue is full, so no window is open: its first to lose patience is what ends next.
        until = self._line.patience if self._standing else window_ends
        soonest = self._expiries.soonest
        if soonest is not None and (until is None or soonest < until):
            until = soonest
        self._looks_at = until

    def _reckon(self, places: int) -> None:
        """Compute up to which length of the tail an item changes no decision."""
        if self._admission.closed or not places or (self._reserved and self.slot_free):
            self._edge = self._quick = 0
            return
        tail, size, limit = self._row.tail, self._size, self._limit
        held = len(tail.items)
        edge = _NO_EDGE
        if size is not None:
            edge = size + tail.holes  # there the tail is closed
            if places < size:
                edge = held + size - places  # there a batch is full
        if limit is not None and held + limit - places < edge:
            edge = held + limit - places  # there the queue is full
        self._edge = edge - 1
        self._quick = self._edge if self._plain else 0

    def _reason(
        self, waiting: int, places: int, weight: float, *, flushed: bool, is_due: bool
    ) -> Reason | None:
        """Say why a batch may leave, of which so many items wait, of all in the row, so heavy together; slots aside."""
        if (self._size is not None and waiting >= self._size) or (
            self._limit is not None and places >= self._limit
        ):
            return "full"
        if self._max_weight is not None and weight >= self._max_weight:
            return "weight"
        if self._admission.closed:
            return "drain"
        if flushed:
            return "flush"
        return "due" if is_due else None

    def _let_go(self, now: float, reason: Reason) -> Start | Reserve:
        if self._shares_slots:
            self._reserved += 1
            self._released = False
            self._see_slots()
            return Reserve()
        start = Start(self._take(now, reason))
        if not (self.slot_free or self._standing or self._aging):  # then the next step would be to rest
            self._rest(self._row.places(), None)
        return start

    def _take(self, now: float, reason: Reason) -> Batch:
        batch, callers = self._admission.take(now, reason)
        self._running[batch] = None
        self.present.running += callers
        self._see_slots()
        return batch


class NotingCollector(Collector):
    """The same, where there is something to remember of each caller: a collector becomes one, and others ask nothing.

    Mutable state: `note`, which says it.
    """

    note: Callable[[], object | None]

    def join(self, item: object, waiter: Waiter, now: float) -> Batch | None:
        batch = self._row.tail
        items = batch.items
        if len(items) >= self._quick:
            return None
        items.append(item)
        batch.waiters.append(waiter)
        batch.times.append(now)
        if (note := self.note()) is not None:
            batch.remember(waiter, note)
        return batch
