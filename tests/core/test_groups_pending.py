"""What waits in all groups together is bounded (contract, BatcherGroups, `max_pending`)."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from group_callers import calls_of
from keyed import Groups, KeyedProcessor, alive, groups_of, serve
from scenes import Caller, Scene, assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatcherStopped, QueueFull, TooManyGroups

pytestmark = pytest.mark.anyio


async def test_item_beyond_what_all_may_hold_is_refused() -> None:
    """The limit counts over all keys: a known key and a new one are refused alike, and told the way out."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=3, max_queue_time=1)
    async with enter_scene(groups, fn) as scene:
        accepted = await scene.process("a1", "b1", "a2")
        for refused in await scene.process("a3", "b2", "c1"):
            message = str(refused.failed(QueueFull))
            assert "3 items wait" in message
            assert "max_pending is 3" in message
        assert alive(groups) == ["a", "b"]
        await scene.end_of(*accepted)
        await settle()
        await serve(scene, "c2")
    assert (groups.stats().rejected, groups.stats().succeeded) == (3, 4)
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_limit_is_reached_exactly(limit: int) -> None:
    """Not one more, and not one less, also after some have left and come again."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=limit, max_queue_time=1, max_groups=None)
    async with enter_scene(groups, fn) as scene:
        for _ in range(3):
            callers = await scene.process(*(f"{key}" for key in "abcdefghij"))
            assert [caller.waits for caller in callers] == [True] * limit + [False] * (10 - limit)
            assert groups.stats().waiting == limit
            await scene.end_of(*callers)
            await settle()
    assert groups.stats().succeeded == 3 * limit


async def test_running_items_do_not_count() -> None:
    """`max_pending` is about what waits, as `max_queue_size` is."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_pending=1, max_batch_size=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        running = await scene.process("a1", "b1", "c1")
        (waiting,) = await scene.process("a2")
        (refused,) = await scene.process("b2")
        refused.failed(QueueFull)
        assert all(caller.waits for caller in (*running, waiting))
        fn.release()


Leave = Callable[[Scene[Groups], KeyedProcessor, Caller], Awaitable[None]]


async def cancels(scene: Scene[Groups], fn: KeyedProcessor, caller: Caller) -> None:
    caller.cancel()


async def withdraws(scene: Scene[Groups], fn: KeyedProcessor, caller: Caller) -> None:
    assert caller.result.withdraw() is True


async def runs(scene: Scene[Groups], fn: KeyedProcessor, caller: Caller) -> None:
    fn.release(0)


@pytest.mark.parametrize("leave", [cancels, withdraws, runs])
async def test_whatever_leaves_makes_room_for_one_more(leave: Leave) -> None:
    """At once, for any key, and for one only; room that was found used up before is found again."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_pending=2, max_batch_size=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        await scene.process("a1", "b1")
        call = scene.submit if leave is withdraws else scene.process
        waiting = [*await call("a2"), *await call("b2")]
        for refused in await scene.process("a3", "c1", "c2"):
            refused.failed(QueueFull)
        await leave(scene, fn, waiting[0])
        await settle()
        taken, refused = await scene.process("b3", "a4")
        assert taken.waits
        refused.failed(QueueFull)
        assert groups.stats().waiting == 2
        fn.release()
    assert_nothing_left(groups.stats())


async def test_caller_is_refused_though_its_own_queue_would_let_it_wait() -> None:
    """Whatever `on_full` says: a line is for a place in one queue, and nobody stands in line for another's."""
    fn = KeyedProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 2, "max_queue_time": 0, "on_full": "wait"}
    groups = groups_of(fn, max_pending=2, **options)
    async with enter_scene(groups, fn) as scene:
        await scene.process("a1", "b1")
        waiting = await scene.process("a2", "a3")
        for refused in await scene.process("a4", "b2"):
            refused.failed(QueueFull)
        fn.release()
        await scene.end_of(*waiting)
        assert [caller.result[1] for caller in waiting] == ["a2", "a3"]


async def test_those_in_line_do_not_count() -> None:
    """A crowd in one key's line takes nobody else's place; who leaves the line for the queue takes a freed one."""
    fn = KeyedProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "on_full": "wait"}
    groups = groups_of(fn, max_pending=2, **options)
    async with enter_scene(groups, fn) as scene:
        crowd = await scene.process(*(f"a{number}" for number in range(6)))
        assert (groups.stats().waiting, groups.stats().in_line) == (1, 4)
        others = await scene.process("b1", "b2")
        assert groups.stats().waiting == 2
        fn.release()
        await scene.end_of(*crowd, *others)
        assert [caller.result[1] for caller in others] == ["b1", "b2"]
    assert groups.stats().rejected == 0


async def test_those_who_share_a_place_count_once() -> None:
    """Rule 13: limits are of places; at the limit nobody comes in, as nobody knows who would share."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=2, max_queue_time=1, coalesce_key=lambda item: item)
    async with enter_scene(groups, fn) as scene:
        sharing = await scene.process(*["a1"] * 6)
        assert (groups.stats().waiting, groups.stats().rejected) == (6, 0)
        (other,) = await scene.process("b1")
        for refused in await scene.process("c1", "a1"):
            refused.failed(QueueFull)
        await scene.end_of(*sharing, other)
        assert [caller.result for caller in sharing] == [("a", "a1")] * 6
    assert sorted(fn.batches) == [["a", "a1"], ["b", "b1"]]


async def test_each_keys_own_limit_holds_beside() -> None:
    """`max_queue_size` of one key is reached first, and says so; what it refuses takes no room from others."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=4, max_queue_size=2, max_batch_size=None, max_queue_time=1)
    fn.hold()
    async with enter_scene(groups, fn) as scene:
        await scene.process("a1", "a2")
        await scene.process("a3", "a4")
        for refused in await scene.process("a5", "a6", "a7"):
            assert "max_queue_size" in str(refused.failed(QueueFull))
        taken = await scene.process("b1", "c1")
        (refused,) = await scene.process("d1")
        assert "max_pending" in str(refused.failed(QueueFull))
        assert all(caller.waits for caller in taken)
        fn.release()
    assert_nothing_left(groups.stats())


async def test_refused_item_makes_no_group_and_lets_none_go() -> None:
    """Neither makes a group nor takes an idle one's room: nothing but a count changes."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=1, max_groups=2, max_queue_time=1)
    async with enter_scene(groups, fn) as scene:
        await serve(scene, "a1", "b1")
        (waiting,) = await scene.process("a2")
        for refused in await scene.process("c1", "b2"):
            refused.failed(QueueFull)
        assert alive(groups) == ["a", "b"]
        await waiting.end()
        await settle()
        await serve(scene, "c2")
        assert alive(groups) == ["a", "c"], "a refused item is no use of its key"


async def test_refused_key_takes_no_room() -> None:
    """Too many groups, a key that is none: what was refused otherwise counts as nothing that waits."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=2, max_groups=1, max_queue_time=1)
    async with enter_scene(groups, fn) as scene:
        await scene.process("a1")
        for refused in await scene.process("b1", "c1", "d1"):
            refused.failed(TooManyGroups)
        waiting, refused = await scene.process("a2", "a3")
        assert waiting.waits
        refused.failed(QueueFull)


async def test_group_that_was_let_go_holds_no_room() -> None:
    """It was counted when it was full, and is gone before anybody counts again: all the room is there."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=2, max_queue_time=1, idle_timeout=5)
    async with enter_scene(groups, fn) as scene:
        for _ in range(3):
            callers = await scene.process("a1", "a2", "a3")
            callers[2].failed(QueueFull)
            await anyio.sleep(10)
            assert alive(groups) == []
        callers = await scene.process("b1", "c1", "d1")
        assert [caller.waits for caller in callers] == [True, True, False]
    assert groups.stats().rejected == 4


async def test_forced_stop_settles_all_that_wait() -> None:
    """And afterwards nothing is counted as waiting; the refusal then is the stop's."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=2, max_queue_time=60)
    async with enter_scene(groups, fn) as scene:
        waiting = await scene.process("a1", "b1")
        await groups.stop(force=True)
        await settle()
        (late,) = await scene.process("c1")
        for caller in (*waiting, late):
            assert caller.failed(BatcherStopped).withdrawn is True
        assert groups.stats().waiting == 0


@pytest.mark.parametrize("full", [False, True], ids=["with room", "at the limit"])
async def test_check_costs_an_item_the_same_however_many_groups_there_are(full: bool) -> None:
    """Nobody looks through the groups, for those who come in nor for those who are refused: 200 cost no more than 2."""
    costs = []
    for keys in (2, 200):
        fn = KeyedProcessor()
        groups = groups_of(
            fn,
            group_key=lambda item: item.split(":")[0],
            max_groups=None,
            max_pending=keys if full else 100_000,
            max_queue_size=None,
            max_batch_size=None,
            max_queue_time=60,
        )
        async with enter_scene(groups, fn):
            await calls_of(groups, [f"{number}:" for number in range(keys)])
            assert groups.stats().accepted == keys
            items = [f"{number % keys}:{number}" for number in range(1000)]
            await calls_of(groups, items[:1])
            costs.append(await calls_of(groups, items))
            assert groups.stats().rejected == (1001 if full else 0)
            await groups.stop(force=True)
    assert costs[1] <= costs[0] * 1.1


async def test_limit_holds_over_time() -> None:
    """Keys that come and go for a minute: at every moment at most so many wait, and none is refused below it."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_pending=5, max_groups=None, max_batch_size=4, max_queue_time=0.5)
    async with enter_scene(groups, fn) as scene:
        for number in range(240):
            waiting = groups.stats().waiting
            (caller,) = await scene.process(f"{'abcdefg'[number * 5 % 7]}{number}")
            assert groups.stats().waiting <= 5
            if waiting < 5:
                assert caller.error is None
            else:
                caller.failed(QueueFull)
            await anyio.sleep(0.03 * (number % 5))
    assert groups.stats().rejected > 10
    assert_nothing_left(groups.stats())
