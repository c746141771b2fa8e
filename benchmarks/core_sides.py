"""The sides of a pair in `core.py`: the floors, and a batcher called in each way that has a mark.

A side is run with a number of items, by so many callers in batches of such a size, and returns items a second of
this process's own time, which no neighbour lengthens.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from async_batcher import AsyncBatcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

Caller: TypeAlias = "Callable[[range], Coroutine[Any, Any, None]]"
Side: TypeAlias = "Callable[[Shape], Coroutine[Any, Any, float]]"
NewLoop: TypeAlias = "Callable[[], asyncio.AbstractEventLoop] | None"


@dataclasses.dataclass(frozen=True)
class Shape:
    """How many callers, batches of which size, and how many items in all."""

    callers: int
    batch: int
    items: int


async def answer(items: list[int]) -> list[int]:
    """Answer at once: what is measured is the batcher."""
    return items


@contextlib.asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[AsyncBatcher[int, int]]:
    """Give a batcher as it is by default, but for what is said."""
    async with AsyncBatcher[int, int].from_callable(answer, **options) as batcher:
        yield batcher


def bare_call(batch: int) -> Callable[[], asyncio.Future[int]]:
    """Return what makes a future that one callback sets, with the others of its batch."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = []

    def serve(futures: list[asyncio.Future[int]]) -> None:
        for future in futures:
            future.set_result(1)

    def call() -> asyncio.Future[int]:
        nonlocal waiting
        future: asyncio.Future[int] = loop.create_future()
        waiting.append(future)
        if len(waiting) == batch:
            loop.call_soon(serve, waiting)
            waiting = []
        return future

    return call


def floor_call(batch: int) -> Callable[[int], Coroutine[Any, Any, int]]:
    """Return a coroutine function that does what no `await batcher.process(item)` can do without."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = []

    def serve(futures: list[asyncio.Future[int]]) -> None:
        for future in futures:
            future.set_result(1)

    async def process(_item: int) -> int:
        nonlocal waiting
        future: asyncio.Future[int] = loop.create_future()
        waiting.append(future)
        if len(waiting) == batch:
            loop.call_soon(serve, waiting)
            waiting = []
        return await future

    return process


async def bare(shape: Shape) -> float:
    """Await futures, and nothing around them."""
    call = bare_call(shape.batch)

    async def caller(numbers: range) -> None:
        for _ in numbers:
            await call()

    return await _rate(caller, shape)


async def floor(shape: Shape) -> float:
    """Await a coroutine, in which a future is awaited."""
    process = floor_call(shape.batch)

    async def caller(numbers: range) -> None:
        for number in numbers:
            await process(number)

    return await _rate(caller, shape)


def processing(**options: Any) -> Side:
    """Make the side that awaits `process`."""

    async def side(shape: Shape) -> float:
        async with opened(max_batch_size=shape.batch, **options) as batcher:
            process = batcher.process

            async def caller(numbers: range) -> None:
                for number in numbers:
                    await process(number)

            return await _rate(caller, shape)

    return side


async def submitting(shape: Shape) -> float:
    """Submit, and then await what was submitted."""
    async with opened(max_batch_size=shape.batch) as batcher:
        submit = batcher.submit

        async def caller(numbers: range) -> None:
            for number in numbers:
                submission = await submit(number)
                await submission

        return await _rate(caller, shape)


async def many(shape: Shape) -> float:
    """Have one caller process all of them at once."""
    async with opened(max_batch_size=shape.batch) as batcher:
        items = list(range(shape.items))
        started = time.process_time()
        await batcher.process_many(items)
        return shape.items / (time.process_time() - started)


def run(side: Side, shape: Shape, new_loop: NewLoop = None) -> float:
    """Run a side on a loop of its own."""
    gc.collect()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(side(shape))


async def _rate(caller: Caller, shape: Shape) -> float:
    """Run the callers, no two of which ever have the same item, and return items a second."""
    rounds = shape.items // shape.callers
    started = time.process_time()
    await asyncio.gather(
        *(caller(range(first * rounds, (first + 1) * rounds)) for first in range(shape.callers))
    )
    return rounds * shape.callers / (time.process_time() - started)
