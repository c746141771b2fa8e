"""`@batched`: a function of a list becomes a function of one item.

Law: a batcher keeps no instance alive, but its items do: an instance is held while one of its items waits or runs.

A function has one batcher, a method one for each instance. That one is kept beside the instance, not in it, so
that copies, pickles and `__slots__` stay as they are; it is found by the instance's identity, so that equal and
unhashable instances have one each; and it goes when the instance goes.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from contextvars import copy_context
from inspect import Parameter, Signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, overload

from async_batcher._batcher import AsyncBatcher
from async_batcher._options import check_processor, is_async_callable
from async_batcher._results import R

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, Self, Unpack

    from async_batcher._collector import Collector
    from async_batcher._options import BatcherOptions
    from async_batcher._results import Returned

S = TypeVar("S")
T = TypeVar("T")

_SELF: Final = Parameter("self", Parameter.POSITIONAL_ONLY)
_ITEM: Final = Parameter("item", Parameter.POSITIONAL_ONLY)


class BatchedDecorator(Protocol):
    """What `batched(**options)` returns."""

    @overload
    def __call__(self, processor: Callable[[list[T]], Returned[R]], /) -> BatchedFunction[T, R]: ...

    @overload
    def __call__(self, processor: Callable[[S, list[T]], Returned[R]], /) -> BatchedMethod[S, T, R]: ...


@overload
def batched(
    processor: Callable[[list[T]], Returned[R]], /, **options: Unpack[BatcherOptions[T]]
) -> BatchedFunction[T, R]: ...


@overload
def batched(
    processor: Callable[[S, list[T]], Returned[R]], /, **options: Unpack[BatcherOptions[T]]
) -> BatchedMethod[S, T, R]: ...


@overload
def batched(**options: Unpack[BatcherOptions[Any]]) -> BatchedDecorator: ...


def batched(*processor: Any, **options: Unpack[BatcherOptions[Any]]) -> Any:
    """Make a function of a list of items one of one item: calls at about the same time share a batch.

        @batched(max_batch_size=32)
        async def embed(texts: list[str]) -> list[Vector]: ...

        vector = await embed("one")

    What it gives has a `batcher`: to `submit` to, to `stop`, to enter by `async with`, without which it does not
    work on trio. A method of `self` and a list is decorated alike, and has one batcher an instance,
    `service.embed.batcher`, which goes when the instance goes; an item that waits or runs keeps the instance alive.
    A class with `__slots__` needs one that is called `__weakref__`.

    Args:
        *processor: The function or the method, as `AsyncBatcher.from_callable` takes it; without it, what is
            returned takes it.
        **options: As of `AsyncBatcher`.

    Raises:
        TypeError: It is neither a function of one list nor a method of `self` and one, an option does not exist,
            or a value has the wrong type.
        ValueError: A value is out of its bounds, or two contradict each other.
    """
    if not processor:
        return functools.partial(batched, **options)
    function, *others = processor
    if others:
        raise TypeError(f"@batched takes one function, and options by their names; got {others!r} besides")
    if isinstance(function, classmethod):
        raise TypeError(_CLASS_METHOD)
    if isinstance(function, staticmethod):
        raise TypeError("@batched got a static method: write @staticmethod above @batched")
    check_processor(function)
    if _takes(function, 1):
        return BatchedFunction(function, options)
    if _takes(function, 2):
        return BatchedMethod(function, options)
    raise TypeError(
        f"@batched takes a function of one list of items, or a method of self and one; {_name_of(function)}"
        f"{inspect.signature(function)} is neither: bind what else it needs by functools.partial"
    )


class BatchedFunction(Generic[T, R]):
    """A function of one item. It is copied and pickled as a function is: by its name."""

    __wrapped__: Callable[[list[T]], Any]

    def __init__(self, function: Callable[[list[T]], Returned[R]], options: BatcherOptions[Any]) -> None:
        _wear_the_name_of(function, self)
        self.__signature__: Signature = Signature([_ITEM])
        importable = isinstance(function, FunctionType) and not is_async_callable(function)
        processor = _Importable(self) if importable else function
        self._batcher: AsyncBatcher[T, R] = AsyncBatcher.from_callable(processor, **options)

    @property
    def batcher(self) -> AsyncBatcher[T, R]:
        """The batcher behind it."""
        return self._batcher

    async def __call__(self, item: T, /) -> R:
        """Have one item processed, as `AsyncBatcher.process` does."""
        return await self._batcher.process(item)

    def __repr__(self) -> str:
        return f"<batched {_name_of(self)}>"

    def __reduce__(self) -> str:
        return _name_of(self)


class BatchedMethod(Generic[S, T, R]):
    """What stands in a class for its method; reached through an instance it is a `BoundBatched`.

    Mutable state: the batchers of the instances that are alive and were asked for theirs.
    """

    def __init__(self, function: Callable[[S, list[T]], Returned[R]], options: BatcherOptions[Any]) -> None:
        _wear_the_name_of(function, self)
        self.__signature__: Signature = Signature([_SELF, _ITEM])
        self._function: Callable[..., Any] = function
        self._options = options
        self._context = copy_context()  # the first call's would leak from there into all others
        self._batchers: dict[int, AsyncBatcher[T, R]] = {}
        no_instance: Any = None
        _build(functools.partial(function, no_instance), options)  # refuses here what each instance's would

    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Self: ...

    @overload
    def __get__(self, instance: S, owner: type[Any] | None = None, /) -> BoundBatched[T, R]: ...

    def __get__(self, instance: S | None, owner: type[Any] | None = None, /) -> Self | BoundBatched[T, R]:
        return self if instance is None else BoundBatched(self, instance)

    async def __call__(self, instance: S, item: T, /) -> R:
        """Have one item processed, as in `Base.method(self, item)`."""
        return await BoundBatched(self, instance)(item)

    @property
    def batcher(self) -> NoReturn:
        """There is none: each instance has its own."""
        raise AttributeError(f"{_name_of(self)} has one batcher an instance: ask it of the instance's method")

    def batcher_of(self, instance: S) -> AsyncBatcher[T, R]:
        """Find the batcher of an instance, or build it, once whatever threads ask for it.

        Raises:
            TypeError: The instance can't be referenced weakly, or it is a class.
        """
        key = id(instance)
        batcher = self._batchers.get(key)
        if batcher is None:
            if isinstance(instance, type):
                raise TypeError(_CLASS_METHOD)
            batcher = self._batchers.setdefault(key, self._new_batcher(instance, key))
        return batcher

    def _new_batcher(self, instance: S, key: int) -> AsyncBatcher[T, R]:
        held = _Held(instance, functools.partial(_forget, self._batchers, key))
        call = _call_async if is_async_callable(self._function) else _call
        batcher: AsyncBatcher[T, R] = self._context.copy().run(
            _build, functools.partial(call, self, held), self._options
        )
        runner = batcher._runner  # noqa: SLF001  (only there is known when the last item has gone)
        runner.on_act = functools.partial(held.look_after, runner.collector)
        return batcher

    def __repr__(self) -> str:
        return f"<batched {_name_of(self)}>"

    def __reduce__(self) -> str:
        return _name_of(self)


class BoundBatched(Generic[T, R]):
    """A method of one item, bound to its instance, which it keeps alive as every bound method does."""

    __slots__ = ("__func__", "__self__")

    __signature__: Signature = Signature([_ITEM])

    def __init__(self, method: BatchedMethod[Any, T, R], instance: object) -> None:
        self.__func__: BatchedMethod[Any, T, R] = method
        self.__self__: object = instance

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # else it would be this class's
        return self.__func__.__doc__

    @property
    def batcher(self) -> AsyncBatcher[T, R]:
        """The batcher of this instance: the same whenever it is asked for."""
        return self.__func__.batcher_of(self.__self__)

    async def __call__(self, item: T, /) -> R:
        """Have one item processed, as `AsyncBatcher.process` does."""
        return await self.__func__.batcher_of(self.__self__).process(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundBatched):
            return NotImplemented
        return self.__self__ is other.__self__ and self.__func__ is other.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), id(self.__func__)))

    def __repr__(self) -> str:
        return f"<bound batched {_name_of(self.__func__)} of {self.__self__!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, _name_of(self.__func__).rpartition(".")[2])


# Helpers


class _Held:
    """An instance, referenced weakly, and strongly for as long as its batcher is busy.

    Mutable state: the strong reference.
    """

    __slots__ = ("_instance", "_weak")

    def __init__(self, instance: object, gone: Callable[[object], object]) -> None:
        self._instance: object = None
        try:
            self._weak = weakref.ref(instance, gone)
        except TypeError as error:
            raise TypeError(
                f"a batched method needs weak references to its instance, and {type(instance).__name__} objects "
                'allow none: add "__weakref__" to __slots__ (a dataclass: weakref_slot=True)'
            ) from error

    def look_after(self, collector: Collector) -> None:
        """Keep the instance alive while there are items."""
        self._instance = None if collector.idle else self._weak()

    def get(self) -> Any:
        """Return it.

        Raises:
            RuntimeError: It is gone.
        """
        instance = self._weak()
        if instance is None:
            raise RuntimeError(
                "the instance of this batched method is gone; keep it for as long as you use its batcher"
            )
        return instance

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_another_process, (self.get(),)


def _call(method: BatchedMethod[Any, Any, Any], held: _Held, items: list[Any]) -> Any:
    return method._function(held.get(), items)  # noqa: SLF001


async def _call_async(method: BatchedMethod[Any, Any, Any], held: _Held, items: list[Any]) -> Any:
    return await method._function(held.get(), items)  # noqa: SLF001


def _forget(batchers: dict[int, Any], key: int, _gone: object) -> None:
    batchers.pop(key, None)


def _in_another_process(instance: object) -> _Held:
    held = _Held(instance, _name_of)
    held._instance = instance  # noqa: SLF001
    return held


class _Importable:
    """A sync function that another process finds: under its name it has the decorated one."""

    def __init__(self, batched_function: BatchedFunction[Any, Any]) -> None:
        self._batched = batched_function

    def __call__(self, items: list[Any]) -> Any:
        return self._batched.__wrapped__(items)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Importable, (self._batched,)


def _build(processor: Callable[[list[Any]], Any], options: BatcherOptions[Any]) -> AsyncBatcher[Any, Any]:
    return AsyncBatcher.from_callable(processor, **options)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Say whether it can be called with so many arguments; one that does not tell takes one."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return count == 1
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _wear_the_name_of(function: Callable[..., Any], wrapper: Any) -> None:
    """Do as `functools.wraps` does, but for the types, which are of a list."""
    wrapper.__qualname__ = _name_of(function)
    functools.update_wrapper(wrapper, function, assigned=("__module__", "__name__", "__doc__"))


def _name_of(function: object) -> str:
    found: str = getattr(function, "__qualname__", None) or repr(function)
    return found


_CLASS_METHOD: Final = (
    "a class method can't be batched, since a method has one batcher an instance: decorate a function beside the "
    "class, or a static method, with @staticmethod above @batched"
)
