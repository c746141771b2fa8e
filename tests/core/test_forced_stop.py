"""A forced stop settles every caller before it returns (contract, rule 3, with force)."""

import traceback

import anyio
import pytest
from recording import RecordingProcessor
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import BatcherStopped

pytestmark = pytest.mark.anyio


async def test_every_caller_is_settled_before_it_returns() -> None:
    """B2: two in flight, three queued: all five hear `BatcherStopped`, and whether their item was seen."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
        callers = await scene.process(1, 2, 3, 4, 5)
        await scene.batcher.stop(force=True)
        stats = scene.batcher.stats()
        assert (stats.stopped, stats.waiting, stats.running) == (5, 0, 0)
        await settle()
        withdrawn = [caller.failed(BatcherStopped).withdrawn for caller in callers]
        assert withdrawn == [False, False, True, True, True]
        assert anyio.current_time() == 0.0
    assert fn.batches == [[1, 2]]
    assert fn.cancelled == [0]


async def test_force_overtakes_a_drain() -> None:
    """A drain that waits for its batches returns when another forces; nothing more is sent."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        draining = await scene.stop()
        await scene.batcher.stop(force=True)
        await settle()
        assert not draining.waits
        for caller in callers:
            caller.failed(BatcherStopped)
    assert fn.seen == [1]


async def test_callers_are_settled_while_the_processor_still_cleans_up() -> None:
    """A processor that takes its time to be cancelled keeps nobody waiting; `timeout` bounds the stop."""
    cleaned = anyio.Event()

    async def careful(batch: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(10)
            cleaned.set()
        return batch

    async with open_scene(careful, max_batch_size=1) as scene:
        (caller,) = await scene.process(1)
        stopping = await scene.stop(force=True)
        assert caller.failed(BatcherStopped).withdrawn is False
        with pytest.raises(TimeoutError) as caught:
            await scene.batcher.stop(force=True, timeout=1)
        assert type(caught.value) is TimeoutError
        assert not cleaned.is_set()
        await stopping.end()
        assert anyio.current_time() == pytest.approx(10)
        assert cleaned.is_set()
        await scene.batcher.stop(force=True)


async def test_processor_that_answers_a_cancellation_with_a_result_changes_nothing() -> None:
    """Who was told `BatcherStopped` stays told: a result that comes afterwards is dropped."""

    async def stubborn(batch: list[int]) -> list[int]:
        with anyio.move_on_after(60):
            await anyio.sleep_forever()
        return batch

    async def swallows(batch: list[int]) -> list[int]:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3)
        return batch

    for processor in (stubborn, swallows):
        async with open_scene(processor, max_batch_size=1) as scene:
            (caller,) = await scene.process(1)
            await scene.batcher.stop(force=True)
            await settle()
            caller.failed(BatcherStopped)
            stats = scene.batcher.stats()
            assert (stats.stopped, stats.succeeded) == (1, 0)


async def test_cancelled_forced_stop_has_settled_everyone() -> None:
    """Safe to cancel: who leaves a forced stop leaves nobody waiting, and the next one waits again."""

    async def careful(batch: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(10)
        return batch

    async with open_scene(careful, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        stopping = await scene.stop(force=True)
        stopping.cancel()
        await settle()
        assert stopping.was_cancelled
        for caller in callers:
            caller.failed(BatcherStopped)
        await scene.batcher.stop(force=True)
        assert anyio.current_time() == pytest.approx(10)


async def test_forced_stop_called_in_a_cancelled_scope_still_settles_everyone() -> None:
    """A caller that is already cancelled may clean up with `stop(force=True)`."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.batcher.stop(force=True)
        await settle()
        for caller in callers:
            caller.failed(BatcherStopped)
        assert_counts_add_up(scene.batcher.stats())


@pytest.mark.parametrize("turns", range(4))
async def test_force_around_the_tick_in_which_a_batch_is_taken(turns: int) -> None:
    """Rule 3: a batch task that has not begun is not cancelled out of its slot: the stop returns."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        caller = scene.start_process(1)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        await scene.batcher.stop(force=True)
        await settle()
        assert not caller.waits
        if caller.error is not None:
            error = caller.failed(BatcherStopped)
            assert not (error.withdrawn and fn.seen)
        stats = scene.batcher.stats()
        assert stats.succeeded + stats.stopped == stats.accepted


@pytest.mark.parametrize("turns", range(5))
async def test_force_around_the_tick_in_which_a_batch_ends(turns: int) -> None:
    """A6: forty rounds a turn: everyone ends, the batcher refuses, and no task is left."""
    for round_ in range(40):
        fn = RecordingProcessor()
        fn.hold()
        async with open_scene(fn, max_batch_size=1, concurrency=1 + round_ % 2) as scene:
            callers = await scene.process(1, 2)
            fn.release()
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            late = scene.start_process(3)
            await scene.batcher.stop(force=True)
            await settle()
            assert not any(caller.waits for caller in (*callers, late))
            with pytest.raises(BatcherStopped):
                await scene.batcher.process(4)
        assert fn.running == 0


async def test_each_caller_is_told_by_an_error_whose_traceback_is_its_own() -> None:
    """Fifty callers that re-raise do not lengthen each other's tracebacks."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(*range(50))
        await scene.batcher.stop(force=True)
        await settle()
    lengths = {
        len(traceback.extract_tb(caller.failed(BatcherStopped).__traceback__)) for caller in callers[1:]
    }
    assert max(lengths) <= min(lengths) + 1
    assert max(lengths) < 15


async def test_error_says_what_to_do() -> None:
    """`withdrawn` in words: that sending again is safe, or that the outcome is unknown."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running, waiting = await scene.process(1, 2)
        await scene.batcher.stop(force=True)
        await settle()
        texts = [str(caller.failed(BatcherStopped)) for caller in (running, waiting)]
        assert all(texts)
        assert texts[0] != texts[1]
