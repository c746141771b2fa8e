"""The door in front of a batcher: a deadline for each caller, and one orderly shutdown for all.

The problem. A caller that gives up has to know whether sending again is safe. A service that ends has to
refuse new work first, finish what it has, and not wait for ever.

The promise. `process(item, response_timeout=)` bounds this caller's wait, from the call to the answer: for
room, in the queue, and while the batch runs. When it passes, `ResponseDeadlineExceeded` says by `withdrawn`
whether the processor ever got the item; siblings notice nothing. Only this deadline raises it, and a
cancellation from outside wins, in the same tick too (on asyncio this needs anyio 4.16: older ones lose such a
cancellation).

What the processor raises passes unchanged, a `TimeoutError` of its own too, but for what would lie of this
item: where the processor uses a batcher or an intake itself, their "it was never accepted" is true of what it
sent there, and not of the item that it got. Out of a batch a `BatcherStopped` therefore says `withdrawn`
false, a `ResponseDeadlineExceeded`, `EnqueueTimeout` or `ItemExpired` becomes a plain `TimeoutError`, and a
`QueueFull`, `TooManyGroups`, `ItemTooHeavy` or `ItemWithdrawn` a `RuntimeError`; the original is the cause.

`shutdown(grace_timeout=, force_timeout=)` closes the intake, lets the batcher drain for `grace_timeout`, and
then forces it, which settles every caller with `BatcherStopped`. There is one drain, however often and by
however many it is called; each caller waits within budgets of its own, and the first grace that passes
forces for all: who still waits in another goes on to its `force_timeout`. A cancelled caller leaves the intake
closed and the drain under way: call again to wait for it. Where the call stands in a scope that is cancelled
already, shield it (`anyio.CancelScope(shield=True)`): its budgets bound it.

What it does not promise. No retraction and no rollback: a batch that runs goes on without this caller. No
interruption of a thread, and none that threads or the process have ended when `shutdown` returns or raises.
Leaving an `async with` of the batcher has no budget: it still waits for a call that swallows its cancellation.
"""

from __future__ import annotations

import sys
from typing import Any, Generic, TypeVar

import anyio

from async_batcher import (
    AsyncBatcher,
    BatcherError,
    BatcherGroups,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    ItemWithdrawn,
    QueueFull,
    Submission,
    TooManyGroups,
)

Item = TypeVar("Item")
Result = TypeVar("Result")


class ResponseDeadlineExceeded(BatcherError, TimeoutError):
    """The caller's wait is over; the batch, if its item is in one, goes on.

    Attributes:
        withdrawn: True where the processor never got the item, so that sending it again is safe; false where
            its batch was running, so that the outcome is unknown.
    """

    def __init__(self, message: str = "no answer in time", *, withdrawn: bool = False) -> None:
        super().__init__(message)
        self.withdrawn = withdrawn


_NEVER_PROCESSED = (
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    ItemWithdrawn,
    QueueFull,
    ResponseDeadlineExceeded,
    TooManyGroups,
)
"""What tells a caller that the item can be sent again."""


class Intake(Generic[Item, Result]):
    """The door in front of one batcher or of one manager of groups."""

    def __init__(self, batcher: AsyncBatcher[Item, Result] | BatcherGroups[Any, Item, Result]) -> None:
        self._batcher = batcher
        self._closed = False
        self._forced = False
        self._graces: set[anyio.CancelScope] = set()

    @property
    def closed(self) -> bool:
        """Whether new items are refused; it stays so."""
        return self._closed

    def close(self) -> None:
        """Refuse new items from now on; what was accepted goes on. `shutdown` does it too."""
        self._closed = True

    async def process(self, item: Item, *, response_timeout: float | None = None) -> Result:
        """Return the item's result, if it comes in time.

        Args:
            item: The payload.
            response_timeout: Seconds from this call, over 0 and finite; `None` is no limit.

        Raises:
            ResponseDeadlineExceeded: The time was up.
            BatcherStopped: The intake is closed, or the batcher was stopped while the item was in it.
            ValueError: The timeout is none; the item went nowhere.
        """
        check_timeout("response_timeout", response_timeout)
        if self._closed:
            raise BatcherStopped("this intake is closed: the service is shutting down", withdrawn=True)
        submission = None
        with anyio.move_on_after(response_timeout):
            submission = await self._batcher.submit(item)
            return await _outcome(submission)
        # Only a cancellation that this scope made and caught leads here; everything else has left by itself.
        withdrawn = submission is None or submission.withdraw()
        outcome = "it was never processed" if withdrawn else "its batch was running: the outcome is unknown"
        raise ResponseDeadlineExceeded(
            f"no answer within {response_timeout} s; {outcome}", withdrawn=withdrawn
        )

    async def shutdown(
        self, *, grace_timeout: float | None = None, force_timeout: float | None = None
    ) -> None:
        """Close, drain, and force what does not drain in time.

        Args:
            grace_timeout: Seconds for the drain, over 0 and finite; `None` is no limit.
            force_timeout: Seconds for the cleanup after it was forced; `None` is no limit.

        Raises:
            TimeoutError: The forced cleanup did not end in time either. Every caller has been told all the
                same; `shutdown`, or `stop(force=True)` of the batcher, can be called again.
            ValueError: A timeout is none; nothing was closed.
        """
        check_timeout("grace_timeout", grace_timeout)
        check_timeout("force_timeout", force_timeout)
        self.close()
        if not self._forced:
            with anyio.move_on_after(grace_timeout) as grace:
                self._graces.add(grace)
                try:
                    return await self._batcher.stop()
                finally:
                    self._graces.discard(grace)
            self._force()
        return await self._batcher.stop(force=True, timeout=force_timeout)

    def _force(self) -> None:
        """End the graces that others still wait in."""
        self._forced = True
        for grace in self._graces:
            grace.cancel()


async def _outcome(submission: Submission[Result]) -> Result:
    """Await it, and let no error of the processor's own speak for this intake."""
    try:
        return await submission
    except _NEVER_PROCESSED as error:
        if submission.withdraw() or (isinstance(error, BatcherStopped) and not error.withdrawn):
            raise  # what it says is true of this very item
        raise _of_the_processors_own(error) from error


def _of_the_processors_own(error: Exception) -> Exception:
    told = f"what the processor uses did not take its work, so the outcome of this item is unknown: {error}"
    match error:
        case BatcherStopped():
            return BatcherStopped(told, withdrawn=False)
        case TimeoutError():
            return TimeoutError(told)
        case _:
            return RuntimeError(told)


def check_timeout(name: str, timeout: object) -> None:
    """Refuse what is neither `None` nor a number of seconds over 0.

    Raises:
        ValueError: It is something else.
    """
    if (
        isinstance(timeout, int | float)
        and not isinstance(timeout, bool)
        and 0 < timeout <= sys.float_info.max
    ):
        return
    if timeout is not None:
        raise ValueError(
            f"{name} must be a finite number of seconds over 0, or None for no limit; got {timeout!r}"
        )
