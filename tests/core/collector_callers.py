"""Those whom the model of the collector knows: callers, the places of their items, and crowds."""

from collections.abc import Generator, Hashable, Sequence
from typing import Any

import attrs

from async_batcher._line import Ticket


class Wait:
    """A waiter without an event loop. To settle it twice is an error, as on asyncio."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.state = "open"

    def __repr__(self) -> str:
        return f"<{self.label} {self.state}>"

    def _settle(self, state: str) -> None:
        if self.state != "open":
            raise RuntimeError(f"{self!r} is settled again, as {state}")
        self.state = state

    def done(self) -> bool:
        return self.state != "open"

    def cancelled(self) -> bool:
        return self.state == "cancelled"

    def cancel(self) -> None:
        if self.state == "open":
            self.state = "cancelled"

    def set_result(self, result: Any, /) -> None:
        self._settle("result")
        self.outcome = result

    def set_exception(self, exception: BaseException, /) -> None:
        if isinstance(exception, StopIteration):
            raise TypeError("a future refuses StopIteration")
        self._settle("error")
        self.error = exception

    def exception(self) -> BaseException | None:
        return self.error

    def __await__(self) -> Generator[Any, Any, Any]:
        yield
        return self.outcome


class CrowdOfWaits:
    """Waiters that came together, as those of a list do."""

    def __init__(self, seats: list[Wait]) -> None:
        self.seats: list[Any] = seats

    @property
    def together(self) -> bool:
        """Whether none of them has been settled by itself."""
        return not any(seat.done() for seat in self.seats)

    @together.setter
    def together(self, _: bool) -> None:
        raise AssertionError("the core only asks")

    def set_results(self, results: Sequence[Any], /) -> None:
        """Settle all of them."""
        for seat, result in zip(self.seats, results, strict=True):
            seat.set_result(result)


@attrs.define(eq=False)
class Caller:
    """One caller and its item. `place`: line, row, taken (out of the row), seen (by the processor) or out."""

    item: int
    waiter: Wait
    admitted: Wait | None = None
    weight: int = 0
    key: Hashable = None
    expires: float | None = None
    patient: bool = False
    place: str = "row"
    deadline: float | None = None
    ticket: Ticket | None = None
    reported: bool = False
    """Its leaving has been told to the collector."""
    counted: bool = False
    """It is in one of the counts of those who are done."""

    @property
    def watched(self) -> Wait:
        """What it awaits now."""
        return self.admitted if self.place == "line" and self.admitted is not None else self.waiter

    @property
    def open(self) -> bool:
        """Whether it still waits for an outcome."""
        return not self.watched.done() and not self.waiter.done()

    @property
    def gone_unsaid(self) -> bool:
        """Whether it was cancelled, and the collector has not been told."""
        return (self.watched.cancelled() or self.waiter.cancelled()) and not self.reported


@attrs.define(eq=False)
class Place:
    """One place in the row: an item, and those who wait for it."""

    item: int
    came: float
    weight: int
    key: Hashable
    callers: list[Caller]
    flushed: bool = False
