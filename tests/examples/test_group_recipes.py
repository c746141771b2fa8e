"""`async_groups`: one batcher a key, one cap for all, given back when a call has really ended."""

import asyncio
import functools
import gc
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import pytest
from tenants import Backend, Groups, Item, callers, tenant
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, QueueFull, TooManyGroups
from examples.recipes.operations import async_groups

pytestmark = pytest.mark.anyio


def over(backend: Callable[..., Any], slots: Any, **options: Any) -> Groups:
    """Build a manager over the backend; what a test does not say is as small as it can be."""
    limits = {"max_groups": 8, "batch_size": 1} | options
    return async_groups(backend, group_key=tenant, backend_slots=slots, **limits)


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


async def test_a_key_that_failed_once_works_again_and_others_never_notice() -> None:
    """One failed call, one late one: the next item of that key is served, and so is another key meanwhile."""
    faults: list[Exception] = [ValueError("bad"), TimeoutError("the driver's")]

    async def backend(key: str, items: list[Item]) -> list[Item]:
        if key == "a" and faults:
            raise faults.pop(0)
        return items

    async with over(backend, anyio.Semaphore(1)) as groups:
        for fault in tuple(faults):
            with pytest.raises(type(fault), match=str(fault)):
                await groups.process(("a", 1))
            assert await groups.process(("b", 1)) == ("b", 1)
        assert await groups.process(("a", 2)) == ("a", 2)


async def test_a_thousand_keys_are_never_more_than_max_groups_at_once() -> None:
    """One item each, one after the other: an idle key makes room, and nothing stays of those that were there."""
    backend = Backend()
    async with over(backend, anyio.Semaphore(1), max_groups=4) as groups:
        for number in range(1_000):
            assert await groups.process((str(number), number)) == (str(number), number * 2)
        gc.collect()
        assert sum(issubclass(type(each), AsyncBatcher) for each in gc.get_objects()) <= 4
    assert len(backend.calls) == 1_000


async def test_a_forced_stop_gives_back_the_slot_and_the_place_in_its_line() -> None:
    """One runs, one stands in line for the slot: both callers are told, and the whole slot is there for others."""
    backend, slots = Backend(), anyio.Semaphore(1)
    backend.hold()
    async with over(backend, slots) as groups, callers() as crowd:
        await crowd.start(groups, ("a", 1), ("b", 2))
        await groups.stop(force=True)
    told = [crowd.outcomes[item] for item in (("a", 1), ("b", 2))]
    assert [isinstance(error, BatcherStopped) and error.withdrawn for error in told] == [False, True]
    assert backend.calls == [("a", [1])]
    assert slots.value == 1
    slots.acquire_nowait()


async def test_stopped_twice_while_a_new_key_comes() -> None:
    """The key is refused, both stops return when all is done, and nothing that was accepted is lost."""
    backend = Backend()
    backend.hold()
    async with (
        over(backend, anyio.Semaphore(2)) as groups,
        callers() as crowd,
        anyio.create_task_group() as stops,
    ):
        await crowd.start(groups, ("a", 1), ("a", 2))
        for _ in range(2):
            stops.start_soon(groups.stop)
            await settle()
            with pytest.raises(BatcherStopped):
                await groups.process(("new", 1))
        backend.gate.set()
    assert crowd.outcomes == {("a", 1): ("a", 2), ("a", 2): ("a", 4)}


async def test_a_batch_is_never_larger_than_the_queue_that_it_comes_from() -> None:
    """With `batch_size` over 64 a full queue leaves at once, and not after its window."""
    backend = Backend()
    async with over(backend, anyio.Semaphore(1), batch_size=1000) as groups, callers() as crowd:
        await crowd.start(groups, *[("a", number) for number in range(64)])
        assert [len(items) for _, items in backend.calls] == [64]
        assert anyio.current_time() == 0


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
    """Refused when built."""
    with pytest.raises((TypeError, ValueError), match=r"whole number|at least 1"):
        over(Backend(), anyio.Semaphore(1), **{limit: value})


@pytest.mark.parametrize("limit", ["backend_slots", "max_groups", "batch_size"])
def test_a_limit_of_async_groups_is_never_none(limit: str) -> None:
    """To the core `None` is no limit; here it would quietly lift the cap that is the point."""
    limits: dict[str, Any] = {"backend_slots": anyio.Semaphore(1), "max_groups": 8, "batch_size": 1}
    with pytest.raises(TypeError, match=f"needs {limit}.*got None"):
        async_groups(Backend(), group_key=tenant, **(limits | {limit: None}))
