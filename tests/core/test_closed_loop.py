"""What a loop that was closed leaves behind: its batcher is usable on the next one, and silent about the last."""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest
from complaints import Complaints, event_loop
from holding import HandExecutor, Holding
from scenes import assert_counts_add_up, assert_nothing_left
from virtual_time import run_virtual, settle

from async_batcher import AsyncBatcher, BatcherGroups, BatcherStopped, Submission

Batcher = AsyncBatcher[int, int]


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Complaints]:
    """Hear whatever is complained of."""
    heard = Complaints(caplog)
    monkeypatch.setattr(sys, "unraisablehook", heard.of_interpreter)
    with caplog.at_level(logging.DEBUG, logger="async_batcher"):
        yield heard


async def submits(batcher: Batcher, item: int) -> int:
    return await (await batcher.submit(item))


Call = Callable[[Batcher, int], Coroutine[Any, Any, int]]


Tasks = list[asyncio.Task[int]]


async def callers_of(batcher: Batcher, *items: int, call: Call = Batcher.process) -> Tasks:
    """Start a caller an item, all of whom are left behind."""
    tasks = [asyncio.ensure_future(call(batcher, item)) for item in items]
    await settle()
    return tasks


class Left:
    """A batcher that a loop left behind in some state."""

    def __init__(self, processor: Any, items: tuple[int, ...], **options: Any) -> None:
        self.batcher: Batcher = AsyncBatcher.from_callable(processor, **options)
        self._items = items

    def leave(self, complaints: Complaints, *, tidy: bool, call: Call = Batcher.process) -> Tasks:
        with event_loop(complaints, tidy=tidy) as loop:
            tasks = loop.run_until_complete(callers_of(self.batcher, *self._items, call=call))
            stats = self.batcher.stats()
            assert (stats.waiting, stats.running, stats.in_line) == self.expected
        return tasks

    expected = (0, 0, 0)


def left_waiting(processor: Any) -> Left:
    left = Left(processor, (1, 2), max_queue_time=60)
    left.expected = (2, 0, 0)
    return left


def left_running(processor: Any, **options: Any) -> Left:
    left = Left(processor, (1, 2, 3), max_batch_size=2, max_queue_time=0, **options)
    left.expected = (2, 1, 0)
    return left


def left_in_line(processor: Any, **options: Any) -> Left:
    left = Left(processor, (1, 2, 3), max_batch_size=1, max_queue_size=1, on_full="wait", **options)
    left.expected = (1, 1, 1)
    return left


async def use(batcher: Batcher) -> list[int]:
    return list(await asyncio.gather(batcher.process(5), batcher.process(6)))


tidiness = pytest.mark.parametrize("tidy", [True, False], ids=["cancelled", "as they were"])


def ways_to_leave() -> Iterator[Any]:
    """List every state in which a batcher can be left, by either call, its tasks cancelled or not."""
    for leave in (left_waiting, left_running, left_in_line):
        for call in (Batcher.process, submits):
            yield pytest.param(leave, call, True, id=f"{leave.__name__}-{call.__name__}-cancelled")
            yield pytest.param(leave, call, False, id=f"{leave.__name__}-{call.__name__}")


@pytest.mark.parametrize(("leave", "call", "tidy"), list(ways_to_leave()))
@pytest.mark.parametrize("thrown_away", ["before", "after"])
def test_async_batcher_left_by_a_closed_loop_is_usable_on_the_next(
    leave: Callable[[Any], Left], tidy: bool, thrown_away: str, call: Call, complaints: Complaints
) -> None:
    """Who was left counts as stopped where nobody told them; the old coroutines end silently, whenever they do."""
    fn = Holding()
    left = leave(fn)
    tasks = left.leave(complaints, tidy=tidy, call=call)
    seen = len(fn.seen)
    if thrown_away == "before":
        tasks.clear()
        gc.collect()
        assert_counts_add_up(left.batcher.stats())
    fn.held = False

    async def on_the_next() -> list[int]:
        results = await use(left.batcher)
        tasks.clear()
        gc.collect()
        return results

    assert run_virtual(on_the_next) == [50, 60]
    stats = left.batcher.stats()
    accepted = left.expected[0] + left.expected[1]
    assert (stats.accepted, stats.succeeded) == (accepted + 2, 2)
    assert stats.stopped == (0 if tidy else accepted)
    assert_nothing_left(stats)
    assert fn.thrown_away == (0 if tidy else left.expected[1] > 0)
    run_virtual(left.batcher.stop)
    assert sorted(fn.seen[seen:]) == [5, 6]
    assert_nothing_left(left.batcher.stats())
    complaints.check_there_are_none()


@tidiness
@pytest.mark.parametrize("force", [False, True], ids=["drain", "force"])
@pytest.mark.parametrize("leave", [left_waiting, left_running, left_in_line])
def test_stop_works_on_the_next_loop(
    leave: Callable[[Any], Left], force: bool, tidy: bool, complaints: Complaints
) -> None:
    """As the first thing there: nobody is left to wait for, so it returns; and it is final."""
    fn = Holding()
    left = leave(fn)
    left.leave(complaints, tidy=tidy)
    run_virtual(partial(left.batcher.stop, force=force))
    stats = left.batcher.stats()
    assert stats.stopped == (0 if tidy else stats.accepted)
    assert_nothing_left(stats)
    with pytest.raises(BatcherStopped):
        run_virtual(partial(use, left.batcher))
    complaints.check_there_are_none()


@tidiness
@pytest.mark.parametrize("leave", [left_running, left_in_line])
def test_thread_that_outlives_its_loop_keeps_its_batcher(
    leave: Callable[..., Left], tidy: bool, complaints: Complaints
) -> None:
    """Its slot is taken until it has ended: a call on the next loop is refused before, and served after."""
    executor = HandExecutor()

    def ten_times(batch: list[int]) -> list[int]:
        return [item * 10 for item in batch]

    async def works() -> list[int]:
        using = asyncio.ensure_future(use(left.batcher))
        while not using.done():
            await settle()
            while executor.jobs:
                assert executor.begin()
                executor.end()
        return await using

    left = leave(ten_times, executor=executor)
    with event_loop(complaints, tidy=tidy) as loop:
        loop.run_until_complete(callers_of(left.batcher, *left._items))
        assert executor.begin()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="another event loop"):
            run_virtual(partial(use, left.batcher))
        with pytest.raises(RuntimeError, match="another event loop"):
            run_virtual(partial(left.batcher.stop, force=True))
        gc.collect()
    executor.end()
    assert run_virtual(works) == [50, 60]
    gc.collect()
    assert left.batcher.stats().succeeded == 2
    run_virtual(left.batcher.stop)
    assert_nothing_left(left.batcher.stats())
    complaints.check_there_are_none()


@tidiness
def test_batch_that_its_executor_had_not_started_is_no_hindrance(tidy: bool, complaints: Complaints) -> None:
    """With the loop's tasks cancelled the job is taken back; else it is nobody's, and the batcher is usable too."""
    executor = HandExecutor()
    left = left_running(list, executor=executor)
    left.leave(complaints, tidy=tidy)

    async def works() -> list[int]:
        using = asyncio.ensure_future(use(left.batcher))
        while not using.done():
            await settle()
            for _ in range(len(executor.jobs)):
                if executor.begin():
                    executor.end()
                else:
                    executor.jobs.pop(0)
        return await using

    assert run_virtual(works) == [5, 6]
    gc.collect()
    run_virtual(left.batcher.stop)
    assert_nothing_left(left.batcher.stats())
    complaints.check_there_are_none()


@pytest.mark.parametrize("kept", [True, False], ids=["used again", "dropped too"])
def test_processor_that_fails_as_it_is_thrown_away_is_no_fault_of_the_library(
    kept: bool, complaints: Complaints
) -> None:
    """Its own cleanup raises: Python says so, as of any coroutine; nobody is told of a fault of async_batcher's."""
    holds = True

    async def fails_to_close(batch: list[int]) -> list[int]:
        if holds:
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError("the cleanup's own")
        return [item * 10 for item in batch]

    left = left_running(fails_to_close)
    left.leave(complaints, tidy=False)
    holds = False
    if kept:
        assert run_virtual(partial(use, left.batcher)) == [50, 60]
        assert_nothing_left(left.batcher.stats())
    del left
    gc.collect()
    complaints.found = [found for found in complaints.found if "the cleanup's own" not in found]
    complaints.check_there_are_none()


async def is_stopped_in_vain(batcher: Batcher | BatcherGroups[int, int, int]) -> None:
    for item in (1, 3):
        await batcher.submit(item)
    await settle()
    with pytest.raises(TimeoutError):
        await batcher.stop(timeout=1)


@tidiness
@pytest.mark.parametrize("force", [False, True], ids=["drain", "force"])
@pytest.mark.parametrize("grouped", [False, True], ids=["batcher", "groups"])
def test_stop_goes_on_where_one_on_a_closed_loop_timed_out(
    grouped: bool, force: bool, tidy: bool, complaints: Complaints
) -> None:
    """It refuses new items already, and nobody is left to wait for: both kinds return, as often as they are called."""
    fn = Holding()
    batcher: Batcher | BatcherGroups[int, int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1)
    if grouped:
        batcher = BatcherGroups(fn.serve, group_key=lambda _item: 0, max_groups=1, max_batch_size=1)
    with event_loop(complaints, tidy=tidy) as loop:
        loop.run_until_complete(is_stopped_in_vain(batcher))
    for forced in (force, not force, force):
        run_virtual(partial(batcher.stop, force=forced, timeout=1))
    assert batcher.stats().accepted == 2
    assert_nothing_left(batcher.stats())
    with pytest.raises(BatcherStopped):
        run_virtual(partial(batcher.process, 2))
    complaints.check_there_are_none()


@tidiness
@pytest.mark.parametrize("force", [False, True], ids=["drain", "force"])
def test_stop_that_timed_out_goes_on_once_the_thread_has_ended(
    force: bool, tidy: bool, complaints: Complaints
) -> None:
    """On the next loop it is refused while the thread of the closed one runs, and returns after."""
    executor = HandExecutor()
    batcher: Batcher = AsyncBatcher.from_callable(list, executor=executor, max_batch_size=1)
    with event_loop(complaints, tidy=tidy) as loop:
        loop.run_until_complete(batcher.submit(1))
        loop.run_until_complete(settle())
        assert executor.begin()
        with pytest.raises(TimeoutError):
            loop.run_until_complete(batcher.stop(timeout=1))
    with pytest.raises(RuntimeError, match="another event loop"):
        run_virtual(partial(batcher.stop, force=force))
    executor.end()
    run_virtual(partial(batcher.stop, force=force))
    assert batcher.stats().accepted == 1
    assert_nothing_left(batcher.stats())
    complaints.check_there_are_none()


@tidiness
def test_withdraw_of_what_a_closed_loop_left_tells_the_truth(tidy: bool, complaints: Complaints) -> None:
    """Asked on the next loop, twice: what had begun was seen, so false; what still waited never was, so true."""
    fn = Holding()
    batcher: Batcher = AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=0)

    async def leaves() -> list[Submission[int]]:
        submissions = [await batcher.submit(item) for item in range(5)]
        await settle()
        return submissions

    async def asks() -> list[list[bool]]:
        assert await batcher.process(7) == 70
        return [[submission.withdraw() for submission in submissions] for _ in range(2)]

    with event_loop(complaints, tidy=tidy) as loop:
        submissions = loop.run_until_complete(leaves())
    seen = list(fn.seen)  # a batch whose task was cancelled let the next one begin
    fn.held = False
    truth = [item not in seen for item in range(5)]
    assert set(truth) == {True, False}
    assert run_virtual(asks) == [truth, truth]
    assert fn.seen == [*seen, 7]
    assert_nothing_left(batcher.stats())
    complaints.check_there_are_none()
