"""The runner: from the pages of the scan to the ledger, through two batchers.

    pages -> tasks -> `checks`: batches weighed in bytes -> a worker process each -> endings
                          |                                                            |
                          `- before: what runs -> `writes`: group commit <- after: what came of it

1. `checks` is an `AsyncBatcher` over a pool of processes, or over a Dask cluster's workers, which come and go:
   so a batch has a place before it is written down. Checking is CPU-bound, so a batch goes to a process;
   small files share a trip, a large one goes nearly alone, and bytes in flight are bounded as well as files.
2. `checks.map` pulls the tasks as there is room (`on_full="wait"`), and so the scan: a queue of any size is
   never a list. Leaving its block, as a drain does, withdraws what waits; a batch that runs goes on.
3. `writes` is an `AsyncBatcher` over a plain function that writes one transaction. While one commit syncs, the
   next writes gather; the function is sync, so the batcher runs it in a thread, off the loop.
4. The processor of `checks` writes to `writes` itself. So a drained `checks` means: checked and recorded.
   `Intake.shutdown` is that drain, with its budget; `BoundedExporter` redraws the screen and holds nothing up.
5. What a dead worker leaves is suspect, not guilty: it is checked again alone, and only a death alone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from async_batcher import AsyncBatcher
from examples.recipes.caption_qc.check import too_large
from examples.recipes.operations import BoundedExporter, Intake

from .assets import Asset, NotAsSeenError
from .digest import digest
from .drain import WRITING_SECONDS
from .errors import JobError
from .ledger import Finished, Started
from .outcomes import Checked, DeadLetter, Died, Left, left_because, stopped
from .pool import CheckDiedError, Pool, PoolClosedError
from .reach import blame
from .screen import counted
from .sidecar import given_beside
from .waking import woken_by_signals
from .worker import Orders

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from async_batcher import BatchEvent
    from examples.recipes.caption_qc.check import Report

    from .checkers import Check, Checkers
    from .drain import Drain
    from .ledger import Ledger, Recorded, Suspect, Write
    from .outcomes import Ending
    from .plan import Plan
    from .screen import Screen
    from .totals import Totals

# A trip to a worker and its two transactions cost as much as the check of some kilobytes.
FILES_A_BATCH: Final = 16
# A quarter of a megabyte is checked in about 150 ms: long beside a trip, short beside a drain.
BYTES_A_BATCH: Final = 1 << 18
WRITES_A_COMMIT: Final = 64
FORCE_SECONDS: Final = 1.0
# What a digest may take at least: a time that no check keeps is no time for it either, and it is never a dead letter.
DIGEST_SECONDS: Final = 10.0
# Of a cluster that is not ours, how many workers a driver keeps busy: its own work is at its end long before.
MOST_WORKERS: Final = 64


def _checkers(plan: Plan, orders: Orders, warn: Callable[[str], None]) -> Checkers:
    if plan.scheduler is None:
        return Pool(plan.workers, orders)
    from .cluster_local import LOCAL, LocalCluster  # noqa: PLC0415 - most runs have no cluster

    local = LocalCluster(plan.workers) if plan.scheduler == LOCAL else None
    try:
        from .cluster import Cluster  # noqa: PLC0415 - it brings Dask, while a local cluster starts
    except BaseException:
        if local is not None:
            with contextlib.suppress(JobError):  # What keeps Dask from being imported here has been said.
                local.abandon()
        raise
    return Cluster(plan.scheduler, plan.workers if local else MOST_WORKERS, orders, warn, local=local)


class Task(NamedTuple):
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
        self.pool = _checkers(
            plan,
            Orders(queue=plan.queue, profile=plan.profile, asset_timeout=plan.asset_timeout),
            screen.warn,
        )
        self.writes: AsyncBatcher[Write, tuple[Recorded, ...]] = AsyncBatcher.from_callable(
            ledger.write, max_batch_size=WRITES_A_COMMIT, max_queue_time=0, on_full="wait", name="ledger"
        )
        self.progress = BoundedExporter(self._redraw, max_events=1)
        batches = self.pool.most
        self.checks: AsyncBatcher[Task, None] = AsyncBatcher.from_callable(
            self.check_batch,
            max_batch_size=FILES_A_BATCH,
            weigh=self.weigh,
            max_batch_weight=BYTES_A_BATCH,
            max_queue_size=FILES_A_BATCH * batches,
            concurrency=batches,
            on_full="wait",
            on_batch=self.progress.observe,
            name="checks",
        )
        self.intake = Intake(self.checks)

    def run(self, pages: Iterator[list[Asset]]) -> None:
        """Check everything; on a drain, finish what runs and return.

        Raises:
            Exception: What a transaction of the ledger's raised; everything else is an outcome.
        """
        asyncio.run(self._run(pages))

    async def _run(self, pages: Iterator[list[Asset]]) -> None:
        with woken_by_signals(asyncio.get_running_loop()):
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
        await self.pool.open()
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
        """Check what the scan finds, as fast as there is room for it."""
        async with self.checks.map(self.tasks(pages), ordered=False) as ended:
            async for _ in ended:
                pass  # What came of it is counted and shown where it is recorded.

    async def tasks(self, pages: Iterator[list[Asset]]) -> AsyncIterator[Task]:
        """Give one asset of the scan after the other; the next page is read in a thread."""
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            self.totals.found += len(page)
            for asset in page:
                yield Task(asset)

    async def check_alone(self, suspects: Iterable[Suspect]) -> None:
        """Check suspects one by one: the death of one that is alone is its own."""
        for suspect in suspects:
            await self.intake.process(Task(suspect.asset, suspect.attempts))

    def weigh(self, task: Task) -> int:
        """Weigh an asset in bytes; a large one fills a batch, and so does one whose bytes are only digested."""
        return BYTES_A_BATCH if self.refusal(task.asset) else min(task.asset.stat.size, BYTES_A_BATCH)

    async def check_batch(self, batch: Sequence[Task]) -> None:
        """See some assets through: given a place, written down before the work, and what came of them after it."""
        try:
            if endings := await self.placed(batch):
                await self.record(endings)
        except PoolClosedError:
            pass  # A drain, before anything was written of them.

    async def placed(self, batch: Sequence[Task]) -> Sequence[Ending]:
        """Check some assets where there is a place for them; one that is too large needs none."""
        (asset, attempts), assets = batch[0], tuple(task.asset for task in batch)
        if report := self.refusal(asset):
            await self.writes.process(Started(assets, alone=attempts is not None))
            return [await self.refused(asset, report)]
        async with self.pool.place() as check:
            await self.writes.process(Started(assets, alone=attempts is not None))
            return await self.endings(batch, check)

    async def endings(self, batch: Sequence[Task], check: Check) -> Sequence[Ending]:
        """Check some assets, and say what came of each; nothing of a chunk whose worker died."""
        (asset, attempts), assets = batch[0], [task.asset for task in batch]
        try:
            return await check(assets)
        except PoolClosedError:
            # A drain, or the run failed. Who is suspect stays so, the others are as new as before.
            return [self.kept_from(asset) for asset in assets] if attempts is None else []
        except CheckDiedError as death:
            if attempts is not None:
                return [await self.after_death(asset, attempts + 1, str(death))]
            self.screen.warn(f"a worker {death}; checked again at the end, one by one: {counted(len(batch))}")
            return []

    def kept_from(self, asset: Asset) -> Left:
        """Say why an asset was not checked to its end: nobody asked a run to end that fails of its disk."""
        return stopped(asset) if self.drain.requested else stopped(asset, "the run failed before its end")

    def refusal(self, asset: Asset) -> Report | None:
        """Say why an asset is too large to be sent to a worker; `None` if it is to be checked."""
        return too_large(asset.stat.size, self.plan.profile)

    async def refused(self, asset: Asset, report: Report) -> Ending:
        """Say what comes of an asset that is too large: its digest is all that is read of it."""
        found = await self.digests(asset)
        if isinstance(found, Left):
            return found
        content, judged_by = found
        report = replace(report, profile_sha256=judged_by)
        return Checked(asset=asset, content_sha256=content, report=report, seconds=0.0)

    async def after_death(self, asset: Asset, attempts: int, reason: str) -> Ending:
        """Say what the death of a lone asset makes of it: one attempt more, or a dead letter."""
        died = Died(asset=asset, reason=f"{reason} (attempt {attempts} of {self.plan.max_attempts})")
        if attempts < self.plan.max_attempts:
            return died
        match await self.digests(asset):
            case (content, judged_by):
                return DeadLetter(
                    asset=asset,
                    content_sha256=content,
                    attempts=attempts,
                    reason=reason,
                    judged_by=judged_by,
                )
            case Left(why="changed" | "gone") as left:
                return left
            case _:  # It can't be read now, or a drain came: it has died all the same.
                return died

    async def digests(self, asset: Asset) -> tuple[str, str] | Left:
        """Read an asset's SHA-256 and that of what it is judged by, unless it takes too long or a drain comes."""
        queue, seconds = self.plan.queue, max(self.plan.asset_timeout, DIGEST_SECONDS)
        found = await asyncio.to_thread(
            digest, queue, asset, seconds=seconds, stopped=lambda: self.drain.requested
        )
        if isinstance(found, Left):
            return found
        try:
            read = partial(queue.sidecar, asset)
            given = await asyncio.to_thread(given_beside, asset, self.plan.profile, read)
        except (NotAsSeenError, OSError, JobError) as error:
            return left_because(asset, error)
        return found, given.judged_by

    async def record(self, endings: Sequence[Ending]) -> None:
        """Write what came of some assets down, then count and show it."""
        for ending, new in await self.writes.process(Finished(tuple(endings), datetime.now(UTC))):
            self.totals.count(ending, new=new)
            self.screen.show(ending)
        if any(isinstance(ending, Left) and ending.why == "unreadable" for ending in endings):
            # It may be none of theirs; then the run ends.
            await asyncio.to_thread(blame, self.plan.queue, endings)

    async def suspects(self) -> list[Suspect]:
        """List what a dead run, or a worker of this run that died, left running."""
        return await asyncio.to_thread(self.ledger.suspects)

    async def shut_down(self) -> None:
        """Finish what runs, within the drain's budget; what outlives it is killed and stays suspect."""
        self.pool.close()
        budget = self.plan.drain_timeout
        grace = max(budget - WRITING_SECONDS, budget / 2)
        try:
            await self.intake.shutdown(grace_timeout=grace, force_timeout=FORCE_SECONDS)
        except TimeoutError:
            self.screen.warn("a batch could not be ended in time; the next run begins with it")
        finally:
            self.pool.kill()
            await self.writes.stop()
            await self.pool.end()

    async def _redraw(self, event: BatchEvent) -> None:
        del event  # It says when to look, the run's own counts say what there is to see.
        self.screen.redraw(self.totals)
