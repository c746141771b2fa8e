"""What outlives a group that made room, and what does not: counts, submissions, state (contract, BatcherGroups; M1)."""

import gc
import weakref
from functools import partial
from typing import Any

import anyio
import pytest
import sniffio
from group_callers import library_objects
from keyed import Groups, KeyedProcessor, alive, groups_of, serve
from recording import raises
from scenes import Scene, assert_counts_add_up, assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import BatcherGroups, BatchEvent

pytestmark = pytest.mark.anyio


async def test_every_count_outlives_its_group() -> None:
    """Whatever was counted in a group that made room is counted still, each in its place."""
    fn = KeyedProcessor(raises(ValueError("ill")), lambda batch: [LookupError("one"), 0])
    fn.hold()
    options = {"max_batch_size": 2, "max_queue_size": 2, "max_queue_time": 60}
    groups = groups_of(fn, max_groups=1, **options)
    async with enter_scene(groups, fn) as scene:
        callers = await scene.process("a1", "a2", "a3", "a4", "a5")
        callers[0].cancel()
        fn.release(0)
        await settle()
        fn.release()
        await settle()
        third = await groups.submit("a6")
        assert third.withdraw() is True
        before = groups.stats()
        await serve_two(scene, "b1", "b2")
        assert alive(groups) == ["b"]
        after = groups.stats()
    assert (before.abandoned, before.failed, before.succeeded) == (1, 2, 1)
    assert (before.withdrawn, before.rejected, before.batches, before.accepted) == (1, 1, 2, 5)
    assert (after.abandoned, after.failed, after.succeeded) == (1, 2, 3)
    assert (after.withdrawn, after.rejected, after.batches, after.accepted) == (1, 1, 3, 7)
    assert_nothing_left(after)


async def serve_two(scene: Scene[Groups], *items: str) -> None:
    callers = await scene.process(*items)
    await scene.end_of(*callers)
    assert [caller.result[1] for caller in callers] == list(items)


@pytest.mark.backends("asyncio")
async def test_group_whose_counts_are_not_final_is_passed_over() -> None:
    """Its caller has yet to leave; the next that is idle makes room in its place."""
    fn = KeyedProcessor()
    fn.hold()
    groups = groups_of(fn, max_groups=2, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        caller, _ = await scene.process("a1", "b1")
        fn.release()
        newcomer = scene.start_process("c1")
        caller.cancel_task()
        await newcomer.end()
        assert newcomer.result == ("c", "c1")
        assert alive(groups) == ["a", "c"]
        await settle()
        await serve(scene, "d1")
        assert alive(groups) == ["c", "d"]
    assert groups.stats().abandoned == 1
    assert_nothing_left(groups.stats())


@pytest.mark.parametrize("comes", ["before it leaves", "as its batch ends"])
async def test_caller_who_has_yet_to_leave_is_counted_once(comes: str) -> None:
    """Cancelled as its batch ends, its task has still to run: until it has, the counts of the group are not final."""
    fn = KeyedProcessor()
    fn.hold()
    newcomers: list[Any] = []

    def on_batch(_: BatchEvent) -> None:
        if comes == "as its batch ends" and not newcomers:
            newcomers.append(scene.start_process("b1"))

    groups = groups_of(fn, max_groups=1, max_queue_time=0, on_batch=on_batch)
    async with enter_scene(groups, fn) as scene:
        (caller,) = await scene.process("a1")
        fn.release()
        if comes == "before it leaves":
            newcomers.append(scene.start_process("b1"))
        caller.cancel_task()
        for _ in range(10):
            assert_counts_add_up(groups.stats())
            await anyio.lowlevel.checkpoint()
        await settle()
        assert not newcomers[0].waits
        await serve(scene, "c1")
    assert_nothing_left(groups.stats())
    assert groups.stats().abandoned + groups.stats().succeeded + groups.stats().rejected >= 3


async def ends_somehow(groups: Groups, number: int) -> str:
    """Send one item under a key of its own, and say how it ended."""
    match number % 8:
        case 0:
            assert await groups.process(number) == number
            return "succeeded"
        case 1:
            with pytest.raises(LookupError):
                await groups.process(number)
            return "failed"
        case _:
            assert (await groups.submit(number)).withdraw() is True
            return "withdrawn"


async def test_state_does_not_grow_with_the_keys_that_ever_came() -> None:
    """M1: 10,000 keys against a limit of four: four at most alive, every count exact, nothing kept."""
    keys = 10_000 if sniffio.current_async_library() == "asyncio" else 1_000

    async def fn(key: int, items: list[int]) -> list[Any]:
        return [LookupError(item) if item % 8 == 1 else item for item in items]

    groups: Groups = BatcherGroups(fn, group_key=lambda item: item, max_groups=4, max_pending=keys * 2)
    ends, sizes = {"withdrawn": 0, "failed": 0, "succeeded": 0}, []
    async with groups:
        for number in range(keys):
            ends[await ends_somehow(groups, number)] += 1
            assert len(alive(groups)) <= 4
            if number % (keys // 4) == keys // 4 - 1:
                await settle()
                sizes.append(library_objects())
        stats = groups.stats()
    assert {name: getattr(stats, name) for name in ends} == ends
    assert (stats.accepted, stats.batches, stats.rejected) == (keys, keys // 4, 0)
    assert sizes[-1] <= sizes[0]
    assert_nothing_left(groups.stats())


async def test_group_that_is_gone_is_kept_by_nobody() -> None:
    """Nor by those who hear late of what became of their items, nor by a circle that waits for the collector."""
    fn = KeyedProcessor(lambda batch: [LookupError(item) for item in batch[1:]])
    seen: list[weakref.ref[Any]] = []

    def on_batch(_: BatchEvent) -> None:
        if seen:
            return
        seen.extend(weakref.ref(group.runner) for group in groups._roster.alive.values())
        newcomer = groups.submit("b1")  # before the callers of the batch that has ended hear of it
        with pytest.raises(StopIteration):
            newcomer.send(None)

    groups = groups_of(fn, max_groups=1, max_queue_time=0, max_pending=100, on_batch=on_batch)
    gc.collect()
    gc.disable()
    try:
        async with enter_scene(groups, fn) as scene:
            (caller,) = await scene.process("a1")
            caller.failed(LookupError)
            assert alive(groups) == ["b"]
            caller.error = None  # its frames have its caller, and the caller has it
            await settle()
            assert [runner() for runner in seen] == [None]
    finally:
        gc.enable()


async def test_awaited_later_a_submission_of_a_gone_group_has_its_outcome() -> None:
    """Result, error, withdrawal: each stands, whether its key is gone or lives again in another batcher."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_groups=1, max_queue_time=0)
    async with enter_scene(groups, fn) as scene:
        served = await groups.submit("a1")
        await settle()
        fn.script.append(raises(ValueError("ill")))
        failed = await groups.submit("a2")
        await settle()
        withdrawn = await groups.submit("a3")
        assert withdrawn.withdraw() is True
        await settle()
        for item in ("b1", "a4"):
            await serve(scene, item)
            before = groups.stats()
            for _ in range(2):
                assert await served == ("a", "a1")
                assert served.withdraw() is False
                with pytest.raises(ValueError, match="ill"):
                    await failed
                assert withdrawn.withdraw() is True
            await settle()
            assert groups.stats() == before
            assert len(alive(groups)) == 1
        await serve(scene, "c1", "a5")
    assert_nothing_left(groups.stats())
    assert groups.stats().accepted == 7


async def test_cancelled_await_of_a_gone_groups_submission_changes_nothing() -> None:
    """The result is there already: leaving takes nothing back, and counts nothing twice."""
    fn = KeyedProcessor()
    groups = groups_of(fn, max_groups=1, max_queue_time=0)

    async def awaits(submission: Any) -> Any:
        return await submission

    async with enter_scene(groups, fn) as scene:
        submission = await groups.submit("a1")
        await settle()
        await serve(scene, "b1")
        before = groups.stats()
        caller = scene.start(partial(awaits, submission))
        caller.cancel()
        await settle()
        assert not caller.waits
        assert groups.stats() == before
        assert await submission == ("a", "a1")
