"""What the collector must do, written from the contract on plain lists: the model that its tests hold it to.

Nothing here is quick or clever. Places that wait are one list, callers who stand in line another, and every
question is answered by looking at all of them. A batch is the longest head of the row that passes no limit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import hypothesis.strategies as st
from collector_callers import Caller, CrowdOfWaits, Place, Wait

from async_batcher import (
    BatcherStats,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    QueueFull,
)
from async_batcher._batch import Batch, callers_of
from async_batcher._options import OnFull, Options
from async_batcher._steps import Release, Reserve, Rest, Start, Step, Tell

__all__ = ["NOW", "Caller", "CrowdOfWaits", "Model", "Place", "Wait", "some_options"]

NOW = float("-inf")
"""Due at once, whatever the time."""
COUNTS = ("accepted", "succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped", "rejected")

Told = tuple[Wait, type[BaseException] | type[None]]


class Model:
    """The facts, and what follows from them."""

    def __init__(self, options: Options, *, shared: bool) -> None:
        self.options = options
        self.shared = shared
        self.closed = self.released = self.ages = False
        self.reserved = 0
        self.line: list[Caller] = []
        self.row: list[Place] = []
        self.running: dict[Batch, list[Place]] = {}
        self.taken: list[Caller] = []
        self.counts = dict.fromkeys((*COUNTS, "batches"), 0)

    # What is so

    @property
    def room(self) -> bool:
        limit = self.options.max_queue_size
        return limit is None or len(self.row) < limit

    @property
    def waiting(self) -> list[Caller]:
        """Callers whose item is in the row."""
        return [caller for place in self.row for caller in place.callers]

    @property
    def slot_free(self) -> bool:
        limit = self.options.concurrency
        return limit is None or len(self.running) + self.reserved < limit

    @property
    def spare(self) -> list[Place]:
        """Those who wait, less those whom the batches with a reservation will take."""
        spare = self.row
        for _ in range(self.reserved):
            spare = spare[self.head(spare) :]
        return spare

    def head(self, places: Sequence[Place]) -> int:
        """Count the places of the batch that leaves next."""
        heaviest, count, weight = self.options.max_batch_weight, 0, 0
        for place in places[: self.options.max_batch_size]:
            weight += place.weight
            if heaviest is not None and weight > heaviest:
                break
            count += 1
        return count

    def is_full(self, places: Sequence[Place]) -> bool:
        """Say whether a batch of the first of these, which wait, need not wait for company."""
        size, heaviest = self.options.max_batch_size, self.options.max_batch_weight
        return (
            not self.room
            or (size is not None and len(places) >= size)
            or (heaviest is not None and sum(place.weight for place in places) >= heaviest)
        )

    def refusal(self, caller: Caller) -> type[Exception] | None:
        """What a caller that comes now is refused with."""
        heaviest = self.options.max_batch_weight
        if self.closed:
            return BatcherStopped
        if heaviest is not None and caller.weight > heaviest:
            return ItemTooHeavy
        waits = caller.patient or self.options.on_full == "wait"
        return None if waits or self.equal(caller) or (self.room and not self.line) else QueueFull

    def equal(self, caller: Caller) -> Place | None:
        """Find the place that a caller may share."""
        same = (place for place in self.row if place.key is not None and place.key == caller.key)
        return next(same, None)

    def due(self) -> float | None:
        """When the collector must do something, if nothing else happens."""
        times: list[float] = []
        standing = [caller for caller in self.line if not caller.watched.done()]
        if standing:
            if self.closed or self.room or self.equal(standing[0]):
                return NOW
            times += [caller.deadline for caller in standing if caller.deadline is not None]
        times += [caller.expires for caller in self.may_expire() if caller.expires is not None]
        if (spare := self.spare) and self.slot_free:
            if self.closed or spare[0].flushed or self.is_full(spare):
                return NOW
            times.append(spare[0].came + self.options.max_queue_time)
        return min(times, default=None)

    def may_expire(self) -> list[Caller]:
        """List those who may grow too old."""
        callers = (*self.line, *self.waiting)
        return [caller for caller in callers if caller.expires is not None and caller.open]

    def check_stats(self, stats: BatcherStats) -> None:
        """Hold the counts against the facts. Who left the line unsaid may be counted there or not."""
        self.taken = [caller for caller in self.taken if not caller.counted]
        waiting, running = len(self.waiting), len(self.taken)
        assert replace(stats, in_line=0) == BatcherStats(
            **self.counts, waiting=waiting, running=running, in_line=0
        )
        standing = sum(not caller.watched.done() for caller in self.line)
        assert standing <= stats.in_line <= len(self.line)

    def count(self, caller: Caller, what: str) -> None:
        """Count a caller, once and for all."""
        assert not caller.counted, f"{caller} is counted twice, now as {what}"
        caller.counted = True
        self.counts[what] += 1

    # What happens

    def arrive(self, caller: Caller, now: float) -> None:
        """Take a new caller in, which is not refused."""
        self.ages |= caller.expires is not None
        if self.equal(caller) or (self.room and not self.line):
            self._accept(caller, now)
            return
        timeout = None if caller.patient else self.options.enqueue_timeout
        caller.place, caller.deadline = "line", None if timeout is None else now + timeout
        self.line.append(caller)

    def _accept(self, caller: Caller, now: float) -> None:
        caller.place = "row"
        self.counts["accepted"] += 1
        place = self.equal(caller)
        if place is None:
            self.row.append(Place(caller.item, now, caller.weight, caller.key, [caller]))
        else:
            place.callers.append(caller)

    def vacate(self, caller: Caller) -> None:
        """Take a caller out of the row; its item stays while others share it."""
        for place in self.row:
            if caller in place.callers:
                place.callers.remove(caller)
                caller.place = "out"
        self.row = [place for place in self.row if place.callers]

    def depart(self, caller: Caller, seen_as: str) -> bool:
        """Let a caller go, and say whether its item was never seen for it and never will be."""
        if caller.place == "line":
            self.line = [other for other in self.line if other is not caller]
        elif caller.place == "seen":
            self.count(caller, seen_as)
        elif not caller.counted:
            self.count(caller, "withdrawn")
            self.vacate(caller)
        return caller.place != "seen"

    def begin(self, batch: Batch) -> list[Place]:
        """Leave out the places of which everyone is gone; the rest is what the processor sees."""
        places = self.running[batch]
        for place in places:
            wanted = any(not caller.waiter.done() for caller in place.callers)
            for caller in place.callers:
                if not wanted and not caller.counted:
                    self.count(caller, "withdrawn")
                elif wanted and not caller.counted:
                    caller.place = "seen"
        self.running[batch] = seen = [place for place in places if self.seen_in([place])]
        self.counts["batches"] += bool(seen)
        return seen

    def seen_in(self, places: Sequence[Place]) -> list[Caller]:
        """List the callers for whom the processor sees an item."""
        return [caller for place in places for caller in place.callers if caller.place == "seen"]

    def take(self, batch: Batch, now: float) -> None:
        """Hold a batch that left against the head of the row."""
        reason, count = self.reason(), self.head(self.row)
        taken, self.row = self.row[:count], self.row[count:]
        self.running[batch] = taken
        for caller in [caller for place in taken for caller in place.callers]:
            caller.place = "taken"
            self.taken.append(caller)
        self._check_batch(batch, taken)
        assert batch.reason == reason
        assert batch.taken_at == now

    def _check_batch(self, batch: Batch, taken: Sequence[Place]) -> None:
        assert batch.items == [place.item for place in taken]
        assert batch.times == [place.came for place in taken]
        assert [list(callers_of(seat)) for seat in batch.waiters] == [
            [caller.waiter for caller in place.callers] for place in taken
        ]
        if self.options.weigh is not None:
            assert batch.weights == [place.weight for place in taken]
            assert batch.weight == sum(place.weight for place in taken)

    def reason(self) -> str:
        """Say why a batch leaves, before it is taken."""
        count, heaviest = self.head(self.row), self.options.max_batch_weight
        if count == self.options.max_batch_size:
            return "full"
        weight = sum(place.weight for place in self.row[:count])
        if heaviest is not None and (count < len(self.row) or weight >= heaviest):
            return "weight"
        if not self.room:
            return "full"
        return "drain" if self.closed else "flush" if self.row[0].flushed else "due"

    # What the collector decides

    def check(self, step: Step, now: float) -> None:
        """Hold a step against the facts, and take it as done."""
        told = self.expire(now, step) or next(self._serve_line(now), None)
        if told is not None:
            self.check_told(step, told)
            return
        self.released &= not self.row
        match step:
            case Start(batch):
                assert not self.shared
                self._check_may_leave(now)
                self.take(batch, now)
            case Reserve():
                assert self.shared
                self._check_may_leave(now)
                self.reserved += 1
                self.released = False
            case Release():
                assert self.reserved
                assert not self.row, "somebody waits for the slot that is called off"
                assert not self.released, "it was called off before"
                self.released = True
            case Rest(until):
                self._check_rest(until, now)
            case _:
                raise AssertionError(f"{step}, though nobody had to be told anything")

    def check_told(self, step: Step | None, told: Told) -> None:
        """Hold what is said to a caller against what must be said."""
        waiter, error = told
        assert isinstance(step, Tell), f"{step}, where {waiter} had to be told {error}"
        assert step.waiter is waiter
        assert type(step.error) is error

    def expire(self, now: float, step: Step | None) -> Told | None:
        """Take out the one that is too old for the longest time; where several are, the one that the step tells."""
        old = [caller for caller in self.may_expire() if caller.expires is not None and caller.expires <= now]
        if not old:
            return None
        told = step.waiter if isinstance(step, Tell) else None
        caller = min(old, key=lambda caller: (caller.expires, caller.watched is not told))
        watched = caller.watched
        if caller.place == "line":
            self.line.remove(caller)
            self.counts["rejected"] += 1
        else:
            self.count(caller, "expired")
            self.vacate(caller)
        return watched, ItemExpired

    def _serve_line(self, now: float) -> Iterator[Told]:
        """Go through the line from its head: who must be told what."""
        while self.line:
            head = self.line[0]
            if head.watched.done():
                self.line.pop(0)
            elif self.closed:
                yield self._refuse(head, BatcherStopped)
            elif self.equal(head) or self.room:
                self._accept(self.line.pop(0), now)
                if head.admitted is not None:
                    yield head.admitted, type(None)
            else:
                break
        for caller in self.line:
            if not caller.watched.done() and caller.deadline is not None and caller.deadline <= now:
                yield self._refuse(caller, EnqueueTimeout)

    def _refuse(self, caller: Caller, error: type[BaseException]) -> Told:
        self.line.remove(caller)
        self.counts["rejected"] += 1
        return caller.watched, error

    def _check_may_leave(self, now: float) -> None:
        assert self.slot_free, "more batches than concurrency allows"
        assert self.row, "a batch of nobody"
        spare = self.spare
        if self.roughly:
            return
        assert spare, "a batch of nobody"
        waited = now - spare[0].came >= self.options.max_queue_time
        assert self.is_full(spare) or self.closed or spare[0].flushed or waited, "it left too early"

    @property
    def roughly(self) -> bool:
        """Whether it may err on the early side: with a reservation, weights tell only roughly what it leaves."""
        return self.reserved > 0 and self.options.max_batch_weight is not None

    def _check_rest(self, until: float | None, now: float) -> None:
        due = self.due()
        assert due is None or due > now, f"it rests at {now} with something to do since {due}"
        assert self.row or not self.reserved or self.released, "nobody waits for the slot any more"
        if self.ages or self.roughly:  # it may look for one who has left
            assert until is None or until > now
            assert due is None or (until is not None and until <= due), f"it rings at {until}, not at {due}"
        else:
            assert until == due, f"it rings at {until}, not at {due}"


@st.composite
def some_options(draw: st.DrawFn) -> Options:
    """Draw all that decides anything, small enough for every limit to be met."""
    on_full: OnFull = draw(st.sampled_from(get_args(OnFull)))
    heaviest = draw(st.sampled_from([None, None, None, 4, 7]))
    return Options(
        max_batch_size=draw(st.sampled_from([1, 2, 3, 4, 4, None])),
        max_queue_size=draw(st.sampled_from([1, 2, 3, 5, 9, None])),
        max_queue_time=draw(st.sampled_from([0, 0.5, 4.0])),
        concurrency=draw(st.sampled_from([1, 1, 2, None])),
        on_full=on_full,
        enqueue_timeout=draw(st.sampled_from([None, 0.5, 3.0])) if on_full == "wait" else None,
        expires_after=draw(st.sampled_from([None, None, None, 1.0, 5.0])),
        weigh=float if heaviest or draw(st.integers(0, 4)) == 0 else None,
        max_batch_weight=heaviest,
        coalesce_key=draw(st.sampled_from([None, None, hash])),
    )
