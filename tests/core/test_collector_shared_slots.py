"""What follows at once when a batch gets its shared slot: its places are free, and others may be due."""

import anyio
import pytest
from virtual_time import settle

from async_batcher import BatcherGroups

pytestmark = pytest.mark.anyio


class Backend:
    """Holds every call until it is let go, and keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = anyio.Event()

    async def __call__(self, key: int, batch: list[int]) -> list[int]:
        self.calls.append(batch)
        await self.gate.wait()
        return batch


def one_group(item: int) -> int:
    return 0


async def test_places_of_a_batch_that_got_its_slot_go_to_the_line() -> None:
    """Those in line are accepted when the batch leaves, not when it ends."""
    backend, slots = Backend(), anyio.Semaphore(1)
    groups = BatcherGroups(
        backend,
        group_key=one_group,
        max_groups=1,
        backend_slots=slots,
        max_batch_size=2,
        max_queue_size=2,
        on_full="wait",
    )
    async with groups, anyio.create_task_group() as callers:
        await slots.acquire()
        for item in range(4):
            callers.start_soon(groups.submit, item)
            await settle()
        before = groups.stats()
        slots.release()
        await settle()
        after = groups.stats()
        backend.gate.set()
    assert (before.running, before.waiting, before.in_line) == (0, 2, 2)
    assert (after.running, after.waiting, after.in_line) == (2, 2, 0)
    assert backend.calls == [[0, 1], [2, 3]]


async def test_items_behind_a_batch_that_waits_for_its_slot_keep_their_window() -> None:
    """With a slot free they leave when it is over, whatever the batch before them does."""
    backend, slots = Backend(), anyio.Semaphore(2)
    groups = BatcherGroups(
        backend,
        group_key=one_group,
        max_groups=1,
        backend_slots=slots,
        max_batch_size=4,
        max_queue_time=1.0,
        concurrency=3,
    )
    async with groups:
        await slots.acquire()
        await slots.acquire()
        for item in range(4):
            await groups.submit(item)
        await anyio.sleep(2.0)
        await groups.submit(4)
        await groups.submit(5)
        await anyio.sleep(2.0)
        slots.release()
        slots.release()
        await anyio.sleep(2.0)
        calls = list(backend.calls)
        backend.gate.set()
    assert calls == [[0, 1, 2, 3], [4, 5]]
