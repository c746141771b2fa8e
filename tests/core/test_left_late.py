"""Leaving late, or inside out: a loop that is closed before a cancelled caller's turn, a source that has a nursery."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import assert_nothing_left, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherGroups


async def hang_on_one(*arguments: Any) -> list[int]:
    batch: list[int] = arguments[-1]
    if 1 in batch:
        await asyncio.sleep(1000)
    return batch


BUILD: list[Callable[[], AsyncBatcher[int, int] | BatcherGroups[int, int, int]]] = [
    lambda: AsyncBatcher.from_callable(hang_on_one, max_queue_time=0),
    lambda: BatcherGroups(hang_on_one, group_key=abs, max_groups=1, max_queue_time=0),
]


@pytest.mark.parametrize("build", BUILD, ids=["batcher", "groups"])
def test_caller_cancelled_in_the_last_turn_of_its_loop_does_not_run_for_ever(
    build: Callable[[], AsyncBatcher[int, int] | BatcherGroups[int, int, int]],
) -> None:
    """Its task never has its turn to say so; on the next loop the batcher is as good as new, and so is a full group."""
    batcher = build()
    loop = asyncio.new_event_loop()
    task = loop.create_task(batcher.process(1))
    for _ in range(8):
        loop.run_until_complete(asyncio.sleep(0))
    assert batcher.stats().running == 1

    def leave_in_the_last_turn() -> None:
        task.cancel()
        loop.stop()

    loop.call_soon(leave_in_the_last_turn)
    loop.run_forever()
    loop.close()

    async def next_loop() -> int:
        return await batcher.process(2)

    assert asyncio.run(next_loop()) == 2
    assert_nothing_left(batcher.stats())
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is thrown away on purpose


def test_caller_that_is_thrown_away_later_is_not_counted_again() -> None:
    """Its coroutine is collected when its batcher has long been in use on the next loop."""
    batcher = AsyncBatcher.from_callable(hang_on_one, max_queue_time=0)
    tasks: list[asyncio.Task[int]] = []

    def leave_in_the_last_turn() -> None:
        tasks[0].cancel()
        loop.stop()

    loop = asyncio.new_event_loop()
    tasks.append(loop.create_task(batcher.process(1)))
    for _ in range(8):
        loop.run_until_complete(asyncio.sleep(0))
    loop.call_soon(leave_in_the_last_turn)
    loop.run_forever()
    loop.close()

    async def next_loop() -> None:
        assert await batcher.process(2) == 2
        tasks.pop()._log_destroy_pending = False  # type: ignore[attr-defined]  # it is thrown away on purpose
        gc.collect()
        assert_nothing_left(batcher.stats())

    asyncio.run(next_loop())
    assert batcher.stats().abandoned == 1


@pytest.mark.parametrize("way", ["process_many", "map"])
def test_job_thrown_away_with_its_closed_loop_is_silent(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is woken on a loop that is closed: else it would be an error that nobody can catch."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    batcher = AsyncBatcher.from_callable(hang_on_one, max_queue_time=0)

    async def use() -> None:
        if way == "process_many":
            await batcher.process_many([1, 2, 3])
        else:
            async with batcher.map([1, 2, 3]) as results:
                async for _ in results:
                    pass

    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(use())]
    for _ in range(8):
        loop.run_until_complete(asyncio.sleep(0))
    tasks += asyncio.all_tasks(loop)
    loop.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # they are thrown away on purpose
    del tasks, task
    gc.collect()
    assert unraisable == []
    assert batcher.stats().succeeded == 0


@pytest.mark.anyio
async def test_map_leaves_a_source_that_has_a_task_group_of_its_own() -> None:
    """The cancellation that ends the source comes back in a group on trio; leaving the block raises none of it."""
    fn = RecordingProcessor()
    closed: list[str] = []

    async def source() -> AsyncIterator[int]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            try:
                for number in range(3):
                    yield number
                await anyio.sleep_forever()
            finally:
                closed.append("closed")

    async with open_scene(fn, max_queue_time=0) as scene:
        async with scene.batcher.map(source(), max_pending=8) as results:
            got = [await anext(results) for _ in range(3)]
            await settle()
        assert got == [0, 10, 20]
    assert closed == ["closed"]
