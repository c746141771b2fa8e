"""What one driver can feed: its CPU time for a chunk and for a file, and the scheduler's, from whole runs.

Files of two captions are checked in next to no time. Of the same files sixteen share a chunk, or each has its own,
since blanks at its end make it heavy; the driver reads none of them. What a run of sixteen takes is taken off.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from caption_dask_cluster import started
from caption_dask_runs import drive
from caption_job_files import deliver_small

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILES_A_CHUNK: Final = 16
_HEAVY: Final = b" " * (1 << 18) + b"\n"
WORKERS: Final = ("--workers", "2")
HEAVY_SHARE: Final = 8


class Cost(NamedTuple):
    """CPU-seconds."""

    chunk: float
    file: float

    @property
    def files_a_second(self) -> float:
        """As many as one core can feed, sixteen a chunk."""
        return FILES_A_CHUNK / (self.chunk + FILES_A_CHUNK * self.file)


class Files(NamedTuple):
    """The same files three times."""

    few: Path
    packed: Path
    alone: Path


def deliver(folder: Path, files: int) -> Files:
    """Make one chunk of files, so many in chunks, and an eighth of that which are chunks themselves."""
    made = Files(folder / "few", folder / "packed", folder / "alone")
    for queue, count in zip(made, (FILES_A_CHUNK, files, files // HEAVY_SHARE), strict=True):
        deliver_small(queue, count)
    for path in made.alone.rglob("*.scc"):
        with path.open("ab") as file:
            file.write(_HEAVY)
    return made


def costs(folder: Path, files: int) -> Iterator[tuple[str, Cost]]:
    """Measure the driver with the pool and with Dask, and a scheduler that is a process of its own."""
    queues = deliver(folder, files)
    for name, options in (("pool", WORKERS), ("--scheduler local", ("--scheduler", "local", *WORKERS))):
        yield f"the driver, {name}", _cost([_driver(queue, *options) for queue in queues], files)
    with started(folder, 2) as cluster:
        used, before = [], cluster.cpu
        for queue in queues:
            driver = _driver(queue, "--scheduler", cluster.address)
            used.append((driver, -before + (before := cluster.cpu)))
    drivers, schedulers = zip(*used, strict=True)
    yield "the driver, --scheduler tcp://...", _cost(drivers, files)
    yield "that scheduler", _cost(schedulers, files)


def _driver(queue: Path, *options: str) -> float:
    """Check a queue, and give the driver's CPU-seconds."""
    state = queue.with_name("driver-state")
    shutil.rmtree(state, ignore_errors=True)
    return drive(queue, state, *options).cpu


def _cost(used: Sequence[float], files: int) -> Cost:
    """Solve for the cost of a chunk and of a file; few, packed and alone have 1, `files` / 16 and as many chunks."""
    few, packed, alone = used
    heavy = files // HEAVY_SHARE
    both = (packed - few) / (files - FILES_A_CHUNK)
    rest = (alone - few) - (heavy - FILES_A_CHUNK) * both
    chunk = rest / ((heavy - 1) - (heavy - FILES_A_CHUNK) / FILES_A_CHUNK)
    return Cost(chunk, both - chunk / FILES_A_CHUNK)
