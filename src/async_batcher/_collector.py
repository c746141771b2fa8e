"""Admission, and when a batch leaves.

Law: what happens next is decided here, from the facts and a time that is handed in; nothing here waits, reads a
clock or calls anyone. The runner asks `next_step` until it says `Rest`, and does each step.

How a batch leaves: it needs a slot, of which there are `concurrency`. With a slot free it leaves when it is full
(at its size, or because the queue is), when the oldest item has waited out the window, or when the batcher is
closing. Where slots are shared with others (`backend_slots`), the step is `Reserve`: the batch is taken only when
the shared slot has been entered, and until then its items wait, count, and may leave.

How a place is handed on: everything that frees one is followed by `next_step`, which begins with those who stand
in line. So nobody else can take a freed place, and whoever gets it need not wake up first.

How often anything is decided: an item that is neither the first nor the last of its batch changes no decision.
`_edge` says up to which length of the tail that is so; one setter, `_reckon`, knows how far.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from async_batcher._errors import BatcherStopped, EnqueueTimeout, QueueFull
from async_batcher._events import BatcherStats
from async_batcher._queue import Batch, Row
from async_batcher._steps import Release, Reserve, Rest, Start, Tell

if TYPE_CHECKING:
    from async_batcher._events import Reason
    from async_batcher._options import Options
    from async_batcher._steps import Step
    from async_batcher._waiter import Waiter


class InLine:
    """A caller that waits for room; `batch` is where its item got a place, once it has."""

    __slots__ = ("admitted", "batch", "deadline", "item", "waiter")

    def __init__(self, item: object, waiter: Waiter, admitted: Waiter | None, deadline: float | None) -> None:
        self.item = item
        self.waiter = waiter
        self.admitted = admitted
        self.deadline = deadline
        self.batch: Batch | None = None

    @property
    def watched(self) -> Waiter:
        """What its caller awaits now."""
        return self.waiter if self.admitted is None else self.admitted


Ticket: TypeAlias = Batch | InLine

_NO_EDGE = 1 << 62  # longer than any list: no item changes a decision


def _sits_in(ticket: Ticket, waiter: Waiter) -> Batch | None:
    """Find the batch of a waiter, which may have moved to an earlier one; `None` while it stands in line."""
    batch = ticket.batch if isinstance(ticket, InLine) else ticket
    return batch and batch.moved.get(waiter, batch)


class Collector:
    """The decisions of one batcher.

    Mutable state: the row, the line, the slots that are taken, whether it is closed, and the counts.
    """

    def __init__(self, options: Options, *, shares_slots: bool = False) -> None:
        self._options = options
        self._shares_slots = shares_slots
        self._row = Row(options.max_batch_size)
        self._line: OrderedDict[Waiter, InLine] = OrderedDict()
        self._running: dict[Batch, None] = {}
        self._reserved = 0
        self._released = False
        self._closed = False
        self._edge = 0
        self.slot_free = True
        """Whether another batch may run."""
        self._succeeded = self._failed = self._withdrawn = self._abandoned = self._stopped = 0
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
    def idle(self) -> bool:
        """Whether nothing waits, stands in line or runs."""
        return not (self._row.places or self._line or self._running or self._reserved)

    def stats(self) -> BatcherStats:
        """Count."""
        return BatcherStats(
            accepted=self._row.appended,
            succeeded=self._succeeded,
            failed=self._failed,
            withdrawn=self._withdrawn,
            abandoned=self._abandoned,
            expired=0,
            stopped=self._stopped,
            waiting=self._row.places,
            running=self._callers_running,
            rejected=self._rejected,
            in_line=len(self._line),
            batches=self._batches,
        )

    # Admission

    def join(self, item: object, waiter: Waiter, now: float) -> Batch | None:
        """Accept an item that changes no decision. `None`: it might change one, so `admit` it."""
        batch = self._row.tail
        items = batch.items
        if len(items) >= self._edge:
            return None
        items.append(item)
        batch.waiters.append(waiter)
        batch.times.append(now)
        return batch

    def admit(self, item: object, waiter: Waiter, now: float, admitted: Waiter | None = None) -> Ticket:
        """Accept an item, or let its caller stand in line. `next_step` must be asked after it.

        Args:
            item: The payload.
            waiter: What is settled with the item's outcome.
            now: The time.
            admitted: What is settled should the item get a place later, where the caller waits for that first.

        Raises:
            BatcherStopped: It is closed.
            QueueFull: There is no room, and callers do not wait for it.
        """
        if self._closed:
            self._rejected += 1
            raise BatcherStopped
        if self._room and not self._line:
            return self._row.append(item, waiter, now)
        if self._options.on_full == "reject":
            self._rejected += 1
            raise QueueFull(
                f"the queue is full: {self._row.places} items wait, and max_queue_size is "
                f'{self._options.max_queue_size}. Callers wait for room with on_full="wait"; '
                "otherwise send again later, or raise max_queue_size"
            )
        timeout = self._options.enqueue_timeout
        entry = InLine(item, waiter, admitted, None if timeout is None else now + timeout)
        self._line[waiter] = entry
        return entry

    def withdraw(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Take an item back unless its batch has begun. `next_step` must be asked after it.

        Returns:
            Whether the processor has never seen the item and never will.
        """
        batch = _sits_in(ticket, waiter)
        if batch is None:
            self._line.pop(waiter, None)
        elif self._row.discard(batch, waiter):
            self._withdrawn += 1
        elif batch.begun and waiter not in batch.dropped:
            return False
        elif waiter not in batch.dropped:
            self._callers_running -= 1
            self._withdrawn += 1
            batch.dropped.add(waiter)
        return True

    def leave(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Let a caller leave whose `waiter` is cancelled. `next_step` must be asked after it.

        Returns:
            Whether the processor has never seen the item and never will.
        """
        if self.withdraw(ticket, waiter):
            return True
        batch = _sits_in(ticket, waiter)
        if batch is not None and waiter in batch.forsaken:
            return False
        self._callers_running -= 1
        self._abandoned += 1
        return False

    def never_ran(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Say of a settled waiter whether its item never reached the processor."""
        batch = _sits_in(ticket, waiter)
        return batch is None or waiter in batch.dropped

    def close(self) -> None:
        """Refuse new items, and let what waits leave at once. `next_step` must be asked after it."""
        self._closed = True
        self._edge = 0

    # What to do next

    def next_step(self, now: float) -> Step:
        """Decide the next thing to do at this time, and take it as done."""
        self._edge = 0  # until it is reckoned again, no item passes unasked
        if self._line and (tell := self._serve_line(now)) is not None:
            return tell
        places, window_ends = self._row.places, None
        if places:
            self._released = False
        elif self._reserved and not self._released:
            self._released = True
            return Release()
        beyond = self._beyond_reserved(places) if self._reserved else places
        if beyond and self.slot_free:
            window_ends = self._row.came(places - beyond) + self._options.max_queue_time
            reason = self._reason(beyond, places, is_due=window_ends <= now)
            if reason is not None:
                return self._let_go(now, reason)
        self._reckon(places)
        # Where a line stands the queue is full, so no window is open: its head's patience is what ends next.
        return Rest(next(iter(self._line.values())).deadline if self._line else window_ends)

    def take_reserved(self, now: float) -> Batch | None:
        """Take the batch for which a slot was reserved; `None` where all its callers have left.

        `next_step` must be asked after it.
        """
        self._reserved -= 1
        self._see_slots()
        places = self._row.places
        return self._take(now, self._reason(places, places, is_due=True) or "due") if places else None

    def give_up_reserved(self) -> None:
        """Give the slot that was reserved back without a batch. `next_step` must be asked after it."""
        self._reserved -= 1
        self._see_slots()

    # A running batch

    def begin(self, batch: Batch) -> bool:
        """Leave out those who are gone, and say whether anyone still waits for this batch."""
        batch.begun = True
        gone = [waiter for waiter in batch.waiters if waiter is not None and waiter.done()]
        if gone:
            uncounted = [waiter for waiter in gone if waiter not in batch.dropped]
            self._callers_running -= len(uncounted)
            self._withdrawn += len(uncounted)
            batch.dropped.update(uncounted)
            batch.keep([waiter is not None and not waiter.done() for waiter in batch.waiters])
        self._batches += bool(batch.items)
        return bool(batch.items)

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
        tells = [self._refuse(entry) for entry in self._pop_line()]
        for batch in self._row.clear(now):
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
        for batch in [*self._row.clear(now), *self._running]:
            self.forsake_batch(batch)
        self._line.clear()
        self._edge = 0

    def forsake_batch(self, batch: Batch) -> None:
        """Count the callers of a batch as stopped, though nobody can be told."""
        batch.forsaken.update(tell.waiter for tell in self._stop_callers(batch))
        batch.forget()

    # Helpers

    @property
    def _room(self) -> bool:
        limit = self._options.max_queue_size
        return limit is None or self._row.places < limit

    def _reckon(self, places: int) -> None:
        """Compute up to which length of the tail an item changes no decision."""
        if self._closed or not places or (self._reserved and self.slot_free):
            return
        tail, size, limit = self._row.tail, self._row.size, self._options.max_queue_size
        held = len(tail.items)
        edge = _NO_EDGE
        if size is not None:
            edge = size + tail.holes  # there the tail is closed
            if places < size:
                edge = held + size - places  # there a batch is full
        if limit is not None:
            edge = min(edge, held + limit - places)  # there the queue is full
        self._edge = edge - 1

    def _serve_line(self, now: float) -> Tell | None:
        """Give freed places to the head of the line, and refuse those who stood there too long."""
        while self._line:
            waiter, entry = next(iter(self._line.items()))
            if entry.watched.done():
                del self._line[waiter]
            elif self._closed:
                return self._refuse(self._line.pop(waiter))
            elif self._room:
                del self._line[waiter]
                entry.batch = self._row.append(entry.item, waiter, now)
                entry.item = None
                if entry.admitted is not None:
                    return Tell(entry.admitted, None)
            elif entry.deadline is not None and entry.deadline <= now:
                del self._line[waiter]
                self._rejected += 1
                return Tell(entry.watched, self._too_late())
            else:
                return None
        return None

    def _too_late(self) -> EnqueueTimeout:
        return EnqueueTimeout(
            f"no room within enqueue_timeout={self._options.enqueue_timeout} s: the queue has held "
            f"max_queue_size={self._options.max_queue_size} items all the time. Send again later"
        )

    def _pop_line(self) -> list[InLine]:
        entries = [entry for entry in self._line.values() if not entry.watched.done()]
        self._line.clear()
        return entries

    def _refuse(self, entry: InLine) -> Tell:
        self._rejected += 1
        return Tell(entry.watched, BatcherStopped())

    def _see_slots(self) -> None:
        limit = self._options.concurrency
        self.slot_free = limit is None or len(self._running) + self._reserved < limit

    def _beyond_reserved(self, places: int) -> int:
        """Count the places that are left to those who come when every reservation has taken its batch."""
        size = self._row.size
        return 0 if size is None else max(0, places - self._reserved * size)

    def _reason(self, waiting: int, places: int, *, is_due: bool) -> Reason | None:
        """Say why a batch may leave, of which so many items wait; slots aside."""
        size, limit = self._row.size, self._options.max_queue_size
        if (size is not None and waiting >= size) or (limit is not None and places >= limit):
            return "full"
        if self._closed:
            return "drain"
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
        self._callers_running += batch.live
        self._see_slots()
        return batch

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
            batch.dropped.update(told, gone)
        if not running:
            batch.forget()
        return [Tell(waiter, BatcherStopped(withdrawn=not batch.begun)) for waiter in told]
