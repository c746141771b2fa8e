"""What runs in a Dask worker: a chunk is checked by processes of the worker's own, as `pool.py` has them.

1. A check never runs in the worker's process. One that hangs, eats memory or kills ends a process that belongs to
   this job alone: what else the worker holds goes on, Dask hears of no failure, and so it tries nothing again.
2. Everything travels as bytes: Dask looks into none of it, and a scheduler needs none of this code.
3. A chunk is for one process, not for an address: another that has come under the same address refuses it.
4. Processes end when they have had nothing to do for a while, so nobody has to tell a worker that a run is over,
   least of all a run that was killed.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import multiprocessing
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from examples.recipes.caption_qc import check as checker

from . import TOOL_VERSION
from .assets import Asset
from .errors import JobError
from .pool import CheckDiedError, Pool
from .worker import Orders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Worker

    from .outcomes import Outcome

# The process that runs a chunk, and one that is ready for the next where the worker has threads for it.
MOST_PROCESSES: Final = 2
IDLE_SECONDS: Final = 30.0
# As Dask calls a worker that is on its way out.
_LEAVING: Final = frozenset({"closing", "closing_gracefully", "closed"})
# Of as many runs at once a worker remembers the processes.
_RUNS: Final = 8


class Greeting(NamedTuple):
    """What a worker says of itself."""

    worker: str
    """Names the worker's process, whatever its address."""
    checks: str
    """What `fingerprint` is there."""


class Work(NamedTuple):
    """A chunk for one worker's process."""

    worker: str
    orders: Orders
    chunk: tuple[Asset, ...]


class Death(NamedTuple):
    """What ended the process that checked the chunk."""

    reason: str


class Unable(NamedTuple):
    """Why nothing can be checked there, which is no asset's fault."""

    reason: str


class Refused(NamedTuple):
    """The chunk was for a process that is gone, or that is going and has ended what it ran."""


Told: TypeAlias = "list[Outcome] | Death | Unable"
Answer: TypeAlias = "Told | Refused"


@functools.cache
def fingerprint() -> str:
    """Name the code of this job: two checkouts that say the same give the same records."""
    folder = Path(checker.__file__).parents[1]
    digest = hashlib.sha256(TOOL_VERSION.encode())
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".toml"}):
        # Nobody imports what can't be read, such as an editor's dangling link.
        with contextlib.suppress(OSError):
            if path.is_file():
                digest.update(b"%b\0%b\0" % (bytes(path.relative_to(folder)), path.read_bytes()))
    return f"{TOOL_VERSION} ({digest.hexdigest()[:12]})"


async def greet(*, dask_worker: Worker) -> Greeting:
    """Say who this worker is, which Dask gives, and what it would check by."""
    return Greeting(dask_worker.id, fingerprint())


async def check_there(work: bytes, *, dask_worker: Worker) -> bytes:
    """Check a chunk, and say what came of it; both are pickled."""
    return pickle.dumps(await _answer(pickle.loads(work), dask_worker))  # noqa: S301 - Dask's own way, by its own connection


async def _answer(work: Work, worker: Worker) -> Answer:
    if work.worker != worker.id:
        return Refused()
    try:
        return await _checks(worker, pickle.dumps(work.orders)).check(work.chunk)
    except CheckDiedError as death:
        return Refused() if worker.status.name in _LEAVING else Death(str(death))
    except JobError as error:
        return Unable(str(error))


@functools.lru_cache(_RUNS)
def _checks(worker: Worker, orders: bytes) -> _Checks:
    return _Checks(worker, pickle.loads(orders))  # noqa: S301 - pickled a moment ago


class _Checks:
    """One run's processes at one worker. Mutable state: the pool's own, and when it is idle."""

    def __init__(self, worker: Worker, orders: Orders) -> None:
        self._pool = Pool(min(worker.state.nthreads, MOST_PROCESSES), orders)
        self._running = 0
        self._idle: asyncio.TimerHandle | None = None
        self._end = asyncio.ensure_future(self._end_with(worker))

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        if self._idle is not None:
            self._idle.cancel()
        self._running += 1
        # A nanny's worker is a daemon, which may have no children lest they outlive it; ours end with their parent.
        multiprocessing.current_process().daemon = False
        try:
            return await self._pool.check(chunk)
        finally:
            self._running -= 1
            if not self._running:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._pool.kill)

    async def _end_with(self, worker: Worker) -> None:
        """End the processes before the worker's own end, which would wait for them."""
        try:
            await worker.finished()
        finally:
            self._pool.kill()
