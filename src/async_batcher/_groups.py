"""Keyed batchers: one batcher a key, so that no batch mixes keys and no key's failure is another's."""

from __future__ import annotations

import dataclasses
import functools
from contextvars import copy_context
from threading import get_ident
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from async_batcher._batcher import AsyncBatcher, FunctionBatcher, Submission
from async_batcher._errors import BatcherStopped, TooManyGroups
from async_batcher._events import BatcherStats
from async_batcher._lifetime import Stoppable
from async_batcher._options import BatcherOptions, Options, check_count, check_processor, is_async_callable
from async_batcher._results import R

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import Unpack

    from async_batcher._loops import EventLoop
    from async_batcher._results import Returned
    from async_batcher._running import Runner, Slots

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")

_NO_THREAD: Final = 0


class BatcherGroups(Stoppable, Generic[K, T, R]):
    """One batcher for each key, made when the key's first item comes.

    Args:
        processor: `processor(key, items)`, as the processor of an `AsyncBatcher` otherwise.
        group_key: The key of an item; hashable. What it raises reaches that item's caller alone.
        max_groups: Most keys at once; one more is refused with `TooManyGroups`.
        backend_slots: What each batch enters, by `async with`, before it leaves its queue, and leaves when its call
            has ended: a semaphore that caps calls across all keys, and across managers that share it. Until a
            batch has entered it, its items wait and may leave. `None` is no such cap.
        **options: As of `AsyncBatcher`, for each key by itself.
    """

    __slots__ = (
        "__weakref__",
        "_children",
        "_context",
        "_group_key",
        "_is_closed",
        "_is_running",
        "_loop",
        "_max_groups",
        "_options",
        "_processor",
        "_rejected",
        "_slots",
        "_thread",
    )

    def __init__(
        self,
        processor: Callable[[K, list[T]], Returned[R]],
        *,
        group_key: Callable[[T], K],
        max_groups: int | None,
        backend_slots: Slots | None = None,
        **options: Unpack[BatcherOptions[T]],
    ) -> None:
        super().__init__()
        check_processor(processor)
        _check_group_key(group_key)
        check_count("max_groups", max_groups)
        _check_slots(backend_slots)
        Options.checked(processor, options)
        self._processor = processor
        self._group_key = group_key
        self._max_groups = max_groups
        self._slots = backend_slots
        self._options = options
        self._context = copy_context()
        self._children: dict[K, AsyncBatcher[T, R]] = {}
        self._rejected = 0
        self._is_closed = False
        self._loop: EventLoop | None = None
        self._thread = _NO_THREAD

    async def process(self, item: T) -> R:
        """Have one item processed with others of its key; as `AsyncBatcher.process` otherwise.

        Raises:
            TooManyGroups: Its key would be one more than `max_groups`.
            TypeError: Its key is not hashable, or not equal to itself.
        """
        return await self._child(item).process(item)

    async def submit(self, item: T) -> Submission[R]:
        """Have one item accepted; as `AsyncBatcher.submit` otherwise.

        Raises:
            TooManyGroups: Its key would be one more than `max_groups`.
            TypeError: Its key is not hashable, or not equal to itself.
        """
        return await self._child(item).submit(item)

    def stats(self) -> BatcherStats:
        """Return the counts of all keys together, as of now."""
        each = [child.stats() for child in self._children.values()]
        counts = {
            field.name: sum(getattr(stats, field.name) for stats in each)
            for field in dataclasses.fields(BatcherStats)
        }
        counts["rejected"] += self._rejected
        return BatcherStats(**counts)

    # Helpers

    def _child(self, item: T) -> AsyncBatcher[T, R]:
        """Find the batcher of an item's key, or make it."""
        if get_ident() != self._thread or not self._is_running():
            self._come_in()
        if self._is_closed:
            self._rejected += 1
            raise BatcherStopped
        key = self._group_key(item)
        child = self._children.get(key)
        return self._new_child(key) if child is None else child

    def _new_child(self, key: K) -> AsyncBatcher[T, R]:
        if key != key:  # noqa: PLR0124  (NaN, of which each would be a key of its own)
            raise TypeError(
                f"group_key returned {key!r}, which is not equal to itself, so no group could be found by it"
            )
        if self._max_groups is not None and len(self._children) >= self._max_groups:
            self._rejected += 1
            raise TooManyGroups(
                f"{len(self._children)} groups are open, and max_groups is {self._max_groups}. Raise max_groups, or "
                "let group_key return fewer keys"
            )
        processor = functools.partial(self._processor, key)
        child: AsyncBatcher[T, R] = self._context.run(FunctionBatcher, processor, self._options, self._slots)
        if self._loop is not None:
            child._bind(self._loop)  # noqa: SLF001  (one loop for all)
        self._children[key] = child
        return child

    def _runners(self) -> Sequence[Runner]:
        return [child._runner for child in self._children.values()]  # noqa: SLF001  (they stop together)

    def _bound(self) -> EventLoop | None:
        return self._loop

    def _bind(self, loop: EventLoop) -> None:
        for runner in self._runners():
            runner.release()  # all or none
        for child in self._children.values():
            child._bind(loop)  # noqa: SLF001  (one loop for all)
        self._loop = loop
        self._thread = loop.thread
        self._is_running = loop.is_running

    def _close(self) -> None:
        self._is_closed = True

    def _closed(self) -> bool:
        return self._is_closed


def _check_group_key(group_key: object) -> None:
    if not callable(group_key) or is_async_callable(group_key):
        raise TypeError(
            f"group_key must be a plain function of one item that returns its key; got {group_key!r}"
        )


def _check_slots(slots: object) -> None:
    if slots is not None and not hasattr(type(slots), "__aenter__"):
        raise TypeError(
            "backend_slots must be something to enter with `async with` again and again, such as "
            f"asyncio.Semaphore(4) or anyio.Semaphore(4), or None; got {slots!r}"
        )
