"""`thread_groups`: one batcher a key over blocking code, one executor for all, capped after a forced stop too."""

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import anyio
import anyio.abc
import pytest
from tenants import Backend, Groups, Item, callers, settled, tenant

from async_batcher import BatcherStopped, QueueFull, TooManyGroups
from examples.recipes.operations import Intake, ResponseDeadlineExceeded, thread_groups

pytestmark = pytest.mark.anyio


def threaded(fn: Callable[[str, list[Item]], list[Item]], pool: Executor, **options: Any) -> Groups:
    return thread_groups(fn, group_key=tenant, executor=pool, **({"batch_size": 1} | options))


def double(key: str, items: list[Item]) -> list[Item]:
    return [(key, value * 2) for _, value in items]


class Blocking:
    """A call that blocks its thread until it is let go."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.threads: set[str] = set()
        self.began = threading.Semaphore(0)
        self.let_go = threading.Event()

    def __call__(self, key: str, items: list[Item]) -> list[Item]:
        self.calls.append((key, [value for _, value in items]))
        self.threads.add(threading.current_thread().name)
        self.began.release()
        self.let_go.wait(50)
        return double(key, items)

    async def has_begun(self, calls: int = 1) -> None:
        """Wait until so many more calls have begun."""
        for _ in range(calls):
            await anyio.to_thread.run_sync(self.began.acquire)


@pytest.mark.real_time
async def test_calls_run_in_the_callers_own_threads_at_the_same_time() -> None:
    """Two keys, two threads of the pool: both calls run at once."""
    blocking = Blocking()
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as pool:
        async with threaded(blocking, pool) as groups, callers() as crowd:
            await crowd.start(groups, ("a", 1), ("b", 2))
            await blocking.has_begun(2)
            blocking.let_go.set()
    assert crowd.outcomes == {("a", 1): ("a", 2), ("b", 2): ("b", 4)}
    assert len(blocking.threads) == 2
    assert all(name.startswith("mine") for name in blocking.threads)


@pytest.mark.real_time
async def test_a_forced_stop_returns_while_the_thread_runs_and_the_pool_still_caps() -> None:
    """Its caller is told at once; another manager's job starts only when the thread is free."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with (
                threaded(double, pool) as other,
                threaded(blocking, pool) as groups,
                callers() as crowd,
            ):
                await crowd.start(groups, ("a", 1))
                await blocking.has_begun()
                with anyio.fail_after(30):
                    await groups.stop(force=True)
                    await settled(crowd, ("a", 1))
                error = crowd.outcomes["a", 1]
                assert isinstance(error, BatcherStopped)
                assert error.withdrawn is False
                await crowd.start(other, ("b", 2))
                assert ("b", 2) not in crowd.outcomes
                blocking.let_go.set()
        finally:
            blocking.let_go.set()
    assert crowd.outcomes["b", 2] == ("b", 4)


@pytest.mark.real_time
async def test_a_job_that_was_cancelled_before_it_started_never_starts() -> None:
    """One thread, two keys: the second waits in the pool, is stopped there, and never runs."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with threaded(blocking, pool) as groups, callers() as crowd:
                await crowd.start(groups, ("a", 1))
                await blocking.has_begun()
                await crowd.start(groups, ("b", 2))
                with anyio.fail_after(30):
                    await groups.stop(force=True)
                    await settled(crowd, ("b", 2))
                blocking.let_go.set()
        finally:
            blocking.let_go.set()
    error = crowd.outcomes["b", 2]
    assert isinstance(error, BatcherStopped)
    assert error.withdrawn is True
    assert blocking.calls == [("a", [1])]


@pytest.mark.real_time
async def test_a_pool_that_was_shut_down_fails_its_callers_only() -> None:
    """A `RuntimeError` to the callers of that batch; the manager still stops."""
    pool = ThreadPoolExecutor(1)
    async with threaded(double, pool) as groups:
        assert await groups.process(("a", 1)) == ("a", 2)
        pool.shutdown()
        with pytest.raises(RuntimeError):
            await groups.process(("a", 1))


def test_a_thread_that_ends_after_the_loop_harms_nothing() -> None:
    """Forced, the loop is gone, then the thread ends: `asyncio.run` did not wait for it, and nobody complains."""
    blocking, complaints = Blocking(), list[object]()

    async def main(pool: Executor) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        groups = threaded(blocking, pool)
        caller = asyncio.create_task(groups.process(("a", 1)))
        await asyncio.to_thread(blocking.began.acquire)
        await groups.stop(force=True)
        with pytest.raises(BatcherStopped):
            await caller

    with ThreadPoolExecutor(1) as pool:
        try:
            asyncio.run(main(pool))
        finally:
            blocking.let_go.set()
    assert complaints == []


def test_thread_groups_needs_a_plain_function_and_an_executor() -> None:
    """An async function would never use the executor, and without one nothing is bounded."""

    def generator(key: str, items: list[Item]) -> Generator[Item]:
        yield from items

    bad: list[tuple[Any, str]] = [(Backend(), "async"), (generator, "generator"), (None, "can't be called")]
    with ThreadPoolExecutor(1) as pool:
        for fn, fault in bad:
            with pytest.raises(TypeError, match=fault):
                threaded(fn, pool)
    with pytest.raises(TypeError, match="executor"):
        threaded(double, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", ["max_groups", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1"])
def test_limits_of_thread_groups_are_whole_numbers_of_at_least_1(limit: str, value: object) -> None:
    """Refused when built."""
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises((TypeError, ValueError), match=r"whole number|at least 1"),
    ):
        threaded(double, pool, **{limit: value})


@pytest.mark.parametrize("limit", ["max_groups", "batch_size"])
def test_a_limit_of_thread_groups_is_never_none(limit: str) -> None:
    """As with `async_groups`."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(TypeError, match=f"needs {limit}.*got None"):
        threaded(double, pool, **{limit: None})


@pytest.mark.real_time
async def test_a_function_that_returns_a_coroutine_is_refused_at_its_call() -> None:
    """It would run on the loop, beyond the executor's cap: its batch's callers hear of it, and it never runs."""
    backend = Backend()

    def not_plain(key: str, items: list[Item]) -> Any:
        return backend(key, items)

    with ThreadPoolExecutor(1) as pool:
        async with threaded(not_plain, pool) as groups:
            with pytest.raises(TypeError, match=r"returned coroutine: write it as an async def"):
                await groups.process(("a", 1))
    assert backend.calls == []


@pytest.mark.real_time
async def test_a_childs_queue_in_front_of_a_thread_holds_64_items() -> None:
    """While the thread blocks: 64 wait, the next is refused, and all that were accepted are served."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with threaded(blocking, pool) as groups, callers() as crowd:
                await crowd.start(groups, ("a", -1))
                await blocking.has_begun()
                await crowd.start(groups, *[("a", n) for n in range(64)])
                with pytest.raises(QueueFull):
                    await groups.process(("a", 64))
                blocking.let_go.set()
        finally:
            blocking.let_go.set()
    assert len(set(crowd.outcomes.values())) == 65


@pytest.mark.real_time
async def test_64_groups_are_the_default() -> None:
    """While 64 keys are busy, the 65th is refused; those 64 are served."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with threaded(blocking, pool) as groups:
                accepted = [await groups.submit((str(n), n)) for n in range(64)]
                with pytest.raises(TooManyGroups):
                    await groups.process(("64", 64))
                blocking.let_go.set()
                assert [await each for each in accepted] == [(str(n), n * 2) for n in range(64)]
        finally:
            blocking.let_go.set()


@pytest.mark.real_time
async def test_a_key_whose_call_raised_works_again() -> None:
    """In a thread: the error is its batch's, and `StopIteration`, which no future takes, is a `RuntimeError`."""
    faults: list[Exception] = [ValueError("bad"), StopIteration()]

    def fn(key: str, items: list[Item]) -> list[Item]:
        if key == "a" and faults:
            raise faults.pop(0)
        return double(key, items)

    with ThreadPoolExecutor(1) as pool:
        async with threaded(fn, pool) as groups:
            for error in (ValueError, RuntimeError):
                with pytest.raises(error):
                    await groups.process(("a", 1))
                assert await groups.process(("b", 1)) == ("b", 2)
            assert await groups.process(("a", 2)) == ("a", 4)


@pytest.mark.real_time
async def test_the_caps_threads_live_on_after_a_forced_stop() -> None:
    """Nothing is raised into a thread: the one that was left behind ends its call, and does the next one's work."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with threaded(blocking, pool) as groups, callers() as crowd:
                await crowd.start(groups, ("a", 1))
                await blocking.has_begun()
                await groups.stop(force=True)
                blocking.let_go.set()
            async with threaded(blocking, pool) as others:
                assert await others.process(("b", 2)) == ("b", 4)
        finally:
            blocking.let_go.set()
        assert len(blocking.threads) == 1
        assert pool.submit(threading.get_ident).result(50) is not None
    assert blocking.calls == [("a", [1]), ("b", [2])]


@pytest.mark.real_time
async def test_a_response_deadline_in_front_of_threads() -> None:
    """A thread can't be interrupted: the caller's wait ends, the outcome is unknown, and the drain waits for it."""
    blocking = Blocking()
    with ThreadPoolExecutor(1) as pool:
        try:
            async with threaded(blocking, pool) as groups:
                intake = Intake(groups)
                late: list[ResponseDeadlineExceeded] = []

                async def ask() -> None:
                    with pytest.raises(ResponseDeadlineExceeded) as raised:
                        await intake.process(("a", 1), response_timeout=0.5)
                    late.append(raised.value)

                async with anyio.create_task_group() as group:
                    group.start_soon(ask)
                    await blocking.has_begun()  # Long before its deadline.
                assert late[0].withdrawn is False
                with pytest.raises(ResponseDeadlineExceeded) as raised:
                    await intake.process(("a", 2), response_timeout=0.05)
                assert raised.value.withdrawn is True
                blocking.let_go.set()
                await intake.shutdown(grace_timeout=50)
        finally:
            blocking.let_go.set()
    assert blocking.calls == [("a", [1])]
