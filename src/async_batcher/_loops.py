"""The two event loops: a waiter, a clock, a timer, a task.

Only this file names asyncio and trio. The rest speaks anyio, but a waiter made of `anyio.Event` costs two thirds
of the speed: on asyncio a waiter is the loop's own future, and on trio the least that its tasks can wait for.
Both loops are given as one small interface, `EventLoop`, so that nothing above asks which it is.

Neither is imported before there is a loop of it: whoever runs one has imported it.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator
    from contextvars import Context
    from types import ModuleType, TracebackType


Body: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Over: TypeAlias = Callable[[Any], object]
"""Called with the task that has ended."""


class Cancellable(Protocol):
    """A task or a timer that can be called off."""

    def cancel(self) -> object:
        """Call it off."""
        ...


class EventLoop(Protocol):
    """What a batcher needs of the loop on which it runs."""

    cancelled: type[BaseException]
    """What the loop raises in a task that it cancels."""
    waiter: Callable[[], Any]
    """Make a waiter."""
    time: Callable[[], float]
    """Read the loop's monotonic clock, in seconds."""
    needs_block: bool
    """Whether a batcher works only inside `async with`."""
    body: Cancellable | None
    """What encloses the user's `async with` block, to be called off should a task crash."""
    crash: BaseException | None
    """What a task raised that must end the program, where the loop did not let it through by itself."""

    thread: int
    """The identity of the thread that it runs in."""
    is_running: Callable[[], bool]
    """Say whether it is running now. With `thread` this is `is_current` for a tenth of its price: on CPython 3.11
    asking asyncio for the running loop costs a system call."""

    @property
    def closed(self) -> bool:
        """Whether the loop runs no more."""
        ...

    def is_current(self) -> bool:
        """Say whether the caller runs on this very loop."""
        ...

    def being_cancelled(self) -> bool:
        """Say whether the task that asks has been cancelled, and not only told so by what it called."""
        ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Cancellable:
        """Call `callback` at this time of the loop's clock."""
        ...

    def call_from_thread(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the loop, from any thread. A loop that has ended raises `RuntimeError`."""
        ...

    def spawn(
        self,
        function: Body,
        context: Context,
        over: Over,
    ) -> Cancellable:
        """Run `function` as a task of its own in `context`, and call `over` when it has ended, however it did."""
        ...

    def unwatch(self, over: Over) -> None:
        """Spare the task that asks the call of `over`, as its function is about to return."""
        ...

    def look_at(self, task: Cancellable) -> None:
        """Take note of what a task raised that has ended: what ends the program has gone through the loop."""
        ...

    def spawn_aside(
        self,
        function: Body,
        context: Context,
        over: Over,
    ) -> Cancellable:
        """As `spawn`, for what is no batch: in this very context, and in any order."""
        ...


class AsyncioLoop:
    """An asyncio event loop, uvloop's too."""

    needs_block = False
    body: Cancellable | None = None
    crash: BaseException | None = (
        None  # asyncio lets KeyboardInterrupt and SystemExit of a task through by itself
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio  # noqa: PLC0415  (the first batcher that runs on it; it takes longer than all the rest)

        self.cancelled: type[BaseException] = asyncio.CancelledError
        self._current_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = (
            asyncio.current_task
        )
        self._loop = loop
        self.waiter = loop.create_future
        # The same clock without the method around it, unless somebody replaced the method.
        plain = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time and "time" not in vars(loop)
        self.time = time.monotonic if plain else loop.time
        self.thread = threading.get_ident()
        self.is_running = loop.is_running

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def is_current(self) -> bool:
        return _running_asyncio_loop() is self._loop

    def being_cancelled(self) -> bool:
        task = self._current_task(self._loop)
        return task is not None and task.cancelling() > 0

    def call_at(self, when: float, callback: Callable[[], object]) -> Cancellable:
        return self._loop.call_at(when, callback)

    def call_from_thread(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def spawn(
        self,
        function: Body,
        context: Context,
        over: Over,
    ) -> Cancellable:
        coroutine = function()
        try:
            task = self._loop.create_task(coroutine, name="async_batcher", context=context)
        except BaseException:
            coroutine.close()
            raise
        # A task that is cancelled before its first step never enters its body, nor a `finally` in there.
        task.add_done_callback(over)
        return task

    spawn_aside = spawn

    def unwatch(self, over: Over) -> None:
        if (task := self._current_task(self._loop)) is not None:
            task.remove_done_callback(over)

    def look_at(self, task: Any) -> None:
        if not task.cancelled():
            task.exception()  # looked at, it is not logged


class TrioWaiter:
    """What a future is on asyncio, for one task to await.

    Mutable state: the outcome, which is set once, and the task that waits.
    """

    __slots__ = ("__weakref__", "_error", "_lowlevel", "_outcome", "_result", "_task", "_traceback")

    def __init__(self, lowlevel: ModuleType) -> None:
        self._lowlevel = lowlevel
        self._outcome = "none"
        self._result: Any = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._task: Any = None

    def done(self) -> bool:
        return self._outcome != "none"

    def cancelled(self) -> bool:
        return self._outcome == "cancelled"

    def cancel(self) -> bool:
        return self._settle("cancelled")

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._settle("result")

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self._traceback = exception.__traceback__
        self._settle("error")

    def exception(self) -> BaseException | None:
        return self._error

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self.done():
            self._task = self._lowlevel.current_task()
            yield from self._lowlevel.wait_task_rescheduled(self._abort).__await__()
        if self._error is not None:
            # As a future does: the traceback must not grow with each await of what may be shared.
            try:
                raise BaseException.with_traceback(self._error, self._traceback)
            finally:
                del self  # a circle: the error has this frame
        return self._result

    def _settle(self, outcome: str) -> bool:
        if self.done():
            return False
        self._outcome = outcome
        if self._task is not None:
            task, self._task = self._task, None
            self._lowlevel.reschedule(task)
        return True

    def _abort(self, _: object) -> Any:
        self._task = None
        self._outcome = "cancelled"
        return self._lowlevel.Abort.SUCCEEDED


class TrioLoop:
    """One run of trio. Tasks are system tasks, so that no cancel scope of a user's reaches into a batch."""

    needs_block = True  # without it nobody would be there to raise what ends the program

    def __init__(self, trio: ModuleType) -> None:
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self.cancelled = trio.Cancelled
        self.time = trio.current_time
        self.thread = threading.get_ident()
        self.is_running = self.is_current
        self.waiter: Callable[[], Any] = functools.partial(TrioWaiter, trio.lowlevel)
        self._to_begin: deque[tuple[Cancellable, Body, Over]] = deque()
        self.crash: BaseException | None = None
        self.body: Cancellable | None = None

    @property
    def closed(self) -> bool:
        return False  # a run of trio ends only after all its tasks

    def is_current(self) -> bool:
        lowlevel = self._trio.lowlevel
        return bool(lowlevel.in_trio_run()) and lowlevel.current_trio_token() is self._token

    def being_cancelled(self) -> bool:
        return bool(self._trio.current_effective_deadline() == -math.inf)

    def call_at(self, when: float, callback: Callable[[], object]) -> Cancellable:
        async def ring() -> None:
            await self._trio.sleep_until(when)
            callback()

        scope: Cancellable = self._trio.CancelScope()
        self._trio.lowlevel.spawn_system_task(
            self._run, scope, ring, lambda _: None, name="async_batcher timer"
        )
        return scope

    def call_from_thread(self, callback: Callable[[], object]) -> None:
        self._token.run_sync_soon(callback)

    def spawn(
        self,
        function: Body,
        context: Context,
        over: Over,
    ) -> Cancellable:
        """As `EventLoop.spawn`. Trio starts tasks in any order; these begin in the order of the calls.

        Whichever starts first takes what was to begin first; the contexts of one batcher are all alike.
        """
        scope: Cancellable = self._trio.CancelScope()
        self._to_begin.append((scope, function, over))

        async def begin_next() -> None:
            await self._run(*self._to_begin.popleft())

        self._trio.lowlevel.spawn_system_task(begin_next, name="async_batcher batch", context=context)
        return scope

    def spawn_aside(
        self,
        function: Body,
        context: Context,
        over: Over,
    ) -> Cancellable:
        scope: Cancellable = self._trio.CancelScope()
        self._trio.lowlevel.spawn_system_task(
            self._run, scope, function, over, name="async_batcher source", context=context
        )
        return scope

    def unwatch(self, over: Over) -> None:
        """Spare nothing: it is called at no price."""

    def look_at(self, task: Cancellable) -> None:
        """Look at nothing: what a system task raises has been dealt with in it."""

    async def _run(self, scope: Any, function: Body, over: Over) -> None:
        try:
            with scope:
                await function()
        except (KeyboardInterrupt, SystemExit) as error:
            # Raised in a system task it would be an internal error of trio's: it leaves by `async with`.
            self.crash = error
            if self.body is not None:
                self.body.cancel()
        finally:
            over(scope)


def _running_asyncio_loop() -> asyncio.AbstractEventLoop | None:
    # It is there, and whole, where a loop runs; another thread may be importing it just now.
    ask: Callable[[], asyncio.AbstractEventLoop] | None = getattr(
        sys.modules.get("asyncio"), "get_running_loop", None
    )
    try:
        return None if ask is None else ask()
    except RuntimeError:
        return None


def current_loop() -> EventLoop:
    """Return the event loop on which the caller runs.

    Raises:
        RuntimeError: It runs on none.
    """
    loop = _running_asyncio_loop()
    if loop is not None:
        return AsyncioLoop(loop)
    if "trio" in sys.modules:
        trio = importlib.import_module("trio")
        if trio.lowlevel.in_trio_run():
            return TrioLoop(trio)
    raise RuntimeError(
        "a batcher is used from a coroutine on a running event loop (asyncio or trio), and there is none here. "
        "From a worker thread: anyio.from_thread.run(batcher.process, item)"
    )
