"""Errors inside the sequence, and sequences that misbehave (contract, rules 4 and 5)."""

import asyncio
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest
from recording import RecordingProcessor, returns
from scenes import Caller, open_scene

from async_batcher import BatchEvent

pytestmark = pytest.mark.anyio


class Misbehaving(Sequence[int]):
    """A sequence of three that breaks where it is asked to."""

    def __init__(self, where: str, error: type[BaseException]) -> None:
        self._where = where
        self._error = error

    def _maybe(self, where: str) -> None:
        if self._where == where:
            raise self._error("a broken sequence")

    def __len__(self) -> int:
        self._maybe("len")
        return 3

    def __getitem__(self, index: Any) -> Any:
        self._maybe("getitem")
        if index not in (0, 1, 2):
            raise IndexError(index)
        return 10 * int(index)

    def __iter__(self) -> Any:
        self._maybe("iter")
        for index in range(3):
            if index == 1:
                self._maybe("next")
            yield 10 * index


class Liar(list[int]):
    """Says that it has three and gives another number."""

    def __len__(self) -> int:
        return 3


async def callers_of(value: Any, events: list[BatchEvent] | None = None) -> list[Caller]:
    fn = RecordingProcessor()
    fn.script.append(returns(value))
    on_batch = events.append if events is not None else None
    async with open_scene(fn, max_batch_size=3, on_batch=on_batch) as scene:
        callers = await scene.process(1, 2, 3)
        assert not any(caller.waits for caller in callers)
        after = await scene.process(4, 5, 6)
        assert [caller.result for caller in after] == [40, 50, 60]
    return callers


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_exception_in_the_sequence_is_raised_to_its_caller_alone(place: int) -> None:
    """E5: the siblings get their results, and the counts say two and one."""
    events: list[BatchEvent] = []
    value: list[Any] = [1, 2, 3]
    value[place] = ValueError("only this one")
    callers = await callers_of(value, events)
    assert callers[place].failed(ValueError).args == ("only this one",)
    assert [caller.result for index, caller in enumerate(callers) if index != place] == [
        item for item in value if isinstance(item, int)
    ]
    assert (events[0].succeeded, events[0].failed, events[0].error_type) == (2, 1, None)


async def test_same_exception_in_several_places_is_each_callers_own() -> None:
    """One object for several callers does not collect their tracebacks."""
    error = ValueError("shared")
    callers = await callers_of([error, error, 3])
    lengths = [len(traceback.extract_tb(caller.failed(ValueError).__traceback__)) for caller in callers[:2]]
    assert lengths[0] == lengths[1]
    assert callers[2].result == 3


async def test_stop_iteration_in_the_sequence_becomes_a_runtime_error() -> None:
    """F1 (b): a future cannot hold it, and a coroutine cannot raise it."""
    for kind in (StopIteration, StopAsyncIteration):
        original = kind("end")
        callers = await callers_of([1, original, 3])
        assert (callers[0].result, callers[2].result) == (1, 3)
        if kind is StopIteration:
            assert callers[1].failed(RuntimeError).__cause__ is original
        else:
            assert isinstance(callers[1].error, (RuntimeError, StopAsyncIteration))


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), BaseException()]
)
async def test_base_exception_in_the_sequence_harms_nobody_else(error: BaseException) -> None:
    """Rule 5: returned, not raised, it stops no loop: its caller hears of an error, the others get theirs."""
    callers = await callers_of([1, error, 3])
    assert (callers[0].result, callers[2].result) == (1, 3)
    assert callers[1].error is not None or callers[1].result is error


@pytest.mark.parametrize("where", ["len", "getitem", "iter", "next"])
@pytest.mark.parametrize("error", [ValueError, StopIteration, IndexError])
async def test_sequence_that_breaks_leaves_nobody_waiting(where: str, error: type[Exception]) -> None:
    """F2: whatever breaks in the result's own code, each caller gets a value or an error."""
    for index, caller in enumerate(await callers_of(Misbehaving(where, error))):
        assert caller.error is not None or caller.result == 10 * index


@pytest.mark.parametrize("content", [[], [1], [1, 2, 3, 4, 5]])
async def test_sequence_that_lies_about_its_length_leaves_nobody_waiting(content: list[int]) -> None:
    """E1: `len` says three, the content is not: everyone ends."""
    for index, caller in enumerate(await callers_of(Liar(content))):
        assert caller.error is not None or caller.result == content[index]


async def test_exception_with_hostile_attributes_leaves_nobody_waiting() -> None:
    """An exception whose own code raises when it is looked at still ends its caller's wait."""

    class Hostile(Exception):
        def __str__(self) -> str:
            raise LookupError("no text")

        def __eq__(self, other: object) -> bool:
            raise LookupError("no comparison")

        def __hash__(self) -> int:
            raise LookupError("no hash")

        def __getattr__(self, name: str) -> NoReturn:
            raise LookupError(name)

    callers = await callers_of([1, Hostile(), 3])
    assert (callers[0].result, callers[2].result) == (1, 3)
    assert type(callers[1].error) is Hostile
