"""Options by themselves: what the table of types and the checks must agree on, and values beyond any float."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest

from async_batcher._options import BatcherOptions, Options, check_seconds

BEYOND_FLOATS = 10**400


async def processor(batch: list[int]) -> list[int]:
    return batch


def test_typed_options_are_those_that_are_checked() -> None:
    """What a type checker accepts is what is accepted, and nothing else."""
    assert set(BatcherOptions.__annotations__) == {field.name for field in attrs.fields(Options)}


@pytest.mark.parametrize("value", [BEYOND_FLOATS, -BEYOND_FLOATS], ids=["huge", "minus huge"])
def test_seconds_beyond_any_float_are_refused_as_not_finite(value: int) -> None:
    """A whole number that no clock can be compared with is a `ValueError`, not an overflow."""
    with pytest.raises(ValueError, match="max_queue_time must be a finite number"):
        Options(max_queue_time=value)
    with pytest.raises(ValueError, match="timeout must be a finite number"):
        check_seconds("timeout", value, zero=False, none="no limit")


def a_generator(event: object) -> Iterator[object]:
    yield event


async def an_async_generator(event: object) -> AsyncIterator[object]:
    yield event


@pytest.mark.parametrize("observer", [a_generator, an_async_generator])
def test_observer_that_would_never_run_is_refused(observer: Any) -> None:
    """Calling a generator function runs none of its lines."""
    with pytest.raises(TypeError, match="on_batch"):
        Options(on_batch=observer)


def test_all_unknown_names_are_named() -> None:
    """One message for all of them, with the names that exist."""
    given: Any = {"max_size": 3, "batch": 4, "name": "fine"}
    with pytest.raises(TypeError, match=r"max_size.*batch.*max_batch_size"):
        Options.checked(processor, given)
