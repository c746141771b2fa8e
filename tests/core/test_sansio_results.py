"""Results without an event loop: what is read as results, and who gets what."""

import asyncio
import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from collector_model import Wait

from async_batcher import BatchAborted, BatchCancelled, ResultMismatch
from async_batcher._results import as_raised, as_results, deliver, deliver_error

CANCELLED = asyncio.CancelledError


def waits(count: int) -> list[Wait]:
    return [Wait(f"caller {number}") for number in range(count)]


# What is read as results


class Lying(list[int]):
    """Says that it has three, and has two."""

    def __len__(self) -> int:
        return 3


class FrameLike:
    """As a data frame: sized, indexed by column, iterated by column."""

    columns = ("a", "b", "c")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, name: str) -> list[int]:
        return [1, 2, 3]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Breaking(Sequence[int]):
    """A sequence that can't be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        raise ZeroDivisionError("no such row")


class Sized:
    """Has a length and nothing more."""

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize(
    "returned",
    [[1, 2, 3], (1, 2, 3), collections.deque([1, 2, 3]), range(1, 4), np.array([1, 2, 3])],
)
def test_sized_sequence_is_read(returned: Any) -> None:
    """Whatever its type, it is one result an item, in order."""
    assert list(as_results(returned, 3)) == [1, 2, 3]


def test_none_is_read_as_none_for_each() -> None:
    """A processor with nothing to say need not count."""
    assert list(as_results(None, 3)) == [None, None, None]


@pytest.mark.parametrize(
    "returned",
    [
        {0: 1, 1: 2, 2: 3},
        {1, 2, 3},
        "abc",
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        (number for number in (1, 2, 3)),
        iter([1, 2, 3]),
        FrameLike(),
        Sized(),
        np.array(3),
        3,
        Breaking(),
        Lying([1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_sequence_of_results_is_refused(returned: Any) -> None:
    """Also what has three of something, but not one value an item."""
    with pytest.raises(ResultMismatch, match=r"3 (item|result)\(s\)"):
        as_results(returned, 3)


@pytest.mark.parametrize("returned", [[], [1, 2], (1, 2, 3, 4), np.zeros((4, 3))], ids=repr)
def test_wrong_length_names_both_lengths(returned: Any) -> None:
    """An array counts by its first axis."""
    with pytest.raises(ResultMismatch, match=rf"3 item\(s\) and returned {len(returned)} result\(s\)"):
        as_results(returned, 3)


# Who gets what


def test_each_gets_its_own_and_who_is_gone_is_not_counted() -> None:
    """Results go by place, whoever has left."""
    callers = waits(4)
    callers[1].cancel()
    assert deliver(callers, ["a", "b", ValueError("c"), "d"], CANCELLED) == (2, 1)
    assert [caller.outcome for caller in callers] == ["a", None, None, "d"]
    assert repr(callers[2].error) == "ValueError('c')"


def test_one_error_object_in_many_places_is_an_own_one_for_each() -> None:
    """What one caller notes on its error no other reads."""
    error = ValueError("twice")
    callers = waits(3)
    assert deliver(callers, [error] * 3, CANCELLED) == (0, 3)
    errors = [caller.error for caller in callers]
    assert len({id(each) for each in errors}) == 3
    assert {repr(each) for each in errors} == {"ValueError('twice')"}


def test_raised_error_is_an_own_one_for_each_who_waits() -> None:
    """Who is gone gets none."""
    callers = waits(3)
    callers[0].cancel()
    assert deliver_error(callers, KeyError("k")) == 2
    one, two = (caller.error for caller in callers[1:])
    assert one is not two
    assert isinstance(one, KeyError)
    assert isinstance(two, KeyError)


class Unbound:
    """As a proxy of nothing: even to ask for its class is an error."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("working outside of a context")


def a_mock() -> Any:
    return Mock(spec=ValueError)


def a_class() -> Any:
    return ValueError


@pytest.mark.parametrize("make", [a_class, Unbound, a_mock])
def test_what_only_looks_like_an_error_is_a_result(make: Callable[[], Any]) -> None:
    """Only what can be raised is raised."""
    value = make()
    callers = waits(3)
    assert deliver(callers, [1, value, 3], CANCELLED) == (3, 0)
    assert callers[1].outcome is value


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CANCELLED(), BatchCancelled),
        (KeyboardInterrupt(), BatchAborted),
        (SystemExit(3), BatchAborted),
        (StopIteration(5), RuntimeError),
        (StopAsyncIteration(), RuntimeError),
        (GeneratorExit(), RuntimeError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_end_the_caller_is_told_as_something_else(error: BaseException, told: type) -> None:
    """It stays the cause."""
    outcome = as_raised(error, CANCELLED)
    assert type(outcome) is told
    assert outcome.__cause__ is error


def test_everything_else_is_told_as_it_is() -> None:
    """Also what is no `Exception`."""

    class Unusual(BaseException):
        pass

    for error in (ValueError(1), Unusual(2), ExceptionGroup("many", [ValueError(3)])):
        assert as_raised(error, CANCELLED) is error


class SilentExit(SystemExit):
    """It can't even be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_exit_that_cannot_be_printed_is_told_all_the_same() -> None:
    """Nobody waits for ever because a message could not be made."""
    assert type(as_raised(SilentExit(), CANCELLED)) is BatchAborted


class Unhashable(type):
    """Types of this kind are in no set."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return cls is other


class Odd(metaclass=Unhashable):
    """A result of an odd type."""


def test_result_whose_type_cannot_be_hashed_is_a_result() -> None:
    """And an error beside it an error."""
    odd, callers = Odd(), waits(2)
    assert deliver(callers, [odd, ValueError("bad")], CANCELLED) == (1, 1)
    assert callers[0].outcome is odd
    assert isinstance(callers[1].error, ValueError)
