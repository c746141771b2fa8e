"""A pool of worker processes, each started when it is first needed, and again when it died.

1. Each worker is an executor of its own: a death takes that worker's chunk with it, and nobody else's.
2. Whoever was in the chunk is suspect, not guilty: `CheckDiedError` says what the worker died of, not of whom.
3. Workers are spawned: a forked one would inherit the run lock and keep it after the parent was killed, and
   `forkserver` fails on a read-only root. They take no SIGTERM, so a late one is ended by SIGKILL.
4. No answer is waited for without a bound. A check ends by its own timer, but the way to it and back may be
   broken: an executor whose own thread could not be started leaves a future that nobody settles. So the end of
   such a thread is heard, and workers are started one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from .errors import Exit, JobError, lacks_thread_or_memory
from .worker import ADDRESS_SPACE_BYTES, Orders, check_chunk, start_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from .assets import Asset
    from .checkers import Check
    from .outcomes import Outcome


P = ParamSpec("P")
T = TypeVar("T")

# Seconds for a worker to start in: seen were 0.3 s, and 10 s on a machine with ten times the work it can do.
START_SECONDS: Final = 60.0
# Seconds for a trip, beyond what its checks may take.
TRIP_SECONDS: Final = 30.0
# What an executor of one process starts: a thread that hears of its end, one that feeds it, and the process, which
# counts like a thread where the system has a limit.
_TASKS: Final = 3


class CheckDiedError(Exception):
    """The chunk has no outcomes: its worker died, hung or ran out of memory while it was being checked."""


class _SilentError(Exception):
    """A worker did not answer in time."""


class PoolClosedError(Exception):
    """The chunk was given to no worker."""


class Pool:
    """Checks chunks of assets in at most `workers` processes.

    Mutable state: `_closed`, who is free, and whether one is being started: one by one, so that each start
    finds the threads that it has just seen to be there.
    """

    def __init__(self, workers: int, orders: Orders) -> None:
        self._closed = False
        starting = asyncio.Lock()
        self._workers = [_Worker(orders, starting) for _ in range(workers)]
        # The one that was free last comes first, so that a small job starts few of them.
        self._free: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._free.put_nowait(worker)

    @property
    def most(self) -> int:
        """For each worker a chunk that it checks, and one that is being written down before or after that."""
        return 2 * len(self._workers)

    async def open(self) -> None:
        """Do nothing: a worker starts when it is needed."""

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[Check]:
        """Yield what checks a chunk, at once: there are no more chunks at a time than are worth it."""
        yield self.check

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        """Check `chunk` in the next worker that is free. Cancelling it ends that worker.

        Raises:
            CheckDiedError: Nothing is known of the chunk, and any of its assets may be the cause.
            PoolClosedError: The pool was closed while the chunk waited.
            JobError: No worker can be started, which is no asset's fault.
        """
        worker = await self._free.get()
        try:
            if self._closed:
                raise PoolClosedError
            return await worker.check(chunk)
        finally:
            self._free.put_nowait(worker)

    def close(self) -> None:
        """Give no worker another chunk; the chunks that they have go on."""
        self._closed = True

    def kill(self) -> None:
        """End the workers, whatever they do; the next chunks start others."""
        for worker in self._workers:
            worker.kill()

    async def end(self) -> None:
        """Do nothing: what is killed has ended."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that runs, or ran, and the executor that feeds it."""

    executor: ProcessPoolExecutor
    processes: frozenset[BaseProcess]
    """The one there is; none where it ended before we looked."""

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, whatever the executor or the system has noticed of it yet."""
        return not connection.wait([process.sentinel for process in self.processes], timeout=0)

    def kill(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            process.kill()

    def exit_code(self) -> int | None:
        """Wait for the end of one that is dying, and return what the system says of it."""
        for process in self.processes:
            process.kill()  # Of no effect but where the executor broke for another reason.
        self.executor.shutdown()  # Its thread collects the exit code; after it everybody sees the same.
        return next((process.exitcode for process in self.processes), None)


class _Worker:
    """One process, whichever it is at the time. Mutable state: `_running`."""

    def __init__(self, orders: Orders, starting: asyncio.Lock) -> None:
        self._orders = orders
        self._starting = starting
        self._running: _Running | None = None

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        running = self._running = await self._alive()
        try:
            future = _submit(running.executor, check_chunk, self._orders, tuple(chunk))
            return await _answer(future, self._orders.longest(len(chunk)) + TRIP_SECONDS)
        except BrokenProcessPool as error:
            self._running = None
            code = await asyncio.to_thread(running.exit_code)
            raise CheckDiedError(_death(code, self._orders.asset_timeout)) from error
        except _SilentError as error:
            self.kill()
            raise CheckDiedError(f"hung: {error}") from error
        except MemoryError as error:
            self.kill()  # Another starts with all of its memory.
            raise CheckDiedError(f"out of memory: over {ADDRESS_SPACE_BYTES >> 20} MiB") from error
        except Exception as error:
            raise CheckDiedError(f"the check failed: {type(error).__name__}: {error}") from error
        except BaseException:
            self.kill()  # Nobody waits for what it does any more.
            raise

    async def _alive(self) -> _Running:
        """Return what runs; what died while it had nothing to do is replaced, and is nobody's death."""
        if self._running is not None and not self._running.alive:
            self.kill()
        if self._running is not None:
            return self._running
        async with self._starting:
            return await _started()

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None


async def _started() -> _Running:
    """Start a process and see it answer: from then on a death is a check's.

    One that dies at its start may have met the system's want of memory, so another is tried.
    """
    try:
        with contextlib.suppress(BrokenProcessPool, _SilentError):
            return await _start()
        return await _start()
    except (BrokenProcessPool, OSError, _SilentError) as error:
        way_out = "see that this program and its Python are whole and that processes can be started"
        raise JobError(f"no worker process starts ({error}); {way_out}", Exit.IO_ERROR) from error
    except (MemoryError, RuntimeError) as error:
        way_out = "raise the limits of memory and of tasks, or lower --workers"
        why = str(error) or "out of memory"
        raise JobError(f"no worker process starts ({why}); {way_out}", Exit.IO_ERROR) from error


async def _start() -> _Running:
    # First, because starting it unblocks the signals that `_submit` blocks.
    resource_tracker.ensure_running()
    _prove_threads(_TASKS)
    with _ends_of_threads() as refused:
        return await _answering(refused)


async def _answering(refused: asyncio.Future[str]) -> _Running:
    executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=start_worker)
    others = frozenset(multiprocessing.active_children())
    try:
        future = _submit(executor, os.getpid)
    except BaseException:  # The process may have been started before what would hear of it could not be.
        _running(executor, others).kill()
        raise
    running = _running(executor, others)
    try:
        await _answer(future, START_SECONDS, refused)
    except BaseException:
        running.kill()
        raise
    return running


def _running(executor: ProcessPoolExecutor, others: frozenset[BaseProcess]) -> _Running:
    """Name the process that came since there were `others`."""
    return _Running(executor, frozenset(multiprocessing.active_children()) - others)


def _prove_threads(number: int) -> None:
    """See that so many threads can be started at this moment.

    Raises:
        RuntimeError: They can't.
    """
    go = threading.Event()
    threads = [threading.Thread(target=go.wait, daemon=True) for _ in range(number)]
    try:
        for thread in threads:
            thread.start()
    finally:
        go.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


@contextlib.contextmanager
def _ends_of_threads() -> Iterator[asyncio.Future[str]]:
    """Hear in the block of a thread that ended because the system refused it a thread or memory.

    An executor's thread that can't start the one that feeds the worker ends so, and nobody who waits is told.
    """
    loop, before = asyncio.get_running_loop(), threading.excepthook
    refused: asyncio.Future[str] = loop.create_future()

    def settle(why: str) -> None:
        if not refused.done():
            refused.set_result(why)

    def hear(ended: threading.ExceptHookArgs) -> None:
        if lacks_thread_or_memory(ended.exc_value):
            loop.call_soon_threadsafe(settle, str(ended.exc_value))
        else:
            before(ended)

    threading.excepthook = hear
    try:
        yield refused
    finally:
        threading.excepthook = before


async def _answer(future: Future[T], seconds: float, refused: asyncio.Future[str] | None = None) -> T:
    """Wait for the answer of a worker.

    Raises:
        RuntimeError: None will come: `refused` says that the system refused what would have asked for it.
        _SilentError: None came in time.
    """
    answer = asyncio.wrap_future(future)
    either: set[asyncio.Future[Any]] = {answer} if refused is None else {answer, refused}
    try:
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if refused is not None and refused.done():
            raise RuntimeError(refused.result())
    finally:
        answer.cancel()
    raise _SilentError(f"no answer within {seconds:g} s")


def _death(code: int | None, seconds: float) -> str:
    """Say what a worker died of."""
    if code is None or code >= 0:
        return f"died: exit code {'unknown' if code is None else code}"
    match -code:
        case signal.SIGALRM:
            return f"hung: over {seconds:g} s"
        case signal.SIGKILL:
            return "died: SIGKILL, as the system does where memory runs out"
        case number:
            return f"died: {_SIGNALS.get(number, f'signal {number}')}"


_SIGNALS: Final = {known.value: known.name for known in signal.Signals}


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
