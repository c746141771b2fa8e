"""What the collector tells the runner to do next: one value a step."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from async_batcher._batch import Batch
from async_batcher._waiter import Waiter, fail


class Start(NamedTuple):
    """Run this batch; it holds a slot."""

    batch: Batch


class Reserve(NamedTuple):
    """Enter a shared slot, then ask for the batch with `take_reserved`; a slot of ours is held for it."""


class Release(NamedTuple):
    """Call off whoever waits for a shared slot: nothing is left to take."""


class Tell(NamedTuple):
    """Settle this waiter with the error, or with `None` where its caller has been accepted."""

    waiter: Waiter
    error: BaseException | None

    def settle(self) -> None:
        """Do it, unless the waiter is settled."""
        if self.error is not None:
            fail(self.waiter, self.error)
        elif not self.waiter.done():
            self.waiter.set_result(None)


class Rest(NamedTuple):
    """There is nothing to do until something happens, or until this time."""

    until: float | None


Step: TypeAlias = Start | Reserve | Release | Tell | Rest
