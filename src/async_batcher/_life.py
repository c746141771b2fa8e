"""One batch from its start to its end: how far it got, and how to end it early."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from async_batcher._errors import BatcherStopped
from async_batcher._events import BatchEvent
from async_batcher._results import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from async_batcher._batch import Batch
    from async_batcher._loops import Cancellable
    from async_batcher._processor import Job


class Owner(Protocol):
    """What a life is lived for."""

    def over(self, life: Life, /) -> None:
        """Hear that its work has ended."""
        ...

    def task_ended(self, life: Life, task: Cancellable, /) -> None:
        """Hear that its task has ended."""
        ...


class Life:
    """One batch from its start to its end.

    Mutable state: how far it got.
    """

    __slots__ = (
        "account",
        "batch",
        "began",
        "begun",
        "called_off",
        "callers",
        "error_type",
        "failed",
        "job",
        "left_to_itself",
        "over",
        "owner",
        "parent",
        "reserved",
        "seconds",
        "size",
        "split",
        "succeeded",
        "task",
        "times",
        "told",
        "weight",
    )

    def __init__(self, owner: Owner, batch: Batch | None, parent: Life | None) -> None:
        self.owner = owner
        self.batch = batch
        self.reserved = batch is None
        """Whether it holds a slot, but no batch yet."""
        self.parent = parent
        self.task: Cancellable | None = None
        self.job: Job | None = None
        """Its work in an executor."""
        self.begun = False
        self.told = False
        """Whether its callers are settled."""
        self.called_off = False
        """Whether nobody wants it any more."""
        self.left_to_itself = False
        """Whether it was called off, and goes on in a thread, where nothing can end it."""
        self.over = False
        """Whether the slot has been given back."""
        self.split = False
        """Whether its first call failed, and its halves are called."""
        self.size = self.callers = self.succeeded = self.failed = 0
        self.weight: float | None = None
        self.times: Sequence[float] = ()
        self.began = self.seconds = 0.0
        self.error_type: str | None = None
        self.account: object | None = None
        """What a witness wants to be handed back with what becomes of this batch."""

    @property
    def in_thread(self) -> bool:
        """Whether it runs in an executor now, where nothing can end it."""
        return self.job is not None and self.job.running

    def task_ended(self, task: Cancellable) -> None:
        """Hear of the end of its task."""
        self.owner.task_ended(self, task)

    def job_ended(self) -> None:
        """Hear of the end of a job that had been left to itself."""
        self.owner.over(self)

    def call_off(self) -> None:
        """End what can be ended, once: a second time it would cut off the processor's own cleanup.

        A task that has not begun is left: on asyncio its body would never be entered. It will find nobody waiting.
        """
        if self.job is not None and not self.job.over:
            self.called_off = True
            self.left_to_itself = not self.job.cancel()
        elif self.begun and not self.called_off:
            self.called_off = True
            if self.task is not None:
                self.task.cancel()

    def started(self, task: Cancellable) -> None:
        """Learn of its task, which may have begun, been called off, or ended, before this was known."""
        if not self.over:
            self.task = task
            if self.called_off:
                task.cancel()

    def let_go(self) -> None:
        """Drop what would keep its items and its results alive in a circle."""
        self.task = self.job = None
        if self.batch is not None:
            self.batch.forget()

    def leave(self, name: str | None, now: float) -> BatchEvent:
        """Say what has become of the batch while it goes on in a thread: all its callers are settled, or gone."""
        if not self.told:
            self.seconds = now - self.began
        event = self.event(name)
        stopped = self.left_to_itself and not self.told
        return replace(event, error_type=name_of(BatcherStopped)) if stopped else event

    def event(self, name: str | None) -> BatchEvent:
        """Say what has become of the batch, which was given to the processor."""
        return BatchEvent(
            name=name,
            reason="due" if self.batch is None else self.batch.reason,
            size=self.size,
            weight=self.weight,
            oldest_queue_seconds=self.began - self.times[0],
            mean_queue_seconds=self.began - sum(self.times) / self.size,
            processing_seconds=self.seconds,
            succeeded=self.succeeded,
            failed=self.failed,
            abandoned=self.callers - self.succeeded - self.failed,
            error_type=self.error_type,
        )


current_life: ContextVar[Life | None] = ContextVar("async_batcher_life", default=None)
