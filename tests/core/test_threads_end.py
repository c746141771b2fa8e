"""How a batcher ends while threads of its processor run (contract, rule 3). Real time, and events instead of waits."""

import asyncio
import gc
import threading

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from blocking import PATIENCE, BlockingProcessor
from programs import run_program
from scenes import assert_nothing_left, open_scene

from async_batcher import AsyncBatcher, BatcherStopped

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]


async def test_forced_stop_does_not_wait_for_a_thread() -> None:
    """O1: it returns, its callers end; the thread goes on until it is let go."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running = scene.start_process(1)
        await fn.begun()
        waiting = scene.start_process(2)
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(PATIENCE / 2):
            await scene.batcher.stop(force=True)
        await scene.end_of(running, waiting)
        assert running.failed(BatcherStopped).withdrawn is False
        assert waiting.failed(BatcherStopped).withdrawn is True
        assert not fn.ended.acquire(blocking=False)
        fn.release()
    assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE)
    assert fn.batches == [[1]]
    assert_nothing_left(scene.batcher.stats())


async def test_cancelled_block_does_not_wait_for_a_thread() -> None:
    """O1: `async with` left by cancellation forces, so it does not hang on a blocked thread either."""
    fn = BlockingProcessor()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1)
    with anyio.CancelScope() as scope:
        async with batcher:
            submission = await batcher.submit(1)
            await fn.begun()
            scope.cancel()
            await anyio.sleep_forever()
    with pytest.raises(BatcherStopped):
        await submission
    fn.release()
    assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE)


async def test_drain_waits_for_a_thread_and_its_timeout_bounds_it() -> None:
    """B3: `stop()` waits for what runs in a thread; with `timeout` no longer than that."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        caller = scene.start_process(1)
        await fn.begun()
        with pytest.raises(TimeoutError):
            await scene.batcher.stop(timeout=0.01)
        assert caller.waits
        fn.release()
        await scene.batcher.stop()
        await caller.end()
        assert caller.result == 10


def test_thread_that_ends_after_its_loop_was_closed_is_silent() -> None:
    """O5: no callback that raises, no result set twice, no error on the way out."""
    program = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from async_batcher import AsyncBatcher, BatchCancelled, BatcherStopped

gate, began = threading.Event(), threading.Event()

def blocks(batch):
    began.set()
    gate.wait()
    return batch

async def main(**options):
    batcher = AsyncBatcher.from_callable(blocks, max_batch_size=1, **options)
    submission = await batcher.submit(1)
    while not began.is_set():
        await asyncio.sleep(0.001)
    await batcher.stop(force=True)
    try:
        await submission
    except BatcherStopped as error:
        print(error.withdrawn)

with ThreadPoolExecutor(1) as pool:
    asyncio.run(main(executor=pool))
    gate.set()
"""
    assert run_program(program) == (0, "False\n", "")


def test_loop_exits_once_its_own_thread_is_let_go() -> None:
    """O1, O4: with the batcher's own threads the loop ends though one is blocked, and the program when it returns."""
    program = """
import asyncio, threading
from async_batcher import AsyncBatcher

gate, began = threading.Event(), threading.Event()

def blocks(batch):
    began.set()
    gate.wait()
    print("let go")
    return batch

async def main():
    batcher = AsyncBatcher.from_callable(blocks, max_batch_size=1)
    await batcher.submit(1)
    while not began.is_set():
        await asyncio.sleep(0.001)
    await batcher.stop(force=True)

asyncio.run(main())
print("the loop ended")
gate.set()
"""
    assert run_program(program) == (0, "the loop ended\nlet go\n", "")


def test_own_threads_end_with_the_batcher() -> None:
    """B10: after the stop no thread of the batcher's own is left, used from three loops in a row."""

    async def main() -> None:
        built: AsyncBatcher[int, int] = AsyncBatcher.from_callable(list, max_batch_size=1)
        async with built as batcher:
            assert await batcher.process(1) == 1

    before = set(threading.enumerate())
    for _ in range(3):
        asyncio.run(main())
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= before
