"""Keyed batchers stop together (contract, rule 3 for groups)."""

from typing import Any

import anyio
import pytest
from keyed import Groups, KeyedProcessor, groups_of
from scenes import Scene, assert_counts_add_up, assert_nothing_left, enter_scene
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
