"""What may be a processor, and where it runs (contract, rule 11)."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from scenes import open_scene

from async_batcher import AsyncBatcher

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]


def here(batch: Sequence[int]) -> list[int]:
    """Answer each item with the number of the thread that answers."""
    return [threading.get_ident()] * len(batch)


async def async_here(batch: Sequence[int]) -> list[int]:
    await anyio.lowlevel.checkpoint()
    return here(batch)


class Service:
    async def embed(self, batch: list[int]) -> list[int]:
        return await async_here(batch)

    def embed_sync(self, batch: list[int]) -> list[int]:
        return here(batch)

    @staticmethod
    async def embed_static(batch: list[int]) -> list[int]:
        return await async_here(batch)

    @classmethod
    async def embed_class(cls, batch: list[int]) -> list[int]:
        return await async_here(batch)


class AsyncCallable:
    async def __call__(self, batch: list[int]) -> list[int]:
        return await async_here(batch)


class SyncCallable:
    def __call__(self, batch: list[int]) -> list[int]:
        return here(batch)


class FalsyCallable(AsyncCallable):
    """A processor that an `if processor:` would take for none."""

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0


async def with_option(scale: int, batch: list[int], *, extra: int = 0) -> list[int]:
    return await async_here(batch)


def sync_with_option(scale: int, batch: list[int]) -> list[int]:
    return here(batch)


def logged(function: Callable[..., Awaitable[list[int]]]) -> Callable[..., Awaitable[list[int]]]:
    """Wrap as many decorators do: a sync wrapper of an async function."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Awaitable[list[int]]:
        return function(*args)

    return wrapper


ON_THE_LOOP = {
    "function": async_here,
    "bound method": Service().embed,
    "static method": Service.embed_static,
    "class method": Service.embed_class,
    "async __call__": AsyncCallable(),
    "falsy": FalsyCallable(),
    "partial": functools.partial(with_option, 3),
    "partial of a partial": functools.partial(functools.partial(with_option, 3), extra=4),
    "partial of an object": functools.partial(AsyncCallable()),
    "partial of a method": functools.partial(Service().embed),
    "lambda of an async function": lambda batch: async_here(list(batch)),
    "wrapped": logged(async_here),
}
IN_A_THREAD = {
    "function": here,
    "bound method": Service().embed_sync,
    "sync __call__": SyncCallable(),
    "partial": functools.partial(sync_with_option, 3),
}


@pytest.mark.parametrize("processor", ON_THE_LOOP.values(), ids=ON_THE_LOOP.keys())
async def test_async_callable_runs_on_the_loop(processor: Any) -> None:
    """However it is dressed, what is async is awaited on the loop."""
    async with open_scene(processor, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == threading.get_ident()


@pytest.mark.parametrize("processor", IN_A_THREAD.values(), ids=IN_A_THREAD.keys())
async def test_sync_callable_runs_in_a_thread(processor: Any) -> None:
    """What is not async never holds up the loop."""
    async with open_scene(processor, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) != threading.get_ident()


async def test_builtin_and_class_are_callables() -> None:
    """`list` and a C function serve as processors."""
    for processor in (list, sorted):
        async with open_scene(processor, max_batch_size=1) as scene:
            assert await scene.batcher.process(1) == 1


@pytest.mark.backends("asyncio")
async def test_future_that_a_processor_returns_is_awaited() -> None:
    """An awaitable need not be a coroutine."""
    loop = asyncio.get_running_loop()

    async def answer(batch: list[int]) -> list[int]:
        future: asyncio.Future[list[int]] = loop.create_future()
        loop.call_soon(future.set_result, batch)
        return await future

    def returns_a_coroutine(batch: list[int]) -> Any:
        return answer(batch)

    async with open_scene(returns_a_coroutine, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == 1


class Doubler(AsyncBatcher[int, int]):
    """Subclassed as the documentation says, with a state of its own."""

    def __init__(self, factor: int, **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor
        self.batches: list[list[int]] = []

    async def process_batch(self, batch: list[int]) -> list[int]:
        self.batches.append(list(batch))
        return [item * self.factor for item in batch]


class SyncDoubler(AsyncBatcher[int, int]):
    def process_batch(self, batch: list[int]) -> list[int]:
        self.thread = threading.get_ident()
        return [item * 2 for item in batch]


class QuietDoubler(Doubler):
    """A subclass of a subclass that calls the method it overrides."""

    async def process_batch(self, batch: list[int]) -> list[int]:
        return [-result for result in await super().process_batch(batch)]


async def test_subclass_with_an_async_process_batch() -> None:
    """Override `process_batch`; options and attributes are as usual."""
    async with Doubler(2, max_batch_size=2) as batcher:
        submissions = [await batcher.submit(item) for item in (1, 2)]
        assert [await submission for submission in submissions] == [2, 4]
    assert batcher.batches == [[1, 2]]


async def test_subclass_with_a_sync_process_batch() -> None:
    """A sync method runs in a thread, as a sync function does."""
    async with SyncDoubler(max_batch_size=1) as batcher:
        assert await batcher.process(3) == 6
        assert batcher.thread != threading.get_ident()


async def test_subclass_of_a_subclass() -> None:
    """`super().process_batch` works."""
    async with QuietDoubler(2, max_batch_size=1) as batcher:
        assert await batcher.process(3) == -6


def test_class_without_a_processor_says_what_to_write() -> None:
    """`AsyncBatcher()` by itself has nothing to call."""
    with pytest.raises(TypeError, match=r"process_batch|from_callable"):
        AsyncBatcher()


@pytest.mark.parametrize("nothing", [None, 3, "text", [], object(), b"code"])
def test_what_cannot_be_called_is_refused_when_built(nothing: Any) -> None:
    """A processor that is no callable: a `TypeError` that says what was found."""
    with pytest.raises(TypeError) as caught:
        AsyncBatcher.from_callable(nothing)
    assert "processor" in str(caught.value)
    assert type(nothing).__name__ in str(caught.value) or repr(nothing) in str(caught.value)


async def yields(batch: list[int]) -> AsyncIterator[int]:
    for item in batch:
        yield item


class AsyncGeneratorCallable:
    async def __call__(self, batch: list[int]) -> AsyncIterator[int]:
        for item in batch:
            yield item


@pytest.mark.parametrize(
    "processor",
    [yields, functools.partial(yields), AsyncGeneratorCallable()],
    ids=["function", "partial", "object"],
)
def test_async_generator_function_is_refused_when_built(processor: Any) -> None:
    """It could only ever fail: a `TypeError` at once that says what to return instead."""
    with pytest.raises(TypeError, match="generator"):
        AsyncBatcher.from_callable(processor)


def test_processor_needs_from_callable_or_a_subclass() -> None:
    """`AsyncBatcher(processor)` is what newcomers try: the error names the way."""
    with pytest.raises(TypeError):
        AsyncBatcher(async_here)  # type: ignore[call-arg,arg-type]
