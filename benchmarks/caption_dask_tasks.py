"""What a trip to a worker costs, apart from the run: Dask's least task, a chunk of files, a semaphore's place.

The scheduler and two workers are processes of their own on this machine, so their CPU time is apart from ours. Four
trips are on their way at once, as two workers have them in a run; the files are small, so that it is the trip that
is measured.
"""

from __future__ import annotations

import asyncio
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final, NamedTuple

from caption_dask_cluster import started
from caption_job_files import deliver_small
from distributed import Client, Semaphore

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.cluster import Cluster
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.worker import Orders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from caption_dask_cluster import Processes


FILES_A_CHUNK: Final = 20
AT_ONCE: Final = 4
WARM: Final = 20


class Trip(NamedTuple):
    """Milliseconds of one trip, of many that were made."""

    what: str
    time: float
    driver: float
    """Of our CPU."""
    scheduler: float
    """Of the scheduler's CPU."""


def trips(folder: Path, count: int) -> list[Trip]:
    """Measure so many trips of each kind."""
    queue = folder / "chunk"
    deliver_small(queue, FILES_A_CHUNK)
    chunk = [Asset(bytes(path.relative_to(queue)), stat_of(path.stat())) for path in queue.rglob("*.scc")]
    orders = Orders(queue=FolderQueue(queue), profile=load("house"), asset_timeout=30.0)
    with started(folder, 2) as processes:
        return asyncio.run(_trips(orders, chunk, count, processes))


async def _trips(orders: Orders, chunk: list[Asset], count: int, processes: Processes) -> list[Trip]:
    found = []
    async with Client(processes.address, asynchronous=True) as client:  # type: ignore[no-untyped-call]

        async def task() -> None:
            await client.submit(bool, pure=False)

        slots = await Semaphore(max_leases=AT_ONCE, name="slots")  # type: ignore[no-untyped-call]

        async def slot() -> None:
            async with slots:
                pass

        found.append(await _measured("a task that does nothing", task, count, processes))
        found.append(await _measured("a semaphore, entered and left", slot, count, processes))
    found.append(await _checked(orders, chunk, count, processes))
    return found


async def _checked(orders: Orders, chunk: list[Asset], count: int, processes: Processes) -> Trip:
    cluster = Cluster(processes.address, 2, orders, print, local=None)

    async def check() -> None:
        async with cluster.place() as place:
            await place(chunk)

    await cluster.open()
    try:
        return await _measured(f"{len(chunk)} small files", check, count, processes)
    finally:
        cluster.kill()
        await cluster.end()


async def _measured(what: str, trip: Callable[[], Awaitable[None]], count: int, processes: Processes) -> Trip:
    """Make the trip so often, `AT_ONCE` on their way, after a few that are not counted."""
    await _repeat(trip, WARM)
    before = perf_counter(), process_time(), processes.cpu
    await _repeat(trip, count)
    after = perf_counter(), process_time(), processes.cpu
    return Trip(what, *(1000 * (end - begin) / count for begin, end in zip(before, after, strict=True)))


async def _repeat(trip: Callable[[], Awaitable[None]], count: int) -> None:
    left = iter(range(count))

    async def one_after_the_other() -> None:
        for _ in left:
            await trip()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_the_other())
