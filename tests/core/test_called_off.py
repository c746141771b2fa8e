"""Work that is called off in the very tick in which it gets what it waited for (contract, BatcherGroups, rule 1).

Law: nothing that was called off takes an item, and each caller is counted in one place, however its end came about.
"""

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor, raises, ten_times
from scenes import assert_counts_add_up, assert_nothing_left, enter_scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchAborted, BatcherGroups, BatcherStopped

pytestmark = pytest.mark.anyio

Groups = BatcherGroups[Any, Any, Any]


class Slots:
    """One slot, whose waiting goes as a subclass says; taken from the start."""

    def __init__(self) -> None:
        self.lock = anyio.Semaphore(1)
        self.lock.acquire_nowait()

    async def __aenter__(self) -> None:
        await self.lock.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.lock.release()


class Interrupted(Slots):
    """Turns a cancellation into an error of its own, as a connection pool does."""

    async def __aenter__(self) -> None:
        try:
            await super().__aenter__()
        except anyio.get_cancelled_exc_class():
            raise ConnectionError("interrupted while it waited for a slot") from None


class Unhurried(Slots):
    """Is not interrupted at all: it waits on, and is entered."""

    async def __aenter__(self) -> None:
        with anyio.CancelScope(shield=True):
            while True:
                with contextlib.suppress(asyncio.CancelledError):  # to which anyio's shield is none
                    return await super().__aenter__()


def groups_of(fn: RecordingProcessor, slots: Any, **options: Any) -> Groups:
    async def serve(key: Any, items: list[Any]) -> Any:
        return await fn(items)

    how = {"max_batch_size": 2, "max_queue_time": 0, **options}
    return BatcherGroups(serve, group_key=lambda item: 0, max_groups=1, backend_slots=slots, **how)


@pytest.mark.parametrize("released", ["before", "between", "after", "later"])
@pytest.mark.parametrize("kind", [Slots, Interrupted, Unhurried])
async def test_newcomer_in_the_tick_in_which_a_reservation_is_called_off_is_served(
    kind: Callable[[], Slots], released: str
) -> None:
    """Wherever the slot comes free: the newcomer is no business of the one who left, and gets a slot of its own."""
    slots, fn = kind(), RecordingProcessor()
    groups = groups_of(fn, slots)
    fn.hold()  # it waits, so a cancellation would reach it

    def release_if(now: str) -> None:
        if now == released:
            slots.lock.release()

    async with enter_scene(groups, fn) as scene:
        first = await groups.submit(1)
        await settle()
        release_if("before")
        assert first.withdraw() is True
        release_if("between")
        second = scene.start_process(2) if released == "later" else None
        submission = await groups.submit(3)
        release_if("after")
        await settle()
        release_if("later")
        await settle()
        fn.release()
        assert await submission == 30
        await settle()
        assert second is None or second.result == 20
        assert groups.stats().failed == 0
    assert first.withdraw() is True
    assert sorted(fn.seen) == ([3] if second is None else [2, 3])
    assert slots.lock.value == 1
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("error", [None, LookupError("the batch's own")], ids=["succeeds", "fails"])
async def test_submitter_cancelled_as_its_item_was_served_is_counted_once(error: Exception | None) -> None:
    """Admitted from the line, taken, served and settled, all before its own task heard of any of it."""
    slots = Slots()
    fn = RecordingProcessor(ten_times if error is None else raises(error))
    groups = groups_of(fn, slots, max_batch_size=1, max_queue_size=1, on_full="wait")
    async with enter_scene(groups, fn) as scene:
        first = await groups.submit(1)
        await settle()
        (second,) = await scene.submit(2)
        assert (groups.stats().waiting, groups.stats().in_line) == (1, 1)
        slots.lock.release()
        assert first.withdraw() is True
        second.cancel_task()
        await settle()
        stats = groups.stats()
        assert_counts_add_up(stats)
        assert (stats.waiting, stats.running, stats.in_line) == (0, 0, 0)
        assert stats.withdrawn + stats.succeeded + stats.failed == stats.accepted == 2
        assert stats.succeeded + stats.failed == len(fn.seen)
    assert_nothing_left(groups.stats())


# Tasks that begin inside the call that makes them


needs_eager_tasks = pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")


@contextmanager
def eager_tasks() -> Iterator[None]:
    """Have this loop's tasks begin eagerly."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  (none in 3.11, says mypy)
    try:
        yield
    finally:
        loop.set_task_factory(None)


@contextmanager
def lost_task(ends: type[BaseException]) -> Iterator[None]:
    """Let asyncio say of a task that died as it was made, so that nobody has it, that nobody looked at its error."""
    loop = asyncio.get_running_loop()
    watch = loop.get_exception_handler()
    assert watch is not None

    def sift(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), ends):
            watch(loop, context)

    loop.set_exception_handler(sift)
    yield
    gc.collect()
    loop.set_exception_handler(watch)


@needs_eager_tasks
@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("ends", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("call", ["process", "submit"])
async def test_what_ends_the_program_in_an_eager_task_is_counted_once(
    ends: type[BaseException], call: str
) -> None:
    """It comes out of the very call that filled the batch, whose callers have been told: each counts as failed."""
    with lost_task(ends), eager_tasks():
        fn = RecordingProcessor(ten_times, raises(ends(3)))
        async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
            (first,) = await scene.process(1)
            (last,) = await (scene.process(2) if call == "process" else scene.submit(2))
            first.failed(BatchAborted)
            last.failed(ends)
            stats = scene.batcher.stats()
            assert_nothing_left(stats)
            assert (stats.accepted, stats.failed, stats.withdrawn, stats.abandoned) == (2, 2, 0, 0)
            assert [caller.result for caller in await scene.process(3, 4)] == [30, 40]
    assert fn.batches == [[1, 2], [3, 4]]


@needs_eager_tasks
@pytest.mark.backends("asyncio")
async def test_forced_stop_from_the_first_eager_step_of_a_batch_cancels_it() -> None:
    """Its task is not known to anybody yet: it is cancelled as soon as it is, and the stop waits for its cleanup."""
    stops: list[asyncio.Task[None]] = []
    log: list[str] = []

    async def is_stopped(batch: list[int]) -> list[int]:
        # In a context of its own, as one that does not come from this batch.
        stops.append(Context().run(lambda: asyncio.create_task(batcher.stop(force=True))))
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            log.append("cleaned up")
            raise
        return batch

    with eager_tasks():
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(is_stopped, max_batch_size=1)
        async with enter_scene(batcher) as scene:
            (caller,) = await scene.process(1)
            assert caller.failed(BatcherStopped).withdrawn is False
            assert log == []
            await stops[0]
            assert log == ["cleaned up"]
            assert asyncio.get_running_loop().time() == pytest.approx(3)
    assert (batcher.stats().batches, batcher.stats().stopped) == (1, 1)
    assert_nothing_left(batcher.stats())
