"""Cancellation as asyncio has it: `Task.cancel`, `wait_for`, `timeout`, `gather` (contract, rule 1)."""

import asyncio

import pytest
from recording import RecordingProcessor, raises, ten_times
from scenes import assert_counts_add_up, assert_nothing_left
from virtual_time import settle

from async_batcher import AsyncBatcher

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]

Batcher = AsyncBatcher[int, int]


def tasks_of(batcher: Batcher, *items: int) -> list[asyncio.Task[int]]:
    return [asyncio.ensure_future(batcher.process(item)) for item in items]


@pytest.mark.parametrize("outcome", ["result", "error"])
@pytest.mark.parametrize("times", [1, 2])
async def test_cancelled_task_in_a_running_batch_leaves_its_siblings_alone(outcome: str, times: int) -> None:
    """A2, A3: `task.cancel()`, once or twice, harms nobody else, and the loop has no complaint."""
    fn = RecordingProcessor(ten_times, *([raises(ValueError("no"))] if outcome == "error" else []))
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=3)
    one, two, three = tasks_of(batcher, 1, 2, 3)
    await settle()
    for _ in range(times):
        two.cancel()
    await settle()
    fn.release()
    outcomes = await asyncio.gather(one, two, three, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    if outcome == "error":
        assert [type(found) for found in (outcomes[0], outcomes[2])] == [ValueError, ValueError]
    else:
        assert (outcomes[0], outcomes[2]) == (10, 30)
    assert await batcher.process(9) == 90
    await batcher.stop()
    assert_nothing_left(batcher.stats())


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("stage", ["in line", "waiting", "running"])
async def test_task_cancelled_some_turns_around_its_wake_up(stage: str, turns: int) -> None:
    """Whatever the turn between the gate and the task's wake-up, nobody else notices."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(
        fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait"
    )
    tasks = []
    for item in (1, 2, 3, 4):
        tasks += tasks_of(batcher, item)
        await settle()
    victim = {"running": 0, "waiting": 1, "in line": 2}[stage]
    fn.release()
    for _ in range(turns):
        await asyncio.sleep(0)
    tasks[victim].cancel()
    await settle()
    for index, task in enumerate(tasks):
        if index != victim:
            assert await task == (index + 1) * 10
    assert tasks[victim].done()
    assert_counts_add_up(batcher.stats())
    assert await batcher.process(9) == 90
    await batcher.stop()
    assert_nothing_left(batcher.stats())


async def test_task_cancelled_in_line_is_passed_over_in_the_same_tick() -> None:
    """Its place goes to the next at once: it was never accepted, though its task has not woken up yet."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(
        fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait"
    )
    tasks = []
    for item in (1, 2, 3, 4):
        tasks += tasks_of(batcher, item)
        await settle()
    fn.release(0)
    tasks[2].cancel()
    await settle()
    stats = batcher.stats()
    assert (stats.accepted, stats.in_line, stats.withdrawn) == (3, 0, 0)
    fn.release()
    assert list(await asyncio.gather(tasks[0], tasks[1], tasks[3])) == [10, 20, 40]
    await batcher.stop()


async def test_task_cancelled_before_its_first_step_was_never_accepted() -> None:
    """A task that never ran never called: nothing is counted."""
    fn = RecordingProcessor()
    batcher: Batcher = AsyncBatcher.from_callable(fn)
    (task,) = tasks_of(batcher, 1)
    task.cancel()
    await settle()
    assert task.cancelled()
    assert batcher.stats().accepted == 0
    await batcher.stop()


async def test_wait_for_gives_up_alone() -> None:
    """A1: `asyncio.wait_for` withdraws the item that waits and abandons the one that runs."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_time=0)
    (stays,) = tasks_of(batcher, 1)
    await settle()  # from 3.12 on `wait_for` makes no task, so the next call would come first
    for item in (2, 3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batcher.process(item), 0.05)
    assert batcher.stats().withdrawn == 2
    fn.release()
    assert await stays == 10
    await batcher.stop()
    assert fn.seen == [1]


@pytest.mark.parametrize("item_deadline", [0.049, 0.05, 0.051])
async def test_timeout_in_the_tick_in_which_the_result_comes(item_deadline: float) -> None:
    """C6: the deadline fires or the result comes; a sibling gets its own; each is counted once."""

    async def fn(batch: list[int]) -> list[int]:
        await asyncio.sleep(0.05)
        return ten_times(batch)

    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=2)

    async def brief() -> int | None:
        try:
            async with asyncio.timeout(item_deadline):
                return await batcher.process(1)
        except TimeoutError:
            return None

    gave_up, sibling = await asyncio.gather(brief(), batcher.process(2))
    assert gave_up in (None, 10)
    assert sibling == 20
    await batcher.stop()
    stats = batcher.stats()
    assert stats.succeeded + stats.abandoned == 2
    assert_nothing_left(stats)


async def test_outer_cancellation_is_never_swallowed() -> None:
    """A9: a cancelled caller ends cancelled, even in the tick in which its result came."""
    fn = RecordingProcessor()
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=1)
    reached: list[str] = []

    async def caller() -> None:
        await batcher.process(1)
        await asyncio.sleep(0)
        reached.append("after the await")

    task = asyncio.ensure_future(caller())
    await settle()
    fn.release()
    task.cancel()
    await settle()
    assert task.cancelled()
    assert reached == []
    await batcher.stop()


async def test_task_group_that_fails_takes_its_callers_with_it_and_no_others() -> None:
    """F9: a batch whose callers were cancelled with their group fails without a complaint of the loop."""
    fn = RecordingProcessor(ten_times, raises(ValueError("nobody hears this")))
    fn.hold()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=60)

    async def fails() -> None:
        await settle()
        raise LookupError

    async def request() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(batcher.process(1))
            group.create_task(batcher.process(2))
            group.create_task(fails())

    with pytest.raises(ExceptionGroup):
        await request()
    fn.release()
    assert list(await asyncio.gather(batcher.process(3), batcher.process(4))) == [30, 40]
    await batcher.stop()
    stats = batcher.stats()
    assert (stats.abandoned, stats.succeeded) == (2, 2)


async def test_cancellation_message_arrives() -> None:
    """`task.cancel("why")` reaches the caller's `except` with its message."""
    fn = RecordingProcessor()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_queue_time=60)
    (task,) = tasks_of(batcher, 1)
    await settle()
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError, match="why"):
        await task
    await batcher.stop()
    assert fn.batches == []
