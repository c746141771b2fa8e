"""Options: what they are, and what they may be.

Each is checked when the batcher is built, so that a mistake is found where it was made, and never changes after.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, get_args

import attrs

from async_batcher._events import BatchEvent

OnFull = Literal["reject", "wait"]

SplitOn: TypeAlias = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""Exception types that one item may cause, or a function that says so of an exception."""

T = TypeVar("T")


class BatcherOptions(TypedDict, Generic[T], total=False):
    """The keyword options of a batcher of items `T`, as a type for `**options: Unpack[BatcherOptions[T]]`."""

    max_batch_size: int | None
    max_queue_size: int | None
    max_queue_time: float
    concurrency: int | None
    on_full: OnFull
    enqueue_timeout: float | None
    expires_after: float | None
    weigh: Callable[[T], float] | None
    max_batch_weight: float | None
    coalesce_key: Callable[[T], Hashable] | None
    split_on: SplitOn
    executor: Executor | None
    on_batch: Callable[[BatchEvent], object] | None
    name: str | None


def is_async_callable(function: object) -> bool:
    """Say whether calling `function` gives a coroutine: async functions, methods, partials, async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _plain(function)))


def _plain(function: object) -> tuple[object, object]:
    """Unwrap partials, and return what is called in the end, and the `__call__` of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, type(function).__call__


def _is_generator(function: object) -> bool:
    plain = _plain(function)
    return any(map(inspect.isgeneratorfunction, plain)) or any(map(inspect.isasyncgenfunction, plain))


def check_processor(processor: object) -> None:
    """Refuse what can't be a processor.

    Raises:
        TypeError: It is not callable, or it is a generator function.
    """
    if not callable(processor):
        raise TypeError(
            f"the processor must be a function of a list of items, async or not; {processor!r} can't be called"
        )
    if _is_generator(processor):
        raise TypeError(
            "the processor is a generator function; it must return one list with a result for each item, "
            "not yield them: collect the results and return the list"
        )


def check_count(name: str, value: object) -> None:
    """Accept a whole number from 1, or `None` for no limit.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is under 1.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number of at least 1, or None for no limit; got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, or None for no limit; got {value!r}")


def check_seconds(name: str, value: object, *, zero: bool, none: str | None) -> None:
    """Accept a finite number of seconds.

    Args:
        name: What the message calls it.
        value: What was given.
        zero: Whether 0 is allowed.
        none: What `None` means, or `None` where it is not allowed.

    Raises:
        TypeError: It is no number.
        ValueError: It is NaN, infinite, negative, or a zero that is not allowed.
    """
    if value is None and none is not None:
        return
    wanted = f"a finite number of seconds {'of at least' if zero else 'over'} 0"
    way_out = f", or None for {none}" if none is not None else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be {wanted}{way_out}; got {value!r}")
    if not 0 <= value <= sys.float_info.max or (value == 0 and not zero):
        raise ValueError(f"{name} must be {wanted}{way_out}; got {value!r}")


def _count(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_count(attribute.name, value)


def _window(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_seconds(attribute.name, value, zero=True, none=None)


def _budget(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_seconds(attribute.name, value, zero=False, none="no limit")


def check_expiry(value: object) -> None:
    """Accept seconds after which an item is too old, or `None` for never.

    Raises:
        TypeError: It is no number.
        ValueError: It is not over 0 and finite.
    """
    check_seconds("expires_after", value, zero=False, none="never")


def _expiry(_: object, __: attrs.Attribute[Any], value: object) -> None:
    check_expiry(value)


def _weight(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    wanted = "a finite number over 0, or None for no limit"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{attribute.name} must be {wanted}; got {value!r}")
    if not 0 < value <= sys.float_info.max:
        raise ValueError(f"{attribute.name} must be {wanted}; got {value!r}")


def _of_item(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not callable(value) or is_async_callable(value) or _is_generator(value):
        raise TypeError(f"{attribute.name} must be a plain function of one item, or None; got {value!r}")


def _split_on(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        return
    if isinstance(value, type | tuple) or not callable(value) or is_async_callable(value):
        raise TypeError(
            f"{attribute.name} must be exception types that one item may cause, such as (ValueError, KeyError), or a "
            f"plain function that says so of an exception; got {value!r}"
        )


def _on_full(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value not in get_args(OnFull):
        raise ValueError(f'{attribute.name} must be "reject" or "wait"; got {value!r}')


def _executor(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, Executor):
        raise TypeError(
            f"{attribute.name} must be a concurrent.futures.Executor, or None for threads of its own; got {value!r}"
        )


def _observer(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not callable(value):
        raise TypeError(f"{attribute.name} must be a function of one BatchEvent, or None; got {value!r}")
    if _is_generator(value):
        raise TypeError(
            f"{attribute.name} is a generator function, so calling it would do nothing; got {value!r}: "
            "make it a plain function"
        )
    if is_async_callable(value):
        raise TypeError(
            f"{attribute.name} must be a plain function, since nobody would await it; got the async {value!r}: "
            "let a plain function put the event into a queue that a task of yours reads"
        )


def _label(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a string, or None; got {value!r}")


@attrs.frozen(kw_only=True)
class Options:
    """The checked options of one batcher."""

    max_batch_size: int | None = attrs.field(default=64, validator=_count)
    max_queue_size: int | None = attrs.field(default=1024, validator=_count)
    max_queue_time: float = attrs.field(default=0.01, validator=_window)
    concurrency: int | None = attrs.field(default=1, validator=_count)
    on_full: OnFull = attrs.field(default="reject", validator=_on_full)
    enqueue_timeout: float | None = attrs.field(default=None, validator=_budget)
    expires_after: float | None = attrs.field(default=None, validator=_expiry)
    weigh: Callable[[Any], float] | None = attrs.field(default=None, validator=_of_item)
    max_batch_weight: float | None = attrs.field(default=None, validator=_weight)
    coalesce_key: Callable[[Any], Hashable] | None = attrs.field(default=None, validator=_of_item)
    split_on: SplitOn = attrs.field(default=(), validator=_split_on)
    executor: Executor | None = attrs.field(default=None, validator=_executor)
    on_batch: Callable[[BatchEvent], object] | None = attrs.field(default=None, validator=_observer)
    name: str | None = attrs.field(default=None, validator=_label)

    def __attrs_post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.enqueue_timeout is not None and self.on_full == "reject":
            raise ValueError(
                'enqueue_timeout bounds the wait for room, and with on_full="reject" nobody waits: '
                'write on_full="wait" beside it, or leave it out'
            )
        if self.max_batch_weight is not None and self.weigh is None:
            raise ValueError(
                "max_batch_weight caps what the items of a batch weigh together, and nothing weighs them: "
                "write weigh=len, or a function of your own, beside it, or leave it out"
            )

    @property
    def plain(self) -> bool:
        """Whether an item is nothing but an item: it has no weight, no key and no age."""
        return self.weigh is None and self.coalesce_key is None and self.expires_after is None

    @classmethod
    def checked(cls, processor: object, options: BatcherOptions[Any]) -> Options:
        """Check the options that were given for `processor`.

        Raises:
            TypeError: A name that does not exist, or a value of the wrong type.
            ValueError: A value out of its bounds, or two that contradict each other.
        """
        known = [field.name for field in attrs.fields(cls)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise TypeError(f"no option is called {', '.join(unknown)}; the options are {', '.join(known)}")
        checked = cls(**options)
        if checked.executor is not None and is_async_callable(processor):
            raise TypeError(
                "an executor runs sync processors, and this one is async, so it would never be used: "
                "leave executor out, or pass a plain function"
            )
        return checked
