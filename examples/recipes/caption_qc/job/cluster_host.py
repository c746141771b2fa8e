"""The program of a cluster of this machine: a scheduler and some workers, until standard input closes.

`python -m ...cluster_host WORKERS SCRATCH` prints {"address": ...} as a line of JSON, or {"error": ..., "code": ...};
that may come after an address, too, if no worker starts. It makes the folder SCRATCH, which must not be there yet,
and takes it away. All is bound to loopback. It leads a group of its own, and ends all of it at once: its workers
have nothing to lose.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import ssl
import sys
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .cluster_settings import prepare
from .errors import Exit, JobError, lacks_thread_or_memory

if TYPE_CHECKING:
    from distributed import LocalCluster

_LOOPBACK: Final = "127.0.0.1"
_END_SECONDS: Final = 1.0
# What the machine's configuration has its other clusters do is not for this one: nothing of it may end this cluster,
# keep its workers from starting, or its chunks from being run.
_SETTINGS: Final = {
    # Dask listens for HTTP in any case: nothing is served there.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Chunks are for one worker each, and they are no tasks: a scheduler that has only them takes itself for idle.
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.idle-timeout": None,
    "distributed.scheduler.no-workers-timeout": None,
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.contact-address": None,
    "distributed.scheduler.blocked-handlers": [],
    "distributed.scheduler.preload": [],
    "distributed.worker.lifetime.duration": None,
    "distributed.worker.blocked-handlers": [],
    "distributed.worker.preload": [],
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.blocked-handlers": [],
    "distributed.nanny.preload": [],
}


def main(workers: int, scratch: str) -> NoReturn:
    """Serve until nobody wants it any more, then end the whole group."""
    for stop in (signal.SIGTERM, signal.SIGINT):
        # What is ignored is so in all that is started from here; what was blocked, multiprocessing lets in again.
        signal.signal(stop, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    # A log that the configuration sends there would stand between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        Path(scratch).mkdir(mode=0o700)
        prepare({**_SETTINGS, "temporary-directory": scratch})
        asyncio.run(_serve(workers, scratch, answers))
    except Exception as error:  # noqa: BLE001 - said to whoever started this
        _say(answers, error=_reason(error), code=_code(error))
    finally:
        _end(scratch)


def _end(scratch: str) -> NoReturn:
    """End the workers, so that nobody writes any more, then what they wrote, then the group with this process."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    connection.wait([worker.sentinel for worker in workers], timeout=_END_SECONDS)
    shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError  # Nobody comes here.


async def _serve(workers: int, scratch: str, answers: int) -> NoReturn:
    from distributed import LocalCluster  # noqa: PLC0415 - it comes after the settings

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
    _say(answers, address=cluster.scheduler_address)
    cluster.scale(workers)  # After it, so that they start while the driver connects.
    begun, ended = asyncio.ensure_future(_begin(cluster)), asyncio.ensure_future(unwanted.wait())
    await asyncio.wait({begun, ended}, return_when=asyncio.FIRST_COMPLETED)
    if begun.done() and (error := begun.exception()) is not None:
        _say(answers, error=_reason(error), code=_code(error))
        _end(scratch)
    await ended
    _end(scratch)  # Here, where a nanny can't bring a worker back.


async def _begin(cluster: LocalCluster) -> None:
    """Wait until the workers have started; a cluster that is left without one raises what kept it from starting."""
    scheduler: Any = cluster.scheduler
    failed = None
    try:
        await cluster
    except Exception as error:  # noqa: BLE001 - raised below, unless a worker tells more
        failed = error
    if scheduler.workers:
        return
    for worker in cluster.workers.values():
        await worker
    if not cluster.workers:
        raise failed or RuntimeError("no worker was started")


def _say(answers: int, **said: str | int) -> None:
    with contextlib.suppress(OSError):  # Nobody reads any more: then standard input is closed, too.
        os.write(answers, json.dumps(said).encode() + b"\n")


def _reason(error: BaseException) -> str:
    if isinstance(error, JobError):
        return str(error)
    from .cluster_connect import reason_of  # noqa: PLC0415 - it brings Dask

    return f"{type(error).__name__}: {reason_of(error)}"


def _code(error: BaseException) -> Exit:
    """Say whether the system refused something; all else that keeps a cluster from starting has been configured."""
    link: BaseException | None = error
    while link is not None:
        configured = isinstance(link, (FileNotFoundError, ssl.SSLError))
        if lacks_thread_or_memory(link) or (isinstance(link, OSError) and not configured):
            return Exit.IO_ERROR
        link = link.__cause__ or link.__context__
    return Exit.BAD_CONFIG


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
