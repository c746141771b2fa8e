"""Sync processors in real threads (contract, rules 3, 5, 7 and 11). Real time, and events instead of waits."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from blocking import PATIENCE, BlockingProcessor
from scenes import open_scene

from async_batcher import AsyncBatcher, BatchCancelled, BatcherStopped

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A caller-owned pool, kept outside the loop."""
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="mine") as executor:
        yield executor


async def test_sync_processor_runs_in_a_thread_and_the_loop_goes_on() -> None:
    """P1: while it blocks others take their turns, and a caller's own deadline fires."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        caller = scene.start_process(1)
        await fn.begun()
        with anyio.move_on_after(0.01) as scope:
            await scene.batcher.process(2)
        assert scope.cancelled_caught
        assert caller.waits
        fn.release()
        await caller.end()
        assert caller.result == 10
    assert threading.get_ident() not in fn.threads
    assert fn.batches == [[1]]
    assert scene.batcher.stats().withdrawn == 1


async def test_given_executor_is_used(pool: ThreadPoolExecutor) -> None:
    """`executor=`: the batch runs there, and nowhere else."""

    def names(batch: list[int]) -> list[str]:
        return [threading.current_thread().name] * len(batch)

    async with open_scene(names, executor=pool, max_batch_size=1) as scene:
        assert (await scene.batcher.process(1)).startswith("mine")
    assert pool.submit(int).result() == 0


@pytest.mark.parametrize("concurrency", [1, 2, 3])
async def test_as_many_threads_as_concurrency(concurrency: int) -> None:
    """By default it has worker threads of its own, `concurrency` of them, whatever others do with theirs."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1, concurrency=concurrency) as scene:
        callers = [scene.start_process(item) for item in range(concurrency + 2)]
        for _ in range(concurrency):
            await fn.begun()
        assert len(fn.batches) == concurrency
        assert len(fn.threads) == concurrency
        fn.release()
        await scene.end_of(*callers)
    assert sorted(sum(fn.batches, [])) == list(range(concurrency + 2))  # noqa: RUF017 - a handful


async def test_busy_thread_limiter_of_others_does_not_stop_it() -> None:
    """Its threads are its own: forty threads that others of the program keep busy are no hindrance."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    taken = [object() for _ in range(int(limiter.total_tokens))]
    for borrower in taken:
        limiter.acquire_on_behalf_of_nowait(borrower)
    try:
        async with open_scene(lambda batch: batch, max_batch_size=1) as scene:
            with anyio.fail_after(PATIENCE):
                assert await scene.batcher.process(1) == 1
    finally:
        for borrower in taken:
            limiter.release_on_behalf_of(borrower)


@pytest.mark.parametrize("own_pool", [False, True], ids=["own threads", "given pool"])
async def test_stop_iteration_in_a_thread_becomes_a_runtime_error(
    own_pool: bool, pool: ThreadPoolExecutor
) -> None:
    """F1 (a): with a future it would hang for ever; every caller gets a `RuntimeError`, and the next is served."""
    script: list[Callable[[list[int]], list[int]]] = [lambda _: next(iter([])), list]
    options = {"executor": pool} if own_pool else {}

    def next_of_the_script(batch: list[int]) -> list[int]:
        return script.pop(0)(batch)

    async with open_scene(next_of_the_script, max_batch_size=2, **options) as scene:
        callers = [scene.start_process(item) for item in (1, 2)]
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
        for caller in callers:
            assert isinstance(caller.failed(RuntimeError).__cause__, StopIteration)
        assert sorted([await later for later in [await scene.batcher.submit(item) for item in (3, 4)]]) == [
            3,
            4,
        ]


@pytest.mark.parametrize(
    "error", [ValueError("no"), asyncio.CancelledError("odd"), GeneratorExit(), TimeoutError("its own")]
)
async def test_whatever_a_thread_raises_leaves_nobody_waiting(error: BaseException) -> None:
    """F3, F6: every caller of the batch ends with an error, and the next batch is served."""
    errors = [error]

    def fails_once(batch: list[int]) -> list[int]:
        if errors:
            raise errors.pop()
        return batch

    async with open_scene(fails_once, max_batch_size=2) as scene:
        callers = [scene.start_process(item) for item in (1, 2)]
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
            for caller in callers:
                assert caller.error is not None
                assert not caller.was_cancelled
            submissions = [await scene.batcher.submit(item) for item in (3, 4)]
            assert [await submission for submission in submissions] == [3, 4]


async def test_pool_that_was_shut_down_fails_its_batch_alone() -> None:
    """O3: the callers hear a `RuntimeError`, the batcher lives, stop works."""
    dead = ThreadPoolExecutor(max_workers=1)
    dead.shutdown()
    async with open_scene(list, executor=dead, max_batch_size=2) as scene:
        for _ in range(2):
            callers = [scene.start_process(item) for item in (1, 2)]
            with anyio.fail_after(PATIENCE):
                await scene.end_of(*callers)
            for caller in callers:
                caller.failed(RuntimeError)
    assert scene.batcher.stats().failed == 4


class LazyExecutor(Executor):
    """Keeps what it is given until it is told to run it, or cancels it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future


async def test_job_that_its_executor_cancelled_fails_its_batch() -> None:
    """O3: `shutdown(cancel_futures=True)` of a caller-owned pool leaves no caller waiting."""
    lazy = LazyExecutor()
    async with open_scene(list, executor=lazy, max_batch_size=1, max_queue_time=0) as scene:
        caller = scene.start_process(1)
        while not lazy.jobs:
            await anyio.lowlevel.checkpoint()
        lazy.jobs[0][0].cancel()
        lazy.jobs[0][0].set_running_or_notify_cancel()
        with anyio.fail_after(PATIENCE):
            await caller.end()
        caller.failed(BatchCancelled)


async def test_job_cancelled_before_it_started_never_starts() -> None:
    """A forced stop takes back what the pool has not begun."""
    lazy = LazyExecutor()
    seen: list[list[int]] = []
    async with open_scene(seen.append, executor=lazy, max_batch_size=1) as scene:
        caller = scene.start_process(1)
        while not lazy.jobs:
            await anyio.lowlevel.checkpoint()
        await scene.batcher.stop(force=True)
        await caller.end()
        caller.failed(BatcherStopped)
    future, run = lazy.jobs[0]
    if future.set_running_or_notify_cancel():
        run()
    assert seen == []


async def test_thread_sees_the_context_of_construction() -> None:
    """H3: the same as an async processor sees, in a fresh copy a batch, two at once."""

    def sets(batch: list[int]) -> list[str]:
        before = tenant.get()
        together.wait(PATIENCE)
        tenant.set("set in a thread")
        return [before] * len(batch)

    together = threading.Barrier(2)
    token = tenant.set("built")
    batcher: AsyncBatcher[int, str] = AsyncBatcher.from_callable(sets, max_batch_size=1, concurrency=2)
    tenant.reset(token)
    async with batcher:
        for _ in range(2):
            submissions = [await batcher.submit(item) for item in (1, 2)]
            assert [await submission for submission in submissions] == ["built", "built"]


async def test_awaitable_that_a_sync_processor_returns_is_awaited() -> None:
    """Rule 11: a sync function may hand back a coroutine; it runs on the loop."""
    loop_thread = threading.get_ident()

    async def answer(batch: list[int]) -> list[bool]:
        await anyio.lowlevel.checkpoint()
        return [threading.get_ident() == loop_thread] * len(batch)

    async with open_scene(lambda batch: answer(list(batch)), max_batch_size=1) as scene:
        assert await scene.batcher.process(1) is True


@pytest.mark.backends("asyncio", "uvloop")
async def test_call_from_the_processors_own_thread_is_refused_or_served() -> None:
    """G3, P3: a thread that asks the loop to call its own batcher gets an answer, never a deadlock."""
    loop = asyncio.get_running_loop()

    def calls_back(batch: list[int]) -> list[Any]:
        call = asyncio.run_coroutine_threadsafe(scene.batcher.submit(0), loop)
        try:
            call.result(PATIENCE)
        except RuntimeError as error:
            return [str(error)] * len(batch)
        return batch

    async with open_scene(calls_back, max_batch_size=1) as scene:
        with anyio.fail_after(PATIENCE):
            assert await scene.batcher.process(1) is not None
        await scene.batcher.stop(force=True)
