"""Event loops: nothing is bound early, an idle batcher may move, one in use refuses (contract, rule 6)."""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest
import trio
from programs import run_program, run_python
from recording import RecordingProcessor
from scenes import assert_nothing_left
from virtual_time import VirtualEventLoop, run_virtual, settle

from async_batcher import AsyncBatcher, BatcherStopped

Batcher = AsyncBatcher[int, int]


def batcher_of(processor: Any, **options: Any) -> Batcher:
    return AsyncBatcher.from_callable(processor, **options)


AT_IMPORT = RecordingProcessor()
BUILT_AT_IMPORT = batcher_of(AT_IMPORT)


def test_batcher_built_at_import_works() -> None:
    """G1: no loop is touched when it is built."""

    async def main() -> int:
        return await BUILT_AT_IMPORT.process(1)

    assert asyncio.run(main()) == 10


def test_building_touches_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: neither asked for nor made, and no thread is started."""

    def refuse(*_: object) -> None:
        raise AssertionError("a loop was asked for")

    for name in ("get_event_loop", "new_event_loop", "set_event_loop"):
        monkeypatch.setattr(asyncio, name, refuse)
    before = set(threading.enumerate())
    batcher_of(RecordingProcessor())
    batcher_of(list)
    assert set(threading.enumerate()) <= before  # one of an earlier test may end meanwhile


def use(batcher: Batcher, *items: int) -> Callable[[], Coroutine[Any, Any, list[int]]]:
    async def main() -> list[int]:
        return list(await asyncio.gather(*map(batcher.process, items)))

    return main


@pytest.mark.parametrize("run", [run_virtual, asyncio.run], ids=["virtual", "asyncio"])
def test_idle_batcher_works_on_a_second_loop(run: Callable[[Any], Any]) -> None:
    """G2: two runs after each other on one batcher, each with a window to wait for."""
    batcher = batcher_of(RecordingProcessor(), max_queue_time=0.001)
    for _ in range(3):
        if run is run_virtual:
            assert run_virtual(use(batcher, 1, 2)) == [10, 20]
        else:
            assert asyncio.run(use(batcher, 1, 2)()) == [10, 20]
    assert batcher.stats().succeeded == 6


def test_batcher_left_in_use_by_a_dead_loop_does_not_hang() -> None:
    """G2: the first loop ended while items waited and ran: the second is served or refused at once."""
    fn = RecordingProcessor()
    fn.hold()
    batcher = batcher_of(fn, max_batch_size=1, max_queue_time=0)

    async def leaves_work_behind() -> None:
        tasks = [asyncio.ensure_future(batcher.process(item)) for item in (1, 2)]
        await settle()
        assert not any(task.done() for task in tasks)

    async def second() -> int | str:
        try:
            return await batcher.process(3)
        except RuntimeError as error:
            return str(error)

    run_virtual(leaves_work_behind)
    fn.release()
    found = run_virtual(second)
    assert found == 30 or "loop" in str(found)


def test_second_thread_is_refused_at_once() -> None:
    """G3: while one loop uses it, a loop in another thread gets a `RuntimeError`; the first is undisturbed."""
    fn = RecordingProcessor()
    fn.hold()
    batcher = batcher_of(fn, max_batch_size=1, max_queue_time=0)
    refusals: list[BaseException] = []

    def other_thread() -> None:
        for call in (batcher.process, batcher.submit):
            with pytest.raises(RuntimeError) as caught:
                asyncio.run(use_once(call))
            refusals.append(caught.value)

    async def use_once(call: Callable[[int], Coroutine[Any, Any, Any]]) -> Any:
        return await call(7)

    async def main() -> int:
        first = asyncio.ensure_future(batcher.process(1))
        await settle()
        await asyncio.to_thread(other_thread)
        fn.release()
        return await first

    assert asyncio.run(main()) == 10
    assert len(refusals) == 2
    for refusal in refusals:
        assert not isinstance(refusal, BatcherStopped)
        assert "loop" in str(refusal) or "thread" in str(refusal)
    assert fn.seen == [1]
    assert_nothing_left(batcher.stats())


def test_second_loop_in_the_same_thread_is_refused_at_once() -> None:
    """G2: while the first loop is paused in the midst of a batch, another loop is refused."""
    fn = RecordingProcessor()
    fn.hold()
    batcher = batcher_of(fn, max_batch_size=1)
    first, second = VirtualEventLoop(), VirtualEventLoop()
    try:
        task = first.create_task(batcher.process(1))
        first.run_until_complete(settle())
        refused = batcher.process(2)
        with pytest.raises(RuntimeError, match="loop"):
            second.run_until_complete(refused)
        first.call_soon(fn.release)
        assert first.run_until_complete(task) == 10
        first.run_until_complete(settle())
        assert second.run_until_complete(batcher.process(3)) == 30
    finally:
        first.close()
        second.close()


def test_call_outside_a_loop_is_refused() -> None:
    """A call without any event loop says so, and binds nothing."""
    batcher = batcher_of(RecordingProcessor())
    call = batcher.process(1)
    with pytest.raises(RuntimeError):
        call.send(None)
    assert run_virtual(use(batcher, 2)) == [20]


def test_refused_first_call_binds_nothing() -> None:
    """G4: a loop whose only call was cancelled before it got anywhere leaves the batcher free."""
    batcher = batcher_of(RecordingProcessor(), max_queue_time=60)

    async def cancelled() -> None:
        task = asyncio.ensure_future(batcher.process(1))
        await settle()
        task.cancel()
        await settle()

    run_virtual(cancelled)
    assert run_virtual(use(batcher, 2)) == [20]


def test_asyncio_and_trio_after_each_other() -> None:
    """G2: the second loop may be another library's."""
    batcher = batcher_of(RecordingProcessor(), max_queue_time=0)
    assert run_virtual(use(batcher, 1)) == [10]

    async def on_trio() -> None:
        async with batcher:
            results.append(await batcher.process(2))

    results: list[int] = []
    trio.run(on_trio)
    assert results == [20]


def test_stop_is_idempotent_on_another_loop() -> None:
    """Rule 3, 6: stopped for good on one loop, it may be told to stop again on any."""
    batcher = batcher_of(RecordingProcessor(), max_queue_time=0)

    async def on_trio() -> None:
        async with batcher:
            await batcher.process(1)

    trio.run(on_trio)
    for force in (False, True):
        run_virtual(partial(batcher.stop, force=force))
        trio.run(partial(batcher.stop, force=force))
    with pytest.raises(BatcherStopped):
        run_virtual(partial(batcher.process, 2))


def test_trio_without_its_block_says_what_to_write() -> None:
    """Rule 6: on trio a batcher works inside `async with`; elsewhere it says so at once."""
    batcher = batcher_of(RecordingProcessor())

    async def main() -> None:
        await batcher.process(1)

    with pytest.raises(RuntimeError, match="async with"):
        trio.run(main)
    assert batcher.stats().accepted == 0


def test_leaving_right_after_scheduling_loses_nothing_silently() -> None:
    """B4: what was accepted is drained; a caller that had not run yet is told `BatcherStopped`."""
    fn = RecordingProcessor()
    outcomes: list[Any] = []

    async def main(turns: int) -> None:
        async with batcher_of(fn, max_queue_time=60) as batcher:
            callers = [asyncio.ensure_future(batcher.process(item)) for item in (1, 2, 3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        outcomes.extend(await asyncio.gather(*callers, return_exceptions=True))

    for turns in range(3):
        fn.batches.clear()
        outcomes.clear()
        run_virtual(partial(main, turns))
        for item, outcome in zip((1, 2, 3), outcomes, strict=True):
            assert outcome == 10 * item if item in fn.seen else isinstance(outcome, BatcherStopped)


async def leaves_an_item_behind(batcher: Batcher) -> None:
    task = asyncio.ensure_future(batcher.process(1))
    await settle()
    assert not task.done()


def test_closed_loop_is_let_go() -> None:
    """G5: a batcher dropped with its closed loop dies with it, silently: no spin, no warning."""
    batcher = batcher_of(RecordingProcessor(), max_queue_time=60)
    gone = weakref.ref(batcher)
    run_virtual(partial(leaves_an_item_behind, batcher))
    del batcher
    gc.collect()
    assert gone() is None


def test_process_that_never_stops_its_batcher_ends() -> None:
    """G5: `asyncio.run` returns although an item waits or a batch runs, and the interpreter exits cleanly."""
    program = """
import asyncio
from async_batcher import AsyncBatcher

async def never(batch):
    await asyncio.Event().wait()

async def main():
    busy = AsyncBatcher.from_callable(never, max_batch_size=1)
    waiting = AsyncBatcher.from_callable(never, max_queue_time=60)
    for batcher in (busy, waiting):
        await batcher.submit(1)
    await asyncio.sleep(0)

asyncio.run(main())
print("ended")
"""
    assert run_program(program) == (0, "ended\n", "")


def test_idle_batcher_works_in_a_forked_child() -> None:
    """G6: made and used before `os.fork`, it works in the child with a loop of the child's own."""
    program = """
import asyncio, os
from async_batcher import AsyncBatcher

async def double(batch):
    return [item * 2 for item in batch]

unused = AsyncBatcher.from_callable(double)
used = AsyncBatcher.from_callable(double)
assert asyncio.run(used.process(1)) == 2
if (child := os.fork()) == 0:
    assert asyncio.run(unused.process(2)) == 4
    assert asyncio.run(used.process(3)) == 6
    os._exit(0)
print(os.waitpid(child, 0)[1], asyncio.run(used.process(4)), asyncio.run(unused.process(5)))
"""
    assert run_python("-c", program) == (0, "0 8 10\n", "")
    assert hasattr(os, "fork")


@pytest.mark.anyio
async def test_batcher_entered_in_one_task_is_used_from_others() -> None:
    """Rule 6: any task of the loop may call, whoever entered it."""
    async with (
        batcher_of(RecordingProcessor(), max_batch_size=3) as batcher,
        anyio.create_task_group() as group,
    ):
        for item in range(3):
            group.start_soon(batcher.process, item)
    assert batcher.stats().succeeded == 3
