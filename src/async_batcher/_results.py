"""Results and errors: their shape, and each caller's own copy.

Law: whatever a processor returns or raises, every caller of the batch gets an outcome, and none of them shares an
error that the others may change.
"""

from __future__ import annotations

import itertools
import types
from collections import UserString
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from async_batcher._errors import BatchAborted, BatchCancelled, BatcherError, ResultMismatch
from async_batcher._waiter import Waiter, fail

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from typing_extensions import TypeVar as TypeVarWithDefault

    from async_batcher._options import SplitOn

    R = TypeVarWithDefault("R", default=None)
else:
    R = TypeVar("R")
"""A result. The default is for a processor that returns nothing, of which checkers inferred Never or Unknown."""

R_co = TypeVar("R_co", covariant=True)


class Results(Protocol[R_co]):
    """One result for each item, in order: a list, a tuple, an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> R_co: ...


Returned: TypeAlias = "Awaitable[Results[R] | None] | Results[R] | None"
"""What a processor returns."""

_NOT_A_SEQUENCE = (
    str,
    UserString,
    bytes,
    bytearray,
    memoryview,
    Mapping,
    AbstractSet,
)  # sized, yet not one value an item
_READ_ONLY = (types.MemberDescriptorType, types.GetSetDescriptorType)
_SET_BY_RAISE = frozenset(
    {"__traceback__", "__cause__", "__context__", "__suppress_context__", "__dict__", "__weakref__"}
)


def as_results(returned: object, count: int) -> list[Any] | tuple[Any, ...]:
    """Read what a processor returned for `count` items as one result an item.

    `None` stands for a list of `None`. Any sized sequence will do: a list, a tuple, an array by its first axis.

    Raises:
        ResultMismatch: It is something else, or its length is not `count`.
    """
    if returned is None:
        return (None,) * count
    # A subclass may lie about its length, so only the two types themselves are taken as they are.
    results = returned if type(returned) is list or type(returned) is tuple else _read(returned, count)
    if len(results) != count:
        raise _mismatch(count, len(results))
    return results


def _mismatch(count: int, found: int) -> ResultMismatch:
    return ResultMismatch(
        f"the processor got {count} item(s) and returned {found} result(s); it must return one result "
        "for each item, in order. For an item that failed, put the exception in its place"
    )


def _read(returned: Any, count: int) -> list[Any]:
    """Make a list of a sequence that is neither list nor tuple."""
    kind = type(returned)
    sized = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    if not sized or isinstance(returned, _NOT_A_SEQUENCE) or hasattr(kind, "columns"):
        raise ResultMismatch(
            f"the processor got {count} item(s) and returned a {kind.__name__}; it must return a list (or a tuple, "
            "or an array) with one result for each item, in order"
        )
    try:
        found = len(returned)
        results = list(itertools.islice(returned, count + 1))  # it may go on for ever, whatever its length is
    except Exception as error:
        raise ResultMismatch(
            f"the processor returned a {kind.__name__} that can't be read as {count} result(s): {error}"
        ) from error
    if found != count:
        raise _mismatch(count, found)
    return results


def deliver(
    waiters: Sequence[Waiter], results: Sequence[Any], cancelled: type[BaseException]
) -> tuple[int, int]:
    """Give each waiter its result, or raise it there where it is an exception.

    Args:
        waiters: Those who wait, in order.
        results: As many results.
        cancelled: The event loop's own exception for a cancelled task.

    Returns:
        How many got a result, and how many an exception. Those who are gone are not counted.
    """
    if not any_error(results):
        gone = 0
        for waiter, result in zip(waiters, results, strict=True):
            if waiter.done():
                gone += 1
            else:
                waiter.set_result(result)
        return len(waiters) - gone, 0
    succeeded = failed = 0
    for waiter, result in zip(waiters, results, strict=True):
        if waiter.done():
            continue
        if issubclass(
            type(result), BaseException
        ):  # its __class__ may be another's, or raise: a mock, a proxy
            # A copy even of one that is raised once: it may be a constant, and would grow with every batch.
            failed += fail(waiter, own_copy(as_raised(result, cancelled)))
        else:
            waiter.set_result(result)
            succeeded += 1
    return succeeded, failed


def any_error(results: Sequence[Any]) -> bool:
    """Say whether there may be an exception among the results."""
    try:  # the types of a batch are few, so that asking each of them once is less than asking each result
        kinds = set(map(type, results))
    except Exception:  # noqa: BLE001  (a metaclass may refuse to be hashed)
        return True
    return any([issubclass(kind, BaseException) for kind in kinds])  # noqa: C419  (a list is quicker here)


def deliver_error(waiters: Iterable[Waiter], error: BaseException) -> int:
    """Raise `error` at every waiter, each its own copy, and return how many got it."""
    return sum(fail(waiter, own_copy(error)) for waiter in waiters if not waiter.done())


def as_raised(error: BaseException, cancelled: type[BaseException]) -> BaseException:
    """Say what callers get for what a processor raised, or returned in an item's place.

    Args:
        error: What it raised.
        cancelled: The event loop's own exception for a cancelled task.
    """
    kind = type(error)  # isinstance would ask the error's own `__class__`
    if issubclass(kind, cancelled):
        outcome: BaseException = BatchCancelled(
            "the batch was cancelled; the outcome of its items is unknown"
        )
    elif issubclass(kind, KeyboardInterrupt | SystemExit):
        outcome = BatchAborted("the processor ended the program; the outcome of its items is unknown")
    elif issubclass(kind, StopIteration | StopAsyncIteration | GeneratorExit):
        # These would end the caller's own iteration, and a future refuses the first of them.
        outcome = RuntimeError(f"the processor raised {name_of(kind)}")
    else:
        return error
    outcome.__cause__ = error
    return outcome


_OUTAGES = (TimeoutError, OSError, BrokenExecutor, BatcherError)
"""What no item causes. A cancellation comes as `BatchCancelled`."""


def may_split(error: BaseException, split_on: SplitOn) -> bool:
    """Say whether one item may have caused `error`, so that a failed batch is tried again in halves.

    What no item causes counts only where its own type is named, not where it is caught by a wider one.
    """
    kind = type(error)
    if not issubclass(kind, Exception):
        return False
    if not isinstance(split_on, type | tuple):
        return bool(split_on(error))  # type: ignore[arg-type]  # it is an Exception, seen through its type
    wide = next((outage for outage in _OUTAGES if issubclass(kind, outage)), Exception)
    named = split_on if isinstance(split_on, tuple) else (split_on,)
    return any(issubclass(kind, name) and issubclass(name, wide) for name in named)


def name_of(kind: type) -> str:
    """Name a type as the user would import it."""
    try:
        return f"{kind.__module__}.{kind.__qualname__}"
    except BaseException:  # noqa: BLE001  (any code of the user's may run above, and its callers still wait)
        return "unknown"


def own_copy(error: BaseException) -> BaseException:
    """Copy an exception, so that what one caller does to it does not reach the others.

    `__init__` is not called, since it may build its message from other arguments than `args`. A copy that is not
    equal in type, `args`, attributes and text is not used: then all callers share the original.
    """
    try:
        copy = type(error).__new__(type(error), *error.args)
        copy.args = error.args
        _copy_attributes(error, copy)
        copy.__cause__ = error.__cause__
        copy.__context__ = error.__context__
        copy.__suppress_context__ = error.__suppress_context__
        faithful = type(copy) is type(error) and copy.args == error.args and str(copy) == str(error)
        return BaseException.with_traceback(copy, error.__traceback__) if faithful else error
    except BaseException:  # noqa: BLE001  (any code of the user's may run above, and its callers still wait)
        return error


def _copy_attributes(error: BaseException, copy: BaseException) -> None:
    """Copy what lies in `__dict__`, and what lies in slots or in the fields of a built-in type."""
    copy.__dict__.update(error.__dict__)
    if "__notes__" in copy.__dict__:
        copy.__dict__["__notes__"] = list(copy.__dict__["__notes__"])
    for cls in type(error).__mro__:
        for name, field in vars(cls).items():
            if not isinstance(field, _READ_ONLY) or name in _SET_BY_RAISE or not hasattr(error, name):
                continue
            mine, theirs = getattr(copy, name, None), getattr(error, name)
            if mine is not theirs and mine != theirs:
                setattr(copy, name, theirs)
