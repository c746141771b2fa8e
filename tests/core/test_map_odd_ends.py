"""A map never ends silently and never waits for ever, whatever a source or a function of the user's raises."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import assert_counts_add_up, open_scene

from async_batcher import AsyncBatcher, MapResults

pytestmark = pytest.mark.anyio

ENDS = (StopAsyncIteration, StopIteration)
PROGRAM_ENDS = (SystemExit, KeyboardInterrupt)
COUNT = 6
BAD = 2
PATIENCE = 100

ends = pytest.mark.parametrize("end", ENDS)
program_ends = pytest.mark.parametrize("end", PROGRAM_ENDS)
hooks = pytest.mark.parametrize("hook", ["weigh", "coalesce_key"])
orders = pytest.mark.parametrize("ordered", [True, False])


def plain() -> Iterator[int]:
    yield from range(COUNT)


async def asynchronous() -> AsyncIterator[int]:
    for item in range(COUNT):
        yield item


sources = pytest.mark.parametrize("make", [plain, asynchronous])


def hook_that(raises: type[BaseException], hook: str) -> dict[str, Any]:
    """Give the option of a function that raises this for one item."""

    def function(item: int) -> int:
        if item == BAD:
            raise raises
        return 1 if hook == "weigh" else item

    return {hook: function}


async def all_of(results: MapResults[Any], *, most: int = 3 * COUNT) -> list[Any]:
    """Iterate to the end, and go on after each error, which stands in its place."""
    got: list[Any] = []
    with anyio.fail_after(PATIENCE):
        while len(got) < most:
            try:
                got.append(await anext(results))
            except StopAsyncIteration:
                return got
            except BaseException as error:  # noqa: BLE001  (whatever it is)
                got.append(error)
    pytest.fail(f"it never ends: {got}")


def kinds(got: list[Any]) -> list[Any]:
    """Say of what was got which error it is, or the result."""
    return [type(one) if isinstance(one, BaseException) else one for one in got]


@ends
@hooks
@sources
@orders
async def test_hook_that_says_stop_fails_its_item_alone(
    end: type[Exception], hook: str, make: Callable[[], Any], ordered: bool
) -> None:
    """Its item's error is raised, and what comes after it follows."""
    async with open_scene(RecordingProcessor(), max_queue_time=0, **hook_that(end, hook)) as scene:
        async with scene.batcher.map(make(), ordered=ordered) as results:
            got = await all_of(results)
        if ordered:
            assert kinds(got) == [0, 10, RuntimeError, 30, 40, 50]
        error = next(one for one in got if isinstance(one, BaseException))
        assert isinstance(error, RuntimeError)
        assert end.__name__ in f"{error} {error.__cause__!r}"
        assert sorted(one for one in got if one is not error) == [0, 10, 30, 40, 50]


@ends
@sources
async def test_processor_that_says_stop_fails_its_batch_alone(
    end: type[Exception], make: Callable[[], Any]
) -> None:
    """Raised, or returned in an item's place."""
    fn = RecordingProcessor()
    fn.fail_batch_of(1, end())
    fn.fail_item(4, end())
    async with (
        open_scene(fn, max_batch_size=1, max_queue_time=0) as scene,
        scene.batcher.map(make()) as results,
    ):
        got = await all_of(results)
    assert kinds(got) == [0, RuntimeError, 20, 30, RuntimeError, 50]


class Source:
    """An iterable of both kinds that raises where it is told to: at its start, or for an item."""

    def __init__(self, error: type[BaseException], at: str) -> None:
        self._error, self._at, self._given = error, at, 0

    def start(self) -> None:
        if self._at == "start":
            raise self._error

    def give(self) -> int:
        if self._given == BAD:
            raise self._error
        self._given += 1
        return self._given


class PlainSource(Source):
    def __iter__(self) -> Iterator[int]:
        self.start()
        return self

    def __next__(self) -> int:
        return self.give()


class AsyncSource(Source):
    def __aiter__(self) -> AsyncIterator[int]:
        self.start()
        return self

    async def __anext__(self) -> int:
        return self.give()


class HastySource(Source):
    """Raises as it is asked, not as it is awaited."""

    def __aiter__(self) -> AsyncIterator[int]:
        self.start()
        return self

    def __anext__(self) -> Any:
        return self._soon(self.give())

    async def _soon(self, item: int) -> int:
        return item


@ends
@orders
@pytest.mark.parametrize("kind", [PlainSource, AsyncSource, HastySource])
@pytest.mark.parametrize("at", ["start", "item"])
async def test_source_that_says_stop_out_of_turn_is_an_error(
    end: type[Exception], ordered: bool, kind: type[Any], at: str
) -> None:
    """Unless it is what this kind of source says at its end."""
    its_end = at == "item" and (
        (kind is PlainSource and end is StopIteration)
        or (kind is not PlainSource and end is StopAsyncIteration)
    )
    async with (
        open_scene(RecordingProcessor(), max_queue_time=0) as scene,
        scene.batcher.map(kind(end, at), ordered=ordered) as results,
    ):
        got = await all_of(results)
    given = [10, 20] if at == "item" else []
    assert kinds(got) == (given if its_end else [*given, RuntimeError])


@ends
async def test_generator_that_says_stop_is_an_error(end: type[Exception]) -> None:
    """A plain generator lets StopAsyncIteration through, and an async one StopIteration does not."""

    def generator() -> Iterator[int]:
        yield 1
        raise end

    async def async_generator() -> AsyncIterator[int]:
        yield 1
        raise end

    async with open_scene(RecordingProcessor(), max_queue_time=0) as scene:
        for make in (generator, async_generator):
            async with scene.batcher.map(make()) as results:
                assert kinds(await all_of(results)) == [10, RuntimeError]


@program_ends
@hooks
@sources
@orders
async def test_who_catches_what_ends_the_program_and_goes_on_never_waits_for_ever(
    end: type[BaseException], hook: str, make: Callable[[], Any], ordered: bool
) -> None:
    """No seat is left open: the item has its error, and the iteration ends."""
    async with open_scene(RecordingProcessor(), max_queue_time=0, **hook_that(end, hook)) as scene:
        async with scene.batcher.map(make(), ordered=ordered, max_pending=4) as results:
            got = await all_of(results)
        assert kinds(got).count(end) == 1
        assert {0, 10} <= set(kinds(got))
        assert_counts_add_up(scene.batcher.stats())
        with anyio.fail_after(PATIENCE):
            assert await scene.batcher.process(5) == 50


@program_ends
@hooks
@pytest.mark.parametrize("max_pending", [1, 2, COUNT])
async def test_list_that_ends_the_program_leaves_nothing_behind(
    end: type[BaseException], hook: str, max_pending: int
) -> None:
    """Its items are withdrawn, its room is free again, and the next list is served."""
    fn = RecordingProcessor()
    async with open_scene(
        fn, max_queue_time=0, max_queue_size=2, max_batch_size=2, **hook_that(end, hook)
    ) as scene:
        with anyio.fail_after(PATIENCE):
            with pytest.raises(end):
                await scene.batcher.process_many(range(COUNT), max_pending=max_pending)
            assert await scene.batcher.process_many([3, 4, 5]) == [30, 40, 50]
    assert BAD not in fn.seen


@program_ends
@hooks
@pytest.mark.parametrize("many", [True, False])
async def test_what_ends_the_program_behind_a_busy_backend_leaves_no_seat_open(
    end: type[BaseException], hook: str, many: bool
) -> None:
    """Also where those before it wait for a slot, or in line."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(
        fn, max_queue_time=0, max_queue_size=2, max_batch_size=1, **hook_that(end, hook)
    ) as scene:
        batcher = scene.batcher
        caller = scene.start(partial(batcher.process_many, range(COUNT)) if many else partial(every, batcher))
        await fn.begun(1)
        fn.release()
        with anyio.fail_after(PATIENCE):
            await caller.end()
        if many:
            caller.failed(end)
        else:
            assert kinds(caller.result).count(end) == 1


async def every(batcher: AsyncBatcher[Any, Any]) -> list[Any]:
    async with batcher.map(plain()) as results:
        return await all_of(results)
