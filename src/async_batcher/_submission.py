"""An accepted item that its caller has not awaited yet."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic

from async_batcher._errors import ItemWithdrawn
from async_batcher._results import R
from async_batcher._waiter import given_up

if TYPE_CHECKING:
    from collections.abc import Generator

    from async_batcher._line import Ticket
    from async_batcher._running import Runner
    from async_batcher._waiter import AwaitedWaiter


class Submission(Generic[R]):
    """An accepted item: await it for its result, or withdraw it.

    One task at a time awaits it, again after its result as often as it likes; cancelling that await withdraws the
    item where it still waits. An item that nobody awaits is processed all the same, silently.
    """

    __slots__ = ("_awaited", "_never_ran", "_runner", "_ticket", "_waiter")

    def __init__(self, runner: Any, ticket: Any, waiter: Any) -> None:
        # Named as a parameter's, their types would be public ones, and so would all behind them.
        self._runner: Runner = runner
        self._ticket: Ticket = ticket
        self._waiter: AwaitedWaiter = waiter
        self._awaited = False
        self._never_ran: bool | None = None

    def withdraw(self) -> bool:
        """Take the item back unless its batch has begun.

        Returns:
            True where the processor never got the item and never will, so that sending it again is safe (where it
            shares its place, by `coalesce_key`, it is left to those who share it, and is processed for them). False
            where its batch runs or has ended: it can still be awaited. Asked again it says the same.
        """
        if self._never_ran is None:
            self._never_ran = self._take_back()
        return self._never_ran

    def __await__(self) -> Generator[Any, Any, R]:
        """Wait for the result.

        Raises:
            ItemWithdrawn: It was withdrawn.
            RuntimeError: Another task awaits it now.
        """
        if self._awaited:
            raise RuntimeError(
                "another task awaits this submission; let one task await it, and share the result from there"
            )
        if self._waiter.cancelled():
            raise _withdrawn() if self.withdraw() else _dropped()
        if not self._waiter.done():
            self._check_loop()
        self._awaited = True
        try:
            result: R = yield from self._waiter.__await__()
        except BaseException:
            if given_up(self._waiter) and not self._never_ran:
                self._never_ran = self._runner.leave(self._ticket, self._waiter)
            raise
        finally:
            self._awaited = False
            del self  # a circle: an error has this frame
        return result

    def _take_back(self) -> bool:
        if self._waiter.done() and not self._waiter.cancelled():
            return self._runner.collector.never_ran(self._ticket, self._waiter)
        self._check_loop()
        return self._runner.withdraw(self._ticket, self._waiter, _withdrawn())

    def _check_loop(self) -> None:
        loop = self._runner.loop
        if get_ident() != loop.thread or not loop.is_running():
            raise RuntimeError("a submission is awaited and withdrawn on the event loop on which it was made")


def _dropped() -> RuntimeError:
    return RuntimeError(
        "the await of this submission was cancelled while its batch was running, so its result was dropped: "
        "its outcome is unknown"
    )


def _withdrawn() -> ItemWithdrawn:
    return ItemWithdrawn("this submission was withdrawn, so it has no result; submit the item again")
