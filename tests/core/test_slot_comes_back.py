"""A slot comes back whatever happens as its batch's callers are told, and wherever its places came from."""

from typing import Any

import anyio
import pytest
from own_faults import FAULTS, faulty
from recording import RecordingProcessor
from scenes import Caller, Scene, assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, _serving
from async_batcher._serving import Serving

pytestmark = pytest.mark.anyio

Batchers = Scene[AsyncBatcher[Any, Any]]
PATIENCE = 1000


def small_is_unshared(item: int) -> int | None:
    """Share only what is over ten."""
    return item if item > 10 else None


async def one_leaves(scene: Batchers) -> list[Caller]:
    """Have two wait in a closed batch, of whom the second will leave."""
    return await scene.process(1, 2)


async def flushed(scene: Batchers) -> list[Caller]:
    """Have one wait in a batch that was flushed."""
    callers = await scene.process(1)
    scene.batcher.flush()
    return [*callers, *callers]


ways = pytest.mark.parametrize("way", [one_leaves, flushed])


async def topped_up(scene: Batchers, way: Any, shared: list[int]) -> list[Caller]:
    """Have unshared ones wait in a batch that has room, and those who share places behind it."""
    stays, leaves = await way(scene)
    sharers = await scene.process(*shared)
    if leaves is not stays:
        leaves.cancel()
        await settle()
    return [stays, *sharers]


@ways
@pytest.mark.parametrize(
    ("shared", "batches"),
    [
        ([11], [[0], [1, 11]]),
        ([11, 11], [[0], [1, 11]]),
        ([11, 11, 12, 12, 12], [[0], [1, 11], [12]]),
        ([11, 12, 11, 3, 12], [[0], [1, 11], [12, 3]]),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
async def test_shared_place_may_top_up_a_batch_that_had_none(
    way: Any, shared: list[int], batches: list[list[int]], fails: bool
) -> None:
    """All who share it are told, counted, and the slot serves whoever comes next."""
    fn = RecordingProcessor()
    if fails:
        fn.fail_batch_of(11, OSError("down"))
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, coalesce_key=small_is_unshared) as scene:
        await scene.process(0)
        callers = await topped_up(scene, way, shared)
        assert scene.batcher.stats().waiting == 1 + len(shared)
        fn.release()
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
            assert await scene.batcher.process(5) == 50
        for item, caller in zip([1, *shared], callers, strict=True):
            if fails and item in batches[1]:
                caller.failed(OSError)
            else:
                assert caller.result == item * 10
    assert fn.batches == [*batches, [5]]


@ways
@pytest.mark.parametrize("begun", [True, False])
async def test_forced_stop_tells_those_whose_shared_place_topped_up_another_batch(
    way: Any, begun: bool
) -> None:
    """It raises nothing of its own, and nobody is left."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, coalesce_key=small_is_unshared) as scene:
        await scene.process(0)
        callers = await topped_up(scene, way, [11, 11, 12])
        if begun:
            fn.release(0)
            await settle()
            assert scene.batcher.stats().running == 3
        with anyio.fail_after(PATIENCE):
            await scene.batcher.stop(force=True)
            await scene.end_of(*callers)
        told = [caller.failed(BatcherStopped).withdrawn for caller in callers]
        assert told == ([False, False, False, True] if begun else [True] * 4)


@ways
async def test_those_who_share_a_place_that_topped_up_another_batch_may_leave_it(way: Any) -> None:
    """Each is counted once; those who stay get their result."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, coalesce_key=small_is_unshared) as scene:
        await scene.process(0)
        _, first, second, third = await topped_up(scene, way, [11, 11, 11])
        second.cancel()
        await settle()
        fn.release(0)
        await settle()
        first.cancel()
        await settle()
        assert_counts_add_up(scene.batcher.stats())
        fn.release()
        await scene.end_of(third)
        assert third.result == 110
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.abandoned) == (2 if way is one_leaves else 1, 1)


@pytest.mark.backends("asyncio")  # on trio a fault in a system task ends the run, and rightly
@pytest.mark.parametrize("error", FAULTS)
@pytest.mark.parametrize("fault", ["telling the rest", "telling an error"])
async def test_slot_comes_back_whatever_telling_the_rest_raises(
    error: type[BaseException], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is ours; whoever comes next is served all the same, and the batcher can be stopped."""
    fn = RecordingProcessor(lambda batch: batch)
    fn.hold()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_time=0)
    await batcher.submit(0)
    await fn.begun(1)
    with monkeypatch.context() as patch:
        patch.setattr(_serving, "deliver", faulty(RuntimeError))
        if fault == "telling the rest":
            patch.setattr(Serving, "_tell_rest", faulty(error))
        else:
            patch.setattr(_serving, "deliver_error", faulty(error))
        fn.release(0)
        await settle()
    assert fn.ended == [0]
    assert batcher._runner.collector.slot_free
    fn.release()
    with anyio.fail_after(PATIENCE):
        assert await batcher.process(9) == 9
        await batcher.stop()
