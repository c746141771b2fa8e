"""`map`: the results of a source as an async iterator, in order or as they come (contract, rule 10)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest
from mapped_sources import arriving, noted, noted_async
from recording import RecordingProcessor, raises, ten_times
from scenes import Scene, assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped

pytestmark = pytest.mark.anyio


async def collect(scene: Scene[AsyncBatcher[Any, Any]], source: Any, into: list[Any], **how: Any) -> None:
    """Iterate to the end, looking at the counts at each result."""
    async with scene.batcher.map(source, **how) as results:
        async for result in results:
            into.append(result)
            assert_counts_add_up(scene.batcher.stats())


@pytest.mark.parametrize("count", [0, 1, 4, 5, 50])
@pytest.mark.parametrize("max_pending", [1, 3, 8, None])
@pytest.mark.parametrize("make", [range, noted_async])
@pytest.mark.parametrize("ordered", [True, False])
async def test_each_result_is_given_once(
    count: int, max_pending: int | None, make: Any, ordered: bool
) -> None:
    """Whatever the lengths of source, batch and portion; in order where that is asked for."""
    found: list[int] = []
    source = range(count) if make is range else noted_async(range(count), [])
    async with open_scene(RecordingProcessor(), max_batch_size=4, concurrency=2) as scene:
        await collect(scene, source, found, max_pending=max_pending, ordered=ordered)
    assert (found if ordered else sorted(found)) == ten_times(range(count))


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_ordered_results_wait_for_those_before_them(make: Any) -> None:
    """The second batch ends first: nothing is given before the first has ended."""
    fn = RecordingProcessor()
    fn.hold()
    found: list[int] = []
    async with open_scene(fn, max_batch_size=2, concurrency=2) as scene:
        caller = scene.start(partial(collect, scene, make(range(4), []), found))
        await settle()
        fn.release(1)
        await settle()
        assert found == []
        fn.release(0)
        await caller.end()
    assert found == [0, 10, 20, 30]


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_unordered_results_are_given_as_they_come(make: Any) -> None:
    """The second batch ends first: its results are given at once."""
    fn = RecordingProcessor()
    fn.hold()
    found: list[int] = []
    async with open_scene(fn, max_batch_size=2, concurrency=2) as scene:
        caller = scene.start(partial(collect, scene, make(range(4), []), found, ordered=False))
        await settle()
        fn.release(1)
        await settle()
        assert found == [20, 30]
        fn.release(0)
        await caller.end()
    assert found == [20, 30, 0, 10]


@pytest.mark.parametrize("make", [noted, noted_async])
@pytest.mark.parametrize("max_pending", [1, 2, 5])
async def test_source_is_never_pulled_further_than_max_pending(make: Any, max_pending: int) -> None:
    """Nothing is pulled before a result is asked for, and what was given out makes room; the source is endless."""
    pulled: list[int] = []
    async with open_scene(RecordingProcessor(), max_batch_size=2, max_queue_time=0.01) as scene:
        source = make(endless(), pulled)
        async with scene.batcher.map(source, max_pending=max_pending) as results:
            await settle()
            assert pulled == []
            for given in range(20):
                assert await anext(results) == given * 10
                await anyio.sleep(1)  # all that may be pulled has been
                assert given < len(pulled) <= given + 1 + max_pending
                stats = scene.batcher.stats()
                assert stats.waiting + stats.running + stats.in_line <= max_pending


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_holds_twice_what_the_slots_take_by_default(make: Any) -> None:
    """2 * concurrency * max_batch_size, as in `process_many`."""
    fn = RecordingProcessor()
    fn.hold()
    pulled: list[int] = []
    async with open_scene(fn, max_batch_size=3, concurrency=2) as scene:
        caller = scene.start(partial(collect, scene, make(endless(), pulled), []))
        await settle()
        stats = scene.batcher.stats()
        assert (stats.running, stats.waiting, len(pulled)) == (6, 6, 12)
        caller.cancel()
        fn.release()


async def test_plain_source_fills_whole_batches() -> None:
    """Room is filled a portion at a time: batches do not leave half empty because results are taken one by one."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0) as scene:
        await collect(scene, range(80), [])
    assert [len(batch) for batch in fn.batches] == [8] * 10


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_waits_for_room_in_line(make: Any) -> None:
    """`on_full="reject"` refuses none of it; one item at a time stands in line, and the queue keeps its limit."""
    fn = RecordingProcessor()
    fn.hold()
    found: list[int] = []
    async with open_scene(fn, max_batch_size=1, max_queue_size=2) as scene:
        caller = scene.start(partial(collect, scene, make(range(30), []), found, max_pending=20))
        await settle()
        stats = scene.batcher.stats()
        assert (stats.running, stats.waiting, stats.in_line) == (1, 2, 1)
        fn.release()
        await caller.end()
    assert found == ten_times(range(30))


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_results_are_given_while_its_next_item_stands_in_line(make: Any) -> None:
    """A queue that others keep full holds up what is sent, and not what is ready."""
    fn = RecordingProcessor()
    fn.hold()
    found: list[int] = []
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, on_full="wait") as scene:
        caller = scene.start(partial(collect, scene, make(range(3), []), found, max_pending=3))
        await settle()  # 0 runs, 1 waits, 2 stands in line
        await scene.process(100, 101)
        fn.release(0)
        await settle()
        assert (found, fn.batches) == ([0], [[0], [1]])
        fn.release()
        await caller.end()
    assert found == [0, 10, 20]


@pytest.mark.parametrize("make", [noted, noted_async])
@pytest.mark.parametrize("ordered", [True, False])
async def test_items_error_is_raised_at_its_turn_and_iteration_can_go_on(make: Any, ordered: bool) -> None:
    """After an error the next `anext` gives the next result."""
    fn = RecordingProcessor()
    fn.script.extend([ten_times, raises(ValueError("no"))])
    async with (
        open_scene(fn, max_batch_size=2) as scene,
        scene.batcher.map(make(range(6), []), ordered=ordered) as results,
    ):
        assert [await anext(results), await anext(results)] == [0, 10]
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await anext(results)
        assert [result async for result in results] == [40, 50]


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_return_exceptions_gives_errors_as_values(make: Any) -> None:
    """At their turn, and iteration goes on by itself."""
    fn = RecordingProcessor()
    fn.script.append(raises(ValueError("no")))
    found: list[Any] = []
    async with open_scene(fn, max_batch_size=2) as scene:
        await collect(scene, make(range(4), []), found, return_exceptions=True)
    assert [repr(result) for result in found] == ["ValueError('no')", "ValueError('no')", "20", "30"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_results_are_given_while_the_source_waits(ordered: bool) -> None:
    """An async source that has nothing for a long time holds up no result."""
    async with open_scene(RecordingProcessor(), max_batch_size=2, max_queue_time=0.5) as scene:
        source = arriving((0, 1), (1, 2), (100, 3))
        async with scene.batcher.map(source, ordered=ordered) as results:
            assert (await anext(results), anyio.current_time()) == (10, 0.5)
            assert (await anext(results), anyio.current_time()) == (20, 1.5)
            assert (await anext(results), anyio.current_time()) == (30, 100.5)
            with pytest.raises(StopAsyncIteration):
                await anext(results)


@pytest.mark.parametrize("make", [noted, noted_async])
@pytest.mark.parametrize("ordered", [True, False])
async def test_sources_error_comes_after_what_it_gave(make: Any, ordered: bool) -> None:
    """All results of what came before it are given, then it is raised, once; then there is nothing more."""

    def broken() -> Iterator[int]:
        yield from range(5)
        raise LookupError("the source")

    async with (
        open_scene(RecordingProcessor(), max_batch_size=2) as scene,
        scene.batcher.map(make(broken(), []), ordered=ordered) as results,
    ):
        assert [await anext(results) for _ in range(5)] == [0, 10, 20, 30, 40]
        with pytest.raises(LookupError):
            await anext(results)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(results)


async def test_source_may_call_the_batcher_itself() -> None:
    """An async source that asks the same batcher one by one is served beside what it gives."""

    async def items() -> AsyncIterator[int]:
        for item in range(5):
            yield await scene.batcher.process(item)

    found: list[int] = []
    async with open_scene(RecordingProcessor(), max_batch_size=2, max_queue_time=0.01) as scene:
        await collect(scene, items(), found)
    assert found == [0, 100, 200, 300, 400]


async def test_async_source_is_pulled_in_its_callers_context() -> None:
    """What the one who iterates has set is seen by the source, and by no batch."""
    var = ContextVar("var", default="none")
    seen: list[str] = []

    async def items() -> AsyncIterator[int]:
        for item in range(10):
            seen.append(var.get())
            yield item
            await settle()

    async def fn(batch: list[int]) -> list[str]:
        return [var.get() for _ in batch]

    found: list[str] = []
    async with open_scene(fn, max_batch_size=1) as scene:
        var.set("the caller's")
        await collect(scene, items(), found)
    assert (set(seen), set(found)) == ({"the caller's"}, {"none"})


async def test_iterating_without_its_block_is_refused() -> None:
    """Before it is entered and after it was left: a `RuntimeError` that says how."""
    async with open_scene(RecordingProcessor()) as scene:
        results = scene.batcher.map(range(3))
        with pytest.raises(RuntimeError, match="async with"):
            aiter(results)
        with pytest.raises(RuntimeError, match="async with"):
            await anext(results)
        async with results:
            assert await anext(results) == 0
        with pytest.raises(RuntimeError, match="left"):
            await anext(results)


async def test_entering_twice_is_refused() -> None:
    """Inside its block, and after it."""
    async with open_scene(RecordingProcessor()) as scene:
        async with scene.batcher.map(range(3)) as results:
            with pytest.raises(RuntimeError, match="entered once"):
                await results.__aenter__()
            assert [result async for result in results] == [0, 10, 20]
        with pytest.raises(RuntimeError, match="entered once"):
            await results.__aenter__()


async def test_second_task_that_iterates_at_the_same_time_is_refused() -> None:
    """It is told at once; the first goes on undisturbed, and later another task may take over."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene, scene.batcher.map(range(3)) as results:
        first, second = scene.start(partial(anext, results)), scene.start(partial(anext, results))
        await settle()
        (refused,) = [caller for caller in (first, second) if not caller.waits]
        refused.failed(RuntimeError)
        fn.release()
        await scene.end_of(first, second)
        served = first if refused is second else second
        assert served.result == 0
        assert await anext(results) == 10


async def test_cancelling_one_wait_loses_no_result() -> None:
    """A timeout around one `anext` leaves the map as it was."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene, scene.batcher.map(range(4)) as results:
        with anyio.move_on_after(1):
            await anext(results)
        fn.release()
        assert [result async for result in results] == [0, 10, 20, 30]


@pytest.mark.parametrize("source", [5, None, object()])
async def test_what_cannot_be_iterated_is_refused(source: Any) -> None:
    """When `map` is called, not later."""
    async with open_scene(RecordingProcessor()) as scene:
        with pytest.raises(TypeError, match="map takes an iterable or an async iterable"):
            scene.batcher.map(source)


async def test_bad_max_pending_is_refused() -> None:
    """When `map` is called, as in `process_many`."""
    async with open_scene(RecordingProcessor()) as scene:
        with pytest.raises(ValueError, match="max_pending"):
            scene.batcher.map([1], max_pending=0)


async def test_source_of_the_old_protocol_will_do() -> None:
    """What has `__getitem__` only is iterable too; and what is both plain and async is pulled as async."""

    class Old:
        def __getitem__(self, place: int) -> int:
            if place == 3:
                raise IndexError
            return place

    class Both:
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("it would block the loop")

        def __aiter__(self) -> AsyncIterator[int]:
            return noted_async(range(2), [])

    found: list[int] = []
    async with open_scene(RecordingProcessor()) as scene:
        await collect(scene, Old(), found)
        await collect(scene, Both(), found)
    assert found == [0, 10, 20, 0, 10]


@pytest.mark.parametrize("make", [noted, noted_async])
async def test_stop_half_way_gives_what_was_sent_then_refusals(make: Any) -> None:
    """Each later item is refused by itself; an endless source does not hold the loop."""
    fn = RecordingProcessor()
    async with (
        open_scene(fn, max_batch_size=2) as scene,
        scene.batcher.map(make(endless(), []), max_pending=4, return_exceptions=True) as results,
    ):
        assert await anext(results) == 0
        await scene.batcher.stop()
        found = [await anext(results) for _ in range(3000)]
        assert isinstance(found[-1], BatcherStopped)
        assert found[:3] == [10, 20, 30] or found[0] == 10


async def test_endless_refusals_let_the_loop_go_round() -> None:
    """With every item refused nothing is waited for: others still run, and it can be cancelled."""
    async with (
        open_scene(RecordingProcessor(), max_batch_size=2) as scene,
        scene.batcher.map(endless(), return_exceptions=True) as results,
    ):
        await anext(results)
        await scene.batcher.stop()
        with anyio.move_on_after(0) as scope:
            async for _ in results:
                pass
        assert scope.cancelled_caught


async def test_stopped_batcher_refuses_to_map() -> None:
    """When the block is entered."""
    async with open_scene(RecordingProcessor()) as scene:
        await scene.batcher.stop()
        with pytest.raises(BatcherStopped):
            await scene.batcher.map([1]).__aenter__()


def test_iterating_on_another_loop_is_refused() -> None:
    """A map belongs to the event loop on which it was entered."""
    batcher = AsyncBatcher.from_callable(RecordingProcessor(), max_queue_time=0)

    async def enter() -> Any:
        results = batcher.map(range(3))
        await results.__aenter__()
        assert await anext(results) == 0
        assert await anext(results) == 10
        assert await anext(results) == 20
        return results

    results = asyncio.run(enter())
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(anext(results))


def endless() -> Iterator[int]:
    """Give numbers for ever."""
    item = 0
    while True:
        yield item
        item += 1
