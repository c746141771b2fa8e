"""What a processor may return, and what it may not (contract, rule 4)."""

import array
import collections
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from recording import RecordingProcessor, returns
from scenes import open_scene

from async_batcher import BatcherError, ResultMismatch

pytestmark = pytest.mark.anyio


class Unhashable:
    """An item that can be neither hashed nor compared, nor asked for its truth."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("an item was compared")

    def __bool__(self) -> bool:
        raise AssertionError("an item was asked for its truth")

    def __len__(self) -> int:
        raise AssertionError("an item was asked for its length")

    def __repr__(self) -> str:
        raise AssertionError("an item was printed")


class LookingLike(collections.UserDict[int, int]):
    """A mapping that is not a dict: `result[0]` works, but gives keys' values."""


async def results_of(value: Any, size: int = 3) -> list[Any]:
    """Let a batch of so many items come to this value; the next batch must be fine."""
    fn = RecordingProcessor()
    fn.script.append(returns(value))
    async with open_scene(fn, max_batch_size=size) as scene:
        callers = await scene.process(*range(size))
        assert not any(caller.waits for caller in callers)
        after = await scene.process(*range(size))
        assert [caller.result for caller in after] == [item * 10 for item in range(size)]
    return [caller.error if caller.error is not None else caller.result for caller in callers]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([1, 2, 3], id="list"),
        pytest.param((1, 2, 3), id="tuple"),
        pytest.param(collections.deque([1, 2, 3]), id="deque"),
        pytest.param(collections.UserList([1, 2, 3]), id="UserList"),
        pytest.param(array.array("i", [1, 2, 3]), id="array"),
        pytest.param(np.array([1, 2, 3]), id="numpy"),
        pytest.param(range(1, 4), id="range"),
    ],
)
async def test_sized_sequence_is_handed_out_in_order(value: Any) -> None:
    """A list, a tuple, an array, anything that is a sequence of the right length."""
    assert await results_of(value) == [1, 2, 3]


@pytest.mark.parametrize("rows", [1, 2, 3])
async def test_rows_of_a_numpy_array(rows: int) -> None:
    """E7: row i goes to caller i, for one row too: no array is asked for its truth."""
    matrix = np.arange(rows * 2).reshape(rows, 2)
    results = await results_of(matrix, rows)
    assert [list(row) for row in results] == [[2 * row, 2 * row + 1] for row in range(rows)]


async def test_none_gives_every_caller_none() -> None:
    """E1: a processor with nothing to say may return `None`."""
    assert await results_of(None) == [None, None, None]


async def test_none_within_the_sequence_is_a_value() -> None:
    """A `None` in the sequence is one caller's result."""
    assert await results_of([1, None, 3]) == [1, None, 3]


@pytest.mark.parametrize(
    ("value", "found"),
    [([1, 2], 2), ([1, 2, 3, 4], 4), ([], 0), ((1,), 1), (np.arange(4), 4), (np.zeros((0, 3)), 0)],
)
async def test_wrong_length_is_told_to_every_caller(value: Any, found: int) -> None:
    """E1: one error naming both lengths, a `TypeError` too; the next batch is fine."""
    for error in await results_of(value):
        assert isinstance(error, ResultMismatch)
        assert isinstance(error, TypeError)
        assert isinstance(error, BatcherError)
        assert str(found) in str(error)
        assert "3" in str(error)


def numbers() -> Iterator[int]:
    yield from (1, 2, 3)


async def async_numbers() -> AsyncIterator[int]:
    for number in (1, 2, 3):
        yield number


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: {0: 1, 1: 2, 2: 3}, id="dict"),
        pytest.param({0: 1, 1: 2, 2: 3}.keys, id="dict keys"),
        pytest.param({0: 1, 1: 2, 2: 3}.values, id="dict values"),
        pytest.param(lambda: collections.OrderedDict({0: 1, 1: 2, 2: 3}), id="OrderedDict"),
        pytest.param(lambda: collections.Counter("abc"), id="Counter"),
        pytest.param(lambda: LookingLike({0: 1, 1: 2, 2: 3}), id="UserDict"),
        pytest.param(lambda: types.MappingProxyType({0: 1, 1: 2, 2: 3}), id="mapping proxy"),
        pytest.param(lambda: "abc", id="str"),
        pytest.param(lambda: collections.UserString("abc"), id="UserString"),
        pytest.param(lambda: b"abc", id="bytes"),
        pytest.param(lambda: bytearray(b"abc"), id="bytearray"),
        pytest.param(lambda: {1, 2, 3}, id="set"),
        pytest.param(lambda: frozenset({1, 2, 3}), id="frozenset"),
        pytest.param(numbers, id="generator"),
        pytest.param(lambda: iter([1, 2, 3]), id="iterator"),
        pytest.param(lambda: map(int, "123"), id="map"),
        pytest.param(lambda: zip("123", "123", strict=True), id="zip"),
        pytest.param(async_numbers, id="async generator"),
        pytest.param(lambda: 3, id="int"),
        pytest.param(object, id="object"),
        pytest.param(lambda: np.array(3), id="numpy scalar"),
        pytest.param(lambda: pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}), id="data frame"),
        pytest.param(lambda: list, id="class"),
        pytest.param(lambda: ValueError("returned, not raised"), id="exception"),
        pytest.param(lambda: True, id="bool"),
    ],
)
async def test_what_is_no_sequence_is_told_to_every_caller(make: Any) -> None:
    """E6: keys, characters, columns and elements in no order are never handed out."""
    for error in await results_of(make()):
        assert isinstance(error, ResultMismatch), error


@pytest.mark.parametrize("value", ["text", [1, 2], {"a": 1}, (), b"", None, 0, np.arange(3)])
async def test_single_item_gets_the_very_object(value: Any) -> None:
    """E3: the caller of a batch of one gets the element, not the element's first element."""
    (result,) = await results_of([value], 1)
    assert result is value


async def test_equal_items_each_get_their_own_result() -> None:
    """E2, E8: equal items are items of their own: the processor sees all, each caller gets one."""
    fn = RecordingProcessor(lambda batch: list(range(len(batch))))
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process({"id": 1}, {"id": 1}, [1])
        assert [caller.result for caller in callers] == [0, 1, 2]
    assert fn.batches == [[{"id": 1}, {"id": 1}, [1]]]


async def test_items_and_results_are_never_looked_into() -> None:
    """E8, F2: no hash, no comparison, no truth, no length and no repr of an item or a result."""
    items = [Unhashable() for _ in range(3)]
    fn = RecordingProcessor(list)
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await scene.process(*items)
        assert all(caller.result is item for caller, item in zip(callers, items, strict=True))
        (leaver,) = await scene.process(Unhashable())
        leaver.cancel()


async def test_processor_may_keep_and_change_its_batch() -> None:
    """The list that it is given is its own: to clear it takes nobody's result away."""

    async def clears(batch: list[int]) -> list[int]:
        results = [item * 10 for item in batch]
        batch.clear()
        return results

    async with open_scene(clears, max_batch_size=2) as scene:
        callers = await scene.process(1, 2)
        assert [caller.result for caller in callers] == [10, 20]


async def test_processor_may_return_the_batch_itself() -> None:
    """An identity processor hands each its own item."""

    async def identity(batch: list[int]) -> list[int]:
        return batch

    async with open_scene(identity, max_batch_size=2) as scene:
        callers = await scene.process(1, 2)
        assert [caller.result for caller in callers] == [1, 2]


async def test_class_of_an_exception_is_a_value() -> None:
    """Only instances are errors."""
    assert await results_of([1, ValueError, 3]) == [1, ValueError, 3]
