"""Keep a backend's errors apart from the service's own: `from_callable(apart(processor))`.

What a processor raises reaches its callers as it is. Where each error class has an answer of its own, as in
the HTTP service, that is too open: a `QueueFull` of a batcher that the processor uses would read "not
accepted, send it again", though this item has been processed.

Two of its errors keep their meaning: `BackendDeadlineExceeded`, and an `ItemRefused` in an item's place. So do
the orders that are no errors: a cancellation, `KeyboardInterrupt`, `SystemExit`, `GeneratorExit`. What else is no
`Exception`, as the panic of an extension in another language, is a failure like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
from collections import UserString
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, TypeVar

from examples.recipes.operations import BackendDeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

Item = TypeVar("Item")
Result = TypeVar("Result")


_ORDERS: Final = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
_NOT_ONE_AN_ITEM: Final = (str, UserString, bytes, bytearray, memoryview, Mapping, AbstractSet)
"""Sized, and yet nothing that a batcher takes for one result an item."""


class BackendFailed(Exception):
    """A processor failed. Its own error is the cause, and no answer of the service's."""


class ItemRefused(Exception):
    """What a processor puts in the place of an item that is at fault itself: its client is told the text.

    It is no word on the siblings, so raised it is a failure like any other.
    """


def apart(processor: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Keep what `processor` raises, and puts in an item's place, apart from the service's own errors.

    Everything but the two that this file's head names becomes `BackendFailed`.
    """
    plain = processor
    while isinstance(plain, functools.partial):
        plain = plain.func

    async def call(items: list[Any]) -> Any:
        return await _awaited_apart(processor(items), len(items))

    def call_in_thread(items: list[Any]) -> Any:
        with _apart():
            returned = processor(items)
            if inspect.isawaitable(returned):
                return _awaited_apart(returned, len(items))
            return _results(returned, len(items))

    is_async = inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(type(plain).__call__)
    return call if is_async else call_in_thread


def refusing(
    processor: Callable[[list[Item]], list[Result]], fault: Callable[[Item], str | None]
) -> Callable[[list[Item]], list[Result | ItemRefused]]:
    """Keep from a plain `processor` the items that `fault` names a fault of, and refuse them in their own places."""

    def call(items: list[Item]) -> list[Result | ItemRefused]:
        faults = [fault(item) for item in items]
        sound = [item for item, found in zip(items, faults, strict=True) if found is None]
        results = processor(sound) if sound else []
        if len(results) != len(sound):
            raise ValueError(f"the processor returned {len(results)} results for {len(sound)} items")
        of_the_sound = iter(results)
        return [next(of_the_sound) if found is None else ItemRefused(found) for found in faults]

    return call


async def _awaited_apart(returned: Awaitable[Any], count: int) -> Any:
    with _apart():
        return _results(await returned, count)


@contextlib.contextmanager
def _apart() -> Generator[None]:
    try:
        yield
    except (BackendDeadlineExceeded, *_ORDERS):
        raise
    except BaseException as error:
        raise _failure(error) from error


def _results(returned: Any, count: int) -> Any:
    """Return it as it is, for the batcher to judge, but for the errors in it.

    What is no sequence of `count` is not even looked into: a list made of a set, say, would pass for results.
    """
    if not _is_one_an_item(returned) or len(returned) != count:
        return returned
    # It may go on for ever, whatever its length is, and may be read only once.
    results = returned if type(returned) in {list, tuple} else list(itertools.islice(returned, count + 1))
    if not any(map(_speaks_for_others, results)):
        return results
    return [_failure(each) if _speaks_for_others(each) else each for each in results]


def _is_one_an_item(returned: object) -> bool:
    kind = type(returned)
    if isinstance(returned, _NOT_ONE_AN_ITEM) or hasattr(kind, "columns"):
        return False
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__")


def _speaks_for_others(result: object) -> bool:
    kind = type(result)  # its `__class__` may be another's: a mock, a proxy
    return issubclass(kind, BaseException) and not issubclass(
        kind, (BackendDeadlineExceeded, ItemRefused, *_ORDERS)
    )


def _failure(error: BaseException) -> BackendFailed:
    failure = BackendFailed(f"the backend raised {type(error).__name__}")
    failure.__cause__ = error
    return failure
