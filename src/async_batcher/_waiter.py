"""What waits for an outcome: an `asyncio.Future` on asyncio, its like on trio, or one of many that a caller has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Waiter(Protocol):
    """One caller's wait. It is settled once: by a result, by an error, or by the caller that gives up."""

    def done(self) -> bool:
        """Say whether it is settled."""
        ...

    def cancelled(self) -> bool:
        """Say whether its caller gave up."""
        ...

    def cancel(self) -> object:
        """Settle it as given up, unless it is settled."""
        ...

    def set_result(self, result: Any, /) -> object:
        """Settle it with a result."""
        ...

    def set_exception(self, exception: BaseException, /) -> object:
        """Settle it with an error."""
        ...

    def exception(self) -> BaseException | None:
        """Return the error that it was settled with, which counts as having been looked at."""
        ...


class AwaitedWaiter(Waiter, Protocol):
    """A waiter of one caller that awaits it itself."""

    def __await__(self) -> Any:
        """Wait for the result."""
        ...


class Crowd(Protocol):
    """Waiters of one caller whose items came together: it gets their results in one go."""

    seats: list[Any]
    """Them, in order."""
    together: bool
    """Whether none of them has been settled by itself."""

    def set_results(self, results: Sequence[Any], /) -> object:
        """Settle all of them."""
        ...


def given_up(waiter: Waiter) -> bool:
    """Say whether its caller left, and not with an outcome."""
    return not waiter.done() or waiter.cancelled()


def fail(waiter: Waiter, error: BaseException) -> bool:
    """Settle `waiter` with `error`, unless it is settled. Nobody has to look at the error.

    Returns:
        Whether it was still open.
    """
    if waiter.done():
        return False
    waiter.set_exception(error)
    waiter.exception()  # asyncio logs an error that nobody looked at; a caller may have left in this very tick
    return True
