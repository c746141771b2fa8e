"""A real scheduler and real workers of Dask on loopback, each a program that a test starts and ends by its number.

Each program ends when its standard input closes, so that none outlives the tests.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from blocking import PATIENCE
from caption_runs import ROOT
from caption_storm import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROGRAM = """
import asyncio, os, sys
if __name__ == "__main__":
    {before}
    import dask
    dask.config.set({{"temporary-directory": {scratch!r}, "distributed.worker.profile.enabled": False}})
    from distributed import Nanny, Scheduler, SchedulerPlugin, Worker

    class Clients(SchedulerPlugin):
        def add_client(self, scheduler, client):
            print("client", flush=True)

    async def serve():
        async with {server} as server:
            if isinstance(server, Scheduler):
                server.add_plugin(Clients())
            print(getattr(server, "worker_address", None) or server.address, server.pid if isinstance(server, Nanny)
                else os.getpid(), flush=True)
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                match line.split():
                    case ["retire", worker]:
                        await server.retire_workers([worker], close_workers=True)
                    case ["close"]:
                        await server.close()
                    case ["idle"]:  # The first look sees that something happened since the last.
                        print(server.check_idle() or server.check_idle(), flush=True)

    asyncio.run(serve())
"""
_SCHEDULER = "Scheduler(host='127.0.0.1', port=0, dashboard_address='127.0.0.1:0', dashboard=False)"
_WORKER = "{kind}({address!r}, host='127.0.0.1', nthreads=1, memory_limit=0)"


@dataclass(frozen=True)
class Program:
    """A scheduler or a worker that runs."""

    address: str
    pid: int
    """Of a nanny's worker its own number, not the nanny's."""
    said: IO[str]
    orders: IO[str]

    def await_client(self) -> None:
        """Wait until a client has come to this scheduler."""
        assert self.said.readline() == "client\n"

    def retire(self, worker: Program) -> None:
        """Let a worker leave in good order."""
        print("retire", worker.address, file=self.orders, flush=True)

    def close(self) -> None:
        """Let this worker end itself, as `dask worker` does when it gets SIGTERM."""
        print("close", file=self.orders, flush=True)

    def idle_since(self) -> str:
        """Ask this scheduler since when it has nothing to do, as the timer of `--idle-timeout` asks it."""
        print("idle", file=self.orders, flush=True)
        return self.said.readline().strip()


@dataclass(frozen=True)
class Cluster:
    """A scheduler, and a place for its files."""

    scheduler: Program
    scratch: Path
    ended: contextlib.ExitStack

    @property
    def option(self) -> tuple[str, str]:
        return "--scheduler", self.scheduler.address

    def worker(self, more: dict[str, str] | None = None, *, nanny: bool = False, before: str = "") -> Program:
        """Start one more worker, and wait until the scheduler has it; `more` is for its environment."""
        server = _WORKER.format(kind="Nanny" if nanny else "Worker", address=self.scheduler.address)
        return self.ended.enter_context(_running(server, self.scratch, before, more or {}))


@contextlib.contextmanager
def cluster(scratch: Path) -> Iterator[Cluster]:
    """Start a scheduler without workers; all ends with the block."""
    with contextlib.ExitStack() as ended:
        scheduler = ended.enter_context(_running(_SCHEDULER, scratch, "", {}))
        yield Cluster(scheduler, scratch, ended)


@contextlib.contextmanager
def _running(server: str, scratch: Path, before: str, more: dict[str, str]) -> Iterator[Program]:
    path = scratch / f"program-{len(list(scratch.glob('program-*')))}.py"
    path.write_text(_PROGRAM.format(server=server, scratch=str(scratch), before=before or "pass"))
    with subprocess.Popen(
        [sys.executable, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=environment("", **more) | {"TMPDIR": str(scratch)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address, pid = process.stdout.readline().split()
            yield Program(address, int(pid), process.stdout, process.stdin)
        finally:
            process.kill()


@dataclass(frozen=True)
class Gate:
    """The FIFO in which the check of a file waits whose worst is `gate`."""

    path: Path

    @contextlib.contextmanager
    def held(self) -> Iterator[Held]:
        """Wait until the check has begun, and hold it for the block; then it goes on."""
        with self.path.open("wb") as writer:
            yield Held(writer)


@dataclass(frozen=True)
class Held:
    """A check that waits."""

    writer: IO[bytes]

    def await_death(self) -> None:
        """Wait until the process of the check has ended."""
        poll = select.poll()
        poll.register(self.writer, 0)  # An error is told in any case: nobody reads any more.
        assert poll.poll(PATIENCE * 1000), "the check goes on"


def gate(folder: Path) -> Gate:
    """Make a gate."""
    path = folder / "gate"
    os.mkfifo(path)
    return Gate(path)
