"""Bound one bulk call to a backend: `await backend_call(fn, items, timeout=0.5)` inside a processor.

The problem. A backend that hangs holds a slot of the batcher, and everybody behind it waits. A response
deadline does not help: it ends one caller's wait, not the call.

The promise. The call is cancelled when its time is up, and then, once its own cleanup has ended,
`BackendDeadlineExceeded` is raised. On asyncio it is cancelled once, as by `asyncio.timeout`, so that what it
awaits in a `finally` or on leaving an `async with` runs to its end, also where its task is cancelled in the
same tick; on trio, where a cancelled scope stays cancelled, the call has to shield such cleanup. Only this
deadline raises it: a `TimeoutError` of the backend's own passes unchanged, and a cancellation from outside
wins, in the same tick too (on asyncio this needs anyio 4.16: older ones lose such a cancellation). A call that
ends in spite of its cancellation has ended, and its result counts.

What it does not promise. No rollback: what the backend has done by then stays done. No hard limit: code that
blocks, or that goes on when it is cancelled, is waited for. No timeout for each item: it is one for the call.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import types
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from async_batcher import BatcherError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

Items = TypeVar("Items")
Results = TypeVar("Results")


class BackendDeadlineExceeded(BatcherError, TimeoutError):
    """The backend call did not end in time and was cancelled. What it did by then is unknown."""


async def backend_call(
    fn: Callable[[Items], Awaitable[Results]],
    items: Items,
    *,
    timeout: float | None,
) -> Results:
    """Return what `fn(items)` returns, if it does so in time.

    Args:
        fn: An async function of the whole batch that ends when it is cancelled.
        items: Passed on as they are.
        timeout: Seconds, over 0 and finite; `None` is no limit.

    Raises:
        BackendDeadlineExceeded: The time was up and the call was cancelled.
        ValueError: The timeout is none; `fn` has not been called.
        TypeError: `fn` is not async.
    """
    _check_timeout(timeout)
    with anyio.CancelScope() as deadline, anyio.CancelScope() as cleanup:
        call = fn(items)
        if not inspect.isawaitable(call):
            raise TypeError(
                f"backend_call needs an async function, and {fn!r} returned {type(call).__name__}: "
                "give a sync processor to the batcher as it is; it runs in a thread, which nothing can cancel"
            )
        if timeout is None:
            return await call
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            return await _cancelled_once(call, deadline, cleanup, timeout)
        deadline.deadline = anyio.current_time() + timeout
        return await call
    # Only a cancellation that this scope made and caught leads here; everything else has left by itself.
    raise BackendDeadlineExceeded(
        f"the backend call did not end within {timeout} s and was cancelled: what it did by then is unknown"
    )


async def _cancelled_once(
    call: Awaitable[Results], deadline: anyio.CancelScope, cleanup: anyio.CancelScope, timeout: float
) -> Results:
    """Await `call` on asyncio, where a cancelled scope would cancel it again at every await of its cleanup.

    The scope between the two becomes a shield once the call has got a cancellation that stands for the
    deadline's, and not before: what the call itself shields must not lose it. That is the deadline's own, and,
    once the time is up, one of the task's (`task.cancel()` in the same tick, or what a child task made of the
    deadline's), where no shield of the call's keeps the deadline away.
    """
    reason = f"the deadline of backend call {id(call):x}."

    def hear(error: BaseException) -> None:
        if not deadline.cancel_called or not isinstance(error, asyncio.CancelledError):
            return
        of_another_scope = "cancel scope" in str(error) and reason not in str(error)
        if not of_another_scope and anyio.current_effective_deadline() == -math.inf:
            cleanup.shield = True

    timer = asyncio.get_running_loop().call_later(timeout, deadline.cancel, reason)
    try:
        return await _overheard(_as_coroutine(call), hear)
    finally:
        timer.cancel()


@types.coroutine
def _overheard(
    call: Coroutine[Any, Any, Results], hear: Callable[[BaseException], None]
) -> Generator[Any, Any, Results]:
    """Drive `call` as `await` does, and tell of each cancellation before it goes in."""
    thrown: BaseException | None = None
    while True:
        try:
            waits_for = call.send(None) if thrown is None else call.throw(thrown)
        except StopIteration as end:
            result: Results = end.value
            return result
        finally:
            thrown = None  # a circle: its traceback has this frame
        try:
            yield waits_for
        except BaseException as error:  # noqa: BLE001  whatever is thrown in is the call's
            hear(error)
            thrown = error


async def _as_coroutine(call: Awaitable[Results]) -> Results:
    return await call


def _check_timeout(timeout: object) -> None:
    if (
        isinstance(timeout, int | float)
        and not isinstance(timeout, bool)
        and 0 < timeout <= sys.float_info.max
    ):
        return
    if timeout is not None:
        raise ValueError(
            f"timeout must be a finite number of seconds over 0, or None for no limit; got {timeout!r}"
        )
