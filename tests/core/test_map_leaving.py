"""`map` whose block is left early: what waits is withdrawn, the source is closed, no task is left."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mapped_sources import Closable, arriving, noted_async
from recording import RecordingProcessor
from scenes import Scene, assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped

pytestmark = pytest.mark.anyio

Batcher = AsyncBatcher[Any, Any]


async def take(scene: Scene[Batcher], source: Any, count: int, **how: Any) -> list[Any]:
    """Break after so many results."""
    found: list[Any] = []
    async with scene.batcher.map(source, **how) as results:
        async for result in results:
            found.append(result)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("plain", [True, False])
async def test_break_withdraws_what_waits(plain: bool) -> None:
    """What runs is abandoned, what waits is withdrawn, nothing more is sent or pulled, and others notice nothing."""
    fn = RecordingProcessor()
    pulled: list[int] = []
    source = range(100) if plain else noted_async(range(100), pulled)
    async with open_scene(fn, max_batch_size=2, concurrency=1) as scene:
        fn.hold()
        caller = scene.start(partial(take, scene, source, 1, max_pending=6))
        await settle()
        (other,) = await scene.process(500)
        fn.release(0)
        await caller.end()
        assert caller.result == [0]
        stats = scene.batcher.stats()
        assert stats.withdrawn >= 2
        assert stats.waiting == 1
        assert stats.in_line == 0
        assert_counts_add_up(stats)
        before = len(pulled)
        fn.release()
        await other.end()
        assert len(pulled) == before <= 7
    assert sorted(fn.seen) == [*range(len(fn.seen) - 1), 500]


@pytest.mark.parametrize("plain", [True, False])
async def test_cancelled_block_withdraws_what_waits(plain: bool) -> None:
    """As does a timeout around it, with the next item in line."""
    fn = RecordingProcessor()
    fn.hold()
    source = range(100) if plain else noted_async(range(100), [])
    async with open_scene(fn, max_batch_size=1, max_queue_size=2) as scene:
        caller = scene.start(partial(take, scene, source, 1, max_pending=6))
        await settle()
        assert scene.batcher.stats().in_line == 1
        caller.cancel()
        await caller.end()
        assert caller.was_cancelled
        stats = scene.batcher.stats()
        assert (stats.waiting, stats.in_line, stats.withdrawn, stats.abandoned) == (0, 0, 2, 1)
        assert_counts_add_up(stats)
        fn.release()
    assert fn.seen == [0]


@pytest.mark.parametrize("plain", [True, False])
async def test_blocks_own_error_leaves_it_unchanged(plain: bool) -> None:
    """It is not wrapped in a group, and what waits is withdrawn."""
    error = LookupError("mine")
    source = range(100) if plain else noted_async(range(100), [])
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:

        async def fail_inside() -> None:
            async with scene.batcher.map(source) as results:
                await anext(results)
                raise error

        with pytest.raises(LookupError) as caught:
            await fail_inside()
        assert caught.value is error
        assert error.__context__ is None
        assert scene.batcher.stats().waiting == 0


async def test_source_that_waits_for_room_is_closed() -> None:
    """An async generator at its `yield` gets its `aclose`, uncancelled: its cleanup may wait."""
    source = Closable(*range(100))
    source.cleanup = partial(anyio.sleep, 3)
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        await take(scene, source(), 1, max_pending=4)
        assert source.ended == "closed"
        assert anyio.current_time() == pytest.approx(3)


async def test_source_that_waits_inside_is_cancelled() -> None:
    """It would never give anything again: leaving does not wait for it."""
    source = Closable(1, 2)
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        assert await take(scene, source(), 2) == [10, 20]
        assert source.ended == "cancelled"


async def test_source_that_was_never_asked_is_closed_too() -> None:
    """A block in which nothing was asked for: a generator that had begun elsewhere is closed, and nothing pulled."""
    source = Closable(1, 2, 3)
    items = source()
    assert await anext(items) == 1
    async with open_scene(RecordingProcessor()) as scene:
        async with scene.batcher.map(items):
            pass
        assert (source.ended, source.given) == ("closed", 1)


async def test_exhausted_source_ends_by_itself() -> None:
    """Iterated to its end, its own cleanup has run before the end is told."""
    log: list[str] = []

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await anyio.sleep(2)
            log.append("source")

    async with (
        open_scene(RecordingProcessor(), max_batch_size=1) as scene,
        scene.batcher.map(items()) as results,
    ):
        assert [result async for result in results] == [10]
        log.append("end")
    assert log == ["source", "end"]


@pytest.mark.parametrize("inside", [True, False])
async def test_error_of_the_sources_cleanup_is_raised(inside: bool) -> None:
    """What goes wrong while it is closed is told to who leaves."""
    source = Closable(*range(2 if inside else 100))

    async def fail() -> None:
        raise LookupError("cleanup")

    source.cleanup = fail
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        with pytest.raises(LookupError, match="cleanup"):
            await take(scene, source(), 1, max_pending=4)


async def test_sources_error_that_was_not_reached_is_not_raised() -> None:
    """Who leaves before its turn asked for no more."""

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise LookupError("later")

    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        assert await take(scene, items(), 1) == [10]


async def test_plain_source_stays_its_owners() -> None:
    """As after a plain `for`: a generator that was left can go on."""

    def items() -> Iterator[int]:
        yield from range(100)

    source = items()
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        await take(scene, source, 1, max_pending=4)
        assert next(source) == 4


async def test_stream_that_is_no_generator_stays_open() -> None:
    """It is cancelled where it waits, and not closed: its owner does that."""
    send, receive = anyio.create_memory_object_stream[int](10)
    async with open_scene(RecordingProcessor(), max_batch_size=1) as scene, send, receive:
        await send.send(1)
        assert await take(scene, receive, 1) == [10]
        await send.send(2)
        assert await receive.receive() == 2


@pytest.mark.backends("asyncio")
async def test_item_of_a_source_that_ignores_its_cancellation_is_not_sent() -> None:
    """It is closed where it stands, and what it gave after the block was left goes nowhere."""
    log: list[str] = []

    async def stubborn() -> AsyncIterator[int]:
        yield 1
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            log.append("ignored")
        try:
            yield 2
        finally:
            log.append("closed")

    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        assert await take(scene, stubborn(), 1) == [10]
        assert log == ["ignored", "closed"]
        assert scene.batcher.stats().accepted == 1


@pytest.mark.backends("asyncio")
async def test_cancelled_while_the_source_is_being_closed() -> None:
    """The cancellation is passed on to the cleanup, and raised when that has ended: no task is left."""
    source = Closable(*range(100))
    log: list[str] = []

    async def clean_up() -> None:
        try:
            await anyio.sleep(1000)
        finally:
            log.append("cleanup")

    source.cleanup = clean_up
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        caller = scene.start(partial(take, scene, source(), 1, max_pending=4))
        await settle()
        assert caller.waits
        caller.cancel_task()
        await caller.end()
        assert caller.was_cancelled
    assert log == ["cleanup"]
    assert anyio.current_time() < 1000


async def test_scope_cancelled_while_the_source_is_being_closed_waits_for_it() -> None:
    """A cleanup that is under way is not cut off by a scope, and the scope's cancellation is not lost."""
    source = Closable(*range(100))
    source.cleanup = partial(anyio.sleep, 3)
    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        with anyio.move_on_after(1) as scope:
            await take(scene, source(), 1, max_pending=4)
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert source.ended == "closed"


@pytest.mark.backends("asyncio")
async def test_sources_task_that_is_cancelled_by_others_is_no_silent_end() -> None:
    """Somebody cancels all tasks but his own: the one who iterates is told, and not that the source has ended."""
    async with (
        open_scene(RecordingProcessor(), max_batch_size=1) as scene,
        scene.batcher.map(arriving((0, 1), (100, 2))) as results,
    ):
        before = asyncio.all_tasks()
        assert await anext(results) == 10
        (task,) = asyncio.all_tasks() - before
        task.cancel()
        with pytest.raises(RuntimeError, match="was cancelled"):
            await anext(results)


async def test_left_by_one_task_while_another_iterates() -> None:
    """The one who iterates is told, and does not wait for ever."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        results = scene.batcher.map(range(3))
        await results.__aenter__()
        waits = scene.start(partial(anext, results))
        await settle()
        await results.__aexit__(None, None, None)
        await waits.end()
        waits.failed(RuntimeError)
        fn.release()


async def test_forced_stop_half_way_is_each_items_error() -> None:
    """Those that ran have an unknown outcome, those that waited are safe to send again; then the rest is refused."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        found: list[Any] = []

        async def iterate() -> None:
            async with scene.batcher.map(range(6), max_pending=4, return_exceptions=True) as results:
                found.extend([result async for result in results])

        caller = scene.start(iterate)
        await settle()
        await scene.stop(force=True)
        await caller.end()
        assert [type(error) for error in found] == [BatcherStopped] * 6
        assert [error.withdrawn for error in found] == [False, False, True, True, True, True]


@pytest.mark.real_time
async def test_lists_and_maps_with_a_sync_processor() -> None:
    """On every event loop, in real time, with batches in threads."""

    def fn(batch: list[int]) -> list[int]:
        return [item * 10 for item in batch]

    async def items() -> AsyncIterator[int]:
        for item in range(100):
            yield item
            await anyio.lowlevel.checkpoint()

    async with open_scene(fn, max_batch_size=8, concurrency=2, max_queue_time=0.001) as scene:
        wanted = list(range(0, 1000, 10))
        assert await scene.batcher.process_many(range(100)) == wanted
        for source in (range(100), items()):
            async with scene.batcher.map(source) as results:
                assert [result async for result in results] == wanted
        assert len(await take(scene, items(), 3)) == 3


class UnusualError(BaseException):
    """What is no `Exception`."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, UnusualError])
@pytest.mark.parametrize("plain", [True, False])
async def test_what_ends_the_program_does_not_wait_for_its_turn(
    kind: type[BaseException], plain: bool
) -> None:
    """Raised by the source, it reaches the one who iterates before the results that are still to come."""
    fn = RecordingProcessor()
    fn.hold()

    def plain_items() -> Iterator[int]:
        yield 1
        raise kind

    async def items() -> AsyncIterator[int]:
        yield 1
        raise kind

    async with open_scene(fn, max_batch_size=1) as scene:
        async with scene.batcher.map(plain_items() if plain else items()) as results:
            with pytest.raises(kind):
                await anext(results)
        fn.release()


async def test_what_ends_the_program_is_not_lost_when_nobody_asks_again() -> None:
    """It is raised when the block is left."""

    async def items() -> AsyncIterator[int]:
        yield 1
        await anyio.sleep(1)
        raise KeyboardInterrupt

    async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:

        async def look_away() -> None:
            async with scene.batcher.map(items()) as results:
                assert await anext(results) == 10
                await anyio.sleep(2)

        with pytest.raises(KeyboardInterrupt):
            await look_away()


async def test_keeps_nothing_when_it_is_left() -> None:
    """Neither the batcher nor the map keeps items or results alive."""

    class Payload:
        pass

    alive: weakref.WeakSet[Payload] = weakref.WeakSet()

    def payload() -> Payload:
        made = Payload()
        alive.add(made)
        return made

    async def items() -> AsyncIterator[Payload]:
        while True:
            yield payload()

    async def fn(batch: list[Any]) -> list[Any]:
        return [payload() for _ in batch]

    gc.disable()  # a circle would be found by its absence
    try:
        async with open_scene(fn, max_batch_size=4) as scene:
            for source in (items(), (payload() for _ in range(100))):
                async with scene.batcher.map(source) as results:
                    for _ in range(10):
                        await anext(results)
                await settle()
                assert len(alive) == 0
    finally:
        gc.enable()


async def test_generator_around_a_map_can_be_left_anywhere() -> None:
    """An async generator may yield from inside the block: no scope of the map's spans the `yield`."""

    async def passed_on(source: Any) -> AsyncGenerator[Any, None]:
        async with scene.batcher.map(source) as results:
            async for result in results:
                yield result

    async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:
        source = Closable(*range(10))
        outer = passed_on(source())
        with anyio.move_on_after(1):
            assert await anext(outer) == 0
        assert await anext(outer) == 10
        await outer.aclose()
        assert source.ended != ""
        assert scene.batcher.stats().waiting == 0
