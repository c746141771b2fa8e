"""The coroutines of a closed loop's callers, thrown away in any order: the garbage collector has its own.

Where it begins with an inner one, the caller's task is still there, held by nothing but what that coroutine waits for.
"""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from complaints import Complaints, event_loop
from holding import Holding
from scenes import assert_nothing_left
from virtual_time import run_virtual, settle

from async_batcher import AsyncBatcher, BatcherGroups

Either = AsyncBatcher[int, int] | BatcherGroups[int, int, int]
Call = Callable[[Either, int], Coroutine[Any, Any, Any]]


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Complaints]:
    """Hear whatever is complained of."""
    heard = Complaints(caplog)
    monkeypatch.setattr(sys, "unraisablehook", heard.of_interpreter)
    with caplog.at_level(logging.DEBUG, logger="async_batcher"):
        yield heard


def batcher_of(fn: Holding, **options: Any) -> Either:
    return AsyncBatcher.from_callable(fn, **options)


def groups_of(fn: Holding, **options: Any) -> Either:
    return BatcherGroups(fn.serve, group_key=lambda _: 0, max_groups=1, **options)


async def processes(batcher: Either, item: int) -> Any:
    return await batcher.process(item)


async def submits(batcher: Either, item: int) -> Any:
    return await (await batcher.submit(item))


async def sends_a_list(batcher: Any, item: int) -> Any:
    return await batcher.process_many([item])


async def maps(batcher: Any, item: int) -> Any:
    async with batcher.map([item]) as results:
        return await anext(results)


async def in_a_coroutine(call: Call, batcher: Either, item: int) -> Any:
    return await call(batcher, item)


def layers_of(task: "asyncio.Task[Any]") -> list[Any]:
    """List the coroutines and generators that a task waits in, from the outside to the inside."""
    inner: Any = task.get_coro()
    found: list[Any] = []
    while inspect.iscoroutine(inner) or inspect.isgenerator(inner):
        found.append(inner)
        inner = inner.cr_await if inspect.iscoroutine(inner) else inner.gi_yieldfrom
    return found


@pytest.mark.parametrize("next_loop", [False, True], ids=["no other loop", "on the next loop"])
@pytest.mark.parametrize("layer", [-1, -2, -3], ids=["innermost", "around it", "around that"])
@pytest.mark.parametrize("who", [0, 1, 2], ids=["running", "waiting", "in line"])
@pytest.mark.parametrize(
    ("build", "call"),
    [
        *[(batcher_of, call) for call in (processes, submits, sends_a_list, maps)],
        *[(groups_of, call) for call in (processes, submits)],
    ],
)
def test_caller_is_thrown_away_silently_whichever_of_its_coroutines_is_the_first(  # noqa: PLR0913, PLR0917 - a grid
    build: Callable[..., Either], call: Call, who: int, layer: int, next_loop: bool, complaints: Complaints
) -> None:
    """None of them lets go of its own task in the middle of that, which would close those around it once more."""
    fn, tasks = Holding(), list[asyncio.Task[Any]]()
    batcher = build(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait")
    with event_loop(complaints, tidy=False) as loop:
        for item in (1, 2, 3):
            tasks.append(loop.create_task(in_a_coroutine(call, batcher, item)))
            loop.run_until_complete(settle())
    fn.held = False

    def throw_away() -> None:
        first = layers_of(tasks[who])[layer]
        tasks.clear()
        first.close()

    async def use_it_on_the_next() -> None:
        assert await batcher.process(5) == 50
        throw_away()
        assert await batcher.process(6) == 60

    if next_loop:
        run_virtual(use_it_on_the_next)
    else:
        throw_away()
    complaints.check_there_are_none()
    run_virtual(batcher.stop)
    assert_nothing_left(batcher.stats())
