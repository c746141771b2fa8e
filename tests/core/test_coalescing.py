"""Callers whose items are equal share one place in the batch, and each keeps its own wait."""

from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor, raises
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import BatcherStopped, BatchEvent, ItemExpired, QueueFull

pytestmark = pytest.mark.anyio


def key(item: Any) -> Any:
    return item if isinstance(item, str) else None


def objects(batch: list[Any]) -> list[Any]:
    return [[item] for item in batch]


async def test_equal_items_take_one_place_and_share_the_very_result() -> None:
    """The processor sees each once; who shares it gets the same object."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=1, on_batch=events.append) as scene:
        one, two, other, three = await scene.process("a", "a", "b", "a")
        await scene.end_of(one)
        assert one.result is two.result is three.result
        assert other.result == ["b"]
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.succeeded) == (4, 4)
    assert fn.batches == [["a", "b"]]
    assert [(event.size, event.succeeded, event.abandoned) for event in events] == [(2, 4, 0)]


async def test_key_of_none_is_not_shared() -> None:
    """Equal items with no key stay apart."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key) as scene:
        one, two = await scene.process(7, 7)
        await scene.end_of(one, two)
        assert one.result is not two.result
    assert fn.batches == [[7, 7]]


async def test_nothing_is_remembered_once_the_batch_has_left() -> None:
    """No cache: an equal item that comes while it runs is processed again."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=0) as scene:
        fn.hold()
        await scene.process("a")
        await scene.process("a", "a")
        fn.release()
    assert fn.batches == [["a"], ["a"]]


@pytest.mark.parametrize("leaving", [0, 1, 2])
async def test_one_of_those_who_share_may_leave(leaving: int) -> None:
    """The others are served, whoever came first."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=1) as scene:
        callers = await scene.process("a", "a", "a")
        callers[leaving].cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.waiting, stats.withdrawn) == (2, 1)
        assert_counts_add_up(stats)
        await scene.end_of(*callers)
        assert [caller.was_cancelled for caller in callers] == [place == leaving for place in range(3)]
    assert fn.batches == [["a"]]


async def test_item_leaves_when_all_who_share_it_have_left() -> None:
    """The processor never sees it, its place is free, and the key can be used again."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=1, max_queue_size=2) as scene:
        callers = await scene.process("a", "a")
        for caller in callers:
            caller.cancel()
        await settle()
        assert scene.batcher.stats().waiting == 0
        again = (await scene.process("a"))[0]
        await scene.end_of(again)
        assert again.result == ["a"]
    assert fn.batches == [["a"]]


async def test_caller_that_leaves_a_running_batch_does_not_touch_those_who_share_its_place() -> None:
    """Its result is dropped for this caller alone."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=0, on_batch=events.append) as scene:
        fn.hold()
        await scene.process("first")
        callers = await scene.process("a", "a")
        fn.release(0)
        await settle()
        callers[0].cancel()
        await settle()
        assert scene.batcher.stats().abandoned == 1
        fn.release()
        await scene.end_of(*callers)
        assert callers[1].result == ["a"]
    assert [(event.size, event.succeeded, event.abandoned) for event in events] == [(1, 1, 0), (1, 1, 1)]


async def test_limits_are_of_places() -> None:
    """Sharers fill neither the queue nor the batch; a full queue takes who needs no place of its own."""
    fn = RecordingProcessor(objects)
    async with open_scene(
        fn, coalesce_key=key, max_queue_time=0, max_batch_size=2, max_queue_size=2
    ) as scene:
        fn.hold()
        await scene.process("first")
        await scene.process("a", "a", "b", "b")
        (full,) = await scene.process("c")
        full.failed(QueueFull)
        await scene.process("a")
        assert scene.batcher.stats().waiting == 5
        fn.release()
    assert fn.batches == [["first"], ["a", "b"]]


async def test_who_stands_in_line_shares_when_its_turn_comes() -> None:
    """Equal items in line take one place between them."""
    fn = RecordingProcessor(objects)
    async with open_scene(
        fn, coalesce_key=key, max_queue_time=0, max_batch_size=1, max_queue_size=1, on_full="wait"
    ) as scene:
        fn.hold()
        await scene.process("first", "second")
        callers = await scene.process("a", "a", "b")
        assert scene.batcher.stats().in_line == 3
        fn.release(0)
        await settle()
        assert (scene.batcher.stats().waiting, scene.batcher.stats().in_line) == (2, 1)
        fn.release()
        await scene.end_of(*callers)
        assert callers[0].result is callers[1].result
    assert fn.batches == [["first"], ["second"], ["a"], ["b"]]


async def test_each_who_shares_gets_its_own_copy_of_an_error() -> None:
    """Notes of one do not reach the other."""
    fn = RecordingProcessor(objects, raises(ValueError("bad")))
    async with open_scene(fn, coalesce_key=key) as scene:
        one, two = await scene.process("a", "a")
        await scene.end_of(one, two)
        assert one.failed(ValueError) is not two.failed(ValueError)


async def test_each_who_shares_expires_by_itself() -> None:
    """Two callers of one place with other patience: the first to expire leaves the other in its place."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=0) as scene:
        fn.hold()
        await scene.process("first")
        short = scene.start(partial(scene.batcher.process, "a", expires_after=1))
        await settle()
        long = scene.start(partial(scene.batcher.process, "a", expires_after=5))
        await settle()
        await anyio.sleep(2)
        short.failed(ItemExpired)
        assert long.waits
        assert scene.batcher.stats().expired == 1
        fn.release()
        await scene.end_of(long)
        assert long.result == ["a"]
    assert fn.batches == [["first"], ["a"]]


async def test_forced_stop_tells_all_who_share() -> None:
    """Those that wait were withdrawn, those that run were not."""
    fn = RecordingProcessor(objects)
    async with open_scene(fn, coalesce_key=key, max_queue_time=0) as scene:
        fn.hold()
        await scene.process("first")
        waiting = await scene.process("a", "a")
        fn.release(0)
        await settle()
        more = await scene.process("b", "b")
        await scene.batcher.stop(force=True)
        await settle()
        assert [caller.failed(BatcherStopped).withdrawn for caller in (*waiting, *more)] == [
            False,
            False,
            True,
            True,
        ]
        assert scene.batcher.stats().stopped == 4


@pytest.mark.parametrize("bad", [[], {}, {1}])
async def test_key_that_can_not_be_hashed_reaches_its_caller_alone(bad: Any) -> None:
    """It says what to return instead."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(fn, coalesce_key=lambda item: item) as scene:
        wrong, right = await scene.process(bad, "a")
        assert "coalesce_key returned a" in str(wrong.failed(TypeError))
        await scene.end_of(right)
        assert right.result == "a"


class Quarrelsome:
    """A key that raises when it is compared, as soon as it is told to."""

    raises = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if Quarrelsome.raises:
            raise RuntimeError("no comparison, please")
        return isinstance(other, Quarrelsome) and self.name == other.name


async def test_key_that_raises_when_it_is_compared_breaks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its caller comes in it is told; later nobody else's batch may suffer from it."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(
        fn, coalesce_key=Quarrelsome, max_queue_time=0, max_queue_size=2, max_batch_size=2, on_full="wait"
    ) as scene:
        fn.hold()
        callers = await scene.process("first", "a", "b", "c", "d")
        monkeypatch.setattr(Quarrelsome, "raises", True)
        fn.release()
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == ["first", "a", "b", "c", "d"]
    assert fn.seen == ["first", "a", "b", "c", "d"]


async def test_shared_place_may_top_up_a_batch_of_unshared_ones() -> None:
    """Who shares it is found, told and counted where it went."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(fn, coalesce_key=key, max_queue_time=0, max_batch_size=2) as scene:
        fn.hold()
        await scene.process(0)
        leaving, staying = await scene.process(1, 2)
        shared = await scene.process("a", "a")
        leaving.cancel()
        await settle()
        shared[0].cancel()
        await settle()
        fn.release()
        await scene.end_of(staying, *shared)
        assert (staying.result, shared[1].result) == (2, "a")
    assert fn.batches == [[0], [2, "a"]]


async def test_key_that_cannot_be_compared_as_its_caller_leaves_breaks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It leaves; who waits is served, and may only be shared no further."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(fn, coalesce_key=Quarrelsome, max_queue_time=0, max_batch_size=8) as scene:
        fn.hold()
        await scene.process("first")
        one, two, three = await scene.process("a", "b", "c")
        monkeypatch.setattr(Quarrelsome, "raises", True)
        two.cancel()
        await settle()
        monkeypatch.setattr(Quarrelsome, "raises", False)
        (again,) = await scene.process("a")
        fn.release()
        await scene.end_of(one, two, three, again)
        assert [caller.result for caller in (one, three, again)] == ["a", "c", "a"]
    assert fn.batches == [["first"], ["a", "c", "a"]]
