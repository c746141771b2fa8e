"""Idle is idle, and what is over is let go (contract, rule 12; cases I and J)."""

import asyncio
import gc
import threading
import weakref

import anyio
import pytest
from recording import RecordingProcessor, raises
from scenes import open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher

pytestmark = pytest.mark.anyio


class Payload:
    """Something whose end can be seen."""


def objects_alive() -> int:
    """Count what the library has made and nobody has collected."""
    gc.collect()
    return sum(str(type(held).__module__).startswith("async_batcher") for held in gc.get_objects())


class CountingLoop(VirtualEventLoop):
    """Counts its turns."""

    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]


def test_idle_batcher_wakes_nobody() -> None:
    """I8: a minute of idleness costs no turn of the loop, before, between and after batches."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        fn = RecordingProcessor()
        async with AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=0.01) as batcher:
            for _ in range(3):
                await asyncio.gather(batcher.process(1), batcher.process(2))
                await asyncio.sleep(0.1)
                before = loop.turns
                await asyncio.sleep(60)
                assert loop.turns - before <= 3

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


def test_item_that_waits_for_its_window_wakes_nobody() -> None:
    """I8: a window is one timer: no polling while an item waits, nor while its slot is busy."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        fn = RecordingProcessor()
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_queue_time=3600)
        waiting = await batcher.submit(1)
        await settle()
        before = loop.turns
        await asyncio.sleep(1800)
        assert loop.turns - before <= 3
        fn.hold()
        assert loop.time() == pytest.approx(1800)
        await asyncio.sleep(1801)
        before = loop.turns
        await batcher.submit(2)
        await asyncio.sleep(7200)
        assert loop.turns - before <= 6
        fn.release()
        assert await waiting == 10
        await batcher.stop()

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


@pytest.mark.backends("asyncio")
async def test_no_task_per_item() -> None:
    """Rule 12: a thousand items that wait cost no task."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=None, max_queue_time=1) as scene:
        before = len(asyncio.all_tasks())
        submissions = [await scene.batcher.submit(item) for item in range(1000)]
        assert len(asyncio.all_tasks()) - before <= 1
        await submissions[-1]


@pytest.mark.parametrize("concurrency", [1, 4, None])
async def test_finished_batches_leave_nothing_behind(concurrency: int | None) -> None:
    """J3: after thousands of batches no internal task is left, and the batcher did not grow."""
    fn = RecordingProcessor()
    async with open_scene(
        fn, max_batch_size=1, concurrency=concurrency, max_queue_size=None, max_queue_time=0
    ) as scene:
        sizes = []
        for _ in range(10):
            submissions = [await scene.batcher.submit(item) for item in range(200)]
            for submission in submissions:
                await submission
            await settle()
            del submissions, submission
            sizes.append(objects_alive())
        assert sizes[-1] <= sizes[0]
    assert len(fn.batches) == 2000


@pytest.mark.parametrize("end", ["result", "error", "withdrawn", "abandoned", "stopped", "item error"])
async def test_payloads_are_not_kept(end: str) -> None:
    """Rule 12: once a caller has its outcome the batcher, which lives on, holds neither item nor result."""
    held: list[weakref.ref[Payload]] = []

    async def processor(batch: list[Payload]) -> list[object]:
        if gated:
            await gate.wait()
        if end == "error":
            raise ValueError
        return [ValueError() if end == "item error" else result() for _ in batch]

    def result() -> Payload:
        made = Payload()
        held.append(weakref.ref(made))
        return made

    gated = end in ("abandoned", "stopped")
    gate = anyio.Event()
    async with open_scene(
        processor, max_batch_size=1 if end != "withdrawn" else 8, max_queue_time=60
    ) as scene:
        item = Payload()
        held.append(weakref.ref(item))
        (caller,) = await scene.process(item)
        del item
        if end in ("withdrawn", "abandoned"):
            caller.cancel()
        elif end == "stopped":
            await scene.batcher.stop(force=True)
        gate.set()
        await caller.end()
        await settle()
        del caller
        gc.collect()
        assert [reference for reference in held if reference() is not None] == []


async def test_kept_submission_keeps_no_item() -> None:
    """Rule 12: a submission may be kept for its result: its own item and its siblings' are let go."""

    async def zeros(batch: list[Payload]) -> list[int]:
        return [0] * len(batch)

    async with open_scene(zeros, max_batch_size=2) as scene:
        items = [Payload(), Payload()]
        held = [weakref.ref(item) for item in items]
        submissions = [await scene.batcher.submit(item) for item in items]
        assert [await submission for submission in submissions] == [0, 0]
        del items
        await settle()
        gc.collect()
        assert [reference() for reference in held] == [None, None]
        assert await submissions[0] == 0


async def test_items_of_a_failed_batch_are_not_kept_by_its_error() -> None:
    """F7, F9: an error that one keeps for long holds no frame that holds the whole batch's items."""
    fn = RecordingProcessor()
    fn.script.append(raises(ValueError("no")))
    async with open_scene(fn, max_batch_size=1) as scene:
        (caller,) = await scene.process(1)
        error = caller.failed(ValueError)
    files = set()
    trace = error.__traceback__
    while trace is not None:
        files.add(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert any(name.endswith("testing.py") for name in files)


async def test_dropped_batcher_is_collected() -> None:
    """A batcher that is stopped and dropped goes away with all that it held."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        await scene.process(1)
    gone = weakref.ref(scene.batcher)
    del scene
    gc.collect()
    assert gone() is None


def test_no_thread_for_an_async_processor() -> None:
    """Threads are made for sync processors only."""
    before = set(threading.enumerate())

    async def main() -> set[threading.Thread]:
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(RecordingProcessor(), max_batch_size=1)
        assert await batcher.process(1) == 10
        return set(threading.enumerate())

    assert asyncio.run(main()) <= before  # one of an earlier test may end meanwhile
