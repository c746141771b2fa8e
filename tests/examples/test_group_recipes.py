"""`async_groups` and `thread_groups`: one batcher a key, one cap for all, given back when a call has really ended."""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from virtual_time import settle

from async_batcher import BatcherGroups, BatcherStopped, QueueFull, TooManyGroups
from examples.recipes.operations import async_groups, thread_groups

pytestmark = pytest.mark.anyio

Item = tuple[str, int]
Groups = BatcherGroups[str, Item, Item]


def tenant(item: Item) -> str:
    return item[0]


class Backend:
    """An async bulk call behind a gate, which knows what it saw and how many calls ran at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.running = 0
        self.most = 0
        self.gate = anyio.Event()
        self.gate.set()

    def hold(self) -> None:
        self.gate = anyio.Event()

    async def __call__(self, key: str, items: list[Item]) -> list[Item]:
        self.calls.append((key, [value for _, value in items]))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            return [(key, value * 2) for _, value in items]
        finally:
            self.running -= 1


def over(backend: Callable[..., Any], slots: Any, **options: Any) -> Groups:
    """Build a manager over the backend; what a test does not say is as small as it can be."""
    limits = {"max_groups": 8, "batch_size": 1} | options
    return async_groups(backend, group_key=tenant, backend_slots=slots, **limits)


@asynccontextmanager
async def callers() -> AsyncGenerator["Callers"]:
    """Give a place to start callers from, who keep what came of them."""
    async with anyio.create_task_group() as group:
        yield Callers(group)


class Callers:
    """Callers in tasks of their own, and what came of them."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self.outcomes: dict[Item, object] = {}

    async def start(self, groups: Groups, *items: Item) -> None:
        """Start one caller an item, in this order."""
        for item in items:
            self._group.start_soon(self._run, groups, item)
            await settle()

    async def _run(self, groups: Groups, item: Item) -> None:
        try:
            self.outcomes[item] = await groups.process(item)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the outcome
            self.outcomes[item] = error


async def test_no_call_mixes_keys() -> None:
    """Interleaved tenants: each call has one key's items, each caller its own value."""
    backend = Backend()
    items: list[Item] = [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]
    async with over(backend, anyio.Semaphore(2), batch_size=2) as groups, callers() as crowd:
        await crowd.start(groups, *items)
    assert crowd.outcomes == {(key, value): (key, value * 2) for key, value in items}
    assert sorted(backend.calls) == [("a", [1, 3]), ("a", [5]), ("b", [2, 4])]


async def test_one_semaphore_caps_the_calls_of_all_managers() -> None:
    """Six keys in two managers over two slots: two calls at once, and in the end all are served."""
    await two_managers_share(anyio.Semaphore(2))


@pytest.mark.backends("asyncio")
async def test_an_asyncio_semaphore_caps_them_too() -> None:
    """Anything that can be entered again and again."""
    await two_managers_share(asyncio.Semaphore(2))


async def two_managers_share(slots: Any) -> None:
    backend = Backend()
    backend.hold()
    async with over(backend, slots) as one, over(backend, slots) as two, callers() as crowd:
        await crowd.start(one, ("a", 1), ("b", 2), ("c", 3))
        await crowd.start(two, ("a", 4), ("b", 5), ("c", 6))
        assert backend.running == 2
        backend.gate.set()
    assert backend.most == 2
    assert len(backend.calls) == 6
    assert len(crowd.outcomes) == 6


async def test_items_wait_in_their_queue_until_there_is_a_slot() -> None:
    """Behind a busy slot items gather to one batch, and one that leaves is never sent."""
    backend, slots = Backend(), anyio.Semaphore(1)
    backend.hold()
    async with over(backend, slots, batch_size=8) as groups, callers() as crowd:
        await crowd.start(groups, ("a", 0))
        await anyio.sleep(1)
        await crowd.start(groups, ("b", 1))
        await anyio.sleep(1)
        await crowd.start(groups, ("b", 2))
        with anyio.move_on_after(1) as leaver:
            await groups.process(("b", 3))
        assert leaver.cancelled_caught
        backend.gate.set()
    assert backend.calls == [("a", [0]), ("b", [1, 2])]


async def test_a_busy_tenant_holds_up_another_by_two_batches_at_most() -> None:
    """One slot, 64 items of `a` waiting: `b` comes after the batch that runs and the one in line for the slot."""
    backend, slots = Backend(), anyio.Semaphore(1)
    backend.hold()
    async with over(backend, slots) as groups, callers() as crowd:
        await crowd.start(groups, *[("a", n) for n in range(65)])
        await crowd.start(groups, ("b", 0))
        backend.gate.set()
    order = [key for key, _ in backend.calls]
    assert order.index("b") <= 2
    assert len(order) == 66


async def test_a_childs_queue_holds_64_items_and_the_keys_are_bounded() -> None:
    """The 65th that waits is refused with `QueueFull`, one more key with `TooManyGroups`; nobody else notices."""
    backend = Backend()
    backend.hold()
    async with over(backend, anyio.Semaphore(1), max_groups=2) as groups, callers() as crowd:
        await crowd.start(groups, ("a", 0), *[("b", n) for n in range(64)])
        with pytest.raises(QueueFull):
            await groups.process(("b", 64))
        with pytest.raises(TooManyGroups):
            await groups.process(("c", 0))
        backend.gate.set()
    assert set(crowd.outcomes.values()) == {("a", 0), *[("b", 2 * n) for n in range(64)]}


async def test_a_slot_comes_back_only_when_the_call_has_really_ended() -> None:
    """A forced stop cancels the call; while it cleans up, the other manager waits for its slot."""
    slots, cleaning, cleaned = anyio.Semaphore(1), anyio.Event(), anyio.Event()

    async def slow_to_end(key: str, items: list[Item]) -> list[Item]:
        try:
            await anyio.sleep_forever()
        finally:
            cleaning.set()
            with anyio.CancelScope(shield=True):
                await cleaned.wait()
        return items

    backend = Backend()
    async with over(slow_to_end, slots) as one, over(backend, slots) as two, callers() as crowd:
        await crowd.start(one, ("a", 1))
        await crowd.start(two, ("b", 2))
        with pytest.raises(TimeoutError):
            await one.stop(force=True, timeout=1)
        await cleaning.wait()
        await settle()
        assert isinstance(crowd.outcomes["a", 1], BatcherStopped)
        assert backend.calls == []
        cleaned.set()
        await one.stop(force=True, timeout=1)
    assert crowd.outcomes["b", 2] == ("b", 4)


async def test_a_keys_failure_stays_its_own() -> None:
    """What the call raises reaches its callers; what `group_key` raises, its caller; then all goes on."""

    def key_of(item: Item) -> str:
        if item[1] < 0:
            raise LookupError(item)
        return item[0]

    async def backend(key: str, items: list[Item]) -> list[Item]:
        if key == "bad":
            raise ValueError(key)
        return items

    slots, limits = anyio.Semaphore(1), {"max_groups": 4, "batch_size": 4}
    async with async_groups(backend, group_key=key_of, backend_slots=slots, **limits) as groups:
        with pytest.raises(LookupError):
            await groups.process(("a", -1))
        with pytest.raises(ValueError, match="bad"):
            await groups.process(("bad", 1))
        assert await groups.process(("a", 1)) == ("a", 1)


def test_async_groups_needs_an_async_function() -> None:
    """Objects with an async `__call__` and partials are; a plain function is for `thread_groups`."""
    slots = anyio.Semaphore(1)
    for good in (Backend(), functools.partial(Backend.__call__, Backend())):
        over(good, slots)
    for bad in (lambda key, items: items, len, None):
        with pytest.raises(TypeError, match="thread_groups"):
            over(bad, slots)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", ["max_groups", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1"])
def test_limits_are_whole_numbers_of_at_least_1(limit: str, value: object) -> None:
    """Refused when built, by both."""
    with pytest.raises((TypeError, ValueError), match=r"whole number|at least 1"):
        over(Backend(), anyio.Semaphore(1), **{limit: value})
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises((TypeError, ValueError), match=r"whole number|at least 1"),
    ):
        threaded(double, pool, **{limit: value})


@pytest.mark.parametrize("limit", ["backend_slots", "max_groups", "batch_size"])
def test_a_limit_of_async_groups_is_never_none(limit: str) -> None:
    """To the core `None` is no limit; here it would quietly lift the cap that is the point."""
    limits: dict[str, Any] = {"backend_slots": anyio.Semaphore(1), "max_groups": 8, "batch_size": 1}
    with pytest.raises(TypeError, match=f"needs {limit}.*got None"):
        async_groups(Backend(), group_key=tenant, **(limits | {limit: None}))


# thread_groups: real threads, real time


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
        self.let_go.wait(20)
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
                with anyio.fail_after(5):
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
                with anyio.fail_after(5):
                    await groups.stop(force=True)
                    await settled(crowd, ("b", 2))
                blocking.let_go.set()
        finally:
            blocking.let_go.set()
    assert isinstance(crowd.outcomes["b", 2], BatcherStopped)
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
@pytest.mark.backends("asyncio")
async def test_64_groups_are_the_default() -> None:
    """The 65th key is refused."""
    with ThreadPoolExecutor(1) as pool:
        async with threaded(double, pool) as groups:
            for n in range(64):
                assert await groups.process((str(n), n)) == (str(n), n * 2)
            with pytest.raises(TooManyGroups):
                await groups.process(("64", 64))


async def settled(crowd: Callers, item: Item) -> None:
    """Wait until this caller has its outcome: it was told before `stop` returned, and has only to run."""
    while item not in crowd.outcomes:
        await anyio.lowlevel.checkpoint()
