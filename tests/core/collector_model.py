"""What the collector must do, written from the contract on plain lists: the model that its tests hold it to.

Nothing here is quick or clever. Items that wait are one list, those who stand in line another, and every
question is answered by looking at all of them.
"""

from collections.abc import Generator
from typing import Any, get_args

import attrs
import hypothesis.strategies as st

from async_batcher import BatcherStats, BatcherStopped, EnqueueTimeout, QueueFull
from async_batcher._line import Ticket
from async_batcher._options import OnFull, Options
from async_batcher._queue import Batch
from async_batcher._steps import Reserve, Rest, Start, Step, Tell

NOW = float("-inf")
"""Due at once, whatever the time."""


class Wait:
    """A waiter without an event loop. To settle it twice is an error, as on asyncio."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.state = "open"

    def __repr__(self) -> str:
        return f"<{self.label} {self.state}>"

    def _settle(self, state: str) -> None:
        if self.state != "open":
            raise RuntimeError(f"{self!r} is settled again, as {state}")
        self.state = state

    def done(self) -> bool:
        return self.state != "open"

    def cancelled(self) -> bool:
        return self.state == "cancelled"

    def cancel(self) -> None:
        if self.state == "open":
            self.state = "cancelled"

    def set_result(self, result: Any, /) -> None:
        self._settle("result")
        self.outcome = result

    def set_exception(self, exception: BaseException, /) -> None:
        if isinstance(exception, StopIteration):
            raise TypeError("a future refuses StopIteration")
        self._settle("error")
        self.error = exception

    def exception(self) -> BaseException | None:
        return self.error

    def __await__(self) -> Generator[Any, Any, Any]:
        yield
        return self.outcome


@attrs.define(eq=False)
class Caller:
    """One caller and its item. `place`: line, row, taken (out of the row), seen (by the processor) or out."""

    item: int
    waiter: Wait
    admitted: Wait | None
    place: str = "row"
    came: float = 0.0
    deadline: float | None = None
    ticket: Ticket | None = None
    reported: bool = False
    """Its leaving has been told to the collector."""
    counted: bool = False
    """It is in one of the counts of those who are done."""

    @property
    def watched(self) -> Wait:
        """What it awaits now."""
        return self.admitted if self.place == "line" and self.admitted is not None else self.waiter

    @property
    def open(self) -> bool:
        """Whether it still waits for an outcome."""
        return not self.watched.done() and not self.waiter.done()

    @property
    def gone_unsaid(self) -> bool:
        """Whether it was cancelled, and the collector has not been told."""
        return (self.watched.cancelled() or self.waiter.cancelled()) and not self.reported


class Model:
    """The facts, and what follows from them."""

    def __init__(self, options: Options, *, shared: bool) -> None:
        self.options = options
        self.shared = shared
        self.closed = False
        self.reserved = 0
        self.line: list[Caller] = []
        self.row: list[Caller] = []
        self.running: dict[Batch, list[Caller]] = {}
        self.taken: list[Caller] = []
        self.counts = dict.fromkeys(
            ("accepted", "succeeded", "failed", "withdrawn", "abandoned", "stopped", "rejected", "batches"), 0
        )

    # What is so

    @property
    def room(self) -> bool:
        limit = self.options.max_queue_size
        return limit is None or len(self.row) < limit

    @property
    def refusal(self) -> type[Exception] | None:
        """What a caller that comes now is refused with."""
        if self.closed:
            return BatcherStopped
        return QueueFull if self.options.on_full == "reject" and not self.room else None

    @property
    def slot_free(self) -> bool:
        limit = self.options.concurrency
        return limit is None or len(self.running) + self.reserved < limit

    @property
    def spare(self) -> list[Caller]:
        """Those who wait, less those whom the batches with a reservation will take."""
        if not self.reserved:
            return self.row
        size = self.options.max_batch_size
        return [] if size is None else self.row[size * self.reserved :]

    @property
    def full(self) -> bool:
        size, limit = self.options.max_batch_size, self.options.max_queue_size
        return (size is not None and len(self.row) >= size) or (limit is not None and len(self.row) >= limit)

    def due(self) -> float | None:
        """When the collector must do something, if nothing else happens."""
        times: list[float] = []
        standing = [caller for caller in self.line if not caller.watched.done()]
        if standing:
            if self.closed or self.room:
                return NOW
            if standing[0].deadline is not None:
                times.append(standing[0].deadline)
        if self.spare and self.slot_free:
            size, limit = self.options.max_batch_size, self.options.max_queue_size
            queue_full = limit is not None and len(self.row) >= limit
            if self.closed or queue_full or (size is not None and len(self.spare) >= size):
                return NOW
            times.append(self.spare[0].came + self.options.max_queue_time)
        return min(times, default=None)

    def stats(self) -> BatcherStats:
        """Count what the collector must count."""
        self.taken = [caller for caller in self.taken if not caller.counted]
        return BatcherStats(
            **self.counts,
            expired=0,
            waiting=len(self.row),
            running=len(self.taken),
            in_line=len(self.line),
        )

    def count(self, caller: Caller, what: str) -> None:
        """Count a caller, once and for all."""
        assert not caller.counted, f"{caller} is counted twice, now as {what}"
        caller.counted = True
        self.counts[what] += 1

    # What happens

    def arrive(self, caller: Caller, now: float) -> None:
        """Take a new caller in; `room` and `closed` have been looked at."""
        if self.room and not self.line:
            self._accept(caller, now)
            return
        timeout = self.options.enqueue_timeout
        caller.place, caller.deadline = "line", None if timeout is None else now + timeout
        self.line.append(caller)

    def _accept(self, caller: Caller, now: float) -> None:
        caller.place, caller.came = "row", now
        self.row.append(caller)
        self.counts["accepted"] += 1

    def depart(self, caller: Caller, seen_as: str) -> bool:
        """Let a caller go, and say whether its item was never seen and never will be."""
        if caller.place == "line":
            if caller in self.line:
                self.line.remove(caller)
        elif caller.place == "seen":
            self.count(caller, seen_as)
        elif not caller.counted:
            self.count(caller, "withdrawn")
            if caller in self.row:
                self.row.remove(caller)
                caller.place = "out"
        return caller.place != "seen"

    def begin(self, batch: Batch) -> list[Caller]:
        """Leave out who is gone; the rest is what the processor sees."""
        callers = self.running[batch]
        for caller in callers:
            if not caller.waiter.done():
                caller.place = "seen"
            elif not caller.counted:
                self.count(caller, "withdrawn")
        seen = [caller for caller in callers if caller.place == "seen"]
        self.counts["batches"] += bool(seen)
        return seen

    def take(self, batch: Batch, now: float) -> None:
        """Hold a batch that left against the head of the row."""
        size = self.options.max_batch_size
        taken = self.row[:size]
        del self.row[:size]
        self.running[batch] = taken
        self.taken += taken
        for caller in taken:
            caller.place = "taken"
        assert batch.items == [caller.item for caller in taken]
        assert batch.waiters == [caller.waiter for caller in taken]
        assert batch.times == [caller.came for caller in taken]
        assert batch.taken_at == now

    def reason(self) -> str:
        """Say why a batch leaves, before it is taken."""
        return "full" if self.full else "drain" if self.closed else "due"

    # What the collector decides

    def check(self, step: Step, now: float) -> None:
        """Hold a step against the facts, and take it as done."""
        told = self._serve_line(now)
        if told is not None:
            waiter, error = told
            assert isinstance(step, Tell), f"{step}, where {waiter} had to be told {error}"
            assert step.waiter is waiter
            assert type(step.error) is error
            return
        match step:
            case Tell():
                raise AssertionError(f"{step}, though nobody had to be told anything")
            case Start(batch):
                assert not self.shared
                self._check_may_leave(now)
                reason = self.reason()
                self.take(batch, now)
                assert batch.reason == reason
            case Reserve():
                assert self.shared
                self._check_may_leave(now)
                self.reserved += 1
            case Rest(until):
                self._check_rest(until, now)

    def _serve_line(self, now: float) -> tuple[Wait, type[BaseException] | type[None]] | None:
        while self.line:
            head = self.line[0]
            if head.watched.done():
                self.line.pop(0)
            elif self.closed:
                self.line.pop(0)
                self.counts["rejected"] += 1
                return head.watched, BatcherStopped
            elif self.room:
                self.line.pop(0)
                self._accept(head, now)
                if head.admitted is not None:
                    return head.admitted, type(None)
            elif head.deadline is not None and head.deadline <= now:
                self.line.pop(0)
                self.counts["rejected"] += 1
                return head.watched, EnqueueTimeout
            else:
                break
        return None

    def _check_may_leave(self, now: float) -> None:
        assert self.slot_free, "more batches than concurrency allows"
        assert self.spare, "a batch of nobody"
        waited = now - self.row[0].came >= self.options.max_queue_time
        assert self.full or self.closed or waited, "a batch left before it was full or due"

    def _check_rest(self, until: float | None, now: float) -> None:
        due = self.due()
        assert due is None or due > now, f"it rests at {now} with something to do since {due}"
        if not (self.reserved and self.spare and self.slot_free):
            assert until == due, f"it rings at {until}, not at {due}"
        else:
            assert until is not None
            assert due is None or now < until <= due


@st.composite
def some_options(draw: st.DrawFn) -> Options:
    """Draw all that decides anything, small enough for every limit to be met."""
    on_full: OnFull = draw(st.sampled_from(get_args(OnFull)))
    return Options(
        max_batch_size=draw(st.sampled_from([1, 2, 3, 4, 4, None])),
        max_queue_size=draw(st.sampled_from([1, 2, 3, 5, 9, None])),
        max_queue_time=draw(st.sampled_from([0, 0.5, 4.0])),
        concurrency=draw(st.sampled_from([1, 1, 2, None])),
        on_full=on_full,
        enqueue_timeout=draw(st.sampled_from([None, 0.5, 3.0])) if on_full == "wait" else None,
    )
