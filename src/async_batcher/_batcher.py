"""AsyncBatcher and its callers: what they send, what they await, how they leave."""

from __future__ import annotations

from contextvars import copy_context
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, overload

from async_batcher._life import current_life
from async_batcher._lifetime import Stoppable
from async_batcher._line import InLine
from async_batcher._many import MapResults, process_many
from async_batcher._options import BatcherOptions, Options, check_processor
from async_batcher._results import R
from async_batcher._running import Runner
from async_batcher._submission import Submission
from async_batcher._waiter import given_up

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence
    from typing import Unpack

    from typing_extensions import TypeVar as TypeVarWithDefault

    from async_batcher._collector import Collector
    from async_batcher._events import BatcherStats, Refused, Witness
    from async_batcher._line import Ticket
    from async_batcher._loops import EventLoop
    from async_batcher._results import Returned
    from async_batcher._serving import Slots
    from async_batcher._waiter import AwaitedWaiter, Waiter

    R2 = TypeVarWithDefault("R2", default=None)

T = TypeVar("T")
T2 = TypeVar("T2")


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
            even while the backend is busy; `None` is never. Each call may give its own. It is a limit of the wait
            for a batch, so let it be over `max_queue_time`: an item that waits alone is too old before its window
            ends otherwise.
        weigh: What an item weighs, such as its tokens or bytes: a plain function of one item that returns a
            number from 0 to 2**53. What it raises reaches that item's caller.
        max_batch_weight: Most that the items of a batch weigh together; `None` is no limit. Order is kept: an item
            that does not fit waits for the next batch, and nothing overtakes it.
        coalesce_key: A plain function of one item. Items that wait at the same time and have equal keys take one
            place in the batch, and their callers share its result, the very object. So let equal keys mean equal
            items: the one that came first is processed, also where its own caller has left it to the others. `None`
            is not shared. Nothing is remembered once the batch has left the queue. Each caller keeps its own wait:
            it may leave or expire by itself.
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
            if given_up(waiter):
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
        return Submission(self._runner, ticket, waiter)

    @overload
    async def process_many(
        self, items: Iterable[T], *, return_exceptions: Literal[False] = False, max_pending: int | None = None
    ) -> list[R]: ...

    @overload
    async def process_many(
        self, items: Iterable[T], *, return_exceptions: Literal[True], max_pending: int | None = None
    ) -> list[R | BaseException]: ...

    async def process_many(
        self, items: Iterable[T], *, return_exceptions: bool = False, max_pending: int | None = None
    ) -> list[Any]:
        """Have many items processed, and return their results in order.

        It waits for room whatever `on_full` says, and without `enqueue_timeout`; it holds at most `max_pending`
        items at a time, so that a long list leaves room for those who ask one by one. `items` is iterated as room
        permits, and `expires_after` counts for each item from then. Cancelling it withdraws what waits and drops the
        results of what runs; the rest is never sent.

        Args:
            items: Any iterable; none gives `[]`. One that raises ends the job as cancelling does, and its error
                is raised.
            return_exceptions: Give errors as values, in their items' places, instead of raising them.
            max_pending: Most items that wait or run at a time; `None` is twice what the slots take,
                2 * `concurrency` * `max_batch_size`, of which a part without limit counts as 1,024.

        Raises:
            ExceptionGroup: Items failed; raised once all have settled, with each item's own error, which has a note
                that says its index. What `process` raises for one item is one item's error here, also an
                `ItemTooHeavy`, or a `BatcherStopped` half-way.
            BatcherStopped: The batcher had been stopped before.
            TypeError: `items` is no iterable (for an async one use `map`), or `max_pending` no whole number.
            ValueError: `max_pending` is under 1.
            RuntimeError: The batcher is in use on another event loop, or the processor would wait for itself.
        """
        self._check_in()
        return await process_many(
            self._runner, items, return_exceptions=return_exceptions, max_pending=max_pending
        )

    @overload
    def map(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        ordered: bool = True,
        max_pending: int | None = None,
        return_exceptions: Literal[False] = False,
    ) -> MapResults[R]: ...

    @overload
    def map(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        ordered: bool = True,
        max_pending: int | None = None,
        return_exceptions: Literal[True],
    ) -> MapResults[R | BaseException]: ...

    def map(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        ordered: bool = True,
        max_pending: int | None = None,
        return_exceptions: bool = False,
    ) -> MapResults[Any]:
        """Have the items of a source processed while it is pulled, and iterate over their results.

            async with batcher.map(source) as results:
                async for result in results:
                    ...

        The source is pulled only when results are asked for, and never further than `max_pending` ahead of those
        that were given out; it may be endless. Waiting for room is as in `process_many`. However the block is left,
        what still waits is withdrawn, the results of what runs are dropped, an async generator is closed, and no
        task is left.

        Iterating raises an item's error at its turn, and may go on after it: the next `anext` gives the next
        result. What the source raises comes after the results of all that it gave before.

        Args:
            source: Any iterable, or an async one, which is pulled in a task of its own.
            ordered: Give results in the items' order; else as they come.
            max_pending: Most items that wait, run, or have a result that was not given out yet; `None` as in
                `process_many`.
            return_exceptions: Give errors as values instead of raising them.

        Raises:
            TypeError: `source` can't be iterated, or `max_pending` is no whole number.
            ValueError: `max_pending` is under 1.
        """
        return MapResults(
            self._runner,
            self._check_in,
            source,
            ordered=ordered,
            max_pending=max_pending,
            return_exceptions=return_exceptions,
        )

    def flush(self) -> None:
        """Let what waits now leave as soon as a slot is free, without waiting for company.

        Raises:
            RuntimeError: The batcher is in use on another event loop or thread.
        """
        if self._runner.idle_elsewhere:
            return
        if not self._runner.loop.is_current():
            raise RuntimeError("a batcher is flushed on the event loop on which it is in use")
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
        checked = Options.checked(processor, options)
        self._runner = Runner(processor, checked, copy_context(), slots)
        self._collector = self._runner.collector
        self._runner.watch(_telemetry_of(checked, self._collector))
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
            if (given_up(admitted) or admitted.exception() is None) and given_up(waiter):
                self._runner.leave(ticket, waiter, admitted)
            del ticket, waiter, admitted  # a circle: the error has this frame
            raise

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


def count_in(name: str | None, counted: Refused) -> None:
    """Have OpenTelemetry count these in."""
    from async_batcher._telemetry import count_in  # noqa: PLC0415  (as below)

    count_in(name, counted)


def _telemetry_of(options: Options, collector: Collector) -> Witness:
    """Build what tells OpenTelemetry of a batcher. To import it takes as long as all of this library."""
    from async_batcher._telemetry import Telemetry  # noqa: PLC0415  (only where a batcher is built)

    return Telemetry(options.name, options.max_batch_size, options.max_batch_weight, collector)


_NO_THREAD: Final = 0
_this_life = current_life.get


def _never() -> bool:
    """Stand in for the loop's `is_running` before there is one."""
    return False
