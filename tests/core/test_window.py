"""When a batch leaves (contract, rule 2), and in which order items are seen."""

import asyncio
import random
import time
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import BatchEvent

pytestmark = pytest.mark.anyio


class TimedProcessor(RecordingProcessor):
    """Records too when each batch began."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[float] = []

    async def __call__(self, batch: list[Any]) -> Any:
        self.began.append(anyio.current_time())
        return await super().__call__(batch)


async def test_window_is_counted_from_the_oldest_item() -> None:
    """C1: items at 0, 0.15 and 0.30: the first batch leaves at 0.20, the next 0.20 after its own first."""
    fn = TimedProcessor()
    async with open_scene(fn, max_batch_size=100, max_queue_time=0.2) as scene:
        await scene.process(1)
        await anyio.sleep(0.15)
        await scene.process(2)
        await anyio.sleep(0.15)
        await scene.process(3)
        await anyio.sleep(1)
    assert fn.batches == [[1, 2], [3]]
    assert fn.began == pytest.approx([0.2, 0.5])


async def test_window_begins_with_the_item_and_not_with_the_last_batch() -> None:
    """C2: after a long idle time two items within the window are one batch."""
    fn = TimedProcessor()
    async with open_scene(fn, max_batch_size=100, max_queue_time=0.1) as scene:
        for _ in range(3):
            await anyio.sleep(0.3)
            await scene.process(1)
            await anyio.sleep(0.03)
            await scene.process(2)
            await anyio.sleep(0.3)
    assert fn.batches == [[1, 2]] * 3
    assert fn.began == pytest.approx([0.4, 1.03, 1.66])


async def test_full_batch_leaves_at_once() -> None:
    """C3: four of four leave in the same few turns, whatever the window."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=4, max_queue_time=60) as scene:
        callers = await scene.process(1, 2, 3, 4)
        assert [caller.result for caller in callers] == [10, 20, 30, 40]
        assert anyio.current_time() == 0.0


async def test_batch_is_full_when_the_queue_is() -> None:
    """Rule 2: where the queue holds less than a batch, nobody waits for what cannot come."""
    for on_full in ("reject", "wait"):
        fn = RecordingProcessor()
        async with open_scene(
            fn, max_batch_size=100, max_queue_size=3, max_queue_time=60, on_full=on_full
        ) as scene:
            callers = await scene.process(1, 2, 3)
            assert not any(caller.waits for caller in callers)
            assert anyio.current_time() == 0.0
        assert fn.batches == [[1, 2, 3]]


async def test_batch_never_exceeds_its_size() -> None:
    """D3: nine items, batches of four: 4, 4, 1; never 5."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=4, max_queue_time=0.05) as scene:
        callers = [scene.start_process(number) for number in range(9)]
        await scene.end_of(*callers)
    assert [len(batch) for batch in fn.batches] == [4, 4, 1]


async def test_unlimited_batch_takes_all_that_wait() -> None:
    """`max_batch_size=None`: only the window ends a batch."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=None, max_queue_time=0.05) as scene:
        submissions = [await scene.batcher.submit(number) for number in range(500)]
        await submissions[-1]
    assert [len(batch) for batch in fn.batches] == [500]


async def test_items_behind_a_busy_slot_are_merged() -> None:
    """D2: what arrives while the slot is busy is one batch when it comes free, in the order of arrival."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.01) as scene:
        await scene.process(0)
        await anyio.sleep(1)
        await scene.process(1, 2, 3, 4)
        await anyio.sleep(1)
        fn.release()
        await settle()
        assert fn.batches == [[0], [1, 2, 3, 4]]


async def test_items_that_came_apart_behind_a_busy_slot_are_merged() -> None:
    """D2: windows that ended while the slot was busy do not cut the queue into pieces."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.01) as scene:
        for number in range(6):
            await scene.process(number)
            await anyio.sleep(1)
        fn.release()
        await settle()
    assert fn.batches == [[0], [1, 2, 3, 4, 5]]


async def test_slot_that_comes_free_within_the_window_waits_for_company() -> None:
    """Rule 2: the window is the oldest item's, whatever the slot did meanwhile."""
    fn = TimedProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.2) as scene:
        await scene.process(0)
        await anyio.sleep(0.3)
        await scene.process(1)
        await anyio.sleep(0.05)
        fn.release()
        await anyio.sleep(0.1)
        await scene.process(2)
        await anyio.sleep(1)
    assert fn.batches == [[0], [1, 2]]
    assert fn.began == pytest.approx([0.2, 0.5])


async def test_window_moves_to_the_next_oldest_when_the_oldest_leaves() -> None:
    """Rule 2: it is counted from the oldest item that still waits."""
    fn = TimedProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.2) as scene:
        (oldest,) = await scene.process(1)
        await anyio.sleep(0.15)
        await scene.process(2)
        oldest.cancel()
        await anyio.sleep(1)
    assert fn.batches == [[2]]
    assert fn.began == pytest.approx([0.35])


async def test_window_of_zero_leaves_at_once_and_grows_while_busy() -> None:
    """`max_queue_time=0`: alone when the slot is free, in company when it was not."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0) as scene:
        await scene.process(1, 2, 3)
        assert fn.batches == [[1]]
        fn.release()
        await settle()
        assert fn.batches == [[1], [2, 3]]
        assert anyio.current_time() == 0.0


async def test_all_are_served_when_nobody_comes_any_more() -> None:
    """I1: five at once, batches of two, one slot, no further arrival: 2, 2, 1."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0.01) as scene:
        callers = await scene.process(*range(5))
        await anyio.sleep(1)
        assert not any(caller.waits for caller in callers)
    assert fn.batches == [[0, 1], [2, 3], [4]]


async def test_batches_run_side_by_side_and_begin_in_queue_order() -> None:
    """D5: the second of two resolves first if it is faster; never more than `concurrency` at once."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, concurrency=2, max_queue_time=0) as scene:
        callers = await scene.process(*range(8))
        assert fn.batches == [[0], [1]]
        fn.release(1)
        await settle()
        assert callers[1].result == 10
        assert callers[0].waits
        fn.release()
        await scene.end_of(*callers)
    assert fn.seen == list(range(8))
    assert fn.most_at_once == 2


async def test_unlimited_concurrency_starts_every_batch() -> None:
    """`concurrency=None`: no batch waits for a slot."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, concurrency=None) as scene:
        await scene.process(*range(50))
        assert fn.running == 50
        fn.release()


async def test_item_put_by_a_caller_that_was_just_served_is_served_at_once() -> None:
    """I2: no wake-up is missed between the end of one batch and the next item."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1, max_queue_time=60) as scene:
        for number in range(100):
            assert await scene.batcher.process(number) == 10 * number
        assert anyio.current_time() == 0.0


async def test_item_put_by_the_observer_of_a_batch_is_served_at_once() -> None:
    """I2: the same for an item that `on_batch` sends on its way."""

    def on_batch(event: BatchEvent) -> None:
        if len(fn.batches) < 3:
            scene.start_process("again")

    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1, max_queue_time=60, on_batch=on_batch) as scene:
        await scene.process("first")
        assert fn.batches == [["first"], ["again"], ["again"]]
        assert anyio.current_time() == 0.0


@pytest.mark.parametrize("seed", range(3))
async def test_arrivals_that_land_on_the_expiry_are_each_seen_once(seed: int) -> None:
    """A7: 2,000 items at random gaps around the window: every one is seen exactly once, and in order."""
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    fn = RecordingProcessor()
    async with open_scene(
        fn, max_batch_size=4, max_queue_time=0.001, max_queue_size=None, concurrency=None
    ) as scene:
        submissions = []
        for number in range(2000):
            submissions.append(await scene.batcher.submit(number))
            await anyio.sleep(chance.choice([0, 0.0001, 0.0005, 0.00099999, 0.001, 0.0010001]))
        assert [await submission for submission in submissions] == [10 * number for number in range(2000)]
    assert fn.seen == list(range(2000))


async def test_wall_clock_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """K1: the clock on the wall jumps by an hour, back and forth: windows and durations stay right."""
    events: list[BatchEvent] = []
    fn = TimedProcessor()
    jumps = iter([3600.0, -3600.0] * 10_000)
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + next(jumps))
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.2, on_batch=events.append) as scene:
        await scene.process(1)
        await anyio.sleep(0.1)
        await scene.process(2)
        await anyio.sleep(1)
    assert fn.began == pytest.approx([0.2])
    assert events[0].oldest_queue_seconds == pytest.approx(0.2)
    assert events[0].mean_queue_seconds == pytest.approx(0.15)
    assert 0 <= events[0].processing_seconds < 0.1


@pytest.mark.backends("asyncio")
async def test_blocked_loop_delays_a_batch_once() -> None:
    """K4: after the loop was blocked past the window the batch leaves at once, not a window later."""
    fn = TimedProcessor()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualEventLoop)
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.1) as scene:
        await scene.process(1)
        loop.set_time_aside(0.3)
        await scene.process(2)
        await anyio.sleep(1)
    assert fn.batches in ([[1], [2]], [[1, 2]])
    assert fn.began[0] == pytest.approx(0.3)
