"""An item that grew too old while its loop was held up expires, though its batch might leave before the timer rings."""

import asyncio
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import enter_scene, open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import BatcherGroups, ItemExpired

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]


def hold_up(seconds: float) -> None:
    """Block the loop for so long: its timers are late."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualEventLoop)
    loop.set_time_aside(seconds)


async def test_item_too_old_when_the_slot_comes_free_is_never_seen() -> None:
    """The batch before it ends first, then the timer rings."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, expires_after=1) as scene:
        (running,) = await scene.process(1)
        (old,) = await scene.process(2)
        await anyio.sleep(0.5)
        young = scene.start_process(3)
        await settle()
        fn.release()
        hold_up(0.75)
        await scene.end_of(running, old, young)
        assert running.result == 10
        old.failed(ItemExpired)
        assert young.result == 30
    assert fn.batches == [[1], [3]]


async def test_item_too_old_when_the_shared_slot_is_entered_is_never_seen() -> None:
    """The batch has been waiting for its slot, and is in it before the timer rings."""
    fn = RecordingProcessor()
    slots = anyio.Semaphore(1)

    async def serve(_key: str, items: list[int]) -> Any:
        return await fn(items)

    groups: BatcherGroups[str, int, int] = BatcherGroups(
        serve,
        group_key=lambda _item: "a",
        max_groups=1,
        backend_slots=slots,
        max_queue_time=0,
        expires_after=1,
    )
    async with enter_scene(groups) as scene:
        await slots.acquire()
        (old,) = await scene.process(1)
        await anyio.sleep(0.5)
        (young,) = await scene.process(2)
        slots.release()
        hold_up(0.75)
        await scene.end_of(old, young)
        old.failed(ItemExpired)
        assert young.result == 20
    assert fn.batches == [[2]]
    assert slots.value == 1


async def test_items_that_grew_too_old_while_one_was_weighed_are_never_seen() -> None:
    """The last one fills the batch, and weighing it takes longer than items may wait: the clock is read after that."""
    fn = RecordingProcessor()

    def weigh(item: int) -> float:
        if item == 3:
            hold_up(2)
        return 1

    async with open_scene(fn, max_batch_size=3, max_queue_time=1.5, expires_after=1, weigh=weigh) as scene:
        callers = await scene.process(1, 2, 3)
        await scene.end_of(*callers)
        for caller in callers:
            caller.failed(ItemExpired)
    assert fn.batches == []
