"""`process_many` and `map` beside the options of one item: its weight, its key, its age, and a batch that is split."""

from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor, ten_times
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import ItemExpired, ItemTooHeavy

pytestmark = pytest.mark.anyio


async def test_item_that_is_too_heavy_is_its_own_error() -> None:
    """The others are processed, in batches that are never too heavy, and in order."""
    fn = RecordingProcessor()
    async with open_scene(fn, weigh=int, max_batch_weight=10, max_batch_size=8) as scene:
        results = await scene.batcher.process_many([4, 5, 11, 6, 3, 9], return_exceptions=True)
        assert isinstance(results[2], ItemTooHeavy)
        assert results[:2] + results[3:] == [40, 50, 60, 30, 90]
        assert_counts_add_up(scene.batcher.stats())
    assert fn.batches == [[4, 5], [6, 3], [9]]


async def test_item_that_cannot_be_weighed_is_its_own_error() -> None:
    """What `weigh` raises is that item's, in the group and by a note; a map goes on after it."""
    items: list[Any] = [1, "two", 3]
    async with open_scene(RecordingProcessor(), weigh=int, max_batch_size=2) as scene:
        with pytest.raises(ExceptionGroup) as caught:
            await scene.batcher.process_many(items)
        (error,) = caught.value.exceptions
        assert isinstance(error, ValueError)
        assert error.__notes__ == ["item 1 of process_many, from 0"]
        async with scene.batcher.map(items) as results:
            assert await anext(results) == 10
            with pytest.raises(ValueError, match="two"):
                await anext(results)
            assert [result async for result in results] == [30]


async def test_weigh_that_ends_the_program_ends_the_job() -> None:
    """It is no item's error: it goes on, and what waits is withdrawn."""

    def weigh(item: int) -> float:
        if item == 3:
            raise KeyboardInterrupt
        return 1

    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, weigh=weigh, max_batch_size=8) as scene:
        with pytest.raises(KeyboardInterrupt):
            await scene.batcher.process_many(range(5))
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.withdrawn, stats.waiting) == (3, 3, 0)
        fn.release()
    assert fn.seen == []


async def test_equal_items_of_a_list_share_a_place() -> None:
    """Each has its own result, the very object, and the processor sees the item once."""
    fn = RecordingProcessor(lambda batch: [[item] for item in batch])
    async with open_scene(fn, coalesce_key=str, max_batch_size=3) as scene:
        results = await scene.batcher.process_many([1, 2, 1, 1, 3])
        assert results == [[1], [2], [1], [1], [3]]
        assert results[0] is results[2] is results[3]
        assert scene.batcher.stats().succeeded == 5
    assert fn.batches == [[1, 2, 3]]


async def test_list_that_is_cancelled_leaves_shared_places_to_the_others() -> None:
    """Another caller of an equal item is served all the same."""
    fn = RecordingProcessor()
    async with open_scene(fn, coalesce_key=str, max_batch_size=8, max_queue_time=5) as scene:
        many = scene.start(partial(scene.batcher.process_many, [1, 2, 1]))
        await settle()
        (other,) = await scene.process(1)
        many.cancel()
        await other.end()
        assert other.result == 10
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.succeeded) == (3, 1)
    assert fn.batches == [[1]]


async def test_items_expire_from_when_they_are_handed_over() -> None:
    """Not from the call of `process_many`: what is sent later is younger. Each that expires is its own error."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, expires_after=3, max_batch_size=1, max_queue_time=0) as scene:
        many = scene.start(
            partial(scene.batcher.process_many, range(4), max_pending=2, return_exceptions=True)
        )
        await anyio.sleep(2)
        fn.release(0)  # 1 runs, 2 is sent at 2 s
        await anyio.sleep(2)
        assert scene.batcher.stats().expired == 0
        await anyio.sleep(1.5)
        assert scene.batcher.stats().expired == 1
        fn.release()
        await many.end()
        assert [type(result).__name__ for result in many.result] == ["int", "int", "ItemExpired", "int"]
        assert_counts_add_up(scene.batcher.stats())
    assert fn.seen == [0, 1, 3]


async def test_item_that_expires_in_line_is_its_own_error() -> None:
    """It never had a place: the next one of the list stands in line after it."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(
        fn, expires_after=3, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait"
    ) as scene:
        await scene.process("x")
        many = scene.start(partial(scene.batcher.process_many, ["a", "b"], return_exceptions=True))
        await settle()
        assert scene.batcher.stats().in_line == 1
        await anyio.sleep(4)
        await many.end()
        assert [type(result) for result in many.result] == [ItemExpired, ItemExpired]
        assert_counts_add_up(scene.batcher.stats())
        fn.release()
    assert fn.seen == ["x"]


async def test_split_gives_the_poison_item_its_error() -> None:
    """A portion is one crowd in its batch; split, each item has its own outcome."""

    def answer(batch: Any) -> list[int]:
        if 3 in batch:
            raise ValueError(batch)
        return ten_times(batch)

    async with open_scene(RecordingProcessor(answer), split_on=ValueError, max_batch_size=4) as scene:
        results = await scene.batcher.process_many(range(8), return_exceptions=True)
        assert isinstance(results[3], ValueError)
        assert results[:3] + results[4:] == [0, 10, 20, 40, 50, 60, 70]
        assert_counts_add_up(scene.batcher.stats())


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("options", [{}, {"coalesce_key": str}])
async def test_portion_that_the_loop_refuses_is_not_the_end_of_the_others(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the loop raises as items are sent is those items' error: nobody waits for them, nobody sees them."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=1, **options) as scene:
        loop = scene.batcher._runner.loop
        sound, calls = loop.call_at, 0

        def call_at(when: float, callback: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise OSError("no timer")
            return sound(when, callback)

        monkeypatch.setattr(loop, "call_at", call_at)
        results = await scene.batcher.process_many(range(4), return_exceptions=True, max_pending=2)
        failed = [index for index, result in enumerate(results) if isinstance(result, OSError)]
        assert failed == ([0] if options else [0, 1])
        assert [results[index] for index in range(len(failed), 4)] == ten_times(range(len(failed), 4))
        assert_counts_add_up(scene.batcher.stats())
    assert fn.seen == list(range(len(failed), 4))
