"""What is no fault is not logged as one: a batch that is ended from outside is silent."""

import asyncio
import logging

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import BatchCancelled, BatcherStopped

pytestmark = pytest.mark.anyio


async def test_batch_that_a_forced_stop_ends_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Its task is cancelled, and whoever cancelled it knows."""
    fn = RecordingProcessor()
    fn.hold()
    with caplog.at_level(logging.DEBUG, "async_batcher"):
        async with open_scene(fn, max_batch_size=1) as scene:
            (caller,) = await scene.process(1)
            await scene.stop(force=True)
            assert not caller.failed(BatcherStopped).withdrawn
    assert not caplog.records


@pytest.mark.backends("asyncio")
async def test_batch_whose_task_is_cancelled_is_silent_and_stays_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As `asyncio.run` does it at its end; the task says afterwards that it was cancelled, as any other."""
    fn = RecordingProcessor()
    fn.hold()
    before = asyncio.all_tasks()
    with caplog.at_level(logging.DEBUG, "async_batcher"):
        async with open_scene(fn, max_batch_size=1) as scene:
            task = asyncio.ensure_future(scene.batcher.process(1))
            await anyio.sleep(1)
            (carrying,) = asyncio.all_tasks() - before - {task}
            carrying.cancel()
            await settle()
            assert carrying.cancelled()
            with pytest.raises(BatchCancelled):
                await task
    assert not caplog.records
