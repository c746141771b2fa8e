"""Items that grow too old before they get into a batch."""

from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherError, EnqueueTimeout, ItemExpired
from async_batcher._expiry import Expiries

pytestmark = pytest.mark.anyio


async def test_item_expires_while_the_backend_is_busy() -> None:
    """C4's kind: at its own time, not when the running batch ends; the backend never sees it."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, expires_after=2) as scene:
        fn.hold()
        await scene.process(1)
        old, young = await scene.process(2, 3)
        await anyio.sleep(1)
        (younger,) = await scene.process(4)
        await anyio.sleep(1.5)
        assert old.ended_at == young.ended_at == pytest.approx(2)
        error = old.failed(ItemExpired)
        assert isinstance(error, TimeoutError)
        assert isinstance(error, BatcherError)
        assert "never saw it" in str(error)
        assert younger.waits
        stats = scene.batcher.stats()
        assert (stats.expired, stats.waiting) == (2, 1)
        fn.release()
    assert fn.seen == [1, 4]


async def test_item_that_is_in_a_batch_does_not_expire() -> None:
    """However long the batch runs."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, expires_after=1) as scene:
        fn.hold()
        (caller,) = await scene.process(1)
        await anyio.sleep(10)
        assert caller.waits
        fn.release()
        await scene.end_of(caller)
        assert caller.result == 10
        assert scene.batcher.stats().expired == 0


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_each_call_may_say_when(order: tuple[int, ...]) -> None:
    """Whatever the order in which they came, each ends at its own time; `None` is what the option says."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, expires_after=4) as scene:
        fn.hold()
        await scene.process(0)
        callers = {}
        for seconds in order:
            callers[seconds] = scene.start(partial(scene.batcher.process, seconds, expires_after=seconds))
            await settle()
        usual = scene.start(partial(scene.batcher.process, 9, expires_after=None))
        await anyio.sleep(5)
        assert [callers[seconds].ended_at for seconds in (1, 2, 3)] == pytest.approx([1, 2, 3])
        assert usual.ended_at == pytest.approx(4)
        fn.release()
    assert fn.seen == [0]


async def test_expired_item_frees_its_place() -> None:
    """For the head of the line, at that very moment."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, max_queue_size=1, on_full="wait") as scene:
        fn.hold()
        await scene.process(1)
        old = scene.start(partial(scene.batcher.process, 2, expires_after=1))
        await settle()
        (next_one,) = await scene.process(3)
        await anyio.sleep(1.5)
        old.failed(ItemExpired)
        assert (scene.batcher.stats().waiting, scene.batcher.stats().in_line) == (1, 0)
        fn.release()
        await scene.end_of(next_one)
        assert next_one.result == 30
    assert fn.seen == [1, 3]


@pytest.mark.parametrize("way", ["process", "submit"])
async def test_who_stands_in_line_expires_there(way: str) -> None:
    """It was never accepted, so it counts as rejected."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, max_queue_size=1, on_full="wait") as scene:
        fn.hold()
        await scene.process(1, 2)
        caller = scene.start(partial(getattr(scene.batcher, way), 3, expires_after=1))
        await anyio.sleep(2)
        caller.failed(ItemExpired)
        stats = scene.batcher.stats()
        assert (stats.expired, stats.rejected, stats.in_line, stats.accepted) == (0, 1, 0, 2)
        fn.release()
    assert fn.seen == [1, 2]


async def test_wait_in_line_counts() -> None:
    """Seconds are counted from the call, not from the place that it got late."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, max_queue_size=1, max_batch_size=1, on_full="wait") as scene:
        fn.hold()
        await scene.process(1, 2)
        caller = scene.start(partial(scene.batcher.process, 3, expires_after=3))
        await anyio.sleep(2)
        fn.release(0)
        await settle()
        assert scene.batcher.stats().waiting == 1
        await anyio.sleep(2)
        assert caller.ended_at == pytest.approx(3)
        caller.failed(ItemExpired)
        assert scene.batcher.stats().expired == 1
        fn.release()
    assert fn.seen == [1, 2]


async def test_patience_for_room_and_age_are_two_budgets() -> None:
    """Whichever ends first speaks."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, max_queue_size=1, on_full="wait", enqueue_timeout=2) as scene:
        fn.hold()
        await scene.process(1, 2)
        aged = scene.start(partial(scene.batcher.process, 3, expires_after=1))
        impatient = scene.start(partial(scene.batcher.process, 4, expires_after=3))
        await anyio.sleep(4)
        aged.failed(ItemExpired)
        impatient.failed(EnqueueTimeout)
        fn.release()


async def test_expired_submission_says_that_it_never_ran() -> None:
    """So that sending it again is safe."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0) as scene:
        fn.hold()
        await scene.process(1)
        submission = await scene.batcher.submit(2, expires_after=1)
        await anyio.sleep(2)
        assert submission.withdraw() is True
        with pytest.raises(ItemExpired):
            await submission
        fn.release()
    assert fn.seen == [1]


async def test_item_that_expires_at_the_end_of_its_window_is_not_processed() -> None:
    """The same moment: too old is too old."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=1, expires_after=1) as scene:
        (caller,) = await scene.process(1)
        await scene.end_of(caller)
        caller.failed(ItemExpired)
    assert fn.batches == []


async def test_caller_that_left_does_not_expire() -> None:
    """It is counted once."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, expires_after=1) as scene:
        fn.hold()
        await scene.process(1)
        (caller,) = await scene.process(2)
        caller.cancel()
        await anyio.sleep(2)
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.expired) == (1, 0)
        fn.release()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "1"])
async def test_age_that_is_none_is_refused(seconds: Any) -> None:
    """As an option when it is built, in a call at once; and the item was not accepted."""
    with pytest.raises(
        (TypeError, ValueError), match="expires_after must be a finite number of seconds over 0"
    ):
        AsyncBatcher.from_callable(RecordingProcessor(), expires_after=seconds)
    fn = RecordingProcessor()
    async with open_scene(fn) as scene:
        for way in (scene.batcher.process, scene.batcher.submit):
            with pytest.raises((TypeError, ValueError), match="expires_after must be"):
                await way(1, expires_after=seconds)
        assert scene.batcher.stats().accepted == 0


class Waiting:
    """A waiter that waits as long as it is alive."""


async def test_who_has_left_is_swept_out() -> None:
    """However many come and go, the memory is that of those who wait, and each costs a few looks."""
    asked = 0

    def waits(_ticket: object, _waiter: object) -> bool:
        nonlocal asked
        asked += 1
        return True

    expiries = Expiries(waits)
    staying = [Waiting() for _ in range(100)]
    ticket = Waiting()
    for number, waiter in enumerate(staying):
        expiries.add(float(number), ticket, waiter)  # type: ignore[arg-type]
    for number in range(10_000):
        expiries.add(1000.0 + number, ticket, Waiting())  # type: ignore[arg-type]
    assert len(expiries.heap) <= 2 * len(staying) + 64
    assert asked <= 5 * 10_000
    popped: list[Any] = [expiries.pop(99.0) for _ in range(101)]
    assert popped == [*((ticket, waiter) for waiter in staying), None]
