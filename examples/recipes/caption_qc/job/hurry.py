"""How long the run waits for what it can't end by itself, such as an answer over a network."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from .apart import begun
from .exits import BrokenOffError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from .drain import Drain

T = TypeVar("T")


class Hurry:
    """The time that a part of the run has once a drain was asked for; before that it takes what it takes."""

    def __init__(self, drain: Drain, seconds: float, since: float = 0.0) -> None:
        """Count `seconds` from the signal on, or from the moment `since` if that is later."""
        self._drain = drain
        self._seconds = seconds
        self._since = since

    def at_once(self) -> Hurry:
        """Return that of a part of the run which a drain cuts short."""
        return Hurry(self._drain, 0.0)

    def over(self) -> bool:
        """Say whether the time is over."""
        return self._drain.over(self._seconds, self._since)

    def wait_for(self, call: Callable[[], T], seconds: float = math.inf) -> T:
        """Return what `call` returns, or raise what it raises.

        It runs in a thread of its own, which is left behind when the time is over. While another thread than the
        main one waits, the main one must be where a signal wakes it, as in the event loop of a run.

        Raises:
            BrokenOffError: The time that a drain leaves is over.
            TimeoutError: So many `seconds` are over, without a drain.
        """
        if self.over():
            raise BrokenOffError
        until = monotonic() + seconds
        here = threading.current_thread() is threading.main_thread()
        answer = self._as_main(call, until) if here else self._as_another(call, until)
        if answer.done():
            return answer.result()
        if self.over():
            raise BrokenOffError
        raise TimeoutError(f"no answer within {seconds:g} s")

    def _left(self, until: float) -> float | None:
        """Return the seconds to wait at most; `None`: any number."""
        left = min(max(0.0, until - monotonic()), self._of_a_drain())
        return None if left == math.inf else left

    def _of_a_drain(self) -> float:
        left = self._drain.left(self._seconds, self._since)
        return math.inf if left is None else left

    def _as_main(self, call: Callable[[], T], until: float) -> Future[T]:
        """Wait in the main thread, where the handler of a signal runs between two of its own instructions."""
        with _signals() as signals, _begun(call) as (answer, ended):
            while not answer.done() and (left := self._left(until)) != 0:
                select.select([ended, signals], [], [], left)
                with contextlib.suppress(BlockingIOError):
                    os.read(signals, 4096)
            return answer

    def _as_another(self, call: Callable[[], T], until: float) -> Future[T]:
        """Wait in another thread, which is told of the signal by the main one."""
        from queue import Empty, SimpleQueue  # noqa: PLC0415 - see `begun`

        # The one queue that the handler of a signal may put something into, whatever it has interrupted.
        told: SimpleQueue[object] = SimpleQueue()
        with self._drain.heard_by(partial(told.put, None)):
            answer = begun(call)
            answer.add_done_callback(told.put)
            while not answer.done() and (left := self._left(until)) != 0:
                with contextlib.suppress(Empty):
                    told.get(timeout=left)
            return answer


@contextlib.contextmanager
def _begun(call: Callable[[], T]) -> Iterator[tuple[Future[T], int]]:
    """Begin a call, and let a descriptor be readable when it has ended."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            answer = begun(call)
        except BaseException:
            os.close(writer)
            raise
        answer.add_done_callback(lambda _: os.close(writer))
        yield answer, reader
    finally:
        os.close(reader)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Let a descriptor be readable after each signal: a handler alone ends no wait that begins in that moment."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    # A full pipe has ended it.
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
