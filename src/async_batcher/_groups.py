"""Keyed batchers: one batcher a key, so that no batch mixes keys and no key's failure is another's."""

from __future__ import annotations

import dataclasses
import functools
import math
from contextvars import copy_context
from threading import get_ident
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from async_batcher._batcher import AsyncBatcher, FunctionBatcher, count_in
from async_batcher._errors import BatcherStopped, QueueFull, TooManyGroups
from async_batcher._events import Refused
from async_batcher._lifetime import Stoppable
from async_batcher._options import (
    BatcherOptions,
    Options,
    check_count,
    check_processor,
    check_seconds,
    is_async_callable,
)
from async_batcher._results import R
from async_batcher._roster import Group, Roster

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import Unpack

    from async_batcher._events import BatcherStats
    from async_batcher._loops import Cancellable, EventLoop
    from async_batcher._results import Returned
    from async_batcher._running import Runner
    from async_batcher._serving import Slots
    from async_batcher._submission import Submission

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")

_NO_THREAD: Final = 0


class BatcherGroups(Stoppable, Generic[K, T, R]):
    """One batcher for each key, made when the key's first item comes.

    At the limit of `max_groups` a key whose batcher is idle (nothing waits, stands in line or runs in it, in a thread
    neither) makes room for a new key: the one that has been idle for longest. Its threads end; its counts stay in
    `stats`; should the key come again, it is a new one. So a key never has two batchers at work, and with a limit or
    an `idle_timeout` nothing grows with the number of keys that ever came.

    Args:
        processor: `processor(key, items)`, as the processor of an `AsyncBatcher` otherwise.
        group_key: The key of an item; hashable. What it raises reaches that item's caller alone.
        max_groups: Most keys at once; with none of them idle, one more is refused with `TooManyGroups`. `None` is
            no limit.
        max_pending: Most items that wait in all keys' queues together, beside each key's own `max_queue_size`;
            `None` is no limit. One more is refused with `QueueFull` whatever `on_full` says, for a caller can
            stand in line for a place in its own key's queue only. Those who stand there do not count, and those
            who share a place by `coalesce_key` count once.
        idle_timeout: Seconds after which a key that has been idle for so long is let go though nobody needs its
            room; `None` is never.
        backend_slots: What each batch enters, by `async with`, before it leaves its queue, and leaves when its call
            has ended: a semaphore that caps calls across all keys, and across managers that share it. Until a
            batch has entered it, its items wait and may leave. Each key has at most `concurrency` batches there,
            so where it serves first come first, as semaphores do, a key waits for at most that many batches of
            each other key, however long their queues are. `None` is no such cap. A processor that sends to other
            keys and waits for them needs a slot for each while it holds its own: keys that so wait for each other
            wait for ever, and nobody sees it; let such a processor call what those call. A slot comes back
            before its thread has ended only where the batch's task was cancelled by somebody else than `stop`.
        **options: As of `AsyncBatcher`, for each key by itself.
    """

    __slots__ = (
        "__weakref__",
        "_context",
        "_group_key",
        "_headroom",
        "_idle_timeout",
        "_is_closed",
        "_is_running",
        "_loop",
        "_max_groups",
        "_max_pending",
        "_options",
        "_processor",
        "_refused",
        "_rings_at",
        "_roster",
        "_slots",
        "_thread",
        "_timer",
    )

    def __init__(  # noqa: PLR0913  (keyword-only, and the contract)
        self,
        processor: Callable[[K, list[T]], Returned[R]],
        *,
        group_key: Callable[[T], K],
        max_groups: int | None,
        max_pending: int | None = None,
        idle_timeout: float | None = None,
        backend_slots: Slots | None = None,
        **options: Unpack[BatcherOptions[T]],
    ) -> None:
        super().__init__()
        check_processor(processor)
        _check_group_key(group_key)
        check_count("max_groups", max_groups)
        check_count("max_pending", max_pending)
        check_seconds("idle_timeout", idle_timeout, zero=False, none="never")
        _check_slots(backend_slots)
        Options.checked(processor, options)
        self._processor = processor
        self._group_key = group_key
        self._max_groups = max_groups
        self._max_pending = max_pending
        self._idle_timeout = idle_timeout
        self._slots = backend_slots
        self._options = options
        self._context = copy_context()
        self._roster: Roster[K, T, R] = Roster()
        self._headroom = 0
        self._refused = Refused()
        count_in(options.get("name"), self._refused)
        self._is_closed = False
        self._loop: EventLoop | None = None
        self._thread = _NO_THREAD
        self._timer: Cancellable | None = None
        self._rings_at = 0.0

    async def process(self, item: T, *, expires_after: float | None = None) -> R:
        """Have one item processed with others of its key; as `AsyncBatcher.process` otherwise.

        Raises:
            TooManyGroups: Its key would be one more than `max_groups`, and none is idle.
            QueueFull: There is no room in its key's queue, or `max_pending` items wait.
            TypeError: Its key is not hashable, or not equal to itself.
        """
        group = self._group_of(item)
        try:
            return await group.batcher.process(item, expires_after=expires_after)
        except BaseException:
            self._see(group)
            del item  # the error has this frame
            raise

    async def submit(self, item: T, *, expires_after: float | None = None) -> Submission[R]:
        """Have one item accepted; as `AsyncBatcher.submit` otherwise.

        Raises:
            TooManyGroups: Its key would be one more than `max_groups`, and none is idle.
            QueueFull: There is no room in its key's queue, or `max_pending` items wait.
            TypeError: Its key is not hashable, or not equal to itself.
        """
        group = self._group_of(item)
        try:
            return await group.batcher.submit(item, expires_after=expires_after)
        except BaseException:
            self._see(group)
            del item  # the error has this frame
            raise

    def stats(self) -> BatcherStats:
        """Return the counts of all keys together, as of now; those of keys that were let go stay in them."""
        stats = self._roster.stats()
        return dataclasses.replace(stats, rejected=stats.rejected + self._refused.counts.rejected)

    # Helpers

    @property
    def _at_home(self) -> bool:
        """Whether this runs on the loop on which it was used last."""
        return get_ident() == self._thread and self._is_running()

    def _group_of(self, item: T) -> Group[K, T, R]:
        """Find the group of an item's key, or make it; from now on it is in use."""
        if get_ident() != self._thread or not self._is_running():
            self._come_in()
        if self._is_closed:
            self._refused.counts.rejected += 1
            raise BatcherStopped
        key = self._group_key(item)
        group = self._find(key)
        if self._max_pending is not None:
            if not self._headroom:
                self._headroom = self._count_headroom(self._max_pending)
            self._headroom -= 1
        if group is None:
            group = self._new_group(key)
        elif not group.in_use:
            self._roster.use(group)
            self._arm()
        if self._max_pending is not None and not group.changed:
            self._roster.changed(group)
        return group

    def _find(self, key: K) -> Group[K, T, R] | None:
        try:
            return self._roster.alive.get(key)
        except TypeError as error:
            raise TypeError(
                f"group_key returned a {type(key).__name__} that can't be a key ({error}): "
                "let it return something hashable, such as a string or a tuple"
            ) from error

    def _count_headroom(self, max_pending: int) -> int:
        """Count how many items still fit into all queues together, or refuse the one that comes.

        It is asked only when all that fitted at the last count have come: what has left since then can only have
        made more room.
        """
        waiting = self._roster.waiting()
        if waiting >= max_pending:
            self._refused.counts.rejected += 1
            raise QueueFull(
                f"{waiting} items wait in all groups together, and max_pending is {max_pending}. "
                "Send again later, or raise max_pending"
            )
        return max_pending - waiting

    def _new_group(self, key: K) -> Group[K, T, R]:
        if key != key:  # noqa: PLR0124  (NaN, of which each would be a key of its own)
            raise TypeError(
                f"group_key returned {key!r}, which is not equal to itself, so no group could be found by it"
            )
        self._make_room()
        processor = functools.partial(self._processor, key)
        batcher: AsyncBatcher[T, R] = self._context.run(
            FunctionBatcher, processor, self._options, self._slots
        )
        if self._loop is not None:
            batcher._bind(self._loop)  # noqa: SLF001  (one loop for all)
        group = Group(key, batcher, batcher._runner)  # noqa: SLF001  (they stop together)
        group.runner.on_act = functools.partial(self._see, group)
        self._roster.alive[key] = group
        return group

    def _make_room(self) -> None:
        """Let go of the group that has been idle for longest, where there is one more than allowed."""
        alive = len(self._roster.alive)
        if self._max_groups is None or alive < self._max_groups:
            return
        has_room = self._roster.let_go(math.inf, rested=0)
        self._arm()
        if has_room:
            return
        self._refused.counts.rejected += 1
        raise TooManyGroups(
            f"{alive} groups are open, none of them is idle, and max_groups is {self._max_groups}. Send again later, "
            "raise max_groups, or let group_key return fewer keys"
        )

    # Idle groups

    def _see(self, group: Group[K, T, R]) -> None:
        """See what has become of a group in use, whose batcher has done something or has refused an item.

        Where its loop does not run, somebody throws away what is left there, and who binds to the next lets it rest.
        """
        if not group.in_use:
            return
        if self._max_pending is not None and not group.changed:
            self._roster.changed(group)
        if self._loop is not None and group.runner.collector.idle and self._at_home:
            self._roster.rest(group, self._loop.time())
            self._arm()

    def _arm(self) -> None:
        """Have the timer ring when the first idle group is due, and let no timer stay where none is idle.

        One that rings earlier stays: it looks again, so that a group in use costs no timer an item.
        """
        if self._idle_timeout is None or self._loop is None:
            return
        began = self._roster.rest_began
        if self._is_closed or began is None:
            self._disarm()
        elif self._timer is None:
            self._rings_at = began + self._idle_timeout
            ring = functools.partial(self._ring, self._loop, self._idle_timeout)
            self._timer = self._context.run(
                self._loop.call_at, self._rings_at, ring
            )  # else in a caller's context

    def _disarm(self) -> None:
        if self._timer is not None and self._at_home:
            self._timer.cancel()
            self._timer = None

    def _ring(self, loop: EventLoop, idle_timeout: float) -> None:
        if loop is not self._loop or self._is_closed:  # it was too late, or elsewhere, to call it off
            return
        self._timer = None
        now = max(loop.time(), self._rings_at)  # a clock may ring a little before its own time
        while self._roster.let_go(now, rested=idle_timeout):
            pass
        self._arm()

    # What stops together

    def _runners(self) -> Sequence[Runner]:
        return [group.runner for group in self._roster.alive.values()]

    def _bound(self) -> EventLoop | None:
        return self._loop

    def _bind(self, loop: EventLoop) -> None:
        for runner in self._runners():
            runner.release()  # all or none
        for group in self._roster.alive.values():
            group.batcher._bind(loop)  # noqa: SLF001  (one loop for all)
        self._loop = loop
        self._thread = loop.thread
        self._is_running = loop.is_running
        self._timer = None
        self._roster.rest_all(loop.time())
        self._arm()

    def _close(self) -> None:
        self._is_closed = True
        self._arm()

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
