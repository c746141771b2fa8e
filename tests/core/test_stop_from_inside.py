"""Stops from inside a processor or an observer, and `async with` (contract, rules 3 and 8)."""

import anyio
import pytest
from programs import run_python
from recording import RecordingProcessor
from scenes import Caller, assert_nothing_left, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, BatchEvent, Submission

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("force", [False, True])
async def test_stop_from_inside_the_processor_is_refused(force: bool) -> None:
    """B8: a clear `RuntimeError` instead of a wait for itself; the batcher works on."""

    async def processor(batch: list[int]) -> list[int]:
        with pytest.raises(RuntimeError) as caught:
            await scene.batcher.stop(force=force)
        errors.append(caught.value)
        return batch

    errors: list[RuntimeError] = []
    async with open_scene(processor, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == 1
        assert await scene.batcher.process(2) == 2
    assert len(errors) == 2
    assert not any(isinstance(error, BatcherStopped) for error in errors)
    assert "stop" in str(errors[0])


async def test_stop_from_a_child_task_of_the_processor_is_refused() -> None:
    """B8: a task that the running batch waits for would wait for itself just so."""

    async def processor(batch: list[int]) -> list[int]:
        async def child() -> None:
            with pytest.raises(RuntimeError):
                await scene.batcher.stop()
            refused.append(True)

        async with anyio.create_task_group() as group:
            group.start_soon(child)
        return batch

    refused: list[bool] = []
    async with open_scene(processor, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == 1
    assert refused == [True]


async def test_task_started_by_on_batch_may_stop() -> None:
    """B8: `on_batch` runs after its batch has given the slot back, so what it starts may stop the batcher."""

    def on_batch(_event: BatchEvent) -> None:
        stops.append(scene.start(scene.batcher.stop))

    stops: list[Caller] = []
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1, on_batch=on_batch) as scene:
        assert await scene.batcher.process(1) == 10
        await settle()
        assert [stop.result for stop in stops] == [None]
        with pytest.raises(BatcherStopped):
            await scene.batcher.process(2)


async def test_leaving_async_with_drains() -> None:
    """Left normally: what was accepted is processed, whatever its window."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=60) as scene:
        callers = await scene.process(1, 2)
    assert [caller.result for caller in callers] == [10, 20]
    assert anyio.current_time() == 0.0


async def test_leaving_async_with_by_an_exception_drains() -> None:
    """Left by an exception: drained too, and the exception passes unchanged."""
    fn = RecordingProcessor()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_queue_time=60)
    submissions: list[Submission[int]] = []

    async def body() -> None:
        async with batcher:
            submissions.append(await batcher.submit(1))
            raise error

    error = LookupError("mine")
    with pytest.raises(LookupError) as caught:
        await body()
    assert caught.value is error
    assert await submissions[0] == 10
    assert_nothing_left(batcher.stats())


async def test_leaving_async_with_by_cancellation_forces() -> None:
    """Left by cancellation: everyone is settled, shielded from that very cancellation."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_time=0)
    submissions: list[Submission[int]] = []
    with anyio.CancelScope() as scope:
        async with batcher:
            submissions += [await batcher.submit(item) for item in (1, 2)]
            await settle()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    for submission, withdrawn in zip(submissions, (False, True), strict=True):
        with pytest.raises(BatcherStopped) as caught:
            await submission
        assert caught.value.withdrawn is withdrawn
    assert fn.cancelled == [0]
    assert_nothing_left(batcher.stats())


async def test_cancelled_block_waits_for_the_processors_cleanup() -> None:
    """Shielded: the block is left when nothing of the batcher runs any more, its cleanup too."""
    cleaned = anyio.Event()

    async def careful(batch: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(10)
            cleaned.set()
        return batch

    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(careful, max_batch_size=1)
    with anyio.move_on_after(1):
        async with batcher:
            await batcher.submit(1)
            await anyio.sleep_forever()
    assert cleaned.is_set()
    assert anyio.current_time() == pytest.approx(11)


async def test_cancelled_block_sends_nothing_more() -> None:
    """What waits when the block is cancelled is withdrawn, not drained."""
    fn = RecordingProcessor()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_queue_time=60)
    submissions: list[Submission[int]] = []
    with anyio.move_on_after(1):
        async with batcher:
            submissions.append(await batcher.submit(1))
            await anyio.sleep_forever()
    with pytest.raises(BatcherStopped) as caught:
        await submissions[0]
    assert caught.value.withdrawn is True
    assert fn.batches == []


async def test_cancellation_during_the_drain_of_async_with_forces() -> None:
    """A block that is cancelled while it drains does not hang: everyone is settled."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_time=0)
    with anyio.move_on_after(5) as scope:
        async with batcher:
            submissions = [await batcher.submit(item) for item in (1, 2)]
            await settle()
    assert scope.cancelled_caught
    assert anyio.current_time() == pytest.approx(5)
    for submission in submissions:
        with pytest.raises(BatcherStopped):
            await submission
    assert fn.seen == [1]
    assert_nothing_left(batcher.stats())


async def test_entering_gives_the_batcher_itself() -> None:
    """`async with AsyncBatcher...(...) as batcher` is the batcher."""
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(RecordingProcessor())
    async with batcher as entered:
        assert entered is batcher


async def test_stop_inside_async_with_and_again_by_leaving() -> None:
    """A batcher that was stopped in its own block leaves it in peace, forced or drained."""
    for force in (False, True):
        fn = RecordingProcessor()
        async with open_scene(fn, max_queue_time=60) as scene:
            (caller,) = await scene.process(1)
            await scene.batcher.stop(force=force)
            await settle()
            assert not caller.waits


def test_nothing_is_left_behind_in_dev_mode() -> None:
    """B10: use it, leave it, collect, close the loop under `-X dev -W error`: no task and no warning."""
    program = """
import asyncio, gc
from async_batcher import AsyncBatcher

async def double(batch):
    await asyncio.sleep(0)
    return [item * 2 for item in batch]

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault
    async with AsyncBatcher.from_callable(double, max_batch_size=2) as batcher:
        print(await asyncio.gather(*map(batcher.process, range(5))))
    assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()
    gc.collect()

asyncio.run(main())
gc.collect()
"""
    assert run_python("-X", "dev", "-W", "error", "-c", program) == (0, "[0, 2, 4, 6, 8]\n", "")
