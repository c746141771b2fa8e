"""A pool of worker processes that starts with its first chunk and is replaced when it breaks.

Workers are spawned: a forked one would inherit the run lock and keep it after the parent was killed, and
`forkserver` fails on a read-only root. They take no SIGTERM, so a broken or late pool is ended by SIGKILL.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from .worker import Orders, check_chunk, start_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assets import Asset
    from .outcomes import Outcome


class CheckDiedError(Exception):
    """The chunk has no outcomes: a worker died, hung or ran out of memory while it was being checked."""


class Pool:
    """Checks chunks of assets in at most `workers` processes."""

    def __init__(self, workers: int, orders: Orders) -> None:
        self._workers = workers
        self._orders = orders
        self._executor: ProcessPoolExecutor | None = None

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        """Check `chunk` in one worker.

        Raises:
            CheckDiedError: nothing is known of the chunk. Any of its assets may be the cause, or one that
                another worker had at the same time.
        """
        if self._executor is None:
            self._executor = self._start()
        executor = self._executor
        try:
            return await asyncio.wrap_future(self._submit(executor, chunk))
        except BrokenProcessPool as error:
            self._replace(executor)
            raise CheckDiedError("the worker died or ran out of time") from error
        except (Exception, MemoryError) as error:
            raise CheckDiedError(f"the check failed: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """End the workers, which have nothing to do any more."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def kill(self) -> None:
        """End the workers, whatever they do."""
        if self._executor is not None:
            self._replace(self._executor)

    def _start(self) -> ProcessPoolExecutor:
        # First, because starting it unblocks the signals that `_submit` blocks.
        resource_tracker.ensure_running()
        return ProcessPoolExecutor(
            self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker
        )

    def _submit(self, executor: ProcessPoolExecutor, chunk: Sequence[Asset]) -> Future[list[Outcome]]:
        # A worker inherits the mask of the thread that starts it: a signal to the whole group can't end it
        # in the time before it has taken its own measures.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        try:
            return executor.submit(check_chunk, self._orders, tuple(chunk))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _replace(self, executor: ProcessPoolExecutor) -> None:
        """Kill the workers of `executor`; of the callers that see it broken, the first does."""
        if executor is not self._executor:
            return
        self._executor = None
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
