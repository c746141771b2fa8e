"""Cancellation in the very tick in which something else happens to the same item (contract, rule 1)."""

import anyio
import pytest
from recording import RecordingProcessor, raises, ten_times
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("outcome", ["result", "error"])
@pytest.mark.parametrize("order", ["gate first", "cancel first"])
@pytest.mark.parametrize("leavers", [(0,), (2,), (0, 1, 2)])
async def test_cancel_in_the_tick_in_which_the_batch_ends(
    outcome: str, order: str, leavers: tuple[int, ...]
) -> None:
    """A2, A3: the leaver is told one thing, its siblings get theirs, and each is counted once."""
    fn = RecordingProcessor(ten_times, *([raises(ValueError("no"))] if outcome == "error" else []))
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process(1, 2, 3)
        if order == "gate first":
            fn.release()
        for leaver in leavers:
            callers[leaver].cancel()
        fn.release()
        await settle()
        assert_counts_add_up(scene.batcher.stats())
        for index, caller in enumerate(callers):
            if index in leavers:
                assert not caller.waits
            elif outcome == "error":
                caller.failed(ValueError)
            else:
                assert caller.result == (index + 1) * 10
        assert await scene.batcher.process(9) == 90
    assert scene.batcher.stats().accepted == 4


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("how", ["scope", "task"])
async def test_submit_cancelled_around_its_admission_is_never_processed(how: str, turns: int) -> None:
    """A `submit` that did not return left nothing behind: its item has no place, and is never seen."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        await scene.process(1, 2)
        leaves, stays = await scene.submit(3, 4)
        fn.release(0)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        leaves.cancel() if how == "scope" else leaves.cancel_task()
        await settle()
        assert_counts_add_up(scene.batcher.stats())
        fn.release()
        await stays.end()
        assert await stays.result == 40
    assert fn.seen == ([1, 2, 4] if leaves.was_cancelled else [1, 2, 3, 4])


@pytest.mark.parametrize("turns", range(6))
async def test_cancel_some_turns_after_the_gate_opened(turns: int) -> None:
    """A2: whatever the turn, from the gate to the caller's own wake-up, the siblings are served."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        one, two, three = await scene.process(1, 2, 3)
        fn.release()
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        two.cancel()
        await settle()
        assert (one.result, three.result) == (10, 30)
        assert two.was_cancelled or two.result == 20
        assert_counts_add_up(scene.batcher.stats())
        assert await scene.batcher.process(9) == 90


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("everybody", [False, True], ids=["one leaves", "all leave"])
async def test_cancel_some_turns_after_the_batch_became_full(turns: int, everybody: bool) -> None:
    """A batch that was taken but has not begun loses its leavers, never its slot."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
        (one,) = await scene.process(1)
        two = scene.start_process(2)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        two.cancel()
        if everybody:
            one.cancel()
        await settle()
        assert_counts_add_up(scene.batcher.stats())
        (three,) = await scene.process(3)
        (four,) = await scene.process(4)
        await anyio.sleep(61)
        assert (three.result, four.result) == (30, 40)
        assert everybody or one.result == 10
        assert not two.waits
    assert sorted(set(fn.seen)) == sorted(fn.seen)


@pytest.mark.parametrize("order", ["timer first", "cancel first"])
async def test_cancel_at_the_moment_at_which_the_window_ends(order: str) -> None:
    """A7: an item whose caller's deadline is its window's end is seen or withdrawn, never both."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:

        async def brief() -> int:
            with anyio.fail_after(0.05):
                return int(await scene.batcher.process(1))

        if order == "cancel first":
            one = scene.start(brief)
            await settle()
            (two,) = await scene.process(2)
        else:
            (two,) = await scene.process(2)
            one = scene.start(brief)
        await anyio.sleep(0.2)
        assert two.result == 20
        stats = scene.batcher.stats()
        assert stats.withdrawn == (1 not in fn.seen)
        assert not one.waits
    assert_counts_add_up(scene.batcher.stats())


async def test_caller_that_gives_up_after_each_attempt_is_never_seen_twice() -> None:
    """A7: a thousand deadlines around the window's end: every item is seen at most once, and counted once."""
    fn = RecordingProcessor()
    window = 0.01
    async with open_scene(fn, max_batch_size=4, max_queue_time=window, max_queue_size=None) as scene:
        results: list[int] = []

        async def brief(number: int) -> None:
            await anyio.sleep(number * 0.0007)
            with anyio.move_on_after(window + (number % 5 - 2) * 0.0001):
                results.append(await scene.batcher.process(number))

        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(brief, number)
    stats = scene.batcher.stats()
    assert len(fn.seen) == len(set(fn.seen))
    assert {result // 10 for result in results} <= set(fn.seen)
    assert stats.succeeded >= len(results) > 0
    assert stats.withdrawn == 1000 - len(fn.seen)


async def test_cancel_of_the_only_waiting_item_in_the_tick_in_which_another_comes() -> None:
    """The queue that empties and fills again in one tick keeps its timer."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:
        (one,) = await scene.process(1)
        one.cancel()
        two = scene.start_process(2)
        await anyio.sleep(0.2)
        assert two.result == 20
    assert fn.batches == [[2]]


@pytest.mark.parametrize("force", [False, True])
async def test_cancel_during_stop(force: bool) -> None:
    """Who leaves while the batcher drains leaves as before, and the drain does not wait for it."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running, waiting, last = await scene.process(1, 2, 3)
        stopping = await scene.stop()
        waiting.cancel()
        running.cancel()
        await settle()
        assert waiting.was_cancelled
        assert running.was_cancelled
        assert stopping.waits
        if force:
            await scene.batcher.stop(force=True)
        else:
            fn.release()
            await stopping.end()
            assert last.result == 30
        assert_counts_add_up(scene.batcher.stats())
    assert fn.seen == ([1] if force else [1, 3])
    assert (scene.batcher.stats().withdrawn, scene.batcher.stats().abandoned) == (1, 1)


@pytest.mark.parametrize("order", ["stop first", "cancel first"])
async def test_cancel_in_the_tick_of_a_forced_stop(order: str) -> None:
    """Everybody ends, by the stop or by the cancellation, and is counted once."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        callers = await scene.process(1, 2, 3)
        if order == "cancel first":
            for caller in callers:
                caller.cancel()
        await scene.batcher.stop(force=True)
        for caller in callers:
            caller.cancel()
        await settle()
        assert not any(caller.waits for caller in callers)
        assert_counts_add_up(scene.batcher.stats())
    assert fn.seen == [1]
