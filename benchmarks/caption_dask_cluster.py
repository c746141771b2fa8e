"""A scheduler and workers of Dask as processes of their own, as they run where there are several machines."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from caption_dask_runs import cpu_of
from caption_job_sides import ENVIRONMENT, ROOT
from distributed import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DASK: Final = [sys.executable, "-m", "dask"]
# Without a place of its own what is told by HTTP is told on all interfaces, with or without a dashboard.
_LOOPBACK: Final = ["--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


class Processes(NamedTuple):
    """A scheduler that listens on loopback, with its workers."""

    address: str
    scheduler: int
    """Its process."""

    @property
    def cpu(self) -> float:
        """CPU-seconds of the scheduler."""
        return cpu_of(self.scheduler)


@contextlib.contextmanager
def started(folder: Path, workers: int) -> Iterator[Processes]:
    """Start them, wait until all are there, and end them with the block."""
    file = folder / "scheduler.json"
    where = ["--scheduler-file", str(file), *_LOOPBACK]
    with (
        _process(folder, "scheduler", *where, "--port", "0") as scheduler,
        _process(folder, "worker", *where, "--nworkers", str(workers), "--nthreads", "1"),
    ):
        # It waits for the file, and so do workers.
        with Client(scheduler_file=str(file)) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(workers)
            address = client.scheduler.address
        yield Processes(address, scheduler.pid)


@contextlib.contextmanager
def _process(folder: Path, kind: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    log = folder / f"{kind}.log"
    with (
        log.open("wb") as said,
        subprocess.Popen([*_DASK, kind, *options], cwd=ROOT, env=ENVIRONMENT, stderr=said) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
