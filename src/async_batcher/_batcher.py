"""AsyncBatcher and its callers: what they send, what they await, how they leave."""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from async_batcher._errors import ItemWithdrawn
from async_batcher._life import current_life
from async_batcher._lifetime import Stoppable
from async_batcher._line import InLine
from async_batcher._options import BatcherOptions, Options, check_processor
from async_batcher._results import R
from async_batcher._running import Runner
from async_batcher._waiter import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Unpack

    from typing_extensions import TypeVar as TypeVarWithDefault

    from async_batcher._events import BatcherStats
    from async_batcher._line import Ticket
    from async_batcher._loops import EventLoop
    from async_batcher._results import Returned
    from async_batcher._running import Slots
    from async_batcher._waiter import AwaitedWaiter, Waiter

    R2 = TypeVarWithDefault("R2", default=None)

T = TypeVar("T")
T2 = TypeVar("T2")


class Submission(Generic[R]):
    """An accepted item: await it for its result, or withdraw it.

    One task at a time awaits it, again after its result as often as it likes; cancelling that await withdraws the
    item where it still waits. An item that nobody awaits is processed all the same, silently.
    """

    __slots__ = ("_awaited", "_batcher", "_never_ran", "_ticket", "_waiter")

    def __init__(self, batcher: AsyncBatcher[Any, R], ticket: Any, waiter: Any) -> None:
        self._batcher = batcher
        # Named as a parameter's, their types would be public ones, and so would all behind them.
        self._ticket: Ticket = ticket
        self._waiter: AwaitedWaiter = waiter
        self._awaited = False
        self._never_ran: bool | None = None

    def withdraw(self) -> bool:
        """Take the item back unless its batch has begun.

        Returns:
            True where the processor never got the item and never will, so that sending it again is safe. False
            where its batch runs or has ended: it can still be awaited. Asked again it says the same.
        """
        if self._never_ran is None:
            self._never_ran = self._batcher._withdraw(self._ticket, self._waiter)  # noqa: SLF001  (one class in two)
        return self._never_ran

    def __await__(self) -> Generator[Any, Any, R]:
        """Wait for the result.

        Raises:
            ItemWithdrawn: It was withdrawn.
            RuntimeError: Another task awaits it now.
        """
        if self._awaited:
            raise RuntimeError(
                "another task awaits this submission; let one task await it, and share the result from there"
            )
        if self._waiter.cancelled():
            raise _withdrawn() if self.withdraw() else _dropped()
        if not self._waiter.done():
            self._batcher._check_loop(_ONE_LOOP)  # noqa: SLF001
        self._awaited = True
        try:
            result: R = yield from self._waiter.__await__()
        except BaseException:
            if _given_up(self._waiter) and not self._never_ran:
                self._never_ran = self._batcher._runner.leave(self._ticket, self._waiter)  # noqa: SLF001
            raise
        finally:
            self._awaited = False
            del self  # a circle: an error has this frame
        return result


class AsyncBatcher(Stoppable, Generic[T, R]):
    """Gathers the items of many callers into batches, and hands every caller its own outcome.

    Build one with `from_callable`, or subclass it and override `process_batch`. Inside `async with` it is drained
    when the block is left, and stopped by force when the block is cancelled. On asyncio the block is optional: a
    batcher starts with its first item, and whoever built it calls `stop`.

    Nothing is bound to an event loop before the first item, and an idle batcher may be used from another loop.

    Args:
        max_batch_size: Most items in a batch; `None` is no limit. An item that is itself a list counts as one.
        max_queue_size: Most items that wait, not counting running ones; `None` is no limit.
        max_queue_time: Seconds that the oldest item may wait for company while a slot is free. With 0 a batch
            leaves at once when a slot is free, and grows only while the backend is busy.
        concurrency: Batches that may run at once; `None` is no limit.
        on_full: What a full queue does with callers: `"reject"` raises `QueueFull`, `"wait"` lets them wait for
            room, first come first served.
        enqueue_timeout: With `"wait"`, seconds that a caller may wait for room; `None` is no limit.
        expires_after: Seconds from the call after which an item that is in no batch yet fails with `ItemExpired`,
            even while the backend is busy; `None` is never. Each call may give its own.
        weigh: What an item weighs, such as its tokens or bytes: a plain function of one item that returns a finite
            number of at least 0. What it raises reaches that item's caller.
        max_batch_weight: Most that the items of a batch weigh together; `None` is no limit. Order is kept: an item
            that does not fit waits for the next batch, and nothing overtakes it.
        coalesce_key: A plain function of one item. Items that wait at the same time and have equal keys take one
            place in the batch, and their callers share its result, the very object. `None` is not shared. Nothing
            is remembered once the batch has left the queue. Each caller keeps its own wait: it may leave or expire
            by itself.
        split_on: Exception types that one item may cause, or a function that says so of an exception. Only then a
            batch that failed is called again in halves, in at most 2n - 1 calls for n items, until only the items
            that cause it fail, each with an error of its own. Deadlines, cancellation, `OSError`, a broken executor
            and the errors of this library split a batch only where their own type is named, not where it is caught
            by a wider one; a failure that splits no further reaches all who have no outcome yet. So an outage costs
            one call a batch.
        executor: Where a sync processor runs; `None` is threads of its own, as many as `concurrency`. Context
            variables reach threads, but no other process.
        on_batch: Called with one `BatchEvent` for each batch that has ended, on the event loop, so it must be
            quick and must not block. What it raises is logged once, on the logger `async_batcher`; only
            `KeyboardInterrupt` and `SystemExit` go on.
        name: A label for events and logs.
    """

    __slots__ = (
        "__weakref__",
        "_collector",
        "_is_running",
        "_new_waiter",
        "_now",
        "_runner",
        "_thread",
    )

    def __init__(self, **options: Unpack[BatcherOptions[T]]) -> None:
        if type(self).process_batch is AsyncBatcher.process_batch:
            raise TypeError(
                f"{type(self).__name__} has no processor: override process_batch(self, batch), or build it with "
                "AsyncBatcher.from_callable(processor, ...)"
            )
        self._set_up(self.process_batch, options, None)

    @staticmethod
    def from_callable(
        processor: Callable[[list[T2]], Returned[R2]],
        **options: Unpack[BatcherOptions[T2]],
    ) -> AsyncBatcher[T2, R2]:
        """Build a batcher around a function of a list of items.

        Args:
            processor: Given up to `max_batch_size` items in the order in which they came, it returns one result
                for each, in order. An async one runs on the event loop, so it must not block; any other runs in
                a thread, or in `executor`. An exception in an item's place is raised to that caller alone; one
                that is raised reaches every caller of the batch.
            **options: As of the class.

        Raises:
            TypeError: The processor can't be called, an option does not exist, or a value has the wrong type.
            ValueError: A value is out of its bounds, or two contradict each other.
        """
        return FunctionBatcher(processor, options)

    def process_batch(self, batch: list[T]) -> Returned[R]:
        """Override this, sync or async, in a subclass: it is the processor that `from_callable` takes."""
        raise NotImplementedError

    async def process(self, item: T, *, expires_after: float | None = None) -> R:
        """Have one item processed, and return its result.

        Cancelling it takes the item out of the queue; in a running batch it drops the result for this caller.

        Args:
            item: What the processor gets, in a list with others.
            expires_after: Seconds from now after which the item is too old to be put into a batch; `None` is what
                the option says.

        Raises:
            QueueFull: There is no room, and `on_full` is `"reject"`.
            EnqueueTimeout: There was no room within `enqueue_timeout`.
            ItemTooHeavy: It weighs more than `max_batch_weight`.
            ItemExpired: It was in no batch within `expires_after`.
            BatcherStopped: The batcher is stopping or has stopped.
            ResultMismatch: The processor did not return one result for each item.
            BatchCancelled: The processor cancelled itself.
            BatchAborted: The processor raised what ends the program.
            RuntimeError: The batcher is in use on another event loop, or the processor would wait for itself.
            BaseException: What the processor raised, or returned in this item's place.
        """
        # What is no method has a name before it is called: this way CPython takes a short cut, a tenth of the whole.
        is_running = self._is_running
        if get_ident() != self._thread or not is_running():
            self._come_in()
        collector, new_waiter, now = self._collector, self._new_waiter, self._now
        if not collector.slot_free and _this_life() is not None:
            self._refuse_waiting_for_itself()
        waiter = new_waiter()
        ticket: Ticket | None = collector.join(item, waiter, now()) if expires_after is None else None
        if ticket is None:
            ticket = self._runner.admit(item, waiter, expires_after=expires_after)
        try:
            result: R = await waiter
        except BaseException:
            if _given_up(waiter):
                self._runner.leave(ticket, waiter)
            del item, waiter, ticket  # a circle: the error has this frame
            raise
        return result

    async def submit(self, item: T, *, expires_after: float | None = None) -> Submission[R]:
        """Have one item accepted, and return what its result can be awaited on.

        It waits only where `on_full` is `"wait"` and there is no room; cancelled there, the item was never accepted.

        Args:
            item: What the processor gets, in a list with others.
            expires_after: Seconds from now after which the item is too old to be put into a batch; `None` is what
                the option says.

        Raises:
            QueueFull: There is no room, and `on_full` is `"reject"`.
            EnqueueTimeout: There was no room within `enqueue_timeout`.
            ItemTooHeavy: It weighs more than `max_batch_weight`.
            ItemExpired: There was no room within `expires_after`.
            BatcherStopped: The batcher is stopping or has stopped.
            RuntimeError: The batcher is in use on another event loop, or the processor would wait for itself.
        """
        self._check_in()
        waiter = self._new_waiter()
        ticket: Ticket | None = None
        if expires_after is None:
            ticket = self._collector.join(item, waiter, self._now())
        if ticket is None:
            admitted = self._new_waiter()
            ticket = self._runner.admit(item, waiter, admitted=admitted, expires_after=expires_after)
            if isinstance(ticket, InLine):
                try:
                    await self._wait_for_room(ticket, waiter, admitted)
                except BaseException:
                    del item, waiter, ticket, admitted  # a circle: the error has this frame
                    raise
        return Submission(self, ticket, waiter)

    def flush(self) -> None:
        """Let what waits now leave as soon as a slot is free, without waiting for company.

        Raises:
            RuntimeError: The batcher is in use on another event loop or thread.
        """
        if self._runner.idle_elsewhere:
            return
        self._check_loop("a batcher is flushed on the event loop on which it is in use")
        self._collector.flush()
        self._runner.act()

    def stats(self) -> BatcherStats:
        """Return the counts as of now."""
        return self._collector.stats()

    # Helpers

    def _set_up(
        self, processor: Callable[[list[Any]], Any], options: BatcherOptions[Any], slots: Slots | None
    ) -> None:
        super().__init__()
        check_processor(processor)
        self._runner = Runner(processor, Options.checked(processor, options), copy_context(), slots)
        self._collector = self._runner.collector
        self._thread = _NO_THREAD
        self._is_running = _never

    def _runners(self) -> Sequence[Runner]:
        return (self._runner,)

    def _bound(self) -> EventLoop | None:
        return self._runner.bound

    def _close(self) -> None:
        self._collector.close()

    def _closed(self) -> bool:
        return self._collector.closed

    def _bind(self, loop: EventLoop) -> None:
        self._runner.bind(loop)
        self._thread = loop.thread
        self._is_running = loop.is_running
        self._new_waiter = loop.waiter
        self._now = loop.time

    def _check_in(self) -> None:
        """Refuse a caller on the wrong loop or thread, and one that would wait for itself."""
        if get_ident() != self._thread or not self._is_running():
            self._come_in()
        if not self._collector.slot_free and _this_life() is not None:
            self._refuse_waiting_for_itself()

    async def _wait_for_room(self, ticket: Ticket, waiter: Waiter, admitted: AwaitedWaiter) -> None:
        try:
            await admitted
        except BaseException:
            # Cancelled in the tick in which it was admitted, it has a place, and nobody to give it back.
            if (_given_up(admitted) or admitted.exception() is None) and _given_up(waiter):
                with suppress(RuntimeError):  # its loop has been closed
                    admitted.cancel()
                self._runner.leave(ticket, waiter)
            del ticket, waiter, admitted  # a circle: the error has this frame
            raise

    def _check_loop(self, rule: str) -> None:
        if not self._runner.loop.is_current():
            raise RuntimeError(rule)

    def _withdraw(self, ticket: Ticket, waiter: Waiter) -> bool:
        runner = self._runner
        if waiter.done() and not waiter.cancelled():
            return self._collector.never_ran(ticket, waiter)
        self._check_loop(_ONE_LOOP)
        never_ran = self._collector.withdraw(ticket, waiter)
        if never_ran:
            fail(waiter, _withdrawn())
            runner.act()
        return never_ran

    def _refuse_waiting_for_itself(self) -> None:
        if self._runner.inside:
            raise RuntimeError(
                "the processor called its own batcher, and no slot is left to run that batch in: it would wait for "
                "itself for ever. Raise concurrency, or call what the processor calls"
            )


class FunctionBatcher(AsyncBatcher[T, R]):
    """A batcher around a function; `slots` is entered by each batch before it leaves the queue."""

    __slots__ = ()

    def __init__(
        self, processor: Callable[[list[T]], Any], options: BatcherOptions[T], slots: Slots | None = None
    ) -> None:
        self._set_up(processor, options, slots)


_NO_THREAD: Final = 0
_this_life = current_life.get
_ONE_LOOP: Final = "a submission is awaited and withdrawn on the event loop on which it was made"


def _never() -> bool:
    """Stand in for the loop's `is_running` before there is one."""
    return False


def _given_up(waiter: Waiter) -> bool:
    """Say whether its caller left, and not with an outcome."""
    return not waiter.done() or waiter.cancelled()


def _dropped() -> RuntimeError:
    return RuntimeError(
        "the await of this submission was cancelled while its batch was running, so its result was dropped: "
        "its outcome is unknown"
    )


def _withdrawn() -> ItemWithdrawn:
    return ItemWithdrawn("this submission was withdrawn, so it has no result; submit the item again")
