"""`split_on`: a batch that one of its items broke is called again in halves, until only that item fails."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import anyio
import pytest
from blocking import PATIENCE
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import (
    AsyncBatcher,
    BatchCancelled,
    BatcherStopped,
    BatchEvent,
    ResultMismatch,
)

pytestmark = pytest.mark.anyio


def poisoned(*bad: int, kind: type[Exception] = ValueError) -> RecordingProcessor:
    fn = RecordingProcessor()
    for item in bad:
        fn.fail_batch_of(item, kind(f"item {item}"))
    return fn


async def test_only_the_poison_item_fails() -> None:
    """Its siblings get their results; it gets its own error."""
    events: list[BatchEvent] = []
    fn = poisoned(3)
    async with open_scene(fn, split_on=ValueError, max_batch_size=4, on_batch=events.append) as scene:
        callers = await scene.process(1, 2, 3, 4)
        await scene.end_of(*callers)
        assert [caller.result for caller in callers if caller is not callers[2]] == [10, 20, 40]
        assert str(callers[2].failed(ValueError)) == "item 3"
        stats = scene.batcher.stats()
        assert (stats.succeeded, stats.failed, stats.batches) == (3, 1, 1)
    assert fn.batches == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [4]]
    assert [(event.size, event.succeeded, event.failed, event.error_type) for event in events] == [
        (4, 3, 1, None)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 64])
async def test_at_most_2n_minus_1_calls(count: int) -> None:
    """All are poison: the worst that can be; and each has its own error, in order."""
    fn = poisoned(*range(count))
    async with open_scene(fn, split_on=(KeyError, ValueError), max_batch_size=count) as scene:
        callers = await scene.process(*range(count))
        await scene.end_of(*callers)
        assert [str(caller.failed(ValueError)) for caller in callers] == [f"item {n}" for n in range(count)]
    assert len(fn.batches) == 2 * count - 1
    assert [batch[0] for batch in fn.batches if len(batch) == 1] == list(range(count))


@pytest.mark.parametrize(
    ("split_on", "error", "splits"),
    [
        ((), ValueError("x"), False),
        (ValueError, ValueError("x"), True),
        (LookupError, KeyError("x"), True),
        (KeyError, ValueError("x"), False),
        (Exception, ValueError("x"), True),
        (Exception, OSError("down"), False),
        (Exception, ConnectionResetError("down"), False),
        (OSError, ConnectionResetError("down"), True),
        (ConnectionError, ConnectionResetError("down"), True),
        (Exception, TimeoutError("late"), False),
        (OSError, TimeoutError("late"), False),
        (TimeoutError, TimeoutError("late"), True),
        (RuntimeError, BrokenProcessPool("gone"), False),
        (BrokenProcessPool, BrokenProcessPool("gone"), True),
        (lambda error: "bad" in str(error), ValueError("bad row"), True),
        (lambda error: "bad" in str(error), ValueError("down"), False),
        (lambda _error: True, OSError("disk"), True),
        (lambda error: error.code == 1, ValueError("has no code"), False),
    ],
)
async def test_what_no_item_causes_splits_only_where_it_is_named(
    split_on: Any, error: Exception, splits: bool
) -> None:
    """An outage costs one call a batch, whatever wide type was named."""
    fn = RecordingProcessor()
    fn.fail_batch_of(2, error)
    async with open_scene(fn, split_on=split_on, max_batch_size=4) as scene:
        callers = await scene.process(1, 2, 3, 4)
        await scene.end_of(*callers)
        assert len(fn.batches) == (5 if splits else 1)
        assert [caller.error is None for caller in callers] == [splits, False, splits, splits]
        assert all(isinstance(caller.failed(type(error)), type(error)) for caller in callers if caller.error)


class Panic(BaseException):
    """What some extensions raise where they are broken."""


async def test_what_is_no_exception_proper_never_splits() -> None:
    """Whatever the predicate would say."""
    fn = RecordingProcessor()
    fn.fail_batch_of(1, Panic())
    async with open_scene(fn, split_on=lambda _error: True, max_batch_size=2) as scene:
        callers = await scene.process(1, 2)
        await scene.end_of(*callers)
        assert [type(caller.error) for caller in callers] == [Panic, Panic]
    assert len(fn.batches) == 1


async def test_mismatch_and_own_cancellation_split_only_where_they_are_named() -> None:
    """Our own errors are no item's either."""
    for named, calls in ((Exception, 1), (TypeError, 1), (ResultMismatch, 3)):
        fn = RecordingProcessor(lambda batch: [0] * 7 if len(batch) > 1 else [0])
        async with open_scene(fn, split_on=named, max_batch_size=2) as scene:
            callers = await scene.process(1, 2)
            await scene.end_of(*callers)
            assert len(fn.batches) == calls
            assert [caller.error is None for caller in callers] == [calls == 3] * 2


@pytest.mark.backends("asyncio")
async def test_own_cancellation_splits_only_where_it_is_named() -> None:
    """A processor that cancels itself comes as `BatchCancelled`."""

    def cancel(batch: list[int]) -> list[int]:
        if 2 in batch:
            raise asyncio.CancelledError
        return batch

    for named, calls in ((Exception, 1), (BatchCancelled, 3)):
        fn = RecordingProcessor(cancel)
        async with open_scene(fn, split_on=named, max_batch_size=2) as scene:
            callers = await scene.process(1, 2)
            await scene.end_of(*callers)
            assert len(fn.batches) == calls
            callers[1].failed(BatchCancelled)


async def test_outage_in_the_middle_ends_the_splitting() -> None:
    """Whoever has no outcome yet gets it: an outage never multiplies calls."""
    events: list[BatchEvent] = []
    fn = poisoned(1)
    fn.fail_batch_of(3, OSError("down"))
    fn.fail_batch_of(1, ValueError("item 1"))
    async with open_scene(fn, split_on=ValueError, max_batch_size=8, on_batch=events.append) as scene:
        callers = await scene.process(1, 2, 3, 4, 5, 6, 7, 8)
        await scene.end_of(*callers)
        assert str(callers[0].failed(ValueError)) == "item 1"
        assert callers[1].result == 20
        for caller in callers[2:]:
            caller.failed(OSError)
    assert fn.batches == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4], [1, 2], [1], [2], [3, 4]]
    assert [(event.succeeded, event.failed, event.error_type) for event in events] == [
        (1, 7, "builtins.OSError")
    ]


async def test_who_has_left_is_not_called_again() -> None:
    """A half of which nobody waits any more is not called; the rest goes on."""
    fn = poisoned(3)
    async with open_scene(fn, split_on=ValueError, max_batch_size=4) as scene:
        fn.hold()
        callers = await scene.process(1, 2, 3, 4)
        callers[0].cancel()
        callers[3].cancel()
        await settle()
        fn.release()
        await scene.end_of(*callers)
        assert callers[1].result == 20
        callers[2].failed(ValueError)
        stats = scene.batcher.stats()
        assert (stats.succeeded, stats.failed, stats.abandoned) == (1, 1, 2)
    assert fn.batches == [[1, 2, 3, 4], [2], [3]]


async def test_forced_stop_ends_the_splitting() -> None:
    """Its callers are told that the outcome is unknown; no further half is called."""
    fn = poisoned(1, 2, 3, 4)
    async with open_scene(fn, split_on=ValueError, max_batch_size=4) as scene:
        fn.hold()
        callers = await scene.process(1, 2, 3, 4)
        fn.release(0)
        await settle()
        assert len(fn.batches) == 2
        await scene.batcher.stop(force=True)
        await settle()
        assert [caller.failed(BatcherStopped).withdrawn for caller in callers] == [False] * 4
    assert len(fn.batches) == 2


@pytest.mark.real_time
async def test_forced_stop_ends_the_splitting_of_a_thread() -> None:
    """The call that runs in a thread is left to itself; no other one follows it."""
    calls: list[list[int]] = []
    began, go_on = threading.Event(), threading.Event()

    def processor(batch: list[int]) -> list[int]:
        calls.append(batch)
        if len(calls) == 2:
            began.set()
            go_on.wait(PATIENCE)
        raise ValueError(batch)

    with ThreadPoolExecutor(1) as executor:
        async with open_scene(processor, split_on=ValueError, max_batch_size=4, executor=executor) as scene:
            callers = [scene.start_process(item) for item in range(4)]
            assert await anyio.to_thread.run_sync(began.wait, PATIENCE)
            await scene.batcher.stop(force=True)
            go_on.set()
            for caller in callers:
                await caller.end()
                assert caller.failed(BatcherStopped).withdrawn is False
        executor.submit(int).result()
    assert len(calls) == 2


async def test_halves_share_the_slot_of_their_batch() -> None:
    """Never more than `concurrency` calls at once, and what waits is not overtaken."""
    fn = poisoned(1)
    async with open_scene(fn, split_on=ValueError, max_batch_size=2, max_queue_time=0) as scene:
        callers = await scene.process(0, 1, 2, 3)
        await scene.end_of(*callers)
    assert fn.most_at_once == 1


async def test_sharers_of_a_poison_item_all_get_its_error() -> None:
    """And those of the others their results."""
    fn = poisoned(2)
    async with open_scene(
        fn, split_on=ValueError, coalesce_key=lambda item: item, max_batch_size=8, max_queue_time=1
    ) as scene:
        callers = await scene.process(1, 2, 1, 2)
        await scene.end_of(*callers)
        assert callers[0].result == callers[2].result == 10
        assert callers[1].failed(ValueError) is not callers[3].failed(ValueError)
        assert scene.batcher.stats().failed == 2


@pytest.mark.parametrize("bad", [KeyboardInterrupt, (ValueError, int), "ValueError", 3, None, [ValueError]])
def test_what_is_no_exception_type_is_refused(bad: Any) -> None:
    """When the batcher is built."""
    with pytest.raises(TypeError, match="split_on must be exception types"):
        AsyncBatcher.from_callable(RecordingProcessor(), split_on=bad)
