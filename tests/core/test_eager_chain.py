"""With tasks that begin eagerly, batches that end inside the very call that makes them go on by themselves.

Nothing but the end of one batch says that the next may begin: where that is said while the batcher is in the middle
of starting it, it must be heard.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import enter_scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherGroups

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.backends("asyncio"),
    pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12"),
]

COUNT = 30
PATIENCE = 1000
ITEMS = list(range(COUNT))
TENFOLD = [item * 10 for item in ITEMS]

Batcher = AsyncBatcher[Any, Any]


@pytest.fixture
async def _eager_tasks() -> AsyncIterator[None]:
    """Have this loop's tasks begin eagerly."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  (none in 3.11, says mypy)
    yield
    loop.set_task_factory(None)


async def one_by_one(batcher: Batcher) -> list[Any]:
    """Submit all, then await them; an eager task a caller would come to the same."""
    submissions = [await batcher.submit(item) for item in ITEMS]
    return [await submission for submission in submissions]


async def by_callers(batcher: Batcher) -> list[Any]:
    return await asyncio.gather(*[asyncio.create_task(batcher.process(item)) for item in ITEMS])


async def by_list(batcher: Batcher) -> list[Any]:
    return await batcher.process_many(ITEMS)


async def by_small_lists(batcher: Batcher) -> list[Any]:
    return await batcher.process_many(ITEMS, max_pending=2)


async def by_map(batcher: Batcher) -> list[Any]:
    async with batcher.map(ITEMS) as results:
        return [result async for result in results]


Way = Callable[[Batcher], Awaitable[list[Any]]]
ways = pytest.mark.parametrize("way", [one_by_one, by_callers, by_list, by_small_lists, by_map])
options = pytest.mark.parametrize(
    "options",
    [
        {"max_batch_size": 1},
        {"max_batch_size": 4, "concurrency": 2},
        {"max_batch_size": 2, "max_queue_size": 3, "on_full": "wait"},
        {"max_batch_size": 2, "expires_after": 60},
        {"max_batch_size": 3, "coalesce_key": lambda item: item},
        {"weigh": lambda item: 1 + item % 2, "max_batch_weight": 3},
    ],
    ids=" ".join,
)


@ways
@options
@pytest.mark.usefixtures("_eager_tasks")
async def test_chain_of_batches_that_never_wait_goes_on_by_itself(way: Way, options: dict[str, Any]) -> None:
    """Behind those that waited, with others in the queue: no timer and no newcomer helps."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_time=0, **options) as scene:
        caller = scene.start(lambda: way(scene.batcher))
        await fn.begun(1)
        await settle()
        fn.release()
        with anyio.fail_after(PATIENCE):
            await caller.end()
        assert caller.result == TENFOLD
    assert sorted(fn.seen) == ITEMS


@pytest.mark.usefixtures("_eager_tasks")
@pytest.mark.parametrize("slots", [None, 1, 2])
async def test_chains_of_groups_go_on_by_themselves(slots: int | None) -> None:
    """Each key's, also where they take turns at a slot that they share."""
    fn = RecordingProcessor()
    fn.hold()

    async def of_a_key(_: int, items: list[int]) -> list[int]:
        return await fn(items)  # type: ignore[return-value]

    groups: BatcherGroups[int, int, int] = BatcherGroups(
        of_a_key,
        group_key=lambda item: item % 3,
        max_groups=3,
        max_batch_size=1,
        max_queue_time=0,
        backend_slots=None if slots is None else anyio.Semaphore(slots),
    )
    async with enter_scene(groups) as scene:
        callers = [scene.start_process(item) for item in ITEMS]
        await fn.begun(1)
        await settle()
        fn.release()
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
        assert [caller.result for caller in callers] == TENFOLD


@pytest.mark.usefixtures("_eager_tasks")
@pytest.mark.parametrize("ends", ["stop", "flush", "window", "leaving"])
async def test_chain_goes_on_by_itself_whatever_began_it(ends: str) -> None:
    """A drain, a flush, the end of a window, and a place that comes free because somebody left."""
    fn = RecordingProcessor()
    batcher: Batcher = AsyncBatcher.from_callable(
        fn,
        max_batch_size=None if ends == "window" else 40,
        max_queue_time=5,
        max_queue_size=10,
        on_full="wait",
    )
    async with enter_scene(batcher) as scene:
        gone = [scene.start_process(item) for item in range(100, 105)]
        callers = [scene.start_process(item) for item in ITEMS[:4]]
        await settle()
        if ends == "leaving":
            for caller in gone:
                caller.cancel()
        elif ends == "flush":
            batcher.flush()
        elif ends == "stop":
            await batcher.stop()
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
        assert [caller.result for caller in callers] == TENFOLD[:4]
