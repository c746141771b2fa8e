"""The drain: the first SIGTERM or SIGINT asks the run to end in good order, the second ends it at once.

The same signal within `ONE_STOP_SECONDS` is the first once more: `timeout` sends it to the process and then to
its group, a terminal and its shell may both.
"""

from __future__ import annotations

import contextlib
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ONE_STOP_SECONDS: Final = 1.0
# Of the time that a drain has, what is kept for the projections and the last ping.
WRITING_SECONDS: Final = 5.0


class Drain:
    """Whether the run was asked to end.

    Mutable state: which signal asked and when, the callback that wakes whoever waits at the moment, and those of
    other threads.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._wake: Callable[[], object] | None = None
        self._hearers: list[Callable[[], object]] = []

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self._first is not None

    def over(self, seconds: float, since: float) -> bool:
        """Say whether a signal has come, and `seconds` went by since then and since the moment `since`."""
        left = self.left(seconds, since)
        return left is not None and left <= 0

    def left(self, seconds: float, since: float) -> float | None:
        """Say how much of `seconds` is left, counted as by `over` and never below 0; `None`: no signal has come."""
        if self._first is None:
            return None
        return max(0.0, seconds - (self._clock() - max(self._first[1], since)))

    def install(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def release(self) -> None:
        """Give both signals back to the system: the first one ends the process.

        The first process of a container is spared by the system, so there it ends itself.
        """
        end = _end if os.getpid() == 1 else signal.SIG_DFL
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)

    def notify(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the request comes, from within a signal handler; at once if it has come."""
        self._wake = wake
        if self.requested:
            wake()

    def forget(self) -> None:
        """Wake nobody any more."""
        self._wake = None

    @contextlib.contextmanager
    def heard_by(self, tell: Callable[[], object]) -> Iterator[None]:
        """Call `tell` in the block when the request comes, from within a signal handler; at once if it has come."""
        self._hearers.append(tell)
        try:
            if self.requested:
                tell()
            yield
        finally:
            self._hearers.remove(tell)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        del frame
        now = self._clock()
        if self._first is None:
            self._first = (signum, now)
            if self._wake is not None:
                self._wake()
            for tell in tuple(self._hearers):
                tell()
        elif signum != self._first[0] or now - self._first[1] >= ONE_STOP_SECONDS:
            _end(signum, None)


def ignore_signals() -> None:
    """Take neither signal any more, when all is done: what Python does at its end has no handlers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(signum: int, frame: FrameType | None) -> NoReturn:
    """End at once, with the code that a shell shows for the signal."""
    del frame
    os._exit(128 + signum)
