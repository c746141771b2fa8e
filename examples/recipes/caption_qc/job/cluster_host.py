"""The program of a cluster of this machine: a scheduler and some workers, until standard input closes.

`python -m ...cluster_host WORKERS` prints one line of JSON, {"address": ...} or {"error": ...}. All is bound to
loopback. It leads a group of its own, and ends all of it at once: its workers have nothing to lose.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from multiprocessing import connection
from typing import Final, NoReturn

import dask

_LOOPBACK: Final = "127.0.0.1"
_END_SECONDS: Final = 1.0


def main(workers: int) -> NoReturn:
    """Serve until nobody wants it any more, then end the whole group."""
    for stop in (signal.SIGTERM, signal.SIGINT):
        # What is ignored is so in all that is started from here; what was blocked, multiprocessing lets in again.
        signal.signal(stop, signal.SIG_IGN)
    scratch = None
    try:
        scratch = tempfile.mkdtemp(prefix="caption-qc-")
        dask.config.set(_settings(scratch))
        asyncio.run(_serve(workers, scratch))
    except Exception as error:  # noqa: BLE001 - said to whoever started this
        _say(error=f"{type(error).__name__}: {error}")
    _end(scratch)


def _end(scratch: str | None) -> NoReturn:
    """End the workers, so that nobody writes any more, then what they wrote, then the group with this process."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    connection.wait([worker.sentinel for worker in workers], timeout=_END_SECONDS)
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError  # Nobody comes here.


def _settings(scratch: str) -> dict[str, object]:
    return {
        "temporary-directory": scratch,
        # Dask listens for HTTP in any case: nothing is served there.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        # Chunks are for one worker each.
        "distributed.scheduler.work-stealing": False,
        "distributed.worker.profile.enabled": False,
    }


async def _serve(workers: int, scratch: str) -> NoReturn:
    from distributed import LocalCluster  # noqa: PLC0415 - it reads the settings

    unwanted = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), unwanted.set)
    starting = LocalCluster(
        host=_LOOPBACK,
        n_workers=0,
        threads_per_worker=1,
        dashboard_address=f"{_LOOPBACK}:0",
        scheduler_kwargs={"dashboard": False},
        worker_dashboard_address=None,
        # Of what a check takes its own process has the limit.
        memory_limit=0,
        asynchronous=True,
    )
    cluster = await starting
    _say(address=cluster.scheduler_address)
    cluster.scale(workers)  # After it, so that they start while the driver connects.
    await unwanted.wait()
    _end(scratch)  # Here, where a nanny can't bring a worker back.


def _say(**said: str) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
