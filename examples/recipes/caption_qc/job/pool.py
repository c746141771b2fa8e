"""A pool of worker processes that starts with its first chunk and is replaced when it breaks.

Workers are spawned: a forked one would inherit the run lock and keep it after the parent was killed, and
`forkserver` fails on a read-only root. They take no SIGTERM, so a broken or late pool is ended by SIGKILL.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .errors import Exit, JobError
from .worker import Orders, check_chunk, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .assets import Asset
    from .outcomes import Outcome


P = ParamSpec("P")
T = TypeVar("T")


class CheckDiedError(Exception):
    """The chunk has no outcomes: a worker died, hung or ran out of memory while it was being checked."""


class Pool:
    """Checks chunks of assets in at most `workers` processes."""

    def __init__(self, workers: int, orders: Orders) -> None:
        self._workers = workers
        self._orders = orders
        self._starting = asyncio.Lock()
        self._executor: ProcessPoolExecutor | None = None

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        """Check `chunk` in one worker.

        Raises:
            CheckDiedError: nothing is known of the chunk. Any of its assets may be the cause, or one that
                another worker had at the same time.
            JobError: no worker can be started, which is no asset's fault.
        """
        async with self._starting:
            executor = self._executor = self._executor or await self._started()
        try:
            return await asyncio.wrap_future(_submit(executor, check_chunk, self._orders, tuple(chunk)))
        except BrokenProcessPool as error:
            self._end(executor)
            raise CheckDiedError("the worker died or ran out of time") from error
        except Exception as error:
            raise CheckDiedError(f"the check failed: {type(error).__name__}: {error}") from error

    def kill(self) -> None:
        """End the workers, whatever they do; the next chunk starts others."""
        if self._executor is not None:
            self._end(self._executor)

    async def _started(self) -> ProcessPoolExecutor:
        """Start a pool and see a worker answer: from then on a death is a check's."""
        try:
            # First, because starting it unblocks the signals that `_submit` blocks.
            resource_tracker.ensure_running()
            context = multiprocessing.get_context("spawn")
            executor = ProcessPoolExecutor(self._workers, context, initializer=start_worker)
            await asyncio.wrap_future(_submit(executor, os.getpid))
        except (BrokenProcessPool, OSError) as error:
            way_out = "see that this program and its Python are whole and that processes can be started"
            raise JobError(f"no worker process starts ({error}); {way_out}", Exit.IO_ERROR) from error
        return executor

    def _end(self, executor: ProcessPoolExecutor) -> None:
        """Kill the workers of `executor`; of the callers that see it broken, the first does."""
        if executor is not self._executor:
            return
        self._executor = None
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


def _submit(
    executor: ProcessPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> Future[T]:
    # A worker inherits the mask of the thread that starts it: a signal to the whole group can't end it in the
    # time before it has taken its own measures.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        return executor.submit(function, *args, **kwargs)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
