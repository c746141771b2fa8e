"""What runs between the HTTP service's start and its end: two batchers, their intakes, and one shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import sys
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import BaseModel

from async_batcher import AsyncBatcher, BatcherStats
from examples.recipes.backend_errors import apart
from examples.recipes.operations import Intake
from examples.recipes.operations.intake import check_timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from examples.recipes.event_store import Event, EventStore, Record


NO_GRACE = sys.float_info.min
"""The shortest there is, in seconds: the first grace of an intake that passes ends all of them."""


@dataclasses.dataclass(frozen=True)
class Budgets:
    """Seconds, each over 0 and finite; `None` is no limit."""

    response_timeout: float | None
    shutdown_grace: float | None
    shutdown_force: float | None

    def __post_init__(self) -> None:
        for name, seconds in dataclasses.asdict(self).items():
            check_timeout(name, seconds)


class Stats(BaseModel):
    """The counts of both batchers."""

    predictions: BatcherStats
    events: BatcherStats


class Service:
    """The work behind the routes."""

    def __init__(
        self, store: EventStore, prediction_processor: Callable[[list[list[float]]], Any], budgets: Budgets
    ) -> None:
        self._store = store
        self._budgets = budgets
        self._predictions = AsyncBatcher.from_callable(apart(prediction_processor), name="predictions")
        self._events: AsyncBatcher[Record, bool] = AsyncBatcher.from_callable(
            apart(store.store), name="events", executor=store.executor
        )
        self._prediction_intake = Intake(self._predictions)
        self._event_intake = Intake(self._events)
        self._retired = False
        self._ending: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether a balancer should send new requests here."""
        return not (self._retired or self._prediction_intake.closed or self._event_intake.closed)

    async def predict(self, row: list[float]) -> float:
        """Return the model's value for `row`."""
        timeout = self._budgets.response_timeout
        return float(await self._prediction_intake.process(row, response_timeout=timeout))

    async def store(self, event: Event) -> bool:
        """Store `event`, and say whether its id was new.

        Raises:
            PayloadDiffers: The id is stored already, with another payload.
        """
        timeout = self._budgets.response_timeout
        return await self._event_intake.process(event.record(), response_timeout=timeout)

    def stats(self) -> Stats:
        """Return the counts as of now."""
        return Stats(predictions=self._predictions.stats(), events=self._events.stats())

    def retire(self) -> None:
        """Be ready no more, and go on serving: the first step of an end, for balancers to see."""
        self._retired = True

    async def shutdown(self) -> None:
        """Close both intakes, drain them together, then close the database; once, however often it is called.

        A cancelled scope around it does not cut it short: its budgets bound it. A task that is cancelled
        natively while it waits here is out of patience: both batchers are forced.

        Raises:
            ExceptionGroup: What failed, once both have ended; the cause of the cancellation, where there is one.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        with anyio.CancelScope(shield=True):
            try:
                await asyncio.shield(self._ending)
            except asyncio.CancelledError as cancelled:
                await self.force()
                await asyncio.wait([self._ending])
                raise cancelled from self._ending.exception()

    async def force(self) -> None:
        """Tell everybody who still waits `BatcherStopped`, now; a batch that runs goes on without them.

        A drain that is under way waits no longer than for the forced cleanup, whatever its grace.
        """
        budget = self._budgets.shutdown_force
        async with anyio.create_task_group() as group:
            # The batchers first: a grace, however short, would send what waits to the processor.
            for batcher in (self._predictions, self._events):
                group.start_soon(_until_told, functools.partial(batcher.stop, force=True, timeout=budget))
            for intake in (self._prediction_intake, self._event_intake):
                end = functools.partial(intake.shutdown, grace_timeout=NO_GRACE, force_timeout=budget)
                group.start_soon(_until_told, end)

    async def _end(self) -> None:
        try:
            await drain_together(self._prediction_intake, self._event_intake, budgets=self._budgets)
        finally:
            # Behind everybody who could still write; a forced write may hold its thread for longer.
            closing = asyncio.wrap_future(self._store.close())
            with anyio.move_on_after(self._budgets.shutdown_force):
                await asyncio.shield(closing)


async def _until_told(stop: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(TimeoutError):  # everybody has been told by then
        await stop()


async def drain_together(*intakes: Intake[Any, Any], budgets: Budgets) -> None:
    """Close all, then drain all at the same time, so that the budgets are those of one.

    Raises:
        ExceptionGroup: What failed, once all have ended.
    """
    for intake in intakes:
        intake.close()
    failures: list[Exception] = []

    async def drain(intake: Intake[Any, Any]) -> None:
        try:
            await intake.shutdown(grace_timeout=budgets.shutdown_grace, force_timeout=budgets.shutdown_force)
        except Exception as failure:  # noqa: BLE001  the others drain on; it is raised with theirs
            failures.append(failure)

    async with anyio.create_task_group() as group:
        for intake in intakes:
            group.start_soon(drain, intake)
    if failures:
        raise ExceptionGroup("the service did not shut down in time", failures)
