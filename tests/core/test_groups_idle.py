"""A group that has been idle for long is let go, by one timer for all (contract, BatcherGroups, `idle_timeout`)."""

import asyncio
import contextvars
import gc
import weakref
from functools import partial
from typing import Any

import anyio
import pytest
from group_callers import WatchedLoop, on_watched_loop
from keyed import KeyedProcessor, alive, groups_of, serve
from recording import raises
from scenes import enter_scene
from virtual_time import settle

from async_batcher import BatcherGroups

pytestmark = pytest.mark.anyio


async def test_group_is_let_go_when_it_has_been_idle_for_so_long() -> None:
    """Not before, and at that moment; its counts stay, and its key may come again."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, idle_timeout=10, max_queue_time=0), fn) as scene:
        await serve(scene, "a1")
        await anyio.sleep(9.99)
        assert alive(scene.batcher) == ["a"]
        await anyio.sleep(0.01)
        await settle()
        assert alive(scene.batcher) == []
        assert scene.batcher.stats().succeeded == 1
        await serve(scene, "a2")
        assert alive(scene.batcher) == ["a"]
    assert fn.batches == [["a", "a1"], ["a", "a2"]]
    assert scene.batcher.stats().succeeded == 2


async def test_group_stays_for_good_without_a_timeout() -> None:
    """`None` is never."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn), fn) as scene:
        await serve(scene, "a1")
        await anyio.sleep(80_000)
        assert alive(scene.batcher) == ["a"]


async def test_each_group_has_its_own_time() -> None:
    """One timer, which is set anew for the next: each goes at its moment, those of one moment together."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, idle_timeout=10, max_queue_time=0), fn) as scene:
        await serve(scene, "a1", "b1")
        await anyio.sleep(3)
        await serve(scene, "c1")
        await anyio.sleep(4)
        await serve(scene, "d1")
        for seconds, left in ((3, ["c", "d"]), (2.99, ["c", "d"]), (0.01, ["d"]), (4, [])):
            await anyio.sleep(seconds)
            await settle()
            assert alive(scene.batcher) == left, anyio.current_time()


async def test_use_begins_the_time_anew() -> None:
    """It is counted from the end of the last use: those who came before are none of its concern."""
    fn = KeyedProcessor()
    async with enter_scene(groups_of(fn, idle_timeout=10, max_queue_time=0), fn) as scene:
        await serve(scene, "a1", "b1")
        for number in range(4):
            await anyio.sleep(9)
            await serve(scene, f"a{number + 2}")
        assert alive(scene.batcher) == ["a"]
        fn.hold()
        (slow,) = await scene.process("a9")
        await anyio.sleep(1000)
        fn.release()
        await slow.end()
        await anyio.sleep(9.99)
        assert alive(scene.batcher) == ["a"]
        await anyio.sleep(0.02)
        assert alive(scene.batcher) == []


@pytest.mark.parametrize("busy", ["waits", "runs", "failed meanwhile"])
async def test_busy_group_is_not_let_go(busy: str) -> None:
    """Its time is over while it is in use: whatever it does, its caller is served by it."""
    fn = KeyedProcessor(*([raises(ValueError("ill"))] if busy == "failed meanwhile" else []))
    groups = groups_of(fn, idle_timeout=1, max_queue_time=60 if busy == "waits" else 0)
    async with enter_scene(groups, fn) as scene:
        if busy == "failed meanwhile":
            (failed,) = await scene.process("a0")
            failed.failed(ValueError)
        if busy != "waits":
            fn.hold()
        (caller,) = await scene.process("a1")
        await anyio.sleep(50)
        assert alive(groups) == ["a"]
        fn.release()
        await caller.end()
        assert caller.result == ("a", "a1")
        await anyio.sleep(1)
        await settle()
        assert alive(groups) == []
    assert fn.most_of_a_key == 1


def test_one_timer_is_armed_for_all_and_none_where_none_is_idle() -> None:
    """Rule 12: five idle groups cost one timer and one turn each way; all in use they cost none."""

    async def main(loop: WatchedLoop) -> None:
        fn = KeyedProcessor()
        groups = groups_of(fn, idle_timeout=100, max_queue_time=0, max_groups=None)
        assert loop.armed == []
        await asyncio.gather(*(groups.process(key) for key in "abcde"))
        await settle()
        assert len(loop.armed) == 1
        fn.hold()
        using = [asyncio.ensure_future(groups.process(key)) for key in "abcd"]
        await settle()
        assert len(loop.armed) == 1
        using.append(asyncio.ensure_future(groups.process("e")))
        await settle()
        assert loop.armed == []
        fn.release()
        await asyncio.gather(*using)
        await settle()
        before = loop.turns
        await asyncio.sleep(99)
        assert loop.turns - before <= 3
        assert len(alive(groups)) == 5
        await asyncio.sleep(2)
        assert loop.turns - before <= 8
        assert alive(groups) == []
        assert loop.armed == []
        before = loop.turns
        await asyncio.sleep(80_000)
        assert loop.turns - before <= 3
        await groups.stop()

    on_watched_loop(main)


def test_group_that_makes_room_takes_its_timer_along() -> None:
    """The only idle one goes for a new key, which is in use: no timer is left."""

    async def main(loop: WatchedLoop) -> None:
        fn = KeyedProcessor()
        groups = groups_of(fn, idle_timeout=100, max_queue_time=0, max_groups=1)
        await groups.process("a1")
        assert len(loop.armed) == 1
        fn.hold()
        caller = asyncio.ensure_future(groups.process("b1"))
        await settle()
        assert alive(groups) == ["b"]
        assert loop.armed == []
        fn.release()
        await caller
        await groups.stop()

    on_watched_loop(main)


@pytest.mark.parametrize("how", [{}, {"force": True}, {"timeout": 1}])
def test_stop_calls_the_timer_off(how: dict[str, Any]) -> None:
    """After it nothing is armed, and nothing is let go: what was, can be counted."""

    async def main(loop: WatchedLoop) -> None:
        groups = groups_of(KeyedProcessor(), idle_timeout=100, max_queue_time=0)
        for item in ("a1", "b1"):
            await groups.process(item)
        assert len(loop.armed) == 1
        await groups.stop(**how)
        assert loop.armed == []
        await settle()
        assert loop.armed == []
        assert groups.stats().succeeded == 2

    on_watched_loop(main)


def test_group_that_comes_to_rest_in_a_stop_arms_no_timer() -> None:
    """Its last batch ends in the drain."""

    async def main(loop: WatchedLoop) -> None:
        fn = KeyedProcessor()
        fn.hold()
        groups = groups_of(fn, idle_timeout=100, max_queue_time=0)
        caller = asyncio.ensure_future(groups.process("a1"))
        await settle()
        stopping = asyncio.ensure_future(groups.stop())
        await settle()
        fn.release()
        await asyncio.gather(caller, stopping)
        assert loop.armed == []

    on_watched_loop(main)


@pytest.mark.parametrize("begin", [0.1, 0.7, 1 / 3, 1e5 + 0.1])
@pytest.mark.parametrize("timeout", [0.1, 0.3, 1 / 3, 1e-9, 3.3333333, 1e4 + 0.1])
def test_timer_does_not_spin_on_the_clocks_resolution(begin: float, timeout: float) -> None:
    """Whatever the sum of two floats is rounded to: when it rings, what it rang for is let go."""

    async def main(loop: WatchedLoop) -> None:
        loop.set_time_aside(begin)
        groups = groups_of(KeyedProcessor(), idle_timeout=timeout, max_queue_time=0)
        await groups.process("a1")
        before = loop.turns
        await asyncio.sleep(timeout * 1.01 + 1)
        assert alive(groups) == []
        assert loop.turns - before <= 6
        await groups.stop()

    on_watched_loop(main)


@pytest.mark.timeout(10)
def test_timer_that_rings_early_does_not_spin() -> None:
    """A loop rings what is due within its clock's resolution: what it rang for is let go, at the first ring."""

    async def main(loop: WatchedLoop) -> None:
        setattr(loop, "_clock_resolution", 1)  # noqa: B010  (typeshed has it not)
        groups = groups_of(KeyedProcessor(), idle_timeout=10, max_queue_time=0)
        await groups.process("a1")
        await asyncio.sleep(9.5)
        before = loop.turns
        await settle()
        assert loop.turns - before <= 3
        assert alive(groups) == []
        await groups.stop()

    on_watched_loop(main)


def test_timer_keeps_no_callers_context() -> None:
    """A request's variables are let go with the request, however long its group's time is."""

    class Request:
        """Something whose end can be seen."""

    var: contextvars.ContextVar[Request | None] = contextvars.ContextVar("var", default=None)

    async def main(loop: WatchedLoop) -> None:
        groups = groups_of(KeyedProcessor(), idle_timeout=1e6, max_queue_time=60)
        seen: list[weakref.ref[Request]] = []

        async def request() -> None:
            held = Request()
            seen.append(weakref.ref(held))
            var.set(held)
            (await groups.submit("a1")).withdraw()

        await asyncio.create_task(request())
        await settle()
        assert len(loop.armed) in (1, 2)
        await asyncio.sleep(61)
        assert len(loop.armed) == 1
        gc.collect()
        assert seen[0]() is None
        await groups.stop()

    on_watched_loop(main)


@pytest.mark.backends("trio")
async def test_timer_ends_with_its_block_on_trio() -> None:
    """Rule 12, on trio: leaving the block ends the task that the timer is."""
    groups = groups_of(KeyedProcessor(), idle_timeout=1e6, max_queue_time=0)
    async with groups:
        await groups.process("a1")
        await settle()
    await settle()
    assert groups._timer is None
    assert anyio.current_time() < 1


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1"])
def test_bad_idle_timeout_is_refused(value: Any) -> None:
    """With what may be written instead."""
    with pytest.raises((TypeError, ValueError), match=r"idle_timeout must be .* or None for never"):
        BatcherGroups(
            partial(KeyedProcessor.serve, KeyedProcessor()), group_key=str, max_groups=1, idle_timeout=value
        )
