"""The shared slots of groups: entered by the batch's own task, given back always (contract, BatcherGroups)."""

import logging
from types import TracebackType
from typing import Any

import anyio
import pytest
from holding import HandExecutor
from recording import RecordingProcessor
from scenes import assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatcherGroups, BatcherStopped

pytestmark = pytest.mark.anyio

Groups = BatcherGroups[Any, Any, Any]


class Slots:
    """Counts who is in; raises where it is told to."""

    def __init__(self, *, entering: Exception | None = None, leaving: Exception | None = None) -> None:
        self.inside = self.entered = 0
        self.entering, self.leaving = entering, leaving

    async def __aenter__(self) -> None:
        if self.entering is not None:
            raise self.entering
        self.inside += 1
        self.entered += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.inside -= 1
        if self.leaving is not None:
            raise self.leaving


def groups_of(fn: RecordingProcessor, slots: Any, **options: Any) -> Groups:
    async def serve(key: Any, items: list[Any]) -> Any:
        return await fn(items)

    return BatcherGroups(
        serve,
        group_key=lambda item: str(item)[0],
        max_groups=10,
        backend_slots=slots,
        max_queue_time=0,
        max_batch_size=1,
        **options,
    )


async def test_slot_is_held_exactly_while_the_processor_runs() -> None:
    """Entered before the batch leaves its queue, left when the call has ended."""
    slots, fn = Slots(), RecordingProcessor()
    fn.hold()
    async with enter_scene(groups_of(fn, slots), fn) as scene:
        (caller,) = await scene.process(1)
        assert slots.inside == 1
        fn.release()
        await caller.end()
        await settle()
        assert slots.inside == 0
    assert slots.entered == 1


async def test_slots_that_cannot_be_entered_fail_their_batch_alone() -> None:
    """What `__aenter__` raises reaches the callers; the next batch tries again."""
    slots, fn = Slots(entering=ConnectionError("no lock")), RecordingProcessor()
    groups = groups_of(fn, slots)
    async with enter_scene(groups, fn) as scene:
        failed, other = await scene.process(1, 2)
        failed.failed(ConnectionError)
        other.failed(ConnectionError)
        slots.entering = None
        (served,) = await scene.process(1)
        assert served.result == 10
    assert fn.batches == [[1]]
    assert_nothing_left(groups.stats())


async def test_slots_that_cannot_be_left_take_no_result_away(caplog: pytest.LogCaptureFixture) -> None:
    """What `__aexit__` raises comes after the results: it is logged, and the batcher lives."""
    slots, fn = Slots(leaving=ConnectionError("no unlock")), RecordingProcessor()
    groups = groups_of(fn, slots)
    with caplog.at_level(logging.DEBUG, logger="async_batcher"):
        async with enter_scene(groups, fn) as scene:
            first, second = await scene.process(1, 1)
            assert (first.result, second.result) == (10, 10)
    assert "no unlock" in caplog.text
    assert_nothing_left(groups.stats())


async def test_batch_that_everybody_left_gives_its_slot_up() -> None:
    """Rule 1: those in line for the slot may all leave: nothing is started, and nothing is held."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots)
    await slots.acquire()
    async with enter_scene(groups, fn) as scene:
        for caller in await scene.process(1, 2, 3):
            caller.cancel()
        await settle()
        slots.release()
        await settle()
        assert slots.value == 1
        (served,) = await scene.process(4)
        assert served.result == 40
    assert fn.batches == [[4]]


async def test_processor_that_calls_its_own_group_is_refused() -> None:
    """P3: a processor that sends to the very key that it serves would wait for itself."""

    async def serve(key: Any, items: list[Any]) -> Any:
        return [await scene.batcher.process(item) for item in items]

    groups: Groups = BatcherGroups(serve, group_key=str, max_groups=2, max_queue_time=0)
    async with enter_scene(groups) as scene:
        (caller,) = await scene.process(1)
        caller.failed(RuntimeError)


async def test_slots_are_shared_across_managers() -> None:
    """One semaphore caps the calls of two managers together."""
    slots, fn = anyio.Semaphore(2), RecordingProcessor()
    fn.hold()
    async with enter_scene(groups_of(fn, slots), fn) as one, enter_scene(groups_of(fn, slots), fn) as two:
        callers = [*await one.process(1, 2, 3), *await two.process(4, 5, 6)]
        assert fn.running == 2
        fn.release()
        await one.end_of(*callers)
    assert fn.most_at_once == 2
    assert slots.value == 2


async def test_slot_is_given_back_only_when_a_cancelled_call_has_ended() -> None:
    """A forced stop cancels it, and it cleans up: until then nobody else gets its slot."""
    slots, cleans = anyio.Semaphore(1), anyio.Event()

    async def serve(key: Any, items: list[Any]) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await cleans.wait()

    how: dict[str, Any] = {"group_key": str, "max_groups": 2, "max_queue_time": 0, "backend_slots": slots}
    fn = RecordingProcessor()
    async with enter_scene(BatcherGroups(serve, **how)) as scene, enter_scene(groups_of(fn, slots)) as other:
        (caller,) = await scene.process(1)
        (waiting,) = await other.process(2)
        stopping = await scene.stop(force=True)
        caller.failed(BatcherStopped)
        assert stopping.waits
        assert (slots.value, fn.batches) == (0, [])
        cleans.set()
        await waiting.end()
        assert waiting.result == 20
    assert slots.value == 1


async def test_slot_of_a_thread_is_given_back_when_the_thread_has_ended() -> None:
    """A forced stop returns before that; the slot does not come back before it."""
    slots, executor, fn = anyio.Semaphore(1), HandExecutor(), RecordingProcessor()
    groups: Groups = BatcherGroups(
        lambda key, items: items,
        group_key=str,
        max_groups=1,
        max_queue_time=0,
        backend_slots=slots,
        executor=executor,
    )
    async with enter_scene(groups) as scene, enter_scene(groups_of(fn, slots)) as other:
        (caller,) = await scene.process(1)
        assert executor.begin()
        (waiting,) = await other.process(2)
        await groups.stop(force=True)
        await settle()
        caller.failed(BatcherStopped)
        assert (slots.value, fn.batches) == (0, [])
        executor.end()
        await waiting.end()
        assert waiting.result == 20
    assert slots.value == 1


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_slot_serves_keys_in_the_order_in_which_their_batches_came(concurrency: int) -> None:
    """D4: first come first served over all keys, each with at most `concurrency` batches at the slot."""
    slots, fn = anyio.Semaphore(1), RecordingProcessor()
    groups = groups_of(fn, slots, concurrency=concurrency)
    await slots.acquire()
    async with enter_scene(groups, fn) as scene:
        callers = []
        for number in range(4):
            callers += await scene.process(*(f"{key}{number}" for key in "abc"))
        assert slots.statistics().tasks_waiting == 3 * concurrency
        slots.release()
        await scene.end_of(*callers)
    keys = "".join(batch[0][0] for batch in fn.batches)
    assert keys == "abc" * 4
    assert fn.most_at_once == 1
