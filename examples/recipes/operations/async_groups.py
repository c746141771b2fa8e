"""One batcher a key, and one cap on the calls of all: `async_groups(fn, group_key=, backend_slots=, ...)`.

The problem. A bulk call takes items of one tenant (model, table, region) only, and there are many tenants:
each needs a queue of its own, but the backend bears only so many calls at once.

The promise. `fn(key, items)` never sees two keys in one batch. At most `max_groups` keys are alive: one that is
idle makes room for a new one, the oldest first, and where none is idle the new one's caller is refused. A
child's queue holds at most 64 items; beyond that callers are refused too. `backend_slots`, one semaphore
shared with other managers if you like, caps the calls that run at the same time. A slot is given back only
when the call has really ended, so a cancelled call that still cleans up keeps it. A child stands in line for
one slot at a time, and semaphores are first come first served: a tenant with a full queue holds up another
tenant by the batch that runs and the one that stands in line, not by its queue.

What it does not promise. The cap holds for calls that end when they are cancelled; no fairness of the
backend's own; nothing about other processes, which have slots of their own.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from async_batcher import BatcherGroups

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence
    from contextlib import AbstractAsyncContextManager

Key = TypeVar("Key", bound="Hashable")
Item = TypeVar("Item")
Result = TypeVar("Result")

QUEUE_SIZE = 64
"""Most items that wait in one child."""


def async_groups(
    fn: Callable[[Key, list[Item]], Awaitable[Sequence[Result] | None]],
    *,
    group_key: Callable[[Item], Key],
    backend_slots: AbstractAsyncContextManager[Any, bool | None],
    max_groups: int,
    batch_size: int,
) -> BatcherGroups[Key, Item, Result]:
    """Build a manager of groups whose calls share `backend_slots`.

    Args:
        fn: An async function of a key and the items of a batch; it ends when it is cancelled.
        group_key: The key of an item. What it raises is raised to that caller alone.
        backend_slots: Entered by `async with` around each call: `asyncio.Semaphore(4)`, `anyio.Semaphore(4)`.
        max_groups: Most keys alive.
        batch_size: Most items in a call.

    Raises:
        TypeError: `fn` is not async, or a limit is of a wrong type.
        ValueError: A limit is out of its bounds.
    """
    if not _is_async(fn):
        raise TypeError(
            f"async_groups needs an async function of a key and a list of items; got {fn!r}: "
            "a sync one is for thread_groups, a lambda that returns a coroutine is written as an async def"
        )
    # The core takes None for no limit; here each is the point.
    for name, given in (
        ("backend_slots", backend_slots),
        ("max_groups", max_groups),
        ("batch_size", batch_size),
    ):
        if given is None:
            raise TypeError(f"async_groups needs {name}: without it the backend is not limited; got None")
    return BatcherGroups(
        fn,
        group_key=group_key,
        max_groups=max_groups,
        backend_slots=backend_slots,
        max_batch_size=batch_size,
        max_queue_size=QUEUE_SIZE,
    )


def _is_async(fn: object) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
