"""Virtual time on asyncio: an event loop whose clock jumps to the next timer instead of waiting for it.

The law: time passes only when nothing can run. The loop asks its selector to wait; the selector looks,
without waiting, for what has come by file or by `call_soon_threadsafe` (which writes to the loop's own
pipe), and only if there is nothing does it wake those who asked for quiet (`settle`), or else move the
clock to the next timer. With no timer either, nothing can ever happen again unless another thread or
another file wakes the loop: that gets a few real seconds, and then the loop raises `StalledLoopError`, so
that a lost wake-up is a failure and not a hang.
"""

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import sniffio

T = TypeVar("T")

REAL_PATIENCE = 5.0
"""Real seconds that another thread or file has to wake a loop that has no timer."""


class StalledLoopError(RuntimeError):
    """Nothing is ready, no timer is armed, nobody else can wake the loop: it would wait for ever."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits for a timer."""

    def __init__(self) -> None:
        super().__init__()
        self.when_quiet: Callable[[float | None], bool] = lambda _timeout: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0 or self.when_quiet(timeout):
            return events
        own_pipe_only = len(self.get_map()) <= 1
        if own_pipe_only and threading.active_count() == 1:
            raise StalledLoopError("nothing is ready, no timer is armed and no thread can wake the loop")
        events = super().select(REAL_PATIENCE)
        if not events:
            raise StalledLoopError(
                f"no timer is armed, and neither a thread nor a file woke the loop in {REAL_PATIENCE} s"
            )
        return events


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop in virtual time, which begins at 0.0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._quiet_waiters: list[asyncio.Future[None]] = []
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.when_quiet = self._when_quiet

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def set_time_aside(self, seconds: float) -> None:
        """Move the clock by hand, as a callback that blocks the loop for so long does."""
        self._now += seconds

    async def quiet(self) -> None:
        """Return once every other task and callback waits, before time passes."""
        waiter = self.create_future()
        self._quiet_waiters.append(waiter)
        await waiter

    def _when_quiet(self, timeout: float | None) -> bool:
        waiters, self._quiet_waiters = [w for w in self._quiet_waiters if not w.done()], []
        if waiters:
            for waiter in waiters:
                waiter.set_result(None)
        elif timeout is None:
            return False
        else:
            # At least one step of the float, else a timer far away is never reached.
            self._now = max(self._now + timeout, math.nextafter(self._now, math.inf))
        return True


async def settle() -> None:
    """Let everything that is ready run until all other tasks wait; no time passes (in virtual time).

    In real time this is only as good as `anyio.wait_all_tasks_blocked`: there, wait for an event of your own.
    """
    if sniffio.current_async_library() == "asyncio":
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualEventLoop):
            await loop.quiet()
            return
    await anyio.wait_all_tasks_blocked()


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a new event loop in virtual time, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        return runner.run(main())
