"""A forced stop while an executor has the batch: not begun, running, ending just now, or back with an awaitable.

The executor here is worked by hand, so that each of these moments is a line of a test and no race.
"""

import gc
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from blocking import PATIENCE, BlockingProcessor
from hand_executor import HandExecutor
from scenes import Caller, assert_nothing_left, open_scene
from virtual_time import settle

from async_batcher import BatcherStopped, BatchEvent

pytestmark = pytest.mark.anyio


def check_told(caller: Caller, *, withdrawn: bool) -> None:
    assert caller.failed(BatcherStopped).withdrawn is withdrawn


@pytest.mark.parametrize("timeout", [None, 5.0], ids=["no timeout", "timeout"])
@pytest.mark.parametrize("questions", range(8))
async def test_thread_that_ends_at_that_very_moment_is_no_timeout(
    questions: int, timeout: float | None
) -> None:
    """Whenever it ends between what the stop does and what it looks at: the stop returns, everyone is told."""
    executor = HandExecutor()
    async with open_scene(list, executor=executor, max_batch_size=1, max_queue_time=0) as scene:
        running, waiting = await scene.process(1, 2)
        (job,) = executor.jobs
        job.begin()
        job.ends_when_asked(questions)
        await scene.batcher.stop(force=True, timeout=timeout)
        assert scene.batcher.stats().stopped == 2
        await settle()
        check_told(running, withdrawn=False)
        check_told(waiting, withdrawn=True)
        job.end()
        await settle()
        assert_nothing_left(scene.batcher.stats())
    assert executor.jobs == [job]


@pytest.mark.parametrize("questions", range(8))
async def test_async_part_that_comes_at_that_very_moment_never_begins(questions: int) -> None:
    """The same where the thread answers with a coroutine: it is not begun, and not left unawaited either."""
    begun: list[object] = []

    async def late(batch: list[int]) -> list[int]:
        begun.append(batch)
        return batch

    executor = HandExecutor()
    async with open_scene(lambda batch: late(batch), executor=executor, max_batch_size=1) as scene:  # noqa: PLW0108
        (caller,) = await scene.process(1)
        (job,) = executor.jobs
        job.begin()
        job.ends_when_asked(questions)
        await scene.batcher.stop(force=True)
        await settle()
        job.end()
        await settle()
        check_told(caller, withdrawn=False)
    assert begun == []
    del job, caller, scene
    executor.jobs.clear()
    gc.collect()


class LateAnswer:
    """An awaitable that is no coroutine, and knows whether anybody awaited it."""

    def __init__(self) -> None:
        self.awaited = 0

    def __await__(self) -> Generator[Any, Any, list[int]]:
        self.awaited += 1
        yield from anyio.lowlevel.checkpoint().__await__()
        return [10]


async def test_async_part_of_a_call_that_was_stopped_in_its_thread_never_begins() -> None:
    """The stop has returned, so nothing of the batch may begin afterwards: no task, no warning of a coroutine."""
    begun: list[object] = []

    async def late(batch: list[int]) -> list[int]:
        begun.append(batch)
        return batch

    made: list[LateAnswer] = []

    def returns_an_awaitable(batch: list[int]) -> Any:
        if batch == [1]:
            return late(batch)
        made.append(LateAnswer())
        return made[-1]

    executor = HandExecutor()
    async with open_scene(
        returns_an_awaitable, executor=executor, max_batch_size=1, max_queue_time=0, concurrency=2
    ) as scene:
        callers = await scene.process(1, 2)
        for job in executor.jobs:
            job.begin()
        await scene.batcher.stop(force=True, timeout=1)
        await settle()
        for caller in callers:
            check_told(caller, withdrawn=False)
        for job in executor.jobs:
            job.end()
        await settle()
        await scene.batcher.stop(force=True)
        assert_nothing_left(scene.batcher.stats())
    assert begun == []
    assert [answer.awaited for answer in made] == [0]


@pytest.mark.real_time
async def test_async_part_never_begins_after_a_real_thread() -> None:
    """The same with a thread of the batcher's own, which ends when the stop has long returned."""
    begun: list[object] = []
    fn = BlockingProcessor()

    async def late(batch: list[int]) -> list[int]:
        begun.append(batch)
        return batch

    ended = anyio.Event()
    async with open_scene(
        lambda batch: late(fn(batch)), max_batch_size=1, on_batch=lambda event: ended.set()
    ) as scene:
        caller = scene.start_process(1)
        await fn.begun()
        with anyio.fail_after(PATIENCE / 2):
            await scene.batcher.stop(force=True)
        fn.release()
        with anyio.fail_after(PATIENCE):
            await ended.wait()
            await caller.end()
        check_told(caller, withdrawn=False)
    assert begun == []


@pytest.mark.parametrize("slow", [False, True], ids=["ends at once", "cleans up"])
async def test_async_part_that_runs_is_cancelled(slow: bool) -> None:
    """Its thread has ended, so it is an async batch like any other: cancelled, and waited for."""
    log: list[str] = []

    async def late(batch: list[int]) -> list[int]:
        log.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3 if slow else 0)
            log.append("ended")
        return batch

    executor = HandExecutor()
    async with open_scene(lambda batch: late(batch), executor=executor, max_batch_size=1) as scene:  # noqa: PLW0108
        (caller,) = await scene.process(1)
        executor.jobs[0].begin()
        executor.jobs[0].end()
        await settle()
        assert log == ["begun"]
        await scene.batcher.stop(force=True)
        assert log == ["begun", "ended"]
        assert anyio.current_time() == pytest.approx(3 if slow else 0)
        await settle()
        check_told(caller, withdrawn=False)


async def test_batch_that_its_executor_had_not_started_never_ran() -> None:
    """`withdrawn` is the truth: one worker, three batches handed over, one of them started."""
    executor = HandExecutor()
    seen: list[int] = []
    events: list[BatchEvent] = []

    def sees(batch: list[int]) -> list[int]:
        seen.extend(batch)
        return batch

    async with open_scene(
        sees, executor=executor, max_batch_size=1, max_queue_time=0, concurrency=3, on_batch=events.append
    ) as scene:
        callers = await scene.process(0, 1, 2, 3)
        assert scene.batcher.stats().running == 3
        executor.jobs[1].begin()
        await scene.batcher.stop(force=True)
        stats = scene.batcher.stats()
        assert (stats.batches, stats.stopped) == (1, 4)
        await settle()
        for item, caller in enumerate(callers):
            check_told(caller, withdrawn=item != 1)
        for job in (executor.jobs[0], executor.jobs[2]):
            assert not job.set_running_or_notify_cancel()
        executor.jobs[1].end()
        await settle()
    assert seen == [1]
    assert [(event.size, event.abandoned) for event in events] == [(1, 1)]


async def test_batch_that_two_stops_take_back_is_taken_back_once() -> None:
    """Two forced stops at the same time: what the executor had not started is not counted as a batch, once."""
    executor = HandExecutor()
    async with open_scene(
        list, executor=executor, max_batch_size=1, max_queue_time=0, concurrency=2
    ) as scene:
        callers = await scene.process(0, 1)
        executor.jobs[0].begin()
        stops = [scene.start(partial(scene.batcher.stop, force=True)) for _ in range(2)]
        await settle()
        assert [stop.result for stop in stops] == [None, None]
        assert (scene.batcher.stats().batches, scene.batcher.stats().stopped) == (1, 2)
        for item, caller in enumerate(callers):
            check_told(caller, withdrawn=item != 0)
        executor.jobs[0].end()
        await settle()


class OneWorker(ThreadPoolExecutor):
    """Says when it has been given so many jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__(max_workers=1)
        self._missing = jobs
        self.given = anyio.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._missing -= 1
        if not self._missing:
            self.given.set()
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def closing() -> Iterator[list[ThreadPoolExecutor]]:
    """Executors to shut down outside the loop."""
    executors: list[ThreadPoolExecutor] = []
    yield executors
    for executor in executors:
        executor.shutdown()


@pytest.mark.real_time
async def test_batch_in_the_queue_of_a_real_pool_never_ran(closing: list[ThreadPoolExecutor]) -> None:
    """The same with one real thread: what it has is unknown, what stands behind it never runs."""
    fn, pool = BlockingProcessor(), OneWorker(3)
    closing.append(pool)
    async with open_scene(fn, executor=pool, max_batch_size=1, max_queue_time=0, concurrency=3) as scene:
        callers = [scene.start_process(item) for item in range(3)]
        await fn.begun()
        with anyio.fail_after(PATIENCE):
            await pool.given.wait()
        await scene.batcher.stop(force=True)
        await scene.end_of(*callers)
        fn.release()
    pool.shutdown()
    (running,) = fn.batches[0]
    for item, caller in enumerate(callers):
        check_told(caller, withdrawn=item != running)
    assert fn.batches == [[running]]
    assert threading.get_ident() not in fn.threads
