"""Groups whose processor blocks threads: what runs there is busy, and an idle group's threads end with it."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from blocking import PATIENCE, BlockingProcessor
from group_callers import library_objects
from keyed import Groups, alive
from scenes import Scene, assert_nothing_left, enter_scene

from async_batcher import BatcherGroups, BatcherStopped, TooManyGroups

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]


class Threads:
    """A sync processor that keeps the threads of each key."""

    def __init__(self) -> None:
        self.of: dict[str, threading.Thread] = {}

    def __call__(self, key: str, items: list[str]) -> list[str]:
        self.of[key] = threading.current_thread()
        return items


def has_ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


@pytest.mark.parametrize("way", ["makes room", "idle_timeout"])
async def test_threads_of_a_group_end_with_it(way: str) -> None:
    """However it is let go; those of the group that stays go on."""
    fn = Threads()
    timeout = 0.02 if way == "idle_timeout" else None
    groups: Groups = BatcherGroups(
        fn, group_key=lambda item: item[0], max_groups=1, max_queue_time=0, idle_timeout=timeout
    )
    async with groups:
        held = await groups.submit("a1")  # it has its batcher, whose threads must not wait for the collector
        assert await held == "a1"
        if way == "makes room":
            assert await groups.process("b1") == "b1"
            assert fn.of["b"].is_alive()
        assert await anyio.to_thread.run_sync(has_ended, fn.of["a"])
    for thread in fn.of.values():
        assert await anyio.to_thread.run_sync(has_ended, thread)


def groups_of(fn: BlockingProcessor, **options: Any) -> Groups:
    return BatcherGroups(
        lambda key, items: fn(items), group_key=lambda item: item % 10, max_groups=1, **options
    )


async def begin_and_leave(scene: Scene[Groups], fn: BlockingProcessor) -> None:
    caller = scene.start_process(1)
    await fn.begun()
    caller.cancel()
    await caller.end()


async def test_group_whose_thread_runs_is_busy_though_everybody_left() -> None:
    """Two batchers of a key never work at once: it makes no room until the thread has ended."""
    fn = BlockingProcessor()
    groups = groups_of(fn, max_batch_size=1)
    async with enter_scene(groups, fn) as scene:
        await begin_and_leave(scene, fn)
        with pytest.raises(TooManyGroups):
            await groups.process(2)
        assert alive(groups) == [1]
        fn.release()
        assert await groups.process(11) == 110
        assert await groups.process(2) == 20
        assert alive(groups) == [2]
    assert groups.stats().abandoned == 1
    assert_nothing_left(groups.stats())


async def test_forced_stop_over_groups_does_not_wait_for_a_thread() -> None:
    """O1 over groups: it returns, its callers are told, and the thread goes on; a later plain stop returns too."""
    fn = BlockingProcessor()
    groups = groups_of(fn, max_batch_size=1, idle_timeout=0.001)
    async with enter_scene(groups, fn) as scene:
        caller = scene.start_process(1)
        await fn.begun()
        with anyio.fail_after(PATIENCE / 2):
            await groups.stop(force=True)
            await groups.stop()
        await caller.end()
        assert caller.failed(BatcherStopped).withdrawn is False
        with pytest.raises(BatcherStopped):
            await groups.process(2)
        fn.release()
    assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE)
    assert_nothing_left(groups.stats())


async def test_many_keys_leave_no_thread_and_no_object() -> None:
    """M1: 200 keys with threads of their own: as many threads as groups, and nothing kept."""
    fn, sizes, most = Threads(), [], 0
    groups: Groups = BatcherGroups(fn, group_key=lambda item: item, max_groups=2, max_queue_time=0)
    before = threading.active_count()
    async with groups:
        for number in range(200):
            assert await groups.process(str(number)) == str(number)
            for key in set(fn.of) - set(alive(groups)):
                assert await anyio.to_thread.run_sync(has_ended, fn.of.pop(key))
            most = max(most, threading.active_count() - before)
            if number % 50 == 49:
                sizes.append(library_objects())
    assert most <= 3  # one is the helper that waits for the others
    assert sizes[-1] <= sizes[0]
    assert groups.stats().succeeded == 200
