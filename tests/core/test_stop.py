"""Stop: refuse at once, send what waits, wait for what runs (contract, rule 3, without force)."""

import anyio
import pytest
from recording import RecordingProcessor, raises
from scenes import assert_counts_add_up, assert_nothing_left, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped

pytestmark = pytest.mark.anyio


async def test_partial_batch_is_sent_at_once() -> None:
    """B1: three of a hundred leave when the batcher stops, not when their minute is over."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=100, max_queue_time=60) as scene:
        callers = await scene.process(1, 2, 3)
        await scene.batcher.stop()
        assert anyio.current_time() == pytest.approx(0, abs=0.01)
        await settle()
        assert [caller.result for caller in callers] == [10, 20, 30]
    assert fn.batches == [[1, 2, 3]]


async def test_stop_returns_after_every_batch_has_ended() -> None:
    """B3: two batches of 0.3 s behind one slot: both are done, and it took both."""

    async def slow(batch: list[int]) -> list[int]:
        await anyio.sleep(0.3)
        seen.append(batch)
        return batch

    seen: list[list[int]] = []
    async with open_scene(slow, max_batch_size=2, concurrency=1) as scene:
        callers = await scene.process(1, 2, 3, 4)
        await scene.batcher.stop()
        assert seen == [[1, 2], [3, 4]]
        assert anyio.current_time() == pytest.approx(0.6)
        assert scene.batcher.stats().succeeded == 4
        await settle()
        assert [caller.result for caller in callers] == [1, 2, 3, 4]


async def test_drain_keeps_the_limits() -> None:
    """Partial batches leave at once, but never more at once than `concurrency`, nor larger than allowed."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, concurrency=2, max_queue_time=60) as scene:
        await scene.process(*range(7))
        stopping = await scene.stop()
        assert fn.batches == [[0, 1], [2, 3]]
        fn.release(0)
        await settle()
        assert fn.batches == [[0, 1], [2, 3], [4, 5]]
        assert stopping.waits
        fn.release()
        await stopping.end()
    assert fn.batches == [[0, 1], [2, 3], [4, 5], [6]]
    assert fn.most_at_once == 2


async def test_item_that_arrives_during_the_drain_is_refused_at_once() -> None:
    """B7: refused while the batch still runs, never seen, and the drain goes on."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running, waiting = await scene.process(1, 2)
        stopping = await scene.stop()
        (late,) = await scene.process(3)
        assert late.failed(BatcherStopped).withdrawn is True
        with pytest.raises(BatcherStopped):
            await scene.batcher.submit(4)
        assert stopping.waits
        fn.release()
        await stopping.end()
        await settle()
        assert (running.result, waiting.result) == (10, 20)
    assert fn.seen == [1, 2]
    assert (scene.batcher.stats().accepted, scene.batcher.stats().rejected) == (2, 2)


async def test_failing_batch_does_not_abort_the_drain() -> None:
    """B7: the batches behind one that fails are still sent."""
    fn = RecordingProcessor()
    fn.script.append(raises(ValueError("no")))
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        callers = await scene.process(1, 2, 3)
        stopping = await scene.stop()
        fn.release()
        await stopping.end()
        assert stopping.result is None
        await settle()
        callers[0].failed(ValueError)
        assert [caller.result for caller in callers[1:]] == [20, 30]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("enqueue_timeout", [None, 60.0])
async def test_callers_in_line_are_woken(force: bool, enqueue_timeout: float | None) -> None:
    """B6: those who wait for room hear `BatcherStopped` at once, with or without a deadline of their own."""
    fn = RecordingProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "on_full": "wait"}
    async with open_scene(fn, enqueue_timeout=enqueue_timeout, **options) as scene:
        await scene.process(1, 2)
        in_line = [*await scene.process(3, 4), *await scene.submit(5)]
        assert scene.batcher.stats().in_line == 3
        await scene.stop(force=force)
        for caller in in_line:
            assert caller.failed(BatcherStopped).withdrawn is True
        assert scene.batcher.stats().in_line == 0
        assert anyio.current_time() == 0.0
        fn.release()
    assert fn.seen == ([1] if force else [1, 2])
    assert scene.batcher.stats().accepted == 2


async def test_stopped_is_final() -> None:
    """After the stop every call is refused, at once, with an error that is a `RuntimeError` too."""
    fn = RecordingProcessor()
    async with open_scene(fn) as scene:
        assert await scene.batcher.process(1) == 10
        await scene.batcher.stop()
        for call in (scene.batcher.process, scene.batcher.submit):
            with pytest.raises(BatcherStopped) as caught:
                await call(2)
            assert isinstance(caught.value, RuntimeError)
            assert caught.value.withdrawn is True
    assert fn.seen == [1]


async def test_stop_is_idempotent_and_concurrent() -> None:
    """Each of many stops returns after the drain; one more afterwards returns at once."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        (caller,) = await scene.process(1)
        stops = [await scene.stop() for _ in range(3)]
        assert all(stop.waits for stop in stops)
        fn.release()
        await settle()
        assert [stop.result for stop in stops] == [None, None, None]
        assert caller.result == 10
        await scene.batcher.stop()
        await scene.batcher.stop(force=True)


async def test_batcher_that_was_never_used_stops_at_once() -> None:
    """With and without force, and without `async with`."""
    for force in (False, True):
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(RecordingProcessor())
        await batcher.stop(force=force)
        with pytest.raises(BatcherStopped):
            await batcher.process(1)
        assert_nothing_left(batcher.stats())


async def test_cancelled_stop_leaves_the_drain_going() -> None:
    """Who waits for the drain may leave: the batcher still refuses, drains, and a second stop waits again."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        stopping = await scene.stop()
        stopping.cancel()
        await settle()
        assert stopping.was_cancelled
        with pytest.raises(BatcherStopped):
            await scene.batcher.process(3)
        again = await scene.stop()
        assert again.waits
        fn.release()
        await again.end()
        await settle()
        assert [caller.result for caller in callers] == [10, 20]


async def test_timeout_bounds_the_drain() -> None:
    """`timeout` ends the wait with a plain `TimeoutError`; the batcher still refuses and still drains."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        with pytest.raises(TimeoutError) as caught:
            await scene.batcher.stop(timeout=1.5)
        assert type(caught.value) is TimeoutError
        assert anyio.current_time() == pytest.approx(1.5)
        with pytest.raises(BatcherStopped):
            await scene.batcher.process(3)
        assert all(caller.waits for caller in callers)
        assert fn.cancelled == []
        assert_counts_add_up(scene.batcher.stats())
        fn.release()
        await scene.batcher.stop(timeout=1)
        await settle()
        assert [caller.result for caller in callers] == [10, 20]


async def test_forced_stop_works_after_a_timeout() -> None:
    """What a drain did not end in time, `stop(force=True)` ends."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        with pytest.raises(TimeoutError):
            await scene.batcher.stop(timeout=1)
        await scene.batcher.stop(force=True)
        await settle()
        assert [caller.failed(BatcherStopped).withdrawn for caller in callers] == [False, True]
    assert fn.seen == [1]


async def test_drain_that_ends_at_its_last_moment_is_no_timeout() -> None:
    """A drain that takes less than `timeout` returns, and its caller's own scope is not cancelled."""

    async def slow(batch: list[int]) -> list[int]:
        await anyio.sleep(0.999)
        return batch

    async with open_scene(slow, max_batch_size=1) as scene:
        (caller,) = await scene.process(1)
        await scene.batcher.stop(timeout=1)
        await anyio.sleep(5)
        assert caller.result == 1
