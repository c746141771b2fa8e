"""An idle group makes room for a new key, and a busy one does not (contract, BatcherGroups; M1)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from holding import HandExecutor
from keyed import Groups, KeyedProcessor, alive, groups_of, serve
from recording import raises
from scenes import Scene, assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatchCancelled, BatcherGroups, ItemTooHeavy, TooManyGroups

pytestmark = pytest.mark.anyio


async def test_idle_group_makes_room_for_a_new_key() -> None:
    """M1: at the limit the new key is served, and the old one is gone."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, max_groups=2), fn) as scene:
        await serve(scene, "a1", "b1", "c1")
        assert alive(scene.batcher) == ["b", "c"]
    assert fn.batches == [["a", "a1"], ["b", "b1"], ["c", "c1"]]


async def test_no_group_goes_below_the_limit() -> None:
    """Idle ones stay while there is room, and without a limit for good."""
    for limit in (3, None):
        fn = KeyedProcessor()
        async with enter_scene(groups_of(fn, max_groups=limit), fn) as scene:
            await serve(scene, "a1", "b1", "c1", "a2")
            assert alive(scene.batcher) == ["a", "b", "c"]


async def test_longest_idle_group_goes_first() -> None:
    """It is the end of its last use that counts, not its birth."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, max_groups=3), fn) as scene:
        await serve(scene, "a1", "b1", "c1", "a2", "b2", "d1")
        assert alive(scene.batcher) == ["a", "b", "d"]
        await serve(scene, "e1")
        assert alive(scene.batcher) == ["b", "d", "e"]


async def test_group_that_ended_last_goes_last() -> None:
    """The slow one began first and came to rest last."""
    fn = KeyedProcessor()
    fn.hold()
    async with enter_scene(groups_of(fn, max_groups=2, max_queue_time=0), fn) as scene:
        slow, fast = await scene.process("a1", "b1")
        fn.release(1)
        await fast.end()
        fn.release()
        await slow.end()
        await serve(scene, "c1")
        assert alive(scene.batcher) == ["a", "c"]


async def test_busy_group_is_passed_over() -> None:
    """The older one runs, so the younger, which is idle, makes room."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, max_groups=2, max_queue_time=0), fn) as scene:
        await serve(scene, "a1", "b1")
        fn.hold()
        (running,) = await scene.process("a2")
        (new,) = await scene.process("c1")
        assert alive(scene.batcher) == ["a", "c"]
        fn.release()
        await scene.end_of(running, new)
        assert (running.result, new.result) == (("a", "a2"), ("c", "c1"))


async def test_group_in_use_again_is_idle_no_more() -> None:
    """Both are taken up again: with none idle the new key is refused, and nobody is harmed."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, max_groups=2, max_queue_time=1), fn) as scene:
        await serve(scene, "a1", "b1")
        waiting = await scene.process("a2", "b2")
        (refused,) = await scene.process("c1")
        message = str(refused.failed(TooManyGroups))
        assert "max_groups is 2" in message
        assert "none of them is idle" in message
        await scene.end_of(*waiting)
        assert [caller.result for caller in waiting] == [("a", "a2"), ("b", "b2")]
        await settle()
        await serve(scene, "c2")
        assert alive(scene.batcher) == ["b", "c"]
    assert scene.batcher.stats().rejected == 1


async def waits_for_its_window(scene: Scene[Groups], fn: KeyedProcessor, slots: anyio.Semaphore) -> None:
    await scene.batcher.submit("a1")


async def runs(scene: Scene[Groups], fn: KeyedProcessor, slots: anyio.Semaphore) -> None:
    fn.hold()
    await scene.submit("a1", "a2")


async def runs_with_nobody_waiting(scene: Scene[Groups], fn: KeyedProcessor, slots: anyio.Semaphore) -> None:
    fn.hold()
    for caller in await scene.process("a1", "a2"):
        caller.cancel()
    await settle()


async def waits_for_a_shared_slot(scene: Scene[Groups], fn: KeyedProcessor, slots: anyio.Semaphore) -> None:
    await slots.acquire()
    await scene.submit("a1", "a2")


@pytest.mark.parametrize(
    "busy", [waits_for_its_window, runs, runs_with_nobody_waiting, waits_for_a_shared_slot]
)
async def test_busy_group_makes_no_room(
    busy: Callable[[Scene[Groups], KeyedProcessor, anyio.Semaphore], Awaitable[None]],
) -> None:
    """Whatever goes on in it: the new key is refused until it has ended, and then served."""
    fn, slots = KeyedProcessor(), anyio.Semaphore(1)
    groups = groups_of(fn, max_groups=1, max_batch_size=2, max_queue_time=60, backend_slots=slots)
    async with enter_scene(groups, fn) as scene:
        await busy(scene, fn, slots)
        before = groups.stats()
        for _ in range(2):
            (refused,) = await scene.process("b1")
            refused.failed(TooManyGroups)
        assert groups.stats().accepted == before.accepted
        assert alive(groups) == ["a"]
        fn.release()
        if not slots.value and not fn.batches:
            slots.release()
        await anyio.sleep(60)
        await settle()
        await serve(scene, "b2")
        assert alive(groups) == ["b"]
    assert fn.batches[1:] == [["b", "b2"]]
    assert slots.value == 1
    assert_nothing_left(groups.stats())


@pytest.mark.backends("asyncio")
async def test_group_whose_thread_outlives_its_batch_makes_no_room() -> None:
    """Somebody cancelled the batch's task, and its call goes on in the executor: until that has ended it is busy."""
    executor = HandExecutor()
    groups: Groups = BatcherGroups(
        lambda key, items: items,
        group_key=lambda item: item[0],
        max_groups=1,
        max_batch_size=1,
        executor=executor,
        idle_timeout=1,
    )
    async with enter_scene(groups) as scene:
        before = asyncio.all_tasks()
        caller = scene.start_process("a1")
        await anyio.lowlevel.checkpoint()
        await settle()
        assert executor.begin()
        (task,) = [task for task in asyncio.all_tasks() - before if "_live" in repr(task)]
        task.cancel()
        await settle()
        caller.failed(BatchCancelled)
        await anyio.sleep(10)
        (refused,) = await scene.process("b1")
        refused.failed(TooManyGroups)
        executor.end()
        await settle()
        (served,) = await scene.process("b2")
        assert executor.begin()
        executor.end()
        await settle()
        assert served.result == "b2"
        assert alive(groups) == ["b"]
    assert_nothing_left(groups.stats())


async def test_group_in_whose_line_a_caller_stands_makes_no_room() -> None:
    """It is as busy as can be; each in line is served by the batcher in whose line it stood."""
    fn = KeyedProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "on_full": "wait"}
    groups = groups_of(fn, max_groups=1, **options)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "a2", "a3")
        assert groups.stats().in_line == 1
        (refused,) = await scene.process("b1")
        refused.failed(TooManyGroups)
        fn.release()
        await scene.end_of(*callers)
        assert [caller.result[1] for caller in callers] == ["a1", "a2", "a3"]
    assert fn.most_of_a_key == 1


async def test_caller_who_leaves_the_line_last_frees_the_group() -> None:
    """Each way out ends in rest: the running batch ends, and those behind it were cancelled before."""
    fn = KeyedProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "on_full": "wait"}
    groups = groups_of(fn, max_groups=1, **options)
    async with enter_scene(groups, fn) as scene:
        _, queued, in_line = await scene.process("a1", "a2", "a3")
        fn.release(0)
        in_line.cancel()
        queued.cancel()
        await settle()
        fn.release()
        await settle()
        await serve(scene, "b1")
        assert alive(groups) == ["b"]
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("leave", ["cancelled", "withdrawn"])
async def test_group_that_everybody_left_is_idle(leave: str) -> None:
    """Its only item never ran: it makes room as one that served."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_groups=1, max_queue_time=60)
    async with enter_scene(groups, fn) as scene:
        if leave == "withdrawn":
            assert (await groups.submit("a1")).withdraw() is True
        else:
            (caller,) = await scene.process("a1")
            caller.cancel()
            await settle()
        fresh = await groups.submit("b1")
        assert alive(groups) == ["b"]
        assert fresh.withdraw() is True
    assert fn.batches == []
    assert (groups.stats().accepted, groups.stats().withdrawn) == (2, 2)


async def test_failed_group_makes_room_too() -> None:
    """M5: what its batch came to does not matter."""
    fn = KeyedProcessor(raises(ValueError("ill")))
    async with enter_scene(groups_of(fn, max_groups=1), fn) as scene:
        (failed,) = await scene.process("a1")
        await failed.end()
        failed.failed(ValueError)
        await serve(scene, "b1", "a2")
        assert alive(scene.batcher) == ["a"]
    assert (scene.batcher.stats().failed, scene.batcher.stats().succeeded) == (1, 2)


async def test_key_that_comes_again_is_a_new_one() -> None:
    """Two batchers of a key never work at once, however fast keys alternate."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_groups=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        for number in range(20):
            await serve(scene, f"a{number}", f"b{number}")
    assert fn.most_of_a_key == 1
    assert groups.stats().succeeded == groups.stats().batches == 40


async def test_refused_key_lets_nobody_go() -> None:
    """A key that can't be one is refused before anybody makes room for it."""
    fn = KeyedProcessor()
    keys: dict[str, Any] = {"n": float("nan"), "l": []}
    groups = groups_of(fn, max_groups=1, group_key=lambda item: keys.get(item[0], item[0]))
    async with enter_scene(groups, fn) as scene:
        await serve(scene, "a1")
        for bad in await scene.process("nan", "list"):
            bad.failed(TypeError)
        assert alive(groups) == ["a"]
    assert groups.stats().rejected == 0


# What the user's own functions do between the look-up of a group and the admission of its item


async def test_group_makes_no_room_while_an_item_is_on_its_way_in() -> None:
    """`weigh` sends a new key, by hand and at once: the group that it weighs for is in use already."""
    fn = KeyedProcessor()
    refused: list[BaseException] = []

    def weigh(item: str) -> float:
        if item == "a2":
            with pytest.raises(TooManyGroups) as caught:
                groups.submit("b1").send(None)
            refused.append(caught.value)
        return 1

    groups = groups_of(fn, max_groups=1, weigh=weigh, max_batch_weight=5)
    async with enter_scene(groups, fn) as scene:
        await serve(scene, "a1", "a2")
        assert len(refused) == 1
        await serve(scene, "b2")
    assert fn.most_of_a_key == 1
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("first", [True, False], ids=["new group", "known group"])
async def test_group_that_refused_its_item_is_idle_again(first: bool) -> None:
    """Too heavy, or `weigh` raised: it makes room as others do, and is let go in time."""
    fn = KeyedProcessor()

    def weigh(item: str) -> float:
        return len(item) / (item != "a00")

    groups = groups_of(fn, max_groups=1, weigh=weigh, max_batch_weight=3, idle_timeout=5, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        for bad, kind in (("a000", ItemTooHeavy), ("a00", ZeroDivisionError)):
            if not first:
                await serve(scene, "a1")
            for call in (scene.process, scene.submit):
                (refused,) = await call(bad)
                refused.failed(kind)
            await serve(scene, "b1")
            assert alive(groups) == ["b"]
        for bad in ("a000", "a00"):
            (refused,) = await scene.process(bad)
            assert refused.error is not None
            await anyio.sleep(4.9)
            assert alive(groups) == ["a"]
            await anyio.sleep(0.2)
            assert alive(groups) == []
    assert_nothing_left(groups.stats())
