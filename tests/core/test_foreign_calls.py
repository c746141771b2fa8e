"""Calls from a loop that is not the batcher's own: refused while anything runs there, and harmless (contract, rule 6).

The other loop here runs in a thread that the test joins, so the batcher's own loop stands still meanwhile: what is
to happen between two of its steps happens there, and no race decides it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from holding import HandExecutor
from recording import RecordingProcessor, ten_times
from scenes import Caller, Scene, assert_nothing_left, enter_scene, open_scene
from virtual_time import VirtualEventLoop, run_virtual, settle

from async_batcher import AsyncBatcher, BatcherGroups, BatcherStopped, BatchEvent

Batcher = AsyncBatcher[int, int]
Groups = BatcherGroups[int, int, int]
Either = Batcher | Groups
Way = Callable[[Either], Coroutine[Any, Any, Any]]

on_each_loop = pytest.mark.anyio


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Do it in another thread, while this one stands still, and return what it returns or raises."""
    outcomes: list[Any] = []

    def main() -> None:
        try:
            outcomes.append(work())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            outcomes.append(error)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    return outcomes[0]


async def processes(batcher: Either) -> Any:
    return await batcher.process(7)


async def submits(batcher: Either) -> Any:
    return await (await batcher.submit(7))


async def enters(batcher: Either) -> Any:
    async with batcher:
        return await batcher.process(7)


async def stops(batcher: Either) -> Any:
    return await batcher.stop()


async def stops_by_force(batcher: Either) -> Any:
    return await batcher.stop(force=True)


def refusal(batcher: Either, way: Way) -> RuntimeError:
    """Use it from a loop of another thread, which must be refused at once, and return the refusal."""

    async def at_once() -> Any:
        return await asyncio.wait_for(way(batcher), 1)

    before = batcher.stats()
    found = in_a_thread(partial(run_virtual, at_once))
    assert isinstance(found, RuntimeError), f"wanted a RuntimeError, found {found!r}"
    assert not isinstance(found, BatcherStopped)
    assert batcher.stats() == before
    return found


every_way = pytest.mark.parametrize("way", [processes, submits, enters, stops, stops_by_force])


def groups_of(processor: Any, **options: Any) -> Groups:
    how: dict[str, Any] = {"max_batch_size": 1, "max_queue_time": 0, **options}

    async def serve(key: int, items: list[int]) -> Any:
        return await processor(items)

    return BatcherGroups(serve, group_key=lambda item: item % 2, max_groups=2, **how)


# A sync processor, whose job may have ended while its batch has not


@on_each_loop
@every_way
async def test_call_between_a_job_and_what_its_loop_hears_of_it_is_refused(way: Way) -> None:
    """The job is over, and its loop has not been told: the batch still runs, and gets its results."""
    executor = HandExecutor()
    async with open_scene(ten_times, executor=executor, max_batch_size=2, max_queue_time=0) as scene:
        callers = [scene.start_process(item) for item in (1, 2)]
        await settle()
        assert executor.begin()
        executor.end()
        assert "another event loop or thread" in str(refusal(scene.batcher, way))
        await settle()
        assert sorted(caller.result for caller in callers if not caller.waits) in ([10], [20], [10, 20])
        await work_off(executor, callers)
    assert scene.batcher.stats().succeeded == 2


async def work_off(executor: HandExecutor, callers: list[Caller]) -> None:
    while any(caller.waits for caller in callers):
        assert executor.begin()
        executor.end()
        await settle()


@on_each_loop
@every_way
async def test_call_while_a_returned_awaitable_runs_is_refused(way: Way) -> None:
    """Its job is long over, and what it returned runs on the loop: the batch's callers get their results."""
    fn, executor = RecordingProcessor(), HandExecutor()
    fn.hold()
    async with open_scene(lambda batch: fn(batch), executor=executor, max_batch_size=1) as scene:  # noqa: PLW0108
        (caller,) = await scene.process(1)
        assert executor.begin()
        executor.end()
        await settle()
        assert fn.running == 1
        for _ in range(2):
            assert "another event loop or thread" in str(refusal(scene.batcher, way))
        fn.release()
        await settle()
        assert caller.result == 10
        later = scene.start_process(2)
        await settle()
        await work_off(executor, [later])
        assert later.result == 20
    assert fn.batches == [[1], [2]]


# Inside a block of trio's, where the batcher belongs to the block


takings = pytest.mark.parametrize("way", [processes, submits, enters])


@takings
@pytest.mark.parametrize("make", [groups_of, AsyncBatcher.from_callable], ids=["groups", "batcher"])
@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.backends("trio")
@on_each_loop
async def test_idle_batcher_is_not_taken_out_of_its_block(
    make: Callable[[Any], Either], way: Way, used: bool
) -> None:
    """Nothing runs, but the block is open: a call from elsewhere is refused, and the block goes on."""
    fn = RecordingProcessor()
    batcher = make(fn)
    async with batcher:
        if used:
            assert await batcher.process(1) == 10
        for item in (2, 3):
            assert "inside an `async with`" in str(refusal(batcher, way))
            assert await batcher.process(item) == item * 10
    assert fn.seen == [1, 2, 3][not used :]
    assert_nothing_left(batcher.stats())


@on_each_loop
@every_way
@pytest.mark.parametrize("idle_first", [True, False], ids=["idle child first", "busy child first"])
async def test_refused_call_leaves_groups_usable_though_one_child_is_idle(way: Way, idle_first: bool) -> None:
    """One child is busy, so none is moved: the idle one serves on where it was."""
    fn = RecordingProcessor()
    async with enter_scene(groups_of(fn), fn) as scene:
        idle, busy = 0, 1
        if idle_first:
            await check_served(scene, idle)
        fn.hold()
        (running,) = await scene.process(busy)
        if not idle_first:
            (idle_caller,) = await scene.process(idle)
            fn.release(1)
            await settle()
            assert idle_caller.result == 0
        assert "another event loop or thread" in str(refusal(scene.batcher, way))
        fn.release()
        await check_served(scene, 2)
        assert running.result == 10
        await check_served(scene, 3)
    assert_nothing_left(scene.batcher.stats())


async def check_served(scene: Scene[Groups], item: int) -> None:
    (caller,) = await scene.process(item)
    assert caller.result == item * 10


# After a loop that ended, or stands still


@contextmanager
def loops(count: int) -> Iterator[list[VirtualEventLoop]]:
    made = [VirtualEventLoop() for _ in range(count)]
    try:
        yield made
    finally:
        for loop in made:
            loop.close()


async def pair(batcher: Batcher) -> list[int]:
    return list(await asyncio.gather(batcher.process(1), batcher.process(2)))


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this thread", "another thread"])
def test_timer_of_an_earlier_loop_does_nothing_on_the_later(elsewhere: bool) -> None:
    """Its window had begun and its batch left full: when that timer rings, the later loop's window is kept."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    batcher: Batcher = AsyncBatcher.from_callable(
        fn, max_batch_size=2, max_queue_time=60, on_batch=events.append
    )
    with loops(2) as (first, second):
        assert first.run_until_complete(pair(batcher)) == [10, 20]
        second.set_debug(True)  # it says when it is called from the wrong thread
        second.set_time_aside(30)
        submission = second.run_until_complete(batcher.submit(3))
        ring = partial(first.run_until_complete, asyncio.sleep(100))
        assert (in_a_thread(ring) if elsewhere else ring()) is None
        assert first.time() == pytest.approx(100)
        second.run_until_complete(settle())
        assert fn.batches == [[1, 2]]

        async def result() -> int:
            return await submission

        assert second.run_until_complete(result()) == 30
        assert second.time() == pytest.approx(90)
    assert [(event.reason, event.oldest_queue_seconds) for event in events] == [("full", 0.0), ("due", 60.0)]
