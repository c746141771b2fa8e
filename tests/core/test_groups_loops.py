"""Groups on one event loop after another, and after one that was closed on them (contract, rule 6)."""

import asyncio
import gc
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from complaints import Complaints, event_loop
from group_callers import WatchedLoop, on_watched_loop
from holding import Holding
from keyed import KeyedProcessor, alive, groups_of
from scenes import assert_nothing_left
from virtual_time import settle

from async_batcher import BatcherGroups


def test_rest_begins_anew_on_a_second_loop() -> None:
    """Its clock is another: no group goes at once, or never, and each still goes."""
    groups = groups_of(KeyedProcessor(), idle_timeout=10, max_queue_time=0)

    async def first(loop: WatchedLoop) -> None:
        loop.set_time_aside(1e6)
        await groups.process("a1")
        await groups.process("b1")
        await groups.process("a2")
        await asyncio.sleep(9)

    async def second(loop: WatchedLoop) -> None:
        loop.set_time_aside(5)
        await groups.process("c1")
        await asyncio.sleep(9.99)
        assert alive(groups) == ["a", "b", "c"]
        assert len(loop.armed) == 1
        await asyncio.sleep(0.02)
        assert alive(groups) == []

    on_watched_loop(first)
    on_watched_loop(second)


def test_group_of_an_earlier_loop_goes_though_no_other_comes_to_rest() -> None:
    """The second loop's one group is busy all the time: the timer for the others is armed as they come there."""
    fn = KeyedProcessor()
    groups = groups_of(fn, idle_timeout=10, max_queue_time=0)

    async def first(loop: WatchedLoop) -> None:
        await groups.process("a1")

    async def second(loop: WatchedLoop) -> None:
        fn.hold()
        caller = asyncio.ensure_future(groups.process("b1"))
        await asyncio.sleep(10.01)
        assert alive(groups) == ["b"]
        fn.release()
        await caller
        await groups.stop()

    on_watched_loop(first)
    on_watched_loop(second)


def test_order_of_rest_outlives_its_loop() -> None:
    """Who rested for longest on the first loop makes room on the second."""
    groups = groups_of(KeyedProcessor(), max_groups=2, max_queue_time=0)

    async def first(loop: WatchedLoop) -> None:
        for item in ("a1", "b1", "a2"):
            await groups.process(item)

    async def second(loop: WatchedLoop) -> None:
        await groups.process("c1")
        assert alive(groups) == ["a", "c"]
        await groups.process("a3")
        await groups.process("d1")
        assert alive(groups) == ["a", "d"]
        await groups.stop()

    on_watched_loop(first)
    on_watched_loop(second)


def test_timer_of_an_earlier_loop_lets_nobody_go() -> None:
    """It rings when its loop runs on, and the groups are at home elsewhere."""
    fn = KeyedProcessor()
    groups = groups_of(fn, idle_timeout=10, max_queue_time=0)
    first, second = WatchedLoop(), WatchedLoop()
    try:
        first.run_until_complete(groups.process("a1"))
        second.run_until_complete(groups.process("b1"))
        first.run_until_complete(asyncio.sleep(50))
        assert alive(groups) == ["a", "b"]
        assert len(second.armed) == 1
        second.run_until_complete(asyncio.sleep(11))
        assert alive(groups) == []
        second.run_until_complete(groups.stop())
    finally:
        first.close()
        second.close()


def test_stop_from_a_second_loop_leaves_the_firsts_timer_to_ring_in_vain() -> None:
    """It is not touched from another loop; when it rings, it finds the groups stopped."""
    groups = groups_of(KeyedProcessor(), idle_timeout=10, max_queue_time=0)
    first, second = WatchedLoop(), WatchedLoop()
    try:
        first.run_until_complete(groups.process("a1"))
        second.run_until_complete(groups.stop())
        assert len(first.armed) == 1
        first.run_until_complete(asyncio.sleep(50))
        assert first.armed == []
        assert alive(groups) == ["a"]
        assert groups.stats().succeeded == 1
    finally:
        first.close()
        second.close()


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Complaints]:
    """Hear whatever is complained of."""
    heard = Complaints(caplog)
    monkeypatch.setattr(sys, "unraisablehook", heard.of_interpreter)
    with caplog.at_level(logging.DEBUG, logger="async_batcher"):
        yield heard


@pytest.mark.parametrize("tidy", [True, False], ids=["cancelled", "as they were"])
@pytest.mark.parametrize("thrown_away", ["before", "after"])
def test_groups_that_a_closed_loop_left_busy_make_room_on_the_next(
    tidy: bool, thrown_away: str, complaints: Complaints
) -> None:
    """Its work is written off: on the second loop every group is idle, makes room, and is let go in time."""
    fn = Holding()

    async def serve(key: int, items: list[int]) -> list[int]:
        return await fn(items)

    groups: BatcherGroups[int, int, int] = BatcherGroups(
        serve, group_key=lambda item: item % 10, max_groups=2, idle_timeout=10, max_batch_size=1
    )

    async def leave() -> list[asyncio.Task[int]]:
        tasks = [asyncio.ensure_future(groups.process(item)) for item in (1, 2, 11, 21)]
        await settle()
        assert (groups.stats().running, groups.stats().waiting) == (2, 2)
        return tasks

    with event_loop(complaints, tidy=tidy) as first:
        tasks = first.run_until_complete(leave())
    if thrown_away == "before":
        tasks.clear()
        gc.collect()
    fn.held = False

    async def second(loop: WatchedLoop) -> None:
        assert await groups.process(3) == 30
        assert len(alive(groups)) == 2
        assert await groups.process(4) == 40
        tasks.clear()
        gc.collect()
        assert alive(groups) == [3, 4]
        await asyncio.sleep(11)
        assert alive(groups) == []
        await groups.stop()
        assert loop.armed == []

    on_watched_loop(second)
    assert_nothing_left(groups.stats())
    assert groups.stats().accepted == 6
    assert groups.stats().succeeded == 2
    complaints.check_there_are_none()


@pytest.mark.parametrize("tidy", [True, False], ids=["cancelled", "as they were"])
def test_idle_groups_of_a_closed_loop_say_nothing(tidy: bool, complaints: Complaints) -> None:
    """G5: their timer went with the loop, and whoever throws the groups away hears nothing."""

    async def use(groups: Any) -> None:
        assert await groups.process("a1") == ("a", "a1")

    for _ in range(2):
        groups = groups_of(KeyedProcessor(), idle_timeout=10, max_queue_time=0)
        for _ in range(2):
            with event_loop(complaints, tidy=tidy) as loop:
                loop.run_until_complete(use(groups))
        assert alive(groups) == ["a"]
        del groups
    complaints.check_there_are_none()


def test_caller_thrown_away_after_its_batch_is_silent(complaints: Complaints) -> None:
    """The batch ended as the loop was closed: the group rests, and no timer is armed on a loop that is no more."""
    fn = Holding()

    async def serve(key: int, items: list[int]) -> list[int]:
        return await fn(items)

    groups: BatcherGroups[int, int, int] = BatcherGroups(
        serve, group_key=lambda item: 0, max_groups=1, idle_timeout=10, max_batch_size=1
    )

    async def leave() -> asyncio.Task[int]:
        task = asyncio.ensure_future(groups.process(1))
        await settle()
        return task

    with event_loop(complaints, tidy=False) as first:
        task = first.run_until_complete(leave())
    gc.collect()
    del task
    gc.collect()
    complaints.check_there_are_none()
    assert alive(groups) == [0]
