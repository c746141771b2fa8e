"""What happened, as frozen values: one event a batch, and the counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Reason: TypeAlias = Literal["full", "weight", "due", "flush", "drain"]


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """One batch that has ended. It carries no payload, so that it may go anywhere."""

    name: str | None
    """The batcher's label, or `None` where it has none."""
    reason: Reason
    """Why the batch left the queue: it was full at its size, or the queue was; it was full at its weight; its window
    was over; it was flushed; or the batcher was stopping."""
    size: int
    """Items that the processor was given. Callers that share one count as one here."""
    weight: float | None
    """What they weighed together, or `None` where they are not weighed."""
    oldest_queue_seconds: float
    """How long the item that waited longest was in the queue."""
    mean_queue_seconds: float
    """How long the items of this batch were in the queue, on average."""
    processing_seconds: float
    """From the call of the processor until its result or its error."""
    succeeded: int
    """Callers that got a result."""
    failed: int
    """Callers that got an error of the processor's, or one for a result that does not fit."""
    abandoned: int
    """Callers that were gone before the outcome: cancelled, timed out, or told by a forced stop."""
    error_type: str | None
    """Qualified name of the exception that failed the whole batch, else `None`. Where it was split, of the one that
    ended the splitting: the rest of its callers got it."""


class Witness(Protocol):
    """Who hears of every batch beside `on_batch`, and has something remembered of its callers: a tracer, say."""

    def note(self) -> object | None:
        """Say what to remember of the caller that comes in now; `None` is nothing. Asked once an item."""
        ...

    def ended(self, event: BatchEvent, notes: Sequence[object], /) -> None:
        """Hear of a batch that has ended, and what was remembered of those who were in it."""
        ...


@dataclass(frozen=True, slots=True)
class BatcherStats:
    """The counts of one batcher since it was built. Counts are of callers.

    At every moment `accepted = succeeded + failed + withdrawn + abandoned + expired + stopped + waiting + running`.
    """

    accepted: int
    """Callers whose item got a place in the queue."""
    succeeded: int
    """Callers that got a result."""
    failed: int
    """Callers that got an error of the processor's, or one for a result that does not fit."""
    withdrawn: int
    """Callers that left while their item waited: the processor never saw it."""
    abandoned: int
    """Callers that left while their batch was running: its result for them is dropped."""
    expired: int
    """Callers whose item was too old before it got into a batch."""
    stopped: int
    """Callers that a forced stop told `BatcherStopped`."""
    waiting: int
    """Callers whose item is in the queue now."""
    running: int
    """Callers whose item is in a running batch now."""
    rejected: int
    """Callers that were refused: no room, no room in time, or the batcher was stopping."""
    in_line: int
    """Callers that wait for room now. They are not accepted yet."""
    batches: int
    """Batches that the processor was given."""
