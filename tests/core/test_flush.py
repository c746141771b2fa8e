"""`flush`: what waits now leaves as soon as a slot is free."""

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchEvent

pytestmark = pytest.mark.anyio


async def test_what_waits_leaves_at_once() -> None:
    """Without waiting for company, and it says why."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60, on_batch=events.append) as scene:
        callers = await scene.process(1, 2)
        scene.batcher.flush()
        await scene.end_of(*callers)
        assert anyio.current_time() == 0.0
    assert fn.batches == [[1, 2]]
    assert [event.reason for event in events] == ["flush"]


async def test_what_comes_later_waits_for_company() -> None:
    """A flush is of what waits now."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        first = await scene.process(1)
        scene.batcher.flush()
        await scene.end_of(*first)
        later = await scene.process(2)
        assert later[0].waits
    assert fn.batches == [[1], [2]]


async def test_flush_while_the_backend_is_busy_holds_until_a_slot_is_free() -> None:
    """More may join what waits meanwhile; who comes after it has left waits for company."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        fn.hold()
        await scene.process(1)
        scene.batcher.flush()
        await scene.process(2)
        scene.batcher.flush()
        joined = await scene.process(3)
        fn.release()
        await scene.end_of(*joined)
        assert anyio.current_time() == 0.0
        alone = await scene.process(4)
        assert alone[0].waits
    assert fn.batches == [[1], [2, 3], [4]]


async def test_flush_dies_with_those_it_was_of() -> None:
    """Where they all left, who comes next is not flushed."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        fn.hold()
        await scene.process(1)
        scene.batcher.flush()
        leaving = await scene.process(2)
        scene.batcher.flush()
        leaving[0].cancel()
        await settle()
        later = await scene.process(3)
        fn.release()
        await settle()
        assert later[0].waits
    assert fn.batches == [[1], [3]]


async def test_flush_of_nothing_is_nothing() -> None:
    """Before the first item, between items, after the stop."""
    fn = RecordingProcessor()
    batcher = AsyncBatcher.from_callable(fn, max_queue_time=0)
    batcher.flush()
    async with batcher:
        batcher.flush()
        await batcher.process(1)
        batcher.flush()
    batcher.flush()
    assert fn.batches == [[1]]


@pytest.mark.backends("asyncio")
async def test_flush_from_another_thread_is_refused() -> None:
    """A batcher in use belongs to its loop."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0) as scene:
        fn.hold()
        await scene.process(1)
        with pytest.raises(RuntimeError, match="flushed on the event loop"):
            await anyio.to_thread.run_sync(scene.batcher.flush)
        fn.release()
