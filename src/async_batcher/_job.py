"""A job: many items of one caller, which one task sends and waits for.

Law: whatever a job has sent is settled, or withdrawn when the job ends early; it never holds more than its limit;
and an item that is refused is that item's error, not the end of the others.

Each item has a seat: a small waiter that nobody awaits. It writes its outcome into the job, and rings the bell at
which the job's one task waits. Items go into the queue in portions, as many at once as fit into the batch that
forms, so that next to nothing is done an item; a batch that is made of portions gives its results back in one go.
Where there is no room, the next item alone stands in line, and what comes after it is sent when it has its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from async_batcher._batch import Batch
from async_batcher._line import InLine
from async_batcher._results import as_raised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from async_batcher._line import Ticket
    from async_batcher._loops import EventLoop
    from async_batcher._options import Options
    from async_batcher._running import Runner
    from async_batcher._waiter import AwaitedWaiter

_UNLIMITED: Final = 1024
"""What a part of `max_pending`'s default counts as where it has no limit."""


def pending_limit(max_pending: int | None, options: Options) -> int:
    """Say how many items a job may hold at a time.

    Raises:
        TypeError: `max_pending` is no whole number.
        ValueError: It is under 1.
    """
    if max_pending is None:
        return 2 * (options.concurrency or _UNLIMITED) * (options.max_batch_size or _UNLIMITED)
    wanted = "max_pending must be a whole number of at least 1, or None for twice what the slots take"
    if isinstance(max_pending, bool) or not isinstance(max_pending, int):
        raise TypeError(f"{wanted}; got {max_pending!r}")
    if max_pending < 1:
        raise ValueError(f"{wanted}; got {max_pending!r}")
    return max_pending


class Job:
    """Many items of one caller, and what has become of them.

    Mutable state: `results` and `errors` by the item's index, how many were `sent` and how many of these are
    `open`, the portions that may still be withdrawn, and the door at which the next item stands in line.
    """

    def __init__(self, runner: Runner, limit: int) -> None:
        self.bell = Bell(runner.loop)
        self.results: Any = []
        self.errors: dict[int, BaseException] = {}
        self.sent = self.open = 0
        self.door: _Door | None = None
        self._runner = runner
        self._limit = limit
        self._portions: list[_Portion] = []
        self._spare: list[_Portion] = []
        self._look_again = 2

    @property
    def room(self) -> int:
        """How many more items it may hold."""
        return self._limit - self.open

    def send(self, items: list[Any]) -> list[Any]:
        """Send these in order, and return those that are left until the one in line has its place."""
        start = 0
        while start < len(items) and self.door is None:
            count = min(self._runner.fits(), len(items) - start)
            if count:
                self._send_together(items[start : start + count])
                start += count
            else:
                self.send_one(items[start])
                start += 1
        return items[start:]

    def send_one(self, item: Any) -> None:
        """Send one item, which may have to stand in line at the door."""
        portion = self._portion(1)
        door = _Door(self, portion)
        try:
            ticket = self._runner.admit(item, portion.seats[0], admitted=door, patient=True)
        except BaseException as error:  # of the user's weigh or coalesce_key too: this item's own
            portion.refuse(as_raised(error, self._runner.loop.cancelled))
            if not isinstance(error, Exception):
                raise
            return
        self._keep(portion, ticket)
        if isinstance(ticket, InLine) and not door.done():
            self.door = door

    def opened(self) -> None:
        """Hear that the item at the door has its place, or was refused."""
        self.door = None
        self.bell.ring()

    def withdraw(self) -> None:
        """Take back what waits, and leave what runs: nothing is sent after it."""
        if self.door is not None:
            self.door.cancel()
        left = [
            (portion.ticket, seat) for portion in self._portions for seat in portion.seats if not seat.done()
        ]
        for _, seat in left:  # all of them first: to leave may start a batch, in which none of them may be
            seat.cancel()
        for ticket, seat in left:
            self._runner.leave(ticket, seat)
        for portion in (*self._portions, *self._spare):
            portion.drop()
        self._portions, self._spare = [], []

    def reserve(self, count: int) -> None:
        """Make places for the results of so many more items."""
        self.results += [None] * count

    def take(self, start: int, results: Sequence[Any]) -> None:
        """Take the results of items that stand together."""
        self.results[start : start + len(results)] = results

    def fail(self, index: int, error: BaseException) -> None:
        """Take the error of one item."""
        self.results[index] = self.errors[index] = error

    # Helpers

    def _send_together(self, items: list[Any]) -> None:
        portion = self._portion(len(items))
        try:
            ticket = self._runner.admit_crowd(items, portion)
        except Exception as error:  # noqa: BLE001  (whatever the loop raised, these are not the others' end)
            portion.refuse(error)
        else:
            self._keep(portion, ticket)

    def _portion(self, size: int) -> _Portion:
        while self._spare and not self._spare[-1].fits(size):
            self._spare.pop().drop()
        portion = self._spare.pop() if self._spare else _Portion(self, size)
        portion.start = self.sent
        portion.settled = False
        self.sent += size
        self.open += size
        self.reserve(size)
        return portion

    def _keep(self, portion: _Portion, ticket: Ticket) -> None:
        portion.ticket = ticket
        self._portions.append(portion)
        if len(self._portions) > self._look_again:
            self._spare += [portion for portion in self._portions if not portion.waits]
            self._portions = [portion for portion in self._portions if portion.waits]
            self._look_again = 2 * len(self._portions) + 2


class Bell:
    """Wakes the one task that waits at it.

    Mutable state: what that task awaits.
    """

    __slots__ = ("_loop", "_waiter")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiter: AwaitedWaiter | None = None

    def wait(self) -> AwaitedWaiter:
        """Return what is to be awaited, at once, for the next ring; none is remembered."""
        waiter: AwaitedWaiter = self._loop.waiter()
        self._waiter = waiter
        return waiter

    async def turn(self) -> None:
        """Let the loop go round."""
        timer = self._loop.call_at(self._loop.time(), self.ring)
        try:
            await self.wait()
        finally:
            timer.cancel()

    def ring(self) -> None:
        """Wake whoever waits."""
        if self._waiter is not None and not self._waiter.done() and not self._loop.closed:
            self._waiter.set_result(None)


class _Portion:
    """Items that were sent together, into one batch; for the core a crowd.

    Mutable state: which items these are now, `settled`, and `together` until one of them is settled by itself.
    """

    __slots__ = ("job", "seats", "settled", "start", "ticket", "together")

    start: int
    settled: bool
    ticket: Ticket

    def __init__(self, job: Job, size: int) -> None:
        self.job = job
        self.together = True
        seats: list[_Seat] = []
        for offset in range(size):  # a _Seat without __init__ takes a third of the time
            seat = _Seat()
            seat.portion = self
            seat.offset = offset
            seats.append(seat)
        self.seats = seats

    def fits(self, size: int) -> bool:
        """Say whether it can be used again for so many items: to make its seats anew is half the price of a batch.

        Its last batch must have been done with all together, and have let go of them.
        """
        ticket = self.ticket
        return self.together and len(self.seats) == size and isinstance(ticket, Batch) and not ticket.waiters

    def drop(self) -> None:
        """Break the circle with its seats: what settled all together left it."""
        self.seats = []

    @property
    def waits(self) -> bool:
        """Whether any of them is open."""
        return not self.settled and not all(seat.done() for seat in self.seats)

    def set_results(self, results: Sequence[Any]) -> None:
        """Settle all of them."""
        self.settled = True
        job = self.job
        job.take(self.start, results)
        job.open -= len(results)
        job.bell.ring()

    def refuse(self, error: BaseException) -> None:
        """Give all of them this error that were not settled otherwise."""
        for seat in self.seats:
            if seat.cancelled():
                self.job.fail(self.start + seat.offset, error)
            elif not seat.done():
                seat.set_exception(error)


class _Settled:
    """What a seat belongs to when it has been settled by itself."""

    settled = True


_HEARD: Final[Any] = _Settled()
_GONE: Final[Any] = _Settled()


class _Seat:
    """Where one item's outcome is written; a waiter for the core."""

    __slots__ = ("__weakref__", "offset", "portion")

    portion: _Portion
    offset: int

    def done(self) -> bool:
        return self.portion.settled

    def cancelled(self) -> bool:
        return self.portion is _GONE

    def cancel(self) -> None:
        if not self.portion.settled:
            self._leave(_GONE)

    def set_result(self, result: Any) -> None:
        portion = self.portion
        portion.job.results[portion.start + self.offset] = result
        self._leave(_HEARD)

    def set_exception(self, error: BaseException) -> None:
        portion = self.portion
        portion.job.fail(portion.start + self.offset, error)
        self._leave(_HEARD)

    def exception(self) -> None:
        """Be looked at, as a future wants to be; the error is the job's now."""

    def _leave(self, instead: _Portion) -> None:
        portion, self.portion = self.portion, instead
        portion.together = False
        portion.job.open -= 1
        portion.job.bell.ring()


class _Door:
    """Where the next item of a job stands in line; a waiter for the core, settled when it has its place.

    Mutable state: the job, until then.
    """

    __slots__ = ("_job", "_portion")

    def __init__(self, job: Job, portion: _Portion) -> None:
        self._job: Job | None = job
        self._portion = portion

    def done(self) -> bool:
        return self._job is None

    def cancelled(self) -> bool:
        return False

    def cancel(self) -> None:
        self._open()

    def set_result(self, _: None) -> None:
        self._open()

    def set_exception(self, error: BaseException) -> None:
        self._portion.refuse(error)
        self._open()

    def exception(self) -> None:
        """Be looked at, as a future wants to be; the error is the seat's now."""

    def _open(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            job.opened()
