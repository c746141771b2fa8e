"""Sync processors in real threads (contract, rules 3, 5, 7 and 11). Real time, and events instead of waits."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from scenes import assert_nothing_left, open_scene

from async_batcher import AsyncBatcher, BatcherStopped

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]

PATIENCE = 10.0
"""Real seconds after which a thread that waits for the test gives up, so that a fault is no hang."""

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


class BlockingProcessor:
    """A sync processor that waits in its thread until `release()`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.ended = threading.Semaphore(0)
        self._began = threading.Semaphore(0)
        self._gate = threading.Event()

    def release(self) -> None:
        self._gate.set()

    async def begun(self) -> None:
        """Wait until one more batch has begun."""
        assert await anyio.to_thread.run_sync(self._began.acquire, True, PATIENCE)

    def __call__(self, batch: list[int]) -> list[int]:
        self.batches.append(list(batch))
        self.threads.add(threading.get_ident())
        self._began.release()
        try:
            if not self._gate.wait(PATIENCE):
                raise TimeoutError("nobody opened the gate")
            return [item * 10 for item in batch]
        finally:
            self.ended.release()


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


async def test_forced_stop_does_not_wait_for_a_thread() -> None:
    """O1: it returns, its callers end; the thread goes on until it is let go."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running = scene.start_process(1)
        await fn.begun()
        waiting = scene.start_process(2)
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(PATIENCE / 2):
            await scene.batcher.stop(force=True)
        await scene.end_of(running, waiting)
        assert running.failed(BatcherStopped).withdrawn is False
        assert waiting.failed(BatcherStopped).withdrawn is True
        assert not fn.ended.acquire(blocking=False)
        fn.release()
    assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE)
    assert fn.batches == [[1]]
    assert_nothing_left(scene.batcher.stats())


async def test_cancelled_block_does_not_wait_for_a_thread() -> None:
    """O1: `async with` left by cancellation forces, so it does not hang on a blocked thread either."""
    fn = BlockingProcessor()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1)
    with anyio.CancelScope() as scope:
        async with batcher:
            submission = await batcher.submit(1)
            await fn.begun()
            scope.cancel()
            await anyio.sleep_forever()
    with pytest.raises(BatcherStopped):
        await submission
    fn.release()
    assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE)


async def test_drain_waits_for_a_thread_and_its_timeout_bounds_it() -> None:
    """B3: `stop()` waits for what runs in a thread; with `timeout` no longer than that."""
    fn = BlockingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        caller = scene.start_process(1)
        await fn.begun()
        with pytest.raises(TimeoutError):
            await scene.batcher.stop(timeout=0.01)
        assert caller.waits
        fn.release()
        await scene.batcher.stop()
        await caller.end()
        assert caller.result == 10


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
        assert caller.error is not None
        assert not caller.was_cancelled


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


def run_program(program: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stdout, done.stderr


def test_thread_that_ends_after_its_loop_was_closed_is_silent() -> None:
    """O5: no callback that raises, no result set twice, no error on the way out."""
    program = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from async_batcher import AsyncBatcher, BatcherStopped

gate, began = threading.Event(), threading.Event()

def blocks(batch):
    began.set()
    gate.wait(10)
    return batch

async def main(**options):
    batcher = AsyncBatcher.from_callable(blocks, max_batch_size=1, **options)
    submission = await batcher.submit(1)
    while not began.is_set():
        await asyncio.sleep(0.001)
    await batcher.stop(force=True)
    try:
        await submission
    except BatcherStopped as error:
        print(error.withdrawn)

with ThreadPoolExecutor(1) as pool:
    asyncio.run(main(executor=pool))
    gate.set()
"""
    assert run_program(program) == (0, "False\n", "")


def test_loop_exits_once_its_own_thread_is_let_go() -> None:
    """O1, O4: with the batcher's own threads the program ends as soon as the blocked one returns."""
    program = """
import asyncio, threading
from async_batcher import AsyncBatcher

gate, began = threading.Event(), threading.Event()

def blocks(batch):
    began.set()
    gate.wait(10)
    return batch

async def main():
    batcher = AsyncBatcher.from_callable(blocks, max_batch_size=1)
    await batcher.submit(1)
    while not began.is_set():
        await asyncio.sleep(0.001)
    await batcher.stop(force=True)
    threading.Timer(0.05, gate.set).start()

asyncio.run(main())
print("ended")
"""
    begin = time.monotonic()
    assert run_program(program) == (0, "ended\n", "")
    assert time.monotonic() - begin < PATIENCE


def test_own_threads_end_with_the_batcher() -> None:
    """B10: after the stop no thread of the batcher's own is left, used from three loops in a row."""

    async def main() -> None:
        built: AsyncBatcher[int, int] = AsyncBatcher.from_callable(list, max_batch_size=1)
        async with built as batcher:
            assert await batcher.process(1) == 1

    before = set(threading.enumerate())
    for _ in range(3):
        asyncio.run(main())
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= before
