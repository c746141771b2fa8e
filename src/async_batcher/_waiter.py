"""What a caller awaits, as the rest of the library sees it: an `asyncio.Future` on asyncio, its like on trio."""

from __future__ import annotations

from typing import Any, Protocol


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

    def __await__(self) -> Any:
        """Wait for the result."""
        ...


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
