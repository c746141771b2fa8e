"""Who gets a place in the queue, who is refused, and who stands in line (contract, rule 2, options)."""

import anyio
import pytest
from recording import RecordingProcessor
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import BatcherError, EnqueueTimeout, QueueFull

pytestmark = pytest.mark.anyio

ONE = {"max_batch_size": 1, "max_queue_time": 0}
"""Batches of one that leave as soon as the slot is free."""


async def test_callers_beyond_the_limit_are_refused_and_never_seen() -> None:
    """I6: with two places three of five are refused at once; the running item does not count."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=2, **ONE) as scene:
        (busy,) = await scene.process("busy")
        callers = await scene.process(*"abcde")
        for refused in callers[2:]:
            refused.failed(QueueFull)
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.waiting, stats.running, stats.rejected) == (3, 2, 1, 3)
        fn.release()
    assert fn.seen == ["busy", "a", "b"]
    assert not busy.waits


async def test_refusal_names_the_ways_out() -> None:
    """A gather of 2,000 calls is what newcomers try first: the error says what to do instead."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, **ONE) as scene:
        *_, refused = await scene.process(1, 2, 3)
        error = refused.failed(QueueFull)
        assert isinstance(error, BatcherError)
        assert 'on_full="wait"' in str(error)
        assert "max_queue_size" in str(error)
        assert "1" in str(error)
        fn.release()


async def test_unlimited_queue_accepts_all() -> None:
    """`max_queue_size=None` is no limit."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=None, max_batch_size=500, max_queue_time=0) as scene:
        submissions = [await scene.batcher.submit(number) for number in range(2001)]
        fn.release()
        assert [await submission for submission in submissions] == [10 * number for number in range(2001)]
    assert max(map(len, fn.batches)) == 500


async def test_default_queue_refuses_the_1025th() -> None:
    """The default is 1,024 places."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn) as scene:
        for number in range(64):
            await scene.batcher.submit(number)
        await settle()
        for number in range(1024):
            await scene.batcher.submit(number)
        with pytest.raises(QueueFull):
            await scene.batcher.process(0)
        fn.release()


async def test_callers_wait_for_room_first_come_first_served() -> None:
    """`on_full="wait"`: nobody is refused, and the processor sees the items in the order of the calls."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=2, on_full="wait", **ONE) as scene:
        callers = await scene.process(*range(8))
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.waiting, stats.in_line, stats.rejected) == (3, 2, 5, 0)
        for number in range(7):
            fn.release(number)
            await settle()
            assert scene.batcher.stats().waiting <= 2
        fn.release()
        await scene.end_of(*callers)
    assert fn.seen == list(range(8))


async def test_newcomer_does_not_pass_the_line() -> None:
    """I5: a place that was handed to the head of the line is not given to one who just came."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, on_full="wait", **ONE) as scene:
        callers = await scene.process(1, 2, 3)
        fn.release(0)
        newcomer = scene.start_process(4)
        for _ in range(4):
            await anyio.lowlevel.checkpoint()
            assert scene.batcher.stats().waiting <= 1
        fn.release()
        await scene.end_of(*callers, newcomer)
    assert fn.seen == [1, 2, 3, 4]


@pytest.mark.parametrize("turns", range(5))
async def test_queue_is_never_over_its_limit(turns: int) -> None:
    """I5: whenever the newcomer comes, around the hand-over: never more than `max_queue_size` wait."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=2, on_full="wait", **ONE) as scene:
        callers = await scene.process(*range(5))
        most = 0
        for number in range(5):
            fn.release(number)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
                most = max(most, scene.batcher.stats().waiting)
            callers.append(scene.start_process(10 + number))
            await settle()
            most = max(most, scene.batcher.stats().waiting)
            assert_counts_add_up(scene.batcher.stats())
        assert most == 2
        fn.release()
        await scene.end_of(*callers)
    assert fn.seen == [*range(5), *range(10, 15)]


@pytest.mark.parametrize("submit", [False, True], ids=["process", "submit"])
async def test_enqueue_timeout_ends_the_wait_for_room(submit: bool) -> None:
    """C4: it fires on time while the processor is still busy; the item was never accepted."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, on_full="wait", enqueue_timeout=0.05, **ONE) as scene:
        await scene.process("busy", "waits")
        (late,) = await (scene.submit if submit else scene.process)("late")
        await late.end()
        error = late.failed(EnqueueTimeout)
        assert isinstance(error, TimeoutError)
        assert isinstance(error, BatcherError)
        assert late.ended_at == pytest.approx(0.05)
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.in_line, stats.rejected) == (2, 0, 1)
        fn.release()
    assert fn.seen == ["busy", "waits"]


async def test_enqueue_timeout_never_counts_after_acceptance() -> None:
    """An item that got its place may wait as long as it takes."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, on_full="wait", enqueue_timeout=0.05, **ONE) as scene:
        running, waiting = await scene.process(1, 2)
        await anyio.sleep(10)
        assert running.waits
        assert waiting.waits
        (in_line,) = await scene.process(3)
        await anyio.sleep(0.04)
        fn.release(0)
        await settle()
        await anyio.sleep(10)
        assert in_line.waits
        fn.release()
        await in_line.end()
        assert in_line.result == 30


async def test_enqueue_timeout_is_one_budget_from_the_call() -> None:
    """The line that moves does not renew it: three callers that came at 0, 1 and 2 end at 5, 6 and 7."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, on_full="wait", enqueue_timeout=5, **ONE) as scene:
        await scene.process("busy", "waits")
        line = []
        for item in "abc":
            line += await scene.process(item)
            await anyio.sleep(1)
        await anyio.sleep(10)
        assert [caller.ended_at for caller in line] == pytest.approx([5, 6, 7])
        for caller in line:
            caller.failed(EnqueueTimeout)
        fn.release()


async def test_earlier_deadline_passes_a_timer_that_is_set_for_later() -> None:
    """C4: a window's timer that is no longer needed does not hold up the deadline of the line."""
    fn = RecordingProcessor()
    fn.hold()
    options = {"max_batch_size": 2, "max_queue_size": 2, "max_queue_time": 60}
    async with open_scene(fn, on_full="wait", enqueue_timeout=5, **options) as scene:
        await scene.process(1)
        await anyio.sleep(1)
        await scene.process(2, 3, 4)
        (in_line,) = await scene.process(5)
        await in_line.end()
        in_line.failed(EnqueueTimeout)
        assert in_line.ended_at == pytest.approx(6)
        fn.release()


async def test_place_that_comes_free_at_the_deadline_is_not_lost() -> None:
    """Whoever is refused in that very tick, the next in line gets the place."""
    for item_time in (0.99, 1.0, 1.01):

        async def slow(batch: list[int], seconds: float = item_time) -> list[int]:
            await anyio.sleep(seconds)
            return batch

        async with open_scene(slow, max_queue_size=1, on_full="wait", enqueue_timeout=1, **ONE) as scene:
            callers = await scene.process(1, 2, 3)
            await anyio.sleep(0.5)
            (later,) = await scene.process(4)
            await scene.end_of(*callers, later)
            stats = scene.batcher.stats()
            assert_counts_add_up(stats)
            assert stats.accepted + stats.rejected == 4
            assert not (callers[2].error and later.error)


async def test_withdrawn_waiters_do_not_hold_the_line() -> None:
    """B6, A1: a line whose head keeps leaving still moves."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_size=1, on_full="wait", **ONE) as scene:
        await scene.process(0, 1)
        line = await scene.process(*range(2, 12))
        for caller in line[:-1]:
            caller.cancel()
        fn.release()
        await line[-1].end()
        assert line[-1].result == 110
    assert fn.seen == [0, 1, 11]


async def test_queue_of_one_and_batch_of_one_work() -> None:
    """L1: the smallest limits there are let everyone through, in order, without waiting for company."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=60, on_full="wait") as scene:
        callers = await scene.process(*range(5))
        await scene.end_of(*callers)
        assert anyio.current_time() == 0.0
    assert fn.batches == [[0], [1], [2], [3], [4]]


async def test_line_is_served_in_whole_batches() -> None:
    """A taken batch frees all its places, and the line fills them before the next batch leaves."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=4, max_queue_size=4, max_queue_time=0, on_full="wait") as scene:
        (busy,) = await scene.process("busy")
        callers = await scene.process(*range(12))
        fn.release()
        await scene.end_of(busy, *callers)
    assert fn.batches == [["busy"], [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
