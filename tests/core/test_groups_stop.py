"""Keyed batchers stop together (contract, rule 3 for groups)."""

from typing import Any

import anyio
import pytest
from keyed import Groups, KeyedProcessor, alive, groups_of, serve
from scenes import Caller, Scene, assert_counts_add_up, assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatcherGroups, BatcherStopped, Submission

pytestmark = pytest.mark.anyio


async def stop_twice(scene: Scene[Groups], *, force: bool) -> None:
    first = await scene.stop(force=force)
    second = await scene.stop(force=force)
    late_known, late_new = await scene.process("a9", "z9")
    for late in (late_known, late_new):
        assert late.failed(BatcherStopped).withdrawn is True
    assert scene.batcher.stats().rejected == 2
    first.cancel()
    second.cancel()


@pytest.mark.parametrize("force", [False, True])
async def test_stop_twice_while_new_keys_arrive(force: bool) -> None:
    """M6: refused, known key or new; all children drain, or are settled, together."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_batch_size=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "a2", "b1")
        await stop_twice(scene, force=force)
        fn.release()
        await scene.batcher.stop()
        await settle()
        for caller in callers:
            if force:
                caller.failed(BatcherStopped)
            else:
                assert caller.result[1] in ("a1", "a2", "b1")
    assert_nothing_left(groups.stats())


async def test_stop_sends_partial_batches_of_every_key_at_once() -> None:
    """B1, B12: nobody waits out a window, and the children drain side by side."""

    async def slow(key: str, items: list[str]) -> list[str]:
        await anyio.sleep(0.4)
        return items

    groups: Groups = BatcherGroups(slow, group_key=lambda item: item[0], max_groups=4, max_queue_time=60)
    async with enter_scene(groups) as scene:
        await scene.process("a1", "b1", "c1")
        await groups.stop(timeout=0.5)
        assert anyio.current_time() == pytest.approx(0.4)
    assert groups.stats().succeeded == 3


async def test_timeout_of_stop_is_a_plain_one() -> None:
    """Rule 3: `TimeoutError`, not a group of them; a later forced stop works."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_batch_size=1)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "b1")
        with pytest.raises(TimeoutError) as caught:
            await groups.stop(timeout=1)
        assert type(caught.value) is TimeoutError
        assert anyio.current_time() == pytest.approx(1)
        assert_counts_add_up(groups.stats())
        await groups.stop(force=True)
        await settle()
        for caller in callers:
            assert caller.failed(BatcherStopped).withdrawn is False


async def test_block_left_by_cancellation_forces_every_child() -> None:
    """Rule 3 for groups: nobody is left waiting in any child."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_batch_size=1, max_queue_time=0)
    submissions: list[Submission[Any]] = []
    with anyio.move_on_after(1) as scope:
        async with groups:
            submissions += [await groups.submit(item) for item in ("a1", "a2", "b1")]
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    for submission in submissions:
        with pytest.raises(BatcherStopped):
            await submission
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("force", [False, True])
async def test_slot_of_the_backend_is_given_back_by_a_stop(force: bool) -> None:
    """Whoever held it, running or in line for it: after the stop it is free for the next manager."""
    slots = anyio.Semaphore(1)
    for _ in range(2):
        fn = KeyedProcessor()
        fn.hold()
        groups = groups_of(fn, backend_slots=slots, max_batch_size=1, max_queue_time=0)
        async with enter_scene(groups, fn) as scene:
            callers = await scene.process("a1", "b1")
            assert fn.running == 1
            stopping = await scene.stop(force=force)
            fn.release()
            await scene.end_of(*callers, stopping)
        assert slots.value == 1
        assert_nothing_left(groups.stats())


async def test_late_key_lets_no_idle_group_go() -> None:
    """M6: refused before anybody makes room; what was counted is counted still."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_groups=1, max_pending=1, idle_timeout=5)
    async with enter_scene(groups, fn) as scene:
        await serve(scene, "a1", "b1")
        await groups.stop()
        for late in await scene.process("c1", "b2"):
            late.failed(BatcherStopped)
        assert alive(groups) == ["b"]
        await anyio.sleep(10)
        assert alive(groups) == ["b"]
        await groups.stop(force=True)
    stats = groups.stats()
    assert (stats.succeeded, stats.rejected, stats.batches) == (2, 2, 2)


async def every_state(scene: Scene[Groups], fn: KeyedProcessor) -> dict[str, Caller]:
    """Bring groups into all states: gone, idle, running with some who wait and stand in line, at the slot."""
    await serve(scene, "g1", "i1", "f1", "e1")
    fn.hold()
    items = ("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    return dict(zip(items, await scene.process(*items), strict=True))


STATES: dict[str, Any] = {
    "max_groups": 4,
    "max_batch_size": 1,
    "max_queue_size": 2,
    "max_queue_time": 0,
    "on_full": "wait",
    "max_pending": 100,
    "idle_timeout": 50,
}


async def test_stop_drains_groups_in_every_state() -> None:
    """Who was accepted is served, who stood in line is told, and nothing is left."""
    fn, slots = KeyedProcessor(), anyio.Semaphore(2)
    groups = groups_of(fn, backend_slots=slots, **STATES)
    async with enter_scene(groups, fn) as scene:
        callers = await every_state(scene, fn)
        stopping = await scene.stop()
        assert callers["a4"].failed(BatcherStopped).withdrawn is True
        assert stopping.waits
        fn.release()
        await stopping.end()
        assert stopping.result is None
        await scene.end_of(*callers.values())
        served = [item for item, caller in callers.items() if caller.error is None]
        assert served == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert slots.value == 2
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("again", [False, True])
async def test_forced_stop_settles_groups_in_every_state(again: bool) -> None:
    """Each is told whether its item ran, the drain that went before included; the slots come back."""
    fn, slots = KeyedProcessor(), anyio.Semaphore(2)
    groups = groups_of(fn, backend_slots=slots, **STATES)
    async with enter_scene(groups, fn) as scene:
        callers = await every_state(scene, fn)
        if again:
            with pytest.raises(TimeoutError, match="not at rest"):
                await groups.stop(timeout=1)
        await groups.stop(force=True)
        await settle()
        ran = [item for item, caller in callers.items() if not caller.failed(BatcherStopped).withdrawn]
        assert ran == ["a1", "b1"]
        assert slots.value == 2
    assert_nothing_left(groups.stats())
    assert groups.stats().stopped + groups.stats().rejected == 7


async def test_processor_cannot_stop_the_groups_that_it_works_for() -> None:
    """Whatever key it serves: it would wait for itself."""

    async def stops(key: str, items: list[str]) -> list[str]:
        await scene.batcher.stop()
        return items

    groups: Groups = BatcherGroups(stops, group_key=lambda item: item[0], max_groups=1, max_queue_time=0)
    async with enter_scene(groups) as scene:
        for item in ("a1", "b1"):
            (caller,) = await scene.process(item)
            assert "stop() of its own batcher" in str(caller.failed(RuntimeError))
