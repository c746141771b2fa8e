"""What happened, as frozen values: one event a batch, and the counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

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
    """Who hears of every batch beside `on_batch`, in more detail: a tracer, say. It touches no result.

    `began` may return an account; only then it hears more of that batch, and gets the account back each time: `split`
    once where it failed and is called again in halves, `part_began` and `part_ended` around each of these calls, and
    `ended`. All but the last two are called in the batch's own context, which ends with it. What they raise is logged
    once; `listens` and `note` must not raise. A batch whose thread outlives all who wait for it has `ended` for a
    witness when these are told, in the middle of a call perhaps, of which it hears no more.
    """

    awake: bool
    """Whether `began` is to be called; only `listens` changes it."""

    def listens(self) -> bool:
        """Say whether `note` is to be asked of each caller from now on. Asked about once a batch until it is true."""
        ...

    def note(self) -> object | None:
        """Say what to remember of the caller that comes in now; `None` is nothing."""
        ...

    def began(self, reason: Reason, size: int, callers: int, notes: Sequence[Any], /) -> Any:
        """Hear that the processor is about to be called, with what was remembered of those who are in the batch."""
        ...

    def split(self, account: Any, error_type: str, /) -> None:
        """Hear that the batch failed as a whole, and is called again in halves."""
        ...

    def part_began(self, account: Any, size: int, /) -> Any:
        """Hear of a further call; what is returned is handed to `part_ended`."""
        ...

    def part_ended(self, account: Any, part: Any, error_type: str | None, /) -> None:
        """Hear how that call ended."""
        ...

    def ended(self, account: Any, event: BatchEvent | None, /) -> None:
        """Hear how the batch ended; `None`: it was taken back from an executor that had not begun it."""
        ...


class Counts:
    """What of a batcher's counts only grows. It knows nothing of a user's, so that it may outlive the batcher.

    Mutable state: all of it. Each is read from other threads too, so each only grows.
    """

    __slots__ = (
        "abandoned",
        "expired",
        "failed",
        "rejected",
        "stopped",
        "succeeded",
        "waited",
        "waited_seconds",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.succeeded = self.failed = self.abandoned = self.stopped = 0
        self.withdrawn = self.expired = self.rejected = 0
        self.waited = 0
        """Callers that got a place after they had waited for room."""
        self.waited_seconds = 0.0
        """How long they waited, together."""


class Present:
    """Who waits, runs and stands in line now, in numbers. It knows nothing of a user's, so that anybody may keep it.

    Mutable state: all of it. Other threads read it in the middle of a step of the batcher's own, and find what was so
    a moment ago.
    """

    __slots__ = ("closed", "holes", "in_line", "running", "sharing", "times")

    def __init__(self) -> None:
        self.closed = 0
        """Places in the row, less those of its tail."""
        self.times: Sequence[float] = ()
        """When those in the tail came: its own list, so that nothing is counted per item."""
        self.holes = 0
        """How many of these have left."""
        self.sharing = 0
        """Callers in the row beyond the first of a place."""
        self.running = self.in_line = 0

    @property
    def waiting(self) -> int:
        """Callers in the row."""
        return self.closed + len(self.times) - self.holes + self.sharing


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


class Refused:
    """Counts those who were refused before any batcher had them."""

    __slots__ = ("__weakref__", "counts", "present")

    def __init__(self) -> None:
        self.counts = Counts()
        self.present = Present()
