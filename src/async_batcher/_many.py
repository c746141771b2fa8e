"""`process_many` and `map`: many items of one caller, as a list and as an async iterator.

Law: each item's outcome is given once, at its place or its turn; and however a call or a block is left, what waits
is withdrawn, and no task is left.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterable
from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

from async_batcher._errors import BatcherStopped
from async_batcher._flow import Flow, check_source
from async_batcher._job import Job, pending_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from async_batcher._running import Runner

R = TypeVar("R")

_MANY: Final = 1024  # results given in a row before the loop goes round


async def process_many(
    runner: Runner, items: Iterable[Any], *, return_exceptions: bool, max_pending: int | None
) -> list[Any]:
    """Have all items processed, and return their results in order: see `AsyncBatcher.process_many`."""
    source = _iterate(items)
    limit = pending_limit(max_pending, runner.options)
    if runner.collector.closed:
        raise BatcherStopped
    job = Job(runner, limit)
    try:
        while portion := list(islice(source, job.room)):
            while portion := job.send(portion):
                await job.bell.wait()
            if job.room:  # some were refused, or settled as they came: else this task might never let go
                await job.bell.turn()
            while not job.room:
                await job.bell.wait()
        while job.open:
            await job.bell.wait()
    finally:
        job.withdraw()
    results, errors = job.results, job.errors
    del job
    if errors and not return_exceptions:
        count = len(results)
        del results  # the error has this frame
        raise _grouped(errors, count)
    return cast("list[Any]", results)


class MapResults(Generic[R]):
    """The results of `AsyncBatcher.map`: enter it once with `async with`, and iterate in there.

    After an item's error, which is raised at its turn, `anext` gives the next result.

    Mutable state: whether it is entered or left, whether a task iterates, and what it gave in a row.
    """

    def __init__(  # noqa: PLR0913  (the arguments of `map`)
        self,
        runner: Any,
        check_in: Callable[[], object],
        source: Iterable[Any] | AsyncIterable[Any],
        *,
        ordered: bool,
        max_pending: int | None,
        return_exceptions: bool,
    ) -> None:
        self._limit = pending_limit(max_pending, runner.options)
        check_source(source)
        self._source = source
        self._runner: Runner = (
            runner  # named as a parameter's, its type would be public, and so would all behind it
        )
        self._check_in = check_in
        self._ordered = ordered
        self._return_exceptions = return_exceptions
        self._entered = False
        self._flow: Flow | None = None
        self._iterating = False
        self._in_a_row = 0

    async def __aenter__(self) -> Self:
        """Bind to the running event loop.

        Raises:
            RuntimeError: It was entered before, the batcher is in use on another event loop, or the processor would
                wait for itself.
            BatcherStopped: The batcher is stopping or has stopped.
        """
        if self._entered:
            raise RuntimeError("a map is entered once, and this one has been: call batcher.map again")
        self._check_in()
        if self._runner.collector.closed:
            raise BatcherStopped
        self._entered = True
        self._flow = Flow(self._runner, self._source, self._limit, ordered=self._ordered)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Withdraw what waits, and close the source. What closing an async generator raises is raised."""
        if self._flow is not None:
            flow, self._flow = self._flow, None
            flow.feed.leave()
            flow.withdraw()
            try:
                await flow.feed.close()
            finally:
                flow.let_go()

    def __aiter__(self) -> AsyncIterator[R]:
        """Iterate inside `async with`."""
        self._inside()
        return self

    async def __anext__(self) -> R:
        """Give the next result, or raise the next item's error. Cancelling it loses none.

        Raises:
            RuntimeError: It is not in its `async with`, another task iterates it now, or this is another loop.
        """
        flow = self._inside()
        if self._iterating:
            raise RuntimeError(
                "another task iterates this map now; let one task iterate, and pass the results on from there"
            )
        self._iterating = True
        try:
            index, result = await self._next(flow)
        finally:
            self._iterating = False
        error = flow.errors.pop(index, None)
        if error is None or self._return_exceptions:
            return cast("R", result)
        try:
            raise error
        finally:
            del error, result, self  # a circle: the error has this frame

    async def _next(self, flow: Flow) -> tuple[int, Any]:
        while True:
            flow.feed.pull()
            if flow.ready:
                if self._in_a_row < _MANY:
                    self._in_a_row += 1
                    return flow.give()
                self._in_a_row = 0
                await flow.bell.turn()
            elif flow.feed.ended and not flow.held:
                try:
                    flow.feed.raise_error()
                except StopAsyncIteration as error:  # it would end the iteration as if all were well
                    raise RuntimeError("the source of this map raised StopAsyncIteration") from error
                raise StopAsyncIteration
            else:
                self._in_a_row = 0
                await flow.bell.wait()
            self._inside()  # it may have been left by another task

    def _inside(self) -> Flow:
        if self._flow is None:
            raise RuntimeError(
                "the block of this map has been left; iterate inside `async with`"
                if self._entered
                else "a map is iterated inside `async with batcher.map(source) as results`, and was not entered"
            )
        loop = self._flow.loop
        if self._runner.bound is not loop or get_ident() != loop.thread or not loop.is_running():
            raise RuntimeError("a map is iterated on the event loop on which it was entered")
        return self._flow


def _iterate(items: Iterable[Any]) -> Iterator[Any]:
    if isinstance(items, AsyncIterable) and not hasattr(items, "__iter__"):
        raise TypeError(
            f"process_many takes a plain iterable, and a {type(items).__name__} is an async one: iterate over its "
            "results with `async with batcher.map(source) as results`, or collect its items first"
        )
    return iter(items)


def _grouped(errors: Mapping[int, BaseException], count: int) -> BaseExceptionGroup[BaseException]:
    """Group the errors of a job of so many items, and note at each whose it is."""
    indexes: defaultdict[int, list[int]] = defaultdict(list)  # one error may be the error of many items
    for index, error in sorted(errors.items()):
        indexes[id(error)].append(index)
    in_order = [error for _, error in sorted(errors.items())]
    for error in {id(error): error for error in in_order}.values():
        of = indexes[id(error)]
        with contextlib.suppress(Exception):  # its class may be odd in any way
            error.add_note(f"item{'s' * (len(of) > 1)} {', '.join(map(str, of))} of process_many, from 0")
    return BaseExceptionGroup(f"{len(errors)} of {count} items failed", in_order)
