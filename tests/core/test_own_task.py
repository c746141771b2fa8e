"""A batch notices nothing of the one before it: what that left behind in its task, or in its context, ends with it.

Each test lets the first batch be odd, with others waiting right behind it for its slot.
"""

import asyncio
import contextlib
import contextvars
import functools
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchEvent

pytestmark = pytest.mark.anyio

MARK: contextvars.ContextVar[object] = contextvars.ContextVar("MARK", default="clean")
COUNT = 5
ODD = 0

Processor = Callable[[list[int]], Awaitable[list[Any]]]
on_asyncio = pytest.mark.backends("asyncio")
on_trio = pytest.mark.backends("trio")
concurrencies = pytest.mark.parametrize("concurrency", [1, 2])
waits = pytest.mark.parametrize("waits", [True, False])


async def outcomes(fn: Processor, **options: Any) -> list[Any]:
    """Have some items served in this order, each in a batch of its own."""
    got: list[Any] = []
    async with open_scene(fn, max_batch_size=1, max_queue_time=0, **options) as scene:
        submissions = [await scene.batcher.submit(item) for item in range(COUNT)]
        with anyio.fail_after(1000):
            for submission in submissions:
                try:
                    got.append(await submission)
                except Exception as error:  # noqa: BLE001  (whatever it is, it is the outcome)
                    got.append(error)
    return got


@waits
@concurrencies
@pytest.mark.parametrize("value", ["dirty", "clean "])
async def test_variable_that_an_observer_sets_is_seen_by_no_batch(
    value: str, concurrency: int, waits: bool
) -> None:
    """As a logger does that binds what it was told last; `value` may be equal to what was there."""

    def observe(_: BatchEvent) -> None:
        seen_by_observer.append(MARK.get())
        MARK.set(value.strip())

    async def fn(batch: list[int]) -> list[object]:
        if waits:
            await anyio.lowlevel.checkpoint()
        return [MARK.get() for _ in batch]

    seen_by_observer: list[object] = []
    start = str(["clean"])[2:-2]  # equal to "clean", and not the same
    MARK.set(start)
    results = await outcomes(fn, on_batch=observe, concurrency=concurrency)
    assert all(result is start for result in results)
    assert all(seen is start for seen in seen_by_observer)


@waits
@pytest.mark.parametrize(("before", "after"), [(1, True), ("a", "b"), ((), []), (0.0, -0.0)])
async def test_variable_that_a_processor_sets_is_seen_by_no_other_batch(
    before: object, after: object, waits: bool
) -> None:
    """Also where it is set to what is equal to what it was."""

    async def fn(batch: list[int]) -> list[object]:
        seen = MARK.get()
        MARK.set(after)
        if waits:
            await anyio.lowlevel.checkpoint()
        return [seen for _ in batch]

    MARK.set(before)
    assert all(result is before for result in await outcomes(fn))


@on_asyncio
@concurrencies
async def test_task_that_cancels_and_uncancels_itself_leaves_no_cancellation_behind(concurrency: int) -> None:
    """On some Pythons the cancellation stays on its way, and would end whatever its task does next."""

    async def fn(batch: list[int]) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        if batch == [ODD]:
            task.cancel()
            task.uncancel()
        else:
            assert task.cancelling() == 0
            await asyncio.sleep(0)
        return batch

    assert await outcomes(fn, concurrency=concurrency) == list(range(COUNT))


@on_asyncio
@pytest.mark.parametrize("times", [1, 3])
async def test_task_that_counts_as_cancelled_is_not_the_next_ones(times: int) -> None:
    """A processor that swallows its cancellations ends all the same, and the next batch is not being cancelled."""

    async def fn(batch: list[int]) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        if batch == [ODD]:
            for _ in range(times):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            return batch
        assert task.cancelling() == 0
        async with asyncio.timeout(1):
            await asyncio.sleep(0.5)
        return batch

    assert await outcomes(fn) == list(range(COUNT))


@on_asyncio
@concurrencies
@pytest.mark.parametrize("after", [0.05, 0.15, 0.45])
async def test_timer_that_cancels_its_task_later_touches_no_other_batch(
    after: float, concurrency: int
) -> None:
    """A watchdog that nobody called off: when it barks, its batch has long ended."""
    tasks: list[asyncio.Task[Any]] = []

    async def fn(batch: list[int]) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        if batch == [ODD]:
            tasks.append(task)
            asyncio.get_running_loop().call_later(after, task.cancel)
            await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(0.1)
        return batch

    assert await outcomes(fn, concurrency=concurrency) == list(range(COUNT))
    await asyncio.sleep(1)
    assert tasks[0].done()
    assert not tasks[0].cancelled()


@on_asyncio
async def test_observer_that_cancels_the_task_it_runs_in_touches_no_batch() -> None:
    """It has ended, or is about to: whoever waits behind it is served."""

    def observe(_: BatchEvent) -> None:
        with contextlib.suppress(RuntimeError):
            if (task := asyncio.current_task()) is not None:
                task.cancel()

    async def fn(batch: list[int]) -> list[int]:
        await asyncio.sleep(0.01)
        return batch

    assert await outcomes(fn, on_batch=observe) == list(range(COUNT))


@on_asyncio
@concurrencies
@waits
async def test_what_is_called_when_its_task_is_done_is_called_when_its_batch_has_ended(
    concurrency: int, waits: bool
) -> None:
    """Not when all have: what it gives back there is there for those who come next.

    The loop calls it a turn later, in which a batch that never waits begins and ends.
    """
    log: list[str] = []
    pool = asyncio.Semaphore(concurrency + 1)

    def ended(item: int, _: object) -> None:
        log.append(f"done {item}")
        pool.release()

    async def fn(batch: list[int]) -> list[int]:
        task = asyncio.current_task()
        assert task is not None
        await pool.acquire()
        task.add_done_callback(functools.partial(ended, batch[0]))
        if waits:
            await asyncio.sleep(0.1)
        log.append(f"end {batch[0]}")
        return batch

    assert await outcomes(fn, concurrency=concurrency) == list(range(COUNT))
    await settle()
    assert len(log) == 2 * COUNT
    later = concurrency if waits else concurrency + 1
    for number in range(COUNT - later):
        assert log.index(f"done {number}") < log.index(f"end {number + later}")


@concurrencies
@waits
async def test_no_two_batches_have_the_same_task(concurrency: int, waits: bool) -> None:
    """Whatever is kept by task is each batch's own: a session, a transaction, a local."""
    tasks: list[Any] = []  # kept, so that none of them has the address of another

    async def fn(batch: list[int]) -> list[int]:
        task = current_task()
        tasks.append(task)
        if waits:
            await anyio.lowlevel.checkpoint()
        assert current_task() is task
        return batch

    assert await outcomes(fn, concurrency=concurrency) == list(range(COUNT))
    assert len({id(task) for task in tasks}) == COUNT


def current_task() -> Any:
    """The task that runs now, of either loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return trio.lowlevel.current_task()


@on_trio
@concurrencies
async def test_scope_that_a_processor_leaves_cancelled_touches_no_other_batch(concurrency: int) -> None:
    """Its own scope, its deadline, and one that is cancelled only later, when its batch has ended."""
    left: list[trio.CancelScope] = []

    async def fn(batch: list[int]) -> list[int]:
        assert trio.current_effective_deadline() == math.inf
        if batch == [ODD]:
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.lowlevel.checkpoint()
            with trio.move_on_after(0.05) as scope:
                left.append(scope)
                await trio.sleep(0.01)
        else:
            for scope in left:
                scope.cancel()
            await trio.sleep(0.1)
        return batch

    assert await outcomes(fn, concurrency=concurrency) == list(range(COUNT))


async def test_batches_behind_one_that_was_served_by_a_list_have_tasks_of_their_own() -> None:
    """The same for lists and maps, whose batches follow each other most quickly."""
    tasks: list[Any] = []

    async def fn(batch: list[int]) -> list[object]:
        tasks.append(current_task())
        seen = MARK.get()
        MARK.set("dirty")
        return [seen for _ in batch]

    batcher: AsyncBatcher[int, object] = AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=0)
    async with batcher:
        assert set(await batcher.process_many(range(10))) == {"clean"}
        async with batcher.map(range(10)) as results:
            assert {result async for result in results} == {"clean"}
    assert len({id(task) for task in tasks}) == len(tasks) == 10
