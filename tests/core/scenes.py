"""A batcher and its callers, each caller in a task and a cancel scope of its own, for the tests of the core.

    async with open_scene(fn, max_batch_size=2) as scene:
        one, two = await scene.process(1, 2)      # two callers, in this order, both waiting or done
        one.cancel()
        await settle()
    assert fn.batches == [[2]]

Leaving the block drains the batcher, waits for every caller, and checks that the counts add up and that
nothing is left. Where the test fails inside, the batcher is stopped by force, so that it ends.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
import anyio.abc
import sniffio
from recording import RecordingProcessor
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherGroups, BatcherStats

E = TypeVar("E", bound=BaseException)


class Caller:
    """One call in a task of its own: what came of it, and when."""

    def __init__(self, call: Callable[[], Awaitable[Any]]) -> None:
        self._call = call
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._task_was_cancelled = False
        self._result: Any = None
        self.error: BaseException | None = None
        self.was_cancelled = False
        self.ended_at: float | None = None

    async def run(self) -> None:
        """Make the call and keep its outcome; never raise it into the task group."""
        if sniffio.current_async_library() == "asyncio":
            self._task = asyncio.current_task()
        try:
            with self._scope:
                try:
                    self._result = await self._call()
                except anyio.get_cancelled_exc_class():
                    self.was_cancelled = True
                    if not self._task_was_cancelled:
                        raise
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome
                    self.error = error
        finally:
            self.ended_at = anyio.current_time()
            self._ended.set()

    def cancel(self) -> None:
        """Cancel the caller, as a timeout or a client that leaves does."""
        self._scope.cancel()

    def cancel_task(self) -> None:
        """Cancel it as `asyncio.Task.cancel` does: unlike a scope, also when its result is on the way."""
        if self._task is None:
            self._scope.cancel()
        elif self.waits:
            self._task_was_cancelled = True
            self._task.cancel()

    async def end(self) -> None:
        """Wait for the call's end, however it ends."""
        await self._ended.wait()

    @property
    def waits(self) -> bool:
        """Whether the call has not ended yet."""
        return not self._ended.is_set()

    @property
    def result(self) -> Any:
        """What the call returned: a failure of the test if it did not."""
        assert not self.waits, "the caller still waits"
        assert not self.was_cancelled, "the caller was cancelled"
        if self.error is not None:
            raise AssertionError(f"the call raised {self.error!r}") from self.error
        return self._result

    def failed(self, kind: type[E]) -> E:
        """Return the call's error, which must be of this kind: a failure of the test if it is not."""
        assert not self.waits, "the caller still waits"
        found = self.error if self.error is not None else f"the result {self._result!r}"
        assert isinstance(self.error, kind), f"wanted {kind.__name__}, found {found!r}"
        return self.error


B = TypeVar("B", bound="AsyncBatcher[Any, Any] | BatcherGroups[Any, Any, Any]")


class Scene(Generic[B]):
    """A batcher (or groups) and those who call it."""

    def __init__(self, batcher: B, group: anyio.abc.TaskGroup) -> None:
        self.batcher = batcher
        self._group = group

    def start(self, call: Callable[[], Awaitable[Any]]) -> Caller:
        """Start any call in a task of its own, and let it run only when the test next waits."""
        caller = Caller(call)
        self._group.start_soon(caller.run)
        return caller

    def start_process(self, item: Any) -> Caller:
        """Start one caller of `process`, which runs only when the test next waits."""
        return self.start(partial(self.batcher.process, item))

    async def process(self, *items: Any) -> list[Caller]:
        """Start one caller an item, one after the other (trio shuffles what starts at once); settle."""
        return [await self._settled(self.start_process(item)) for item in items]

    async def submit(self, *items: Any) -> list[Caller]:
        """Start one caller of `submit` an item, in this order: its result is the submission."""
        return [await self._settled(self.start(partial(self.batcher.submit, item))) for item in items]

    async def stop(self, **how: Any) -> Caller:
        """Start one caller of `stop`, until it waits or ends."""
        return await self._settled(self.start(partial(self.batcher.stop, **how)))

    async def end_of(self, *callers: Caller) -> None:
        """Wait until these have ended: leaving the block would tell those in line that the batcher stops."""
        for caller in callers:
            await caller.end()

    async def _settled(self, caller: Caller) -> Caller:
        await settle()
        return caller


@asynccontextmanager
async def open_scene(processor: Any, **options: Any) -> AsyncIterator[Scene[AsyncBatcher[Any, Any]]]:
    """Build a batcher, enter it, and give its callers a place: see this file's head for how it ends."""
    batcher: AsyncBatcher[Any, Any] = AsyncBatcher.from_callable(processor, **options)
    async with enter_scene(batcher, processor) as scene:
        yield scene
    assert_nothing_left(batcher.stats())
    assert not isinstance(processor, RecordingProcessor) or [] not in processor.batches, "an empty batch"


@asynccontextmanager
async def enter_scene(batcher: B, processor: Any = None) -> AsyncIterator[Scene[B]]:
    """Enter a batcher, or groups, that the test built itself.

    What fails inside is raised from here and by itself: raised through the block of a batcher that is busy, in a
    group that is being cancelled, it would be replaced by the cancellation, and the test would pass.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        try:
            async with batcher:
                try:
                    yield Scene(batcher, group)
                except BaseException as error:
                    failure = error
                    await _end_by_force(batcher, processor)
                    raise
        except BaseException as error:
            failure = failure or error
            group.cancel_scope.cancel()
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
    if failure is not None:
        raise failure


async def _end_by_force(
    batcher: AsyncBatcher[Any, Any] | BatcherGroups[Any, Any, Any], processor: Any
) -> None:
    if isinstance(processor, RecordingProcessor):
        processor.release()
    with anyio.CancelScope(shield=True), contextlib.suppress(Exception):
        await batcher.stop(force=True)


def assert_counts_add_up(stats: BatcherStats) -> None:
    """Check the law of the counts: each accepted caller is in one place."""
    left = stats.succeeded + stats.failed + stats.withdrawn + stats.abandoned + stats.expired + stats.stopped
    assert stats.accepted == left + stats.waiting + stats.running, stats
    assert min(dataclasses.astuple(stats)) >= 0, stats


def assert_nothing_left(stats: BatcherStats) -> None:
    """Check that the counts add up, and that nobody waits, runs or stands in line."""
    assert_counts_add_up(stats)
    assert (stats.waiting, stats.running, stats.in_line) == (0, 0, 0), stats
