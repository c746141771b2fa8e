"""The runner: from the scan's pages to the ledger, through two batchers.

    scan -> lanes -> intake -> `checks`: small batches -> a worker process each -> outcomes
                                  |                                                   |
                                  `- before: what runs -> `ledger`: group commit <- after: what came of it

1. `checks` is an `AsyncBatcher` over a pool of processes. Checking is CPU-bound, so a batch goes to a
   process, and several small files share one trip. It is full most of the time: `on_full="wait"` makes the
   lanes wait, and so the scan.
2. `ledger` is an `AsyncBatcher` over a plain function that writes one transaction. While one commit syncs,
   the next writes gather; the function is sync, so the batcher runs it in a thread, off the loop.
3. The processor of `checks` writes to `ledger` itself. So a drained `checks` means: checked and recorded.
4. A drain cancels the lanes. A caller that leaves takes its waiting item with it, and a batch that runs goes
   on and is recorded; `Intake.shutdown` waits for those.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from async_batcher import AsyncBatcher
from examples.recipes.caption_qc.check import too_large
from examples.recipes.operations import BoundedExporter, Intake

from .digest import digest
from .ledger import Finished, Started
from .outcomes import Checked, DeadLetter, Died
from .pool import CheckDiedError, Pool
from .screen import counted
from .worker import Orders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from async_batcher import BatchEvent

    from .assets import Asset
    from .drain import Drain
    from .ledger import Ledger, Recorded, Suspect, Write
    from .outcomes import Ending, Left
    from .plan import Plan
    from .screen import Screen
    from .totals import Totals

# Small files: a trip to a worker and its two transactions cost more than the check of one.
FILES_A_BATCH: Final = 8
WRITES_A_COMMIT: Final = 64
# Seconds of the drain that are kept for the projections.
WRITING_SECONDS: Final = 5.0
FORCE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """One asset to check; `attempts` is of a suspect, which is checked while nothing else runs."""

    asset: Asset
    attempts: int | None = None


class Runner:
    """Checks what the scan finds, and what the last run left suspect. Mutable state: `totals`."""

    def __init__(self, plan: Plan, ledger: Ledger, totals: Totals, screen: Screen, drain: Drain) -> None:
        self.plan = plan
        self.ledger = ledger
        self.totals = totals
        self.screen = screen
        self.drain = drain
        self.pool = Pool(
            plan.workers,
            Orders(queue=bytes(plan.queue), profile=plan.profile, asset_timeout=plan.asset_timeout),
        )
        self.writes: AsyncBatcher[Write, tuple[Recorded, ...]] = AsyncBatcher.from_callable(
            ledger.write, max_batch_size=WRITES_A_COMMIT, max_queue_time=0, on_full="wait", name="ledger"
        )
        self.progress = BoundedExporter(self._redraw, max_events=1)
        # One batch more than there are workers: it is written down and ready when a worker comes free.
        batches = plan.workers + 1
        self.checks: AsyncBatcher[Task, None] = AsyncBatcher.from_callable(
            self.check_batch,
            max_batch_size=FILES_A_BATCH,
            max_queue_size=FILES_A_BATCH * plan.workers,
            concurrency=batches,
            on_full="wait",
            on_batch=self.progress.observe,
            name="checks",
        )
        self.intake = Intake(self.checks)
        # Enough for what runs, for what waits in the queue, and for a line before it.
        self.lanes = 2 * FILES_A_BATCH * batches

    def run(self, pages: Iterator[list[Asset]]) -> None:
        """Check everything; on a drain, finish what runs and return.

        Raises:
            Exception: What a transaction of the ledger's raised; everything else is an outcome.
        """
        try:
            asyncio.run(self._run(pages))
        except BaseExceptionGroup as group:
            # Lanes fail together, and for one reason.
            raise _first_of(group) from None

    async def _run(self, pages: Iterator[list[Asset]]) -> None:
        async with self.progress:
            await self._until_drained(pages)

    async def _until_drained(self, pages: Iterator[list[Asset]]) -> None:
        work = asyncio.ensure_future(self.check_everything(pages))
        loop = asyncio.get_running_loop()
        self.drain.notify(lambda: loop.call_soon_threadsafe(work.cancel))
        try:
            await work
        except asyncio.CancelledError:
            if not self.drain.requested:
                raise
        finally:
            self.drain.forget()
            await self.shut_down()

    async def check_everything(self, pages: Iterator[list[Asset]]) -> None:
        """Suspects first, then the queue, then what is suspect since; each suspect once a run."""
        before = [suspect for suspect in await self.suspects() if not suspect.last]
        self.totals.found += len(before)
        await self.check_alone(before)
        await self.check_queue(pages)
        # As they are now: a file that changed since has been checked with the queue, and is none any more.
        tried = {suspect.asset for suspect in before}
        after = [suspect for suspect in await self.suspects() if suspect.asset not in tried]
        self.totals.found += sum(suspect.last for suspect in after)
        await self.check_alone(after)

    async def check_queue(self, pages: Iterator[list[Asset]]) -> None:
        """Let every lane take one asset after the other until the scan has no more."""
        source = _Source(pages, self.totals)
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self.lanes):
                lanes.create_task(self.lane(source))

    async def lane(self, source: _Source) -> None:
        """Take one asset after the other."""
        while (asset := await source.next()) is not None:
            await self.process_asset(Task(asset))

    async def process_asset(self, task: Task) -> None:
        """See one asset through: when this returns, what came of it is in the ledger."""
        if (report := too_large(task.asset.stat.size, self.plan.profile)) is None:
            await self.intake.process(task)
            return
        found = await self._digest(task.asset)
        if isinstance(found, str):
            await self.record([Checked(asset=task.asset, content_sha256=found, report=report, seconds=0.0)])
        else:
            await self.record([found])

    async def check_batch(self, batch: Sequence[Task]) -> None:
        """Check some assets in one worker: written down before, and after."""
        assets = tuple(task.asset for task in batch)
        alone = batch[0].attempts is not None
        await self.writes.process(Started(assets, alone))
        try:
            endings: Sequence[Ending] = await self.pool.check(assets)
        except CheckDiedError as death:
            if not alone:
                self.screen.warn(f"{death}; checked again at the end, one by one: {counted(len(assets))}")
                return
            endings = [await self._after_death(batch[0], str(death))]
        await self.record(endings)

    async def record(self, endings: Sequence[Ending]) -> None:
        """Write what came of some assets down, then count and show it."""
        for ending, new in await self.writes.process(Finished(tuple(endings), datetime.now(UTC))):
            self.totals.count(ending, new=new)
            self.screen.show(ending)

    async def suspects(self) -> list[Suspect]:
        """List what a dead run, or a pool of this run that broke, left running."""
        return await asyncio.to_thread(self.ledger.suspects)

    async def check_alone(self, suspects: Iterable[Suspect]) -> None:
        """Check suspects one by one: the death of one that is alone is its own."""
        for suspect in suspects:
            await self.process_asset(Task(suspect.asset, suspect.attempts))

    async def shut_down(self) -> None:
        """Finish what runs, within the drain's budget; what outlives it is killed and stays suspect."""
        budget = self.plan.drain_timeout
        grace = max(budget - WRITING_SECONDS, budget / 2)
        try:
            await self.intake.shutdown(grace_timeout=grace, force_timeout=FORCE_SECONDS)
        except TimeoutError:
            self.screen.warn("a batch could not be ended in time; the next run begins with it")
        finally:
            self.pool.kill()
            await self.writes.stop()

    async def _after_death(self, task: Task, reason: str) -> Ending:
        """Say what the death of a lone asset makes of it: one attempt more, or a dead letter."""
        attempts = (task.attempts or 0) + 1
        if attempts < self.plan.max_attempts:
            return Died(asset=task.asset, reason=f"{reason} (attempt {attempts})")
        found = await self._digest(task.asset)
        if isinstance(found, str):
            return DeadLetter(asset=task.asset, content_sha256=found, attempts=attempts, reason=reason)
        return found

    async def _digest(self, asset: Asset) -> str | Left:
        return await asyncio.to_thread(
            digest,
            bytes(self.plan.queue),
            asset,
            seconds=self.plan.asset_timeout,
            stopped=lambda: self.drain.requested,
        )

    async def _redraw(self, event: BatchEvent) -> None:
        del event  # It says when to look, the run's own counts say what there is to see.
        self.screen.redraw(self.totals)


class _Source:
    """The scan's pages as single assets, for many lanes; the next page is read in a thread."""

    def __init__(self, pages: Iterator[list[Asset]], totals: Totals) -> None:
        self._pages = pages
        self._totals = totals
        self._page: Iterator[Asset] = iter(())
        self._turn = asyncio.Lock()

    async def next(self) -> Asset | None:
        """Return the next asset, or `None` at the end of the scan."""
        async with self._turn:
            while (asset := next(self._page, None)) is None:
                page = await asyncio.to_thread(next, self._pages, None)
                if page is None:
                    return None
                self._totals.found += len(page)
                self._page = iter(page)
            return asset


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first
