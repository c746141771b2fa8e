"""`Intake`, closed and drained: nothing that was accepted is lost, and nothing new comes in."""

import anyio
import pytest
from intakes import started, through
from recording import RecordingProcessor, raises, ten_times
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped
from examples.recipes.operations import Intake

pytestmark = pytest.mark.anyio


async def test_shutdown_sends_what_waits_at_once_and_waits_for_it() -> None:
    """A partial batch does not wait out its window; with no grace given there is no limit."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=100, max_queue_time=60) as scene:
        intake = Intake(scene.batcher)
        callers = await through(intake, scene, (1, None), (2, None))
        ending = await started(scene, intake.shutdown)
        assert fn.batches == [[1, 2]]
        await anyio.sleep(10_000)
        assert ending.waits
        fn.release()
        await scene.end_of(ending, *callers)
        assert ending.error is None
        assert [caller.result for caller in callers] == [10, 20]


async def test_shutdown_closes_before_it_drains_and_for_good() -> None:
    """From then on the intake and the batcher refuse at once; nothing that was accepted is lost."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        intake = Intake(scene.batcher)
        accepted = await through(intake, scene, (1, None), (2, None))
        ending = await started(scene, intake.shutdown)
        assert intake.closed
        for process in (intake.process, scene.batcher.process):
            with pytest.raises(BatcherStopped) as raised:
                await process(3)
            assert raised.value.withdrawn is True
        fn.release()
        await scene.end_of(ending, *accepted)
        with pytest.raises(BatcherStopped):
            await intake.process(4)
        assert [caller.result for caller in accepted] == [10, 20]
    assert fn.seen == [1, 2]


async def test_close_refuses_new_items_and_lets_the_rest_be() -> None:
    """Several intakes can be closed before any of them drains."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        intake = Intake(scene.batcher)
        [caller] = await through(intake, scene, (1, None))
        intake.close()
        with pytest.raises(BatcherStopped):
            await intake.process(2)
        fn.release()
        await caller.end()
        assert caller.result == 10
        assert await scene.batcher.process(3) == 30


async def test_those_in_line_are_told_at_once_and_the_accepted_are_served() -> None:
    """A shutdown with the queue full: who waited for room was never accepted, with no `enqueue_timeout` either."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, on_full="wait") as scene:
        intake = Intake(scene.batcher)
        callers = await through(intake, scene, *[(number, None) for number in range(5)])
        ending = await started(scene, intake.shutdown)
        assert [caller.failed(BatcherStopped).withdrawn for caller in callers[2:]] == [True] * 3
        assert ending.waits
        fn.release()
        await scene.end_of(ending, *callers)
        assert [caller.result for caller in callers[:2]] == [0, 10]
    assert fn.seen == [0, 1]


async def test_a_batch_that_fails_does_not_end_the_drain() -> None:
    """Its callers get its error, and what waits behind it is processed."""
    fn = RecordingProcessor(ten_times, raises(ValueError("bad")))
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
        intake = Intake(scene.batcher)
        callers = await through(intake, scene, *[(number, None) for number in range(5)])
        ending = await started(scene, intake.shutdown)
        fn.release()
        await scene.end_of(ending, *callers)
        assert ending.error is None
        for caller in callers[:2]:
            caller.failed(ValueError)
        assert [caller.result for caller in callers[2:]] == [20, 30, 40]


async def test_a_shutdown_from_inside_the_processor_is_refused_and_from_on_batch_it_works() -> None:
    """It would wait for itself: a `RuntimeError` at once; closed all the same, and the next one drains."""
    doors: list[Intake[int, int]] = []

    async def processor(items: list[int]) -> list[int]:
        await doors[0].shutdown()
        return items

    async with anyio.create_task_group() as group:
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            processor, on_batch=lambda _: group.start_soon(doors[0].shutdown)
        )
        doors.append(Intake(batcher))
        async with batcher:
            with pytest.raises(RuntimeError, match="wait for itself"):
                await doors[0].process(1)
            assert doors[0].closed
            await settle()
            with pytest.raises(BatcherStopped):
                await batcher.process(2)
