"""The processor's call: on the event loop, or in an executor, where nothing can stop it.

Law: what runs in an executor keeps its slot until it has really ended, even when nobody waits for it any more.
"""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

from async_batcher._errors import BatchCancelled
from async_batcher._options import is_async_callable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor, Future

    from async_batcher._loops import EventLoop
    from async_batcher._options import Options


class Job:
    """One call in an executor.

    Mutable state: `detached` says that nobody waits for it any more, and that it still runs.
    """

    __slots__ = ("__weakref__", "_done", "_ended", "_future", "_loop", "detached")

    def __init__(self, future: Future[Any], loop: EventLoop, ended: Callable[[], object]) -> None:
        self.detached = False
        self._future = future
        self._loop = loop
        self._ended = ended
        self._done = loop.waiter()
        future.add_done_callback(functools.partial(_hear, weakref.ref(self)))  # a future keeps its callbacks

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self._future.running()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def cancel(self) -> bool:
        """See to it that it never starts, and say whether it was not too late for that."""
        return self._future.cancel()

    async def outcome(self) -> object:
        """Wait for what it returns or raises. Cancelling this cancels it, or leaves it to itself if it runs."""
        try:
            await self._done
        except BaseException:
            self.detached = not self._future.cancel() and not self._future.done()
            _throw_away(self._future)
            raise
        if self._future.cancelled():
            raise BatchCancelled("the executor cancelled the batch before it began")
        error = self._future.exception()
        if error is None:
            return self._future.result()
        try:
            raise error  # not `result`, which takes an error that is falsy for none
        finally:
            del error, self  # a circle: the error has this frame

    def leave_thread(self) -> None:
        """Carry its end to the loop; called in whatever thread it ended in."""
        if self.detached:  # not left to `_end`, which the loop may never come to
            _throw_away(self._future)
        try:
            self._loop.call_from_thread(self._end)
        except RuntimeError:  # the loop has ended: who looks next finds it over
            _throw_away(self._future)

    def _end(self) -> None:
        if self.detached:
            self._ended()
        elif not self._done.done():
            self._done.set_result(None)


def _hear(job: weakref.ref[Job], future: Future[Any]) -> None:
    if (found := job()) is not None:
        found.leave_thread()
    else:  # its loop was closed, and all that waited there is gone
        _throw_away(future)


def _throw_away(future: Future[Any]) -> None:
    """Close a coroutine that nobody will await, else it would be warned of."""
    if not future.done() or future.cancelled() or future.exception() is not None:
        return
    if inspect.iscoroutine(returned := future.result()):
        returned.close()


class Employer(Protocol):
    """What a job is reported to."""

    job: Job | None
    called_off: bool

    def job_ended(self) -> None:
        """Hear of the end of a job that had been left to itself."""
        ...


class Processor:
    """The user's function, and where it runs.

    Mutable state: the threads, once there are some, and the process that they are of.
    """

    def __init__(self, function: Callable[[list[Any]], Any], options: Options) -> None:
        self._function = function
        self._is_async = is_async_callable(function)
        self._options = options
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0

    def call(self, items: list[Any], loop: EventLoop, employer: Employer) -> Awaitable[object]:
        """Have the items processed: await it for what the function returns."""
        if self._is_async:
            called: Awaitable[object] = self._function(items)
            return called
        return self._call_in_executor(items, loop, employer)

    def rest(self) -> None:
        """Let go of the threads, without waiting for them."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _call_in_executor(self, items: list[Any], loop: EventLoop, employer: Employer) -> object:
        employer.job = Job(self._submit(items), loop, employer.job_ended)
        returned = await employer.job.outcome()
        if not inspect.isawaitable(returned):
            return returned
        if employer.called_off:
            if inspect.iscoroutine(returned):
                returned.close()
            raise BatchCancelled("the batcher was stopped by force before the batch's async part began")
        return await returned

    def _submit(self, items: list[Any]) -> Future[Any]:
        given = self._options.executor
        executor = self._own_threads() if given is None else given
        if isinstance(executor, ThreadPoolExecutor):  # a context can't travel to another process
            return executor.submit(copy_context().run, self._function, items)
        return executor.submit(self._function, items)

    def _own_threads(self) -> Executor:
        if self._threads is None or self._process != os.getpid():  # a fork has the pool, but not its threads
            self._process = os.getpid()
            label = self._options.name or "async_batcher"
            self._threads = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix=label)
        return self._threads
