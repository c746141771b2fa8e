"""Shared slots of odd kinds, and those who line up for one that nobody needs any more (contract, BatcherGroups)."""

import asyncio
import sys
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import sniffio
from group_callers import calls_of
from recording import RecordingProcessor
from scenes import assert_nothing_left, enter_scene, open_scene
from virtual_time import settle

from async_batcher import BatchCancelled, BatcherGroups

pytestmark = pytest.mark.anyio

Groups = BatcherGroups[Any, Any, Any]
ENOUGH = 50
"""Attempts after which a slot gives in, so that a busy loop fails the test and does not hang it."""


class OddSlots:
    """Raises when it is entered, or when it is left, what its factory makes; counts the attempts."""

    def __init__(
        self, *, entering: BaseException | None = None, leaving: BaseException | None = None
    ) -> None:
        self.entered = 0
        self.entering, self.leaving = entering, leaving

    async def __aenter__(self) -> None:
        self.entered += 1
        if self.entering is not None and self.entered < ENOUGH:
            raise self.entering

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.leaving is not None:
            raise self.leaving


async def a_cancellation() -> BaseException:
    """Make a cancellation that is nobody's any more, as the loop raises it."""
    if sniffio.current_async_library() == "asyncio":
        return asyncio.CancelledError()
    caught: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            caught = error
    assert caught is not None
    return caught


async def odd_error(kind: str) -> BaseException:
    return await a_cancellation() if kind == "cancellation" else GeneratorExit()


odd_kinds = pytest.mark.parametrize("kind", ["cancellation", "GeneratorExit"])


def groups_of(fn: RecordingProcessor, slots: Any, **options: Any) -> Groups:
    async def serve(key: Any, items: list[Any]) -> Any:
        return await fn(items)

    how = {"max_batch_size": 2, "max_queue_time": 0, **options}
    return BatcherGroups(serve, group_key=lambda item: 0, max_groups=1, backend_slots=slots, **how)


@odd_kinds
async def test_slot_that_cannot_be_entered_is_tried_once_a_batch(kind: str) -> None:
    """Whatever it raises, the batch's callers are told; those who come later are told too; nothing spins."""
    slots, fn = OddSlots(entering=await odd_error(kind)), RecordingProcessor()
    groups = groups_of(fn, slots)
    told = BatchCancelled if kind == "cancellation" else RuntimeError
    async with enter_scene(groups, fn) as scene:
        for attempt in (1, 2, 3):
            for caller in await scene.process(1):
                caller.failed(told)
            assert slots.entered == attempt
        assert groups.stats().failed == 3
        slots.entering = None
        (served,) = await scene.process(4)
        assert served.result == 40
    assert slots.entered == 4
    assert fn.batches == [[4]]
    assert_nothing_left(groups.stats())


@odd_kinds
async def test_slot_that_cannot_be_left_takes_no_result_away(kind: str) -> None:
    """It failed after the results: they stand, and the next batch is served."""
    slots, fn = OddSlots(leaving=await odd_error(kind)), RecordingProcessor()
    groups = groups_of(fn, slots)
    async with enter_scene(groups, fn) as scene:
        for item in (1, 2, 3):
            (caller,) = await scene.process(item)
            assert caller.result == item * 10
    assert slots.entered == 3
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("items", [1, 5], ids=["one", "several"])
async def test_reservation_is_called_off_when_everybody_has_left(items: int) -> None:
    """A slot that others keep: who lined up for it without need leaves its line, and whoever comes is served."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots, concurrency=2)
    await slots.acquire()
    async with enter_scene(groups, fn) as scene:
        for _ in range(3):
            callers = await scene.process(*range(items))
            assert slots.statistics().tasks_waiting == min(2, (items + 1) // 2)
            for caller in callers:
                caller.cancel()
            await settle()
            assert slots.statistics().tasks_waiting == 0
            assert_nothing_left(groups.stats())
        (late,) = await scene.process(7)
        slots.release()
        await late.end()
        assert late.result == 70
    assert slots.value == 1
    assert fn.batches == [[7]]


async def test_item_that_comes_as_the_reservation_is_called_off_gets_another() -> None:
    """In the very tick in which the last one left: nobody has seen the end of the reservation yet."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots)
    await slots.acquire()
    async with enter_scene(groups, fn):
        first = await groups.submit(1)
        await settle()
        assert first.withdraw() is True
        second = await groups.submit(2)
        await settle()
        assert slots.statistics().tasks_waiting == 1
        slots.release()
        assert await second == 20
    assert fn.batches == [[2]]


async def test_reservation_that_had_not_begun_is_called_off_later() -> None:
    """The first item left before its batch's task began, so there was nothing to call off; the second left later."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots)
    await slots.acquire()
    async with enter_scene(groups, fn):
        assert (await groups.submit(1)).withdraw() is True
        second = await groups.submit(2)
        await settle()
        assert second.withdraw() is True
        await settle()
        assert slots.statistics().tasks_waiting == 0
        with anyio.fail_after(1):
            await groups.stop()
    assert fn.batches == []


async def test_stop_does_not_wait_for_a_slot_that_nobody_needs() -> None:
    """A drain whose items are all withdrawn returns, though the shared slot never comes free."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots)
    await slots.acquire()
    async with enter_scene(groups, fn) as scene:
        submissions = [await groups.submit(item) for item in (1, 2, 3)]
        await settle()
        stopping = await scene.stop()
        assert stopping.waits
        assert slots.statistics().tasks_waiting == 1
        assert [submission.withdraw() for submission in submissions] == [True, True, True]
        await settle()
        with anyio.fail_after(1):
            await stopping.end()
        assert stopping.result is None
        assert slots.statistics().tasks_waiting == 0
        assert groups.stats().withdrawn == 3
        assert_nothing_left(groups.stats())
    assert slots.value == 0
    assert fn.batches == []


@pytest.mark.parametrize("concurrency", [None, 10_000])
async def test_admission_costs_the_same_however_long_the_row_is(concurrency: int | None) -> None:
    """A slot that others keep, and a row that grows behind it: nobody looks through the batches that wait there."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots, concurrency=concurrency, max_queue_size=None, max_batch_size=4)
    await slots.acquire()
    async with enter_scene(groups, fn):
        costs = [await calls_of(groups, range(400)) for _ in range(5)]
        assert groups.stats().waiting == 2000
        await groups.stop(force=True)
    assert costs[0] > 400
    assert max(costs[1:]) <= costs[0]
    assert_nothing_left(groups.stats())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
@pytest.mark.backends("asyncio")
async def test_processor_that_would_wait_for_itself_is_refused_in_an_eager_task_too() -> None:
    """Eagerly begun tasks run inside the call that makes them: the batch has its slot, and its own call is refused."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009  (none in 3.11, says mypy)
    seen: list[int] = []

    async def calls_itself(batch: list[int]) -> list[int]:
        seen.extend(batch)
        await scene.batcher.process(batch[0] + 1)
        return batch

    try:
        for concurrency in (1, 2, 3):
            seen.clear()
            async with open_scene(calls_itself, max_batch_size=1, concurrency=concurrency) as scene:
                (caller,) = await scene.process(1)
                assert "own batcher" in str(caller.failed(RuntimeError))
            assert seen == list(range(1, concurrency + 1))
    finally:
        loop.set_task_factory(None)
