"""One batcher a key for blocking code: `thread_groups(fn, group_key=, executor=, batch_size=)`.

The problem. A driver that blocks runs in threads. Threads can't be cancelled, and a default pool of the event
loop's holds up the end of the program until each has ended.

The promise. `fn(key, items)` runs in the executor that you own and bound, and never sees two keys in one
batch. The executor caps what runs, over all keys and managers that share it, even after a forced stop: that
may return while a thread still runs, and its callers have been told by then. A job that was cancelled before
a thread took it never starts. A child's queue holds at most 64 items; beyond that callers are refused. At most
`max_groups` keys are alive: one that is idle makes room for a new one, and where none is, its caller is refused.

    with ThreadPoolExecutor(max_workers=4) as pool:  # outside: leaving it waits for the threads
        asyncio.run(main(pool))

What it does not promise. No interruption and no rollback of a thread that runs: `fn` needs a timeout of its
driver's own. Leaving the executor, and the end of the process, wait for such a thread.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from async_batcher import BatcherGroups

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from concurrent.futures import Executor

Key = TypeVar("Key", bound="Hashable")
Item = TypeVar("Item")
Result = TypeVar("Result")

QUEUE_SIZE = 64
"""Most items that wait in one child."""


def thread_groups(
    fn: Callable[[Key, list[Item]], Sequence[Result] | None],
    *,
    group_key: Callable[[Item], Key],
    executor: Executor,
    batch_size: int,
    max_groups: int = 64,
) -> BatcherGroups[Key, Item, Result]:
    """Build a manager of groups whose calls run in `executor`.

    Args:
        fn: A plain function of a key and the items of a batch.
        group_key: The key of an item. What it raises is raised to that caller alone.
        executor: Yours, bounded, and kept outside `asyncio.run`; it is never shut down here.
        batch_size: Most items in a call.
        max_groups: Most keys alive.

    Raises:
        TypeError: `fn` is async, or an argument is of a wrong type. A plain function that returns something to
            await is found out at its call, by that batch's callers.
        ValueError: A limit is out of its bounds.
    """
    if executor is None:
        raise TypeError(
            "thread_groups needs an executor of yours, such as ThreadPoolExecutor(max_workers=4), kept outside "
            "asyncio.run; got None"
        )
    # The core takes None for no limit; here each is the point.
    for name, given in (("batch_size", batch_size), ("max_groups", max_groups)):
        if given is None:
            raise TypeError(f"thread_groups needs {name}: without it nothing is bounded; got None")

    def manager(
        call: Callable[[Key, list[Item]], Sequence[Result] | None],
    ) -> BatcherGroups[Key, Item, Result]:
        return BatcherGroups(
            call,
            group_key=group_key,
            max_groups=max_groups,
            max_batch_size=batch_size,
            max_queue_size=QUEUE_SIZE,
            executor=executor,
        )

    manager(fn)  # for the checks of `fn`, from which the next line hides it
    return manager(functools.partial(_in_thread, fn))


def _in_thread(
    fn: Callable[[Key, list[Item]], Sequence[Result] | None], key: Key, items: list[Item]
) -> Sequence[Result] | None:
    """Call `fn`, and keep off the event loop what it might leave to be awaited there, outside the executor."""
    returned: Any = fn(key, items)
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError(
            f"thread_groups needs a plain function, and {fn!r} returned {type(returned).__name__}: "
            "write it as an async def for async_groups"
        )
    results: Sequence[Result] | None = returned
    return results
