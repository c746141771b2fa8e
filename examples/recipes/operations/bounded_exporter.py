"""Send telemetry from a callback without ever waiting for it: `on_batch=exporter.observe`.

The problem. Monitoring is slow, or down, when the service is busy. A callback that waits for it stops the
event loop, and one that starts a task for each event keeps them all.

The promise. `observe` puts the event into a queue and does nothing else: it never waits and never raises,
before the exporter is entered and after it is left too. One worker sends, one event at a time; at most
`max_events` wait, and what comes then is dropped. Leaving takes at most `drain_timeout + cancel_timeout`, and
after it `sent + failed + dropped` is what was offered, whatever was cancelled:

- sent: `send` returned in time;
- failed: it raised, was too late, or was still under way at the end, whatever came of it then;
- dropped: `send` was never called: the queue was full, the exporter was not entered or already left, or the
  end came first.

Leaving by cancellation does not drain: it cancels the send under way, waits `cancel_timeout` at most, and
drops the rest. The first failure is logged, the others are counted. A `KeyboardInterrupt` or `SystemExit`
that `send` raises, or a group with one in it, ends the worker and is raised by the exit.

What it does not promise. No delivery and no retry; no order across processes. `observe` is called on the
event loop's own thread. A `send` that swallows its cancellation is left behind, on trio too (sends are no
children of the `async with`): it goes on until it ends, and until then holds up the end of `asyncio.run` or
`trio.run`, though not the exit of the exporter; while the exporter is open, nothing is sent beside it. Enter
it before the batchers that it observes, so that it outlives them. It serves one `async with`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import TracebackType

Event = TypeVar("Event")

_log = logging.getLogger(__name__)


class BoundedExporter(Generic[Event]):
    """A bounded queue, and one worker that sends from it."""

    def __init__(
        self,
        send: Callable[[Event], Awaitable[object]],
        *,
        max_events: int = 1024,
        send_timeout: float = 1.0,
        drain_timeout: float = 5.0,
        cancel_timeout: float = 1.0,
    ) -> None:
        """Check everything; nothing runs before `async with`.

        Args:
            send: An async function of one event.
            max_events: Most events waiting; the one under way does not count.
            send_timeout: Seconds for one send, then it is cancelled.
            drain_timeout: Seconds on leaving for what waits and what is under way.
            cancel_timeout: Seconds on leaving for a cancelled send to end; then it is left behind.

        Raises:
            TypeError: `send` can't be called.
            ValueError: A limit is not positive and finite.
        """
        if not callable(send):
            raise TypeError(f"send must be an async function of one event; {send!r} can't be called")
        self._send = send
        self._max_events = _count("max_events", max_events)
        self._send_timeout = _seconds("send_timeout", send_timeout)
        self._drain_timeout = _seconds("drain_timeout", drain_timeout)
        self._cancel_timeout = _seconds("cancel_timeout", cancel_timeout)
        # All that changes: the queue, who works on it, and the counts.
        self._events: deque[Event] = deque()
        self._open = False
        self._wake: anyio.Event | None = None
        self._worker: _Detached | None = None
        self._sending: _Sending[Event] | None = None
        self._left_behind: _Sending[Event] | None = None
        self._order_to_end: BaseException | None = None
        self._sent = self._failed = self._dropped = 0

    @property
    def sent(self) -> int:
        """Events whose `send` returned in time."""
        return self._sent

    @property
    def failed(self) -> int:
        """Events whose `send` raised, was too late, or was still under way at the end."""
        return self._failed

    @property
    def dropped(self) -> int:
        """Events that were never given to `send`."""
        return self._dropped

    def observe(self, event: Event) -> None:
        """Enqueue `event`, or drop it where there is no room or nobody to send it."""
        if not self._open or len(self._events) >= self._max_events:
            self._dropped += 1
            return
        self._events.append(event)
        if self._wake is not None:
            self._wake.set()

    async def __aenter__(self) -> Self:
        if self._worker is not None:
            raise RuntimeError("this exporter has been entered before; build a new one for each `async with`")
        self._open = True
        self._worker = _Detached(self._work)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open = False
        if self._wake is not None:
            self._wake.set()
        try:
            if error_type is None or not issubclass(error_type, anyio.get_cancelled_exc_class()):
                await self._drain()
        finally:
            await self._end()
        if self._order_to_end is not None:
            raise self._order_to_end

    async def _work(self) -> None:
        """Send one event after the other, until the exporter is left and nothing waits."""
        while self._order_to_end is None:
            while not self._events:
                if not self._open:
                    return
                self._wake = anyio.Event()
                await self._wake.wait()
            self._sending = _Sending(self._send, self._events.popleft())
            await self._watch(self._sending)
            self._settle()
        self._open = False

    async def _watch(self, sending: _Sending[Event]) -> None:
        """Return once `sending` has really ended: never are two under way."""
        with anyio.move_on_after(self._send_timeout):
            await sending.task.ended.wait()
            return
        sending.cut_short()
        await sending.task.ended.wait()

    async def _drain(self) -> None:
        if self._worker is not None:
            with anyio.move_on_after(self._drain_timeout):
                await self._worker.ended.wait()

    async def _end(self) -> None:
        """Drop what waits, and give the send under way `cancel_timeout` to end before it is left behind."""
        self._dropped += len(self._events)
        self._events.clear()
        try:
            if self._sending is not None:
                self._sending.cut_short()
                with anyio.move_on_after(self._cancel_timeout, shield=True):
                    await self._sending.task.ended.wait()
        finally:
            self._left_behind = self._sending  # asyncio forgets a task that nobody else refers to
            self._settle()
            if self._worker is not None:
                self._worker.cancel()
                with anyio.CancelScope(shield=True):
                    await self._worker.ended.wait()

    def _settle(self) -> None:
        """Count the send under way, once: the worker and the exit may both come here."""
        sending, self._sending = self._sending, None
        if sending is None:
            return
        if not sending.begun:
            self._dropped += 1
            return
        if sending.delivered and not sending.late:
            self._sent += 1
            return
        self._failed += 1
        if self._failed == 1:
            # A handler of the application's may raise; this task must not.
            with contextlib.suppress(Exception):
                _log.warning("a send failed; the next failures are only counted", exc_info=sending.error)
        if _orders_to_end(sending.error):
            self._order_to_end = sending.error


class _Sending(Generic[Event]):
    """One event under way."""

    def __init__(self, send: Callable[[Event], Awaitable[object]], event: Event) -> None:
        self._send = send
        self._event = event
        self.begun = False
        self.late = False
        self.delivered = False
        self.error: BaseException | None = None
        self.task = _Detached(self._run)

    def cut_short(self) -> None:
        """Cancel it; whatever comes of it from here on comes too late."""
        self.late = not self.delivered
        self.task.cancel()

    async def _run(self) -> None:
        if self.late:
            return
        self.begun = True
        try:
            await self._call()
        except BaseException as error:  # noqa: BLE001  a cancellation of its own too: only this send failed
            self.error = error
        else:
            self.delivered = True

    async def _call(self) -> None:
        sent = self._send(self._event)
        if not inspect.isawaitable(sent):
            raise TypeError(f"send must be an async function; {self._send!r} returned {type(sent).__name__}")
        await sent


class _Detached:
    """A task that no task group waits for, so that it can be left behind. It must not raise."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.ended = anyio.Event()
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            task = asyncio.create_task(run())
            # By callback: a task that is cancelled before its first step runs no `finally` of its own.
            task.add_done_callback(lambda _: self.ended.set())
            # Once, as asyncio does: anyio's scope would cancel one that goes on in every turn, for ever.
            self.cancel: Callable[[], object] = task.cancel
            return
        scope = anyio.CancelScope()

        async def within_scope() -> None:
            with scope:
                await run()
            self.ended.set()

        # The one thing that anyio has no word for; where trio runs it is loaded, so no import is needed.
        spawn = sys.modules["trio"].lowlevel.spawn_system_task
        spawn(within_scope, context=contextvars.copy_context())
        self.cancel = scope.cancel


def _orders_to_end(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):  # a task group's, on trio
        return error.subgroup((KeyboardInterrupt, SystemExit)) is not None
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max:
        return float(value)
    raise ValueError(f"{name} must be a finite number of seconds over 0; got {value!r}")
