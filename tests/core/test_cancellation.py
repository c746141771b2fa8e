"""A caller that leaves never harms a sibling, wherever its item is (contract, rule 1)."""

import anyio
import pytest
from recording import RecordingProcessor, raises
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import QueueFull

pytestmark = pytest.mark.anyio


async def test_cancelled_caller_leaves_the_queue() -> None:
    """A1: an item whose caller left while it waited is never seen, and counts as withdrawn."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:
        one, two, three = await scene.process(1, 2, 3)
        two.cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.waiting, stats.withdrawn) == (3, 2, 1)
        assert two.was_cancelled
    assert fn.batches == [[1, 3]]
    assert (one.result, three.result) == (10, 30)
    assert (stats := scene.batcher.stats()).withdrawn == 1
    assert stats.succeeded == 2


@pytest.mark.parametrize("leaver", [0, 1, 2], ids=["oldest", "middle", "newest"])
async def test_cancelled_caller_frees_its_place_at_once(leaver: int) -> None:
    """A1: the place in `max_queue_size` is free for the next item in the same moment."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_size=3, max_queue_time=60) as scene:
        fn.hold()
        (busy,) = await scene.process("busy")
        await anyio.sleep(60)
        waiting = await scene.process("a", "b", "c")
        with pytest.raises(QueueFull):
            await scene.batcher.process("too much")
        waiting[leaver].cancel()
        await settle()
        (new,) = await scene.process("d")
        assert new.waits
        fn.release()
    stayed = [item for item in "abc" if item != "abc"[leaver]]
    assert fn.batches == [["busy"], [*stayed, "d"]]
    assert busy.result == "busy" * 10
    assert new.result == "d" * 10
    assert scene.batcher.stats().rejected == 1


async def test_place_of_a_cancelled_caller_goes_to_the_head_of_the_line() -> None:
    """Rule 2: those who wait for room are served in their order, and nobody passes them."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_size=2, max_queue_time=0, on_full="wait") as scene:
        await scene.process("busy")
        first, second = await scene.process("a", "b")
        in_line = await scene.process("c", "d")
        assert scene.batcher.stats().in_line == 2
        first.cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.in_line, stats.waiting, stats.accepted) == (1, 2, 4)
        (late,) = await scene.process("e")
        assert scene.batcher.stats().in_line == 2
        fn.release()
        await scene.end_of(*in_line, late)
    assert fn.batches == [["busy"], ["b", "c"], ["d", "e"]]
    assert [caller.result[0] for caller in (second, *in_line, late)] == ["b", "c", "d", "e"]


@pytest.mark.parametrize("leavers", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
async def test_caller_cancelled_in_line_was_never_accepted(leavers: tuple[int, ...]) -> None:
    """Who leaves the line for room was not accepted, is never seen, and the others keep their order."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        await scene.process("busy", "waits")
        line = await scene.process("a", "b", "c")
        for leaver in leavers:
            line[leaver].cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.in_line) == (2, 3 - len(leavers))
        fn.release()
        await scene.end_of(*line)
    stayed = [item for index, item in enumerate("abc") if index not in leavers]
    assert fn.seen == ["busy", "waits", *stayed]
    assert scene.batcher.stats().accepted == 2 + len(stayed)


@pytest.mark.parametrize("order", ["place first", "cancel first"])
async def test_place_handed_to_a_caller_that_is_being_cancelled_is_not_lost(order: str) -> None:
    """A place that comes free in the tick in which the head of the line is cancelled goes to the next."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        await scene.process("busy", "waits")
        head, following = await scene.process("head", "following")
        if order == "cancel first":
            head.cancel()
        fn.release()
        if order == "place first":
            head.cancel()
        await following.end()
        assert following.result == "following" * 10
        assert not head.waits
        assert_counts_add_up(scene.batcher.stats())
        assert await scene.batcher.process("after") == "after" * 10
    assert fn.seen in (
        ["busy", "waits", "following", "after"],
        ["busy", "waits", "head", "following", "after"],
    )


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_caller_cancelled_in_a_running_batch_leaves_its_siblings_alone(leaver: int) -> None:
    """A2: the batch goes on, the siblings and those who come later are served, the result is dropped."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process(1, 2, 3)
        callers[leaver].cancel()
        await settle()
        stats = scene.batcher.stats()
        assert callers[leaver].was_cancelled
        assert (stats.running, stats.abandoned) == (2, 1)
        fn.release()
        assert await scene.batcher.process(9) == 90
    stayed = [caller.result for index, caller in enumerate(callers) if index != leaver]
    assert stayed == [item * 10 for index, item in enumerate((1, 2, 3)) if index != leaver]
    assert fn.batches == [[1, 2, 3], [9]]
    assert fn.cancelled == []


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_caller_cancelled_in_a_batch_that_fails_leaves_its_siblings_alone(leaver: int) -> None:
    """A3: the same where the batch fails: the siblings get the error, and the next batch is served."""
    fn = RecordingProcessor()
    fn.script.append(raises(ValueError("no")))
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process(1, 2, 3)
        callers[leaver].cancel()
        await settle()
        fn.release()
        assert await scene.batcher.process(9) == 90
    for index, caller in enumerate(callers):
        assert caller.was_cancelled if index == leaver else caller.failed(ValueError).args == ("no",)
    stats = scene.batcher.stats()
    assert (stats.failed, stats.abandoned, stats.succeeded) == (2, 1, 1)


@pytest.mark.parametrize("outcome", ["result", "error"])
async def test_batch_that_everybody_left_ends_and_the_next_is_served(outcome: str) -> None:
    """A4: with every caller of a running batch gone the batch ends, counts, and gives its slot back."""
    fn = RecordingProcessor()
    if outcome == "error":
        fn.script.append(raises(ValueError("nobody hears this")))
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process(1, 2, 3)
        for caller in callers:
            caller.cancel()
        await settle()
        fn.release()
        assert await scene.batcher.process(9) == 90
        stats = scene.batcher.stats()
        assert (stats.batches, stats.running, stats.abandoned) == (2, 0, 3)
    assert fn.ended == [0, 1]


async def test_batch_of_which_nobody_waits_any_more_is_not_started() -> None:
    """Rule 1: when all have left before the window ends, the processor is not called."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:
        for caller in await scene.process(1, 2, 3):
            caller.cancel()
        await anyio.sleep(1)
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.waiting, stats.batches) == (3, 0, 0)
        assert await scene.batcher.process(4) == 40
    assert fn.batches == [[4]]


async def test_waiting_batch_that_everybody_left_behind_a_busy_slot_is_not_started() -> None:
    """Rule 1: the same for a batch that is full and waits for its slot."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        await scene.process("busy", "busy too")
        full = await scene.process("a", "b")
        (behind,) = await scene.process("c")
        for caller in full:
            caller.cancel()
        await settle()
        fn.release()
        await behind.end()
    assert fn.batches == [["busy", "busy too"], ["c"]]


async def test_holes_are_filled_from_behind() -> None:
    """A batch that lost items while it waited for its slot takes those who wait behind it, in order."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=4, max_queue_time=0) as scene:
        await scene.process("busy")
        callers = await scene.process(*range(10))
        for index in (1, 2, 5):
            callers[index].cancel()
        await settle()
        fn.release()
        await scene.end_of(*callers)
    assert fn.batches == [["busy"], [0, 3, 4, 6], [7, 8, 9]]


async def test_results_do_not_shift_when_items_were_removed() -> None:
    """E4: each caller that stayed gets its own result, not its neighbour's."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:
        callers = await scene.process(1, 2, 3, 4, 5)
        callers[1].cancel()
        callers[3].cancel()
    assert [callers[index].result for index in (0, 2, 4)] == [10, 30, 50]
    assert fn.batches == [[1, 3, 5]]


async def test_cancelling_twice_is_counted_once() -> None:
    """A caller that is cancelled again while it leaves, or after it left, leaves once."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        running, waiting, in_line = await scene.process(1, 2, 3)
        for caller in (in_line, waiting, running):
            caller.cancel()
            caller.cancel()
            await settle()
            caller.cancel()
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.abandoned, stats.in_line) == (1, 1, 0)
        fn.release()
        assert await scene.batcher.process(4) == 40
    assert fn.seen == [1, 4]
