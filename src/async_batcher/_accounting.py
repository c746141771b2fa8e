"""What becomes of those who were accepted: the counts, the slots, and who is told at the end.

Law: every caller that was accepted is in one count, at every step: it waits, it runs, or it has come to one end. A
caller is taken out of one count in the same step in which it is put into the next.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from async_batcher._admission import Admission
from async_batcher._batch import Batch, Sharers, callers_of
from async_batcher._errors import BatcherStopped
from async_batcher._events import BatcherStats
from async_batcher._line import Ticket, seat_of
from async_batcher._steps import Tell

if TYPE_CHECKING:
    from async_batcher._options import Options
    from async_batcher._waiter import Waiter


class Accounting:
    """The account of one batcher; the collector decides on it.

    Mutable state: those who wait, the batches that run, the slots that are taken, and the counts.
    """

    def __init__(self, options: Options) -> None:
        self._concurrency = options.concurrency
        self._admission = Admission(options)
        self._row, self._line, self._expiries = (
            self._admission.row,
            self._admission.line,
            self._admission.expiries,
        )
        # To see at a glance whether there is anybody: they are asked more often than anything else here.
        self._standing, self._aging = self._line.all, self._expiries.heap
        self._running: dict[Batch, None] = {}
        self._reserved = 0
        self.undecided = False
        """Whether the collector's `next_step` must be asked."""
        self.slot_free = True
        """Whether another batch may run."""
        self.counts = self._admission.counts
        """What only grows."""
        self.present = self._admission.present
        """What is as of now, for other threads too."""
        self._batches = 0

    # What is so

    @property
    def closed(self) -> bool:
        """Whether it refuses new items for good."""
        return self._admission.closed

    @property
    def places(self) -> int:
        """Items that wait."""
        return self._row.places()

    @property
    def idle(self) -> bool:
        """Whether nothing waits, stands in line or runs."""
        return not (self._running or self._row.places() or self._standing or self._reserved)

    def stats(self) -> BatcherStats:
        """Count."""
        counts, present = self.counts, self.present
        return BatcherStats(
            accepted=self._admission.accepted,
            succeeded=counts.succeeded,
            failed=counts.failed,
            withdrawn=counts.withdrawn,
            abandoned=counts.abandoned,
            expired=counts.expired,
            stopped=counts.stopped,
            waiting=present.waiting,
            running=present.running,
            rejected=counts.rejected,
            in_line=present.in_line,
            batches=self._batches,
        )

    # A running batch

    def begin(self, batch: Batch) -> int:
        """Leave out those who are gone, and count those who still wait for this batch."""
        batch.begun = True
        if not (batch.crowds and batch.crowded) and any([seat.done() for seat in batch.waiters]):  # noqa: C419  (a list is quicker here)
            self._leave_out(batch)
        callers = len(batch.items)
        if batch.shares:
            callers = sum(caller not in batch.dropped for caller in batch.callers)
        self._batches += bool(callers)
        return callers

    def settled(self, succeeded: int, failed: int) -> None:
        """Count callers of a running batch that got their outcome."""
        self.counts.succeeded += succeeded
        self.counts.failed += failed
        self.present.running -= succeeded + failed

    def ended(self, batch: Batch) -> None:
        """Give the batch's slot back. `next_step` must be asked after it where `undecided`."""
        del self._running[batch]
        self._see_slots()
        if self._row.places() or self._standing or self._aging:
            self.undecided = True

    def never_began(self, batch: Batch) -> None:
        """Take back that a batch began: it was handed to an executor, which has not started it and never will."""
        batch.begun = False
        self._batches -= 1

    # Those who can't be told, or never were served

    def never_ran(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Say of a settled waiter whether its item never reached the processor."""
        batch, seat = seat_of(ticket, waiter)
        if batch is None or waiter in batch.dropped or waiter in batch.expired:
            return True
        return (
            isinstance(seat, Sharers) and waiter not in seat.callers
        )  # it left before its place went elsewhere

    def has_forsaken(self, ticket: Ticket, waiter: Waiter) -> bool:
        """Say whether a caller was given up with its loop: it is counted, and can't be told."""
        batch, _ = seat_of(ticket, waiter)
        return batch is not None and waiter in batch.forsaken

    def forsake_batch(self, batch: Batch) -> None:
        """Count the callers of a batch as stopped, though nobody can be told."""
        batch.forsaken = {*batch.callers} | batch.forsaken
        self._stop_callers(batch)
        batch.forget()

    # Helpers

    def _see_slots(self) -> None:
        limit = self._concurrency
        self.slot_free = limit is None or len(self._running) + self._reserved < limit

    def _leave_out(self, batch: Batch) -> None:
        """Leave out the places of which all callers are gone."""
        wanted = [not seat.done() for seat in batch.waiters]
        for seat in itertools.compress(batch.waiters, [not want for want in wanted]):
            for caller in callers_of(seat):
                if caller not in batch.dropped:
                    self.present.running -= 1
                    self.counts.withdrawn += 1
                    batch.drop(caller)
        batch.keep(wanted)

    def _stop_callers(self, batch: Batch) -> list[Tell]:
        """Settle the callers of a batch for good: those who still wait are to be told."""
        told = [waiter for waiter in batch.callers if not waiter.done()]
        self.counts.stopped += len(told)
        running = batch in self._running
        if running:
            self.present.running -= len(told)
        if not batch.begun:
            gone = [] if running else [waiter for waiter in batch.callers if waiter.done()]
            self.counts.withdrawn += len(gone)
            for waiter in (*told, *gone):
                batch.drop(waiter)
        if not running:
            batch.forget()
        return [Tell(waiter, BatcherStopped(withdrawn=not batch.begun)) for waiter in told]
