"""Keyed batchers: no batch mixes keys, no key harms another (contract, BatcherGroups; M3 to M5)."""

import functools
import math
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from keyed import Groups, KeyedProcessor, groups_of
from recording import raises
from scenes import assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatcherGroups, ItemExpired, QueueFull, Submission, TooManyGroups

pytestmark = pytest.mark.anyio


async def test_no_batch_mixes_keys() -> None:
    """M3: a, b, a, b: each key's items in its own batch, each result to the right caller."""
    fn = KeyedProcessor()
    groups = groups_of(fn)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "b1", "a2", "b2")
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == [("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2")]
    assert sorted(fn.batches) == [["a", "a1", "a2"], ["b", "b1", "b2"]]
    assert_nothing_left(groups.stats())
    assert groups.stats().succeeded == 4


async def test_keys_run_side_by_side() -> None:
    """A key that is slow holds up no other."""
    fn = KeyedProcessor()
    fn.hold()
    async with enter_scene(groups_of(fn, max_queue_time=0), fn) as scene:
        slow, fast = await scene.process("a1", "b1")
        fn.release(1)
        await settle()
        assert fast.result == ("b", "b1")
        assert slow.waits
        fn.release()


async def test_failure_of_a_key_is_its_own_and_passes() -> None:
    """M5: the other key is not affected, and the next item of the same key works."""
    fn = KeyedProcessor(raises(ValueError("a is ill")))
    groups = groups_of(fn, max_batch_size=2)
    async with enter_scene(groups, fn) as scene:
        failed = await scene.process("a1", "a2")
        healthy = await scene.process("b1", "b2", "a3", "a4")
        for caller in failed:
            caller.failed(ValueError)
        assert [caller.result[1] for caller in healthy] == ["b1", "b2", "a3", "a4"]
    assert (groups.stats().failed, groups.stats().succeeded) == (2, 4)


async def test_limits_are_each_keys_own() -> None:
    """`max_queue_size` and `concurrency` count for each key by itself."""
    fn = KeyedProcessor()
    fn.hold()
    options = {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0}
    groups = groups_of(fn, **options)
    async with enter_scene(groups, fn) as scene:
        a = await scene.process("a1", "a2", "a3")
        b = await scene.process("b1", "b2")
        a[2].failed(QueueFull)
        assert all(caller.waits for caller in (*a[:2], *b))
        assert groups.stats().rejected == 1
        fn.release()
    assert groups.stats().succeeded == 4


async def test_one_more_key_than_allowed_is_refused() -> None:
    """M1: over the limit a clear `TooManyGroups`; those that exist go on."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_groups=2, max_batch_size=1)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "b1", "c1", "a2")
        assert "max_groups" in str(callers[2].failed(TooManyGroups))
        assert "2" in str(callers[2].failed(TooManyGroups))
        fn.release()
    assert "c1" not in [item for batch in fn.batches for item in batch]
    assert groups.stats().rejected == 1
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize(
    ("group_key", "kind"),
    [
        (lambda item: [item], TypeError),
        (lambda item: {item}, TypeError),
        (lambda item: item["missing"], TypeError),
        (lambda item: 1 / 0, ZeroDivisionError),
        (lambda item: next(iter([])), (RuntimeError, StopIteration)),
    ],
    ids=["list", "set", "TypeError", "ZeroDivisionError", "StopIteration"],
)
async def test_bad_key_is_told_to_its_caller_alone(group_key: Any, kind: Any) -> None:
    """M4, F2: unhashable or raising: its caller hears it, no half-made child is left, others are served."""
    fn = KeyedProcessor()

    def key_of(item: str) -> Hashable:
        key: Hashable = group_key(item) if item.startswith("bad") else item[0]
        return key

    groups = groups_of(fn, group_key=key_of, max_groups=1)
    async with enter_scene(groups, fn) as scene:
        bad, good, bad_again = await scene.process("bad", "a1", "bad")
        await good.end()
        assert isinstance(bad.error, kind)
        assert isinstance(bad_again.error, kind)
        assert good.result == ("a", "a1")
    assert groups.stats().accepted == 1


async def test_unhashable_key_is_told_what_to_return() -> None:
    """The message says what was found and the way out, and no payload."""
    groups = groups_of(KeyedProcessor(), group_key=lambda item: [item])
    async with enter_scene(groups) as scene:
        (caller,) = await scene.process("secret")
        message = str(caller.failed(TypeError))
        assert "returned a list that can't be a key" in message
        assert "tuple" in message
        assert "secret" not in message


async def test_key_that_is_not_equal_to_itself_makes_no_endless_children() -> None:
    """M4: NaN as a key, which no look-up would ever find again: a `TypeError` to its caller."""
    fn = KeyedProcessor()
    groups = groups_of(fn, group_key=lambda item: math.nan if item % 2 else float("nan"), max_groups=None)
    async with enter_scene(groups, fn) as scene:
        for caller in await scene.process(*range(6)):
            caller.failed(TypeError)
    assert fn.batches == []
    assert groups.stats().accepted == 0


async def test_submit_and_withdraw_work_by_key() -> None:
    """`submit` gives the same submission as a batcher's."""
    fn = KeyedProcessor()
    groups = groups_of(fn)
    async with groups:
        stays, leaves = await groups.submit("a1"), await groups.submit("a2")
        assert isinstance(stays, Submission)
        assert leaves.withdraw() is True
        assert await stays == ("a", "a1")
    assert fn.batches == [["a", "a1"]]
    assert groups.stats().withdrawn == 1


async def test_cancelled_caller_of_a_group_leaves_it_alone() -> None:
    """A1, M3: leaving works in every child as in one batcher."""
    fn = KeyedProcessor()
    groups = groups_of(fn)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "a2", "b1")
        callers[0].cancel()
        callers[2].cancel()
        await callers[1].end()
    assert fn.batches == [["a", "a2"]]
    assert groups.stats().withdrawn == 2


async def test_slots_of_the_backend_are_shared_by_all_keys() -> None:
    """D4: one slot for all: never two calls at once, and the slot is given back after a failure too."""
    fn = KeyedProcessor(raises(ValueError("no")))
    groups = groups_of(fn, backend_slots=anyio.Semaphore(1), max_batch_size=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "b1", "c1", "a2")
        await scene.end_of(*callers)
        callers[0].failed(ValueError)
    assert fn.most_at_once == 1
    assert groups.stats().succeeded == 3


async def test_burst_of_one_key_does_not_starve_another() -> None:
    """D4: a has 64 waiting; b waits for at most `concurrency` batches of a."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, backend_slots=anyio.Semaphore(1), max_batch_size=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        for number in range(64):
            await groups.submit(f"a{number}")
        (b,) = await scene.process("b1")
        for number in range(3):
            if b.waits:
                fn.release(number)
            await settle()
        assert b.result == ("b", "b1")
        fn.release()


async def test_items_that_wait_for_a_slot_can_still_leave() -> None:
    """Rule 2: until it holds the backend's slot a batch is not taken: its items wait, count and may leave."""
    slots = anyio.Semaphore(1)
    fn = KeyedProcessor()
    groups = groups_of(fn, backend_slots=slots, max_batch_size=8, max_queue_time=0)
    await slots.acquire()
    async with enter_scene(groups, fn) as scene:
        one, two = await scene.process("a1", "a2")
        assert groups.stats().waiting == 2
        one.cancel()
        await settle()
        (three,) = await scene.process("a3")
        assert (groups.stats().withdrawn, groups.stats().waiting) == (1, 2)
        slots.release()
        await scene.end_of(two, three)
    assert fn.batches == [["a", "a2", "a3"]]
    assert slots.value == 1


async def test_items_of_groups_expire_as_in_one_batcher() -> None:
    """By the option, and by each call's own, of `process` and of `submit`; the group is idle then."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, expires_after=3, max_batch_size=1, max_queue_time=0, max_groups=1)
    async with enter_scene(groups, fn) as scene:
        running, by_option = await scene.process("a1", "a2")
        by_process = scene.start(functools.partial(groups.process, "a3", expires_after=1))
        by_submit = await groups.submit("a4", expires_after=2)
        await anyio.sleep(1)
        await settle()
        by_process.failed(ItemExpired)
        assert by_option.waits
        with pytest.raises(ItemExpired):
            await by_submit
        assert anyio.current_time() == pytest.approx(2)
        await by_option.end()
        by_option.failed(ItemExpired)
        assert anyio.current_time() == pytest.approx(3)
        fn.release()
        await running.end()
    assert groups.stats().expired == 3
    assert_nothing_left(groups.stats())


async def test_items_are_weighed_shared_and_split_by_key() -> None:
    """The options of `AsyncBatcher` hold for each key by itself: equal items of two keys are not one."""

    def answer(batch: Any) -> Any:
        if "x" in batch:
            raise ValueError(batch)
        return batch[1:]

    async def serve(key: str, items: list[str]) -> Any:
        return await fn.serve(key, [item[1:] for item in items])

    fn = KeyedProcessor(*[answer] * 10)
    groups: Groups = BatcherGroups(
        serve,
        group_key=lambda item: item[0],
        max_groups=2,
        coalesce_key=lambda item: item[1:],
        weigh=len,
        max_batch_weight=7,
        split_on=ValueError,
    )
    items = ("a1", "b1", "a1", "a22", "b1", "ax", "b333", "b4444")
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process(*items)
        await scene.end_of(*callers)
        for item, caller in zip(items, callers, strict=True):
            if item == "ax":
                caller.failed(ValueError)
            else:
                assert caller.result == item[1:]
    assert ["a", "1", "22", "x"] in fn.batches
    assert [batch for batch in fn.batches if batch[0] == "b"] == [["b", "1", "333"], ["b", "4444"]]


@pytest.mark.real_time
async def test_sync_processor_of_groups_runs_in_the_given_executor() -> None:
    """`executor` is shared by the children."""

    def sync(key: str, items: list[str]) -> list[str]:
        return [f"{key}{item}" for item in items]

    with ThreadPoolExecutor(1) as pool:
        groups: Groups = BatcherGroups(sync, group_key=lambda item: item[0], max_groups=2, executor=pool)
        async with groups:
            assert await groups.process("a1") == "aa1"
            assert await groups.process("b1") == "bb1"


async def processor(key: Any, items: list[Any]) -> list[Any]:
    return items


async def async_key(item: Any) -> Any:
    return item


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"max_groups": 0}, "max_groups"),
        ({"max_groups": -1}, "max_groups"),
        ({"max_groups": True}, "max_groups"),
        ({"max_groups": 2.0}, "max_groups"),
        ({"max_groups": "4"}, "max_groups"),
        ({"max_pending": 0}, "max_pending"),
        ({"max_pending": True}, "max_pending"),
        ({"max_pending": 1.5}, "max_pending"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"idle_timeout": "1"}, "idle_timeout"),
        ({"group_key": 3}, "group_key"),
        ({"group_key": None}, "group_key"),
        ({"group_key": async_key}, "group_key"),
        ({"group_key": functools.partial(async_key)}, "group_key"),
        ({"backend_slots": 3}, "backend_slots"),
        ({"backend_slots": object()}, "backend_slots"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"max_batchsize": 1}, "max_batchsize"),
        ({"enqueue_timeout": 1}, "enqueue_timeout"),
        ({"processor": None}, "processor"),
    ],
)
def test_bad_option_of_groups_is_refused_when_built(options: dict[str, Any], names: str) -> None:
    """The children's options too: with the groups, and not with the first item of a key."""
    good: dict[str, Any] = {"processor": processor, "group_key": lambda item: item, "max_groups": 4}
    with pytest.raises((TypeError, ValueError), match=names):
        BatcherGroups(**(good | options))
