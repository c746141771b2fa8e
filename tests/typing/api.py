"""What type checkers must make of the public names: read by mypy and pyright, and never run.

A wrong line that a checker accepts is found too: its `ignore` would be one too many.
"""
# mypy: disable-error-code="empty-body"

import functools
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from async_batcher import (
    AsyncBatcher,
    BatcherGroups,
    BatcherOptions,
    BatcherStats,
    BatchEvent,
    Submission,
    batched,
)
from async_batcher.testing import RecordingProcessor, raising, run_virtual


async def embed(texts: list[str]) -> list[float]: ...
def embed_sync(texts: list[str]) -> list[float]: ...
async def embed_sequence(texts: Sequence[str]) -> Sequence[float]: ...
def embed_later(texts: list[str]) -> Awaitable[tuple[float, ...]]: ...
def embed_as_array(texts: list[str]) -> array[float]: ...
async def embed_with_numpy(texts: list[str]) -> npt.NDArray[np.float64]: ...
async def store(rows: list[int]) -> None: ...
def store_sync(rows: list[int]) -> None: ...
async def find(ids: list[int]) -> list[str | None]: ...
async def scaled(scale: int, texts: list[str]) -> list[float]: ...
async def with_model(texts: list[str], *, model: str) -> list[float]: ...
async def by_key(key: str, numbers: list[int]) -> list[float]: ...
def length(text: str) -> int: ...
def weight_of_bytes(data: bytes) -> float: ...
def key_of(number: int) -> str: ...


class Service:
    async def embed(self, texts: list[str]) -> list[float]: ...

    @batched
    async def bare(self, texts: list[str]) -> list[float]: ...

    @batched(max_batch_size=32)
    async def with_options(self, texts: list[str]) -> list[float]: ...

    @batched(max_batch_size=32)
    def sync(self, texts: list[str]) -> list[float]: ...

    @staticmethod
    @batched(max_batch_size=32)
    async def static(texts: list[str]) -> list[float]: ...


class LouderService(Service):
    async def twice(self, text: str) -> float:
        return assert_type(await super().bare(text), float) + assert_type(await self.bare(text), float)


class Callee:
    async def __call__(self, texts: list[str]) -> list[float]: ...


class SyncCallee:
    def __call__(self, texts: list[str]) -> list[float]: ...


class Lengths(AsyncBatcher[str, int]):
    async def process_batch(self, batch: list[str]) -> list[int]:
        return [len(text) for text in batch]


class SyncLengths(AsyncBatcher[str, int]):
    def process_batch(self, batch: list[str]) -> Sequence[int]:
        return [len(text) for text in batch]


def from_callable_infers_items_and_results() -> None:
    """Async and sync functions, methods, objects, partials."""
    assert_type(AsyncBatcher.from_callable(embed), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(embed_sync), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(embed_sequence), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(embed_later), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(find), AsyncBatcher[int, str | None])
    assert_type(AsyncBatcher.from_callable(Service().embed), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(Callee()), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(SyncCallee()), AsyncBatcher[str, float])
    assert_type(AsyncBatcher.from_callable(embed_as_array), AsyncBatcher[str, float])
    AsyncBatcher.from_callable(embed_with_numpy)  # of its rows' type it says nothing


def a_processor_that_returns_nothing_gives_none() -> None:
    """Not `Never`, after which a checker would take all code for unreachable."""
    assert_type(AsyncBatcher.from_callable(store), AsyncBatcher[int, None])
    assert_type(AsyncBatcher.from_callable(store_sync), AsyncBatcher[int, None])


async def partials_give_results() -> None:
    """Of their items mypy knows nothing."""
    assert_type(await AsyncBatcher.from_callable(functools.partial(scaled, 3)).process("one"), float)
    assert_type(
        await AsyncBatcher.from_callable(functools.partial(with_model, model="m")).process("one"), float
    )
    assert_type(await batched(functools.partial(scaled, 3))("one"), float)


async def calls_give_results(batcher: AsyncBatcher[str, float]) -> None:
    """`process`, `submit` and the rest."""
    assert_type(await batcher.process("one"), float)
    assert_type(await batcher.process("one", expires_after=1.5), float)
    assert_type(await batcher.submit("one", expires_after=None), Submission[float])
    assert_type(await (await batcher.submit("one")), float)
    assert_type((await batcher.submit("one")).withdraw(), bool)
    assert_type(batcher.stats(), BatcherStats)
    batcher.flush()
    await batcher.stop(force=True, timeout=1.5)
    async with batcher as entered:
        assert_type(entered, AsyncBatcher[str, float])
    async with Lengths() as lengths:
        assert_type(lengths, Lengths)
    await batcher.process(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await batcher.process("one", 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def many_at_once_give_results(
    batcher: AsyncBatcher[str, float], texts: list[str], source: AsyncIterator[str]
) -> None:
    """`process_many` and `map`: errors are among the results only where that was asked for."""
    assert_type(await batcher.process_many(texts), list[float])
    assert_type(await batcher.process_many(iter(texts), max_pending=8), list[float])
    assert_type(await batcher.process_many(texts, return_exceptions=True), list[float | BaseException])
    async with batcher.map(texts) as results:
        async for result in results:
            assert_type(result, float)
    async with batcher.map(source, ordered=False, max_pending=8, return_exceptions=True) as outcomes:
        async for outcome in outcomes:
            assert_type(outcome, float | BaseException)
    await batcher.process_many([3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    batcher.map([3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def subclasses_give_results() -> None:
    """With an async `process_batch` and a sync one."""
    assert_type(await Lengths(max_batch_size=32).process("one"), int)
    assert_type(await SyncLengths(name="lengths").process("one"), int)


async def groups_infer_keys_items_and_results() -> None:
    """All three, from the processor and `group_key`."""
    groups = BatcherGroups(by_key, group_key=key_of, max_groups=4, max_batch_size=8)
    assert_type(groups, BatcherGroups[str, int, float])
    assert_type(await groups.process(3), float)
    assert_type(await groups.submit(3), Submission[float])
    async with groups as entered:
        assert_type(entered, BatcherGroups[str, int, float])


batched_embed = batched(embed)
batched_embed_sync = batched(max_batch_size=32)(embed_sync)


@batched
async def bare_embed(texts: list[str]) -> list[float]: ...


@batched(max_batch_size=32, max_queue_time=0.005)
async def embed_with_options(texts: list[str]) -> list[float]: ...


@batched()
def sync_embed(texts: list[str]) -> list[float]: ...


@batched
async def batched_store(rows: list[int]) -> None: ...


async def decorated_functions_take_one_item() -> None:
    """`@batched` of functions."""
    assert_type(await batched_embed("one"), float)
    assert_type(await batched_embed_sync("one"), float)
    assert_type(await bare_embed("one"), float)
    assert_type(await embed_with_options("one"), float)
    assert_type(await sync_embed("one"), float)
    assert_type(await batched(Callee())("one"), float)
    assert_type(bare_embed.batcher, AsyncBatcher[str, float])
    assert_type(embed_with_options.batcher, AsyncBatcher[str, float])
    assert_type(batched_store.batcher, AsyncBatcher[int, None])
    await batched_store(3)
    of_one_item: Callable[[str], Awaitable[float]] = bare_embed
    await of_one_item("one")
    await bare_embed(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bare_embed(["one"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bare_embed(texts="one")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def decorated_methods_take_one_item(service: Service) -> None:
    """`@batched` of methods, bound and through the class."""
    assert_type(await service.bare("one"), float)
    assert_type(await service.with_options("one"), float)
    assert_type(await service.sync("one"), float)
    assert_type(await LouderService().bare("one"), float)
    assert_type(await Service.static("one"), float)
    assert_type(await Service.bare(service, "one"), float)
    assert_type(service.with_options.batcher, AsyncBatcher[str, float])
    of_one_item: Callable[[str], Awaitable[float]] = service.bare
    await of_one_item("one")
    await service.bare(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def observe(event: BatchEvent) -> None: ...


def options_have_types(options: BatcherOptions[str]) -> None:
    """Each option, for the constructor, `from_callable`, the groups and the decorator; they can be passed on."""
    AsyncBatcher.from_callable(
        embed,
        max_batch_size=None,
        max_queue_size=10,
        max_queue_time=0,
        concurrency=2,
        on_full="wait",
        enqueue_timeout=1.5,
        expires_after=2,
        weigh=length,
        max_batch_weight=1000,
        coalesce_key=length,
        split_on=(ValueError, KeyError),
        on_batch=observe,
        name="embed",
    )
    AsyncBatcher.from_callable(embed_sync, executor=ThreadPoolExecutor(), split_on=ValueError)
    AsyncBatcher.from_callable(
        embed, split_on=lambda error: "item" in str(error), weigh=lambda text: len(text) + 1
    )
    assert_type(AsyncBatcher.from_callable(embed, **options), AsyncBatcher[str, float])
    Lengths(**options)
    batched(embed, **options)
    batched(**options)(embed)
    batched(embed, weigh=length, coalesce_key=None)


def wrong_options_are_errors() -> None:
    """A name that does not exist, a wrong type, a function of other items."""
    AsyncBatcher.from_callable(embed, batch_size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    AsyncBatcher.from_callable(embed, max_batch_size="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AsyncBatcher.from_callable(embed, max_queue_time=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AsyncBatcher.from_callable(embed, on_full="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AsyncBatcher.from_callable(embed, weigh=weight_of_bytes)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    AsyncBatcher.from_callable(embed, split_on=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Lengths(weigh=weight_of_bytes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Lengths(batch_size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    batched(batch_size=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    batched(embed, weigh=weight_of_bytes)  # type: ignore[misc]  # pyright: ignore[reportCallIssue,reportArgumentType]
    BatcherGroups(by_key, group_key=key_of, max_groups="4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def wrong_processors_are_errors(nothing: Any) -> None:
    """What takes no list, and what returns no sequence."""
    AsyncBatcher.from_callable(length)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AsyncBatcher.from_callable(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    batched(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue,reportArgumentType]


async def helpers_for_tests_have_types() -> None:
    """The recording processor knows its items, and is a processor."""
    fn = RecordingProcessor(embed, raising(OSError()), weigh=length)
    assert_type(fn, RecordingProcessor[str, float])
    assert_type(fn.batches, list[list[str]])
    assert_type(AsyncBatcher.from_callable(fn), AsyncBatcher[str, float])
    assert_type(await batched(fn)("one"), float)
    fn.fail_item("one", ValueError())
    fn.fail_item(1, ValueError())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def main() -> int: ...


assert_type(run_virtual(main), int)
