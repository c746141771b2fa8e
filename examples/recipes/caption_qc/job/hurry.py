"""How long the run waits for what it can't end by itself, such as an answer over a network."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from typing import TYPE_CHECKING, TypeVar

from .files import BrokenOffError

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

    def over(self) -> bool:
        """Say whether the time is over."""
        return self._drain.over(self._seconds, self._since)

    def wait_for(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, or raise what it raises; only the main thread may wait.

        It runs in a thread of its own, which is left behind when the time is over: it ends with its answer, or
        with the process.

        Raises:
            BrokenOffError: The time is over.
        """
        if self.over():
            raise BrokenOffError
        with _signals() as signals, _begun(call) as (answer, ended):
            while not answer.done():
                select.select([ended, signals], [], [], self._drain.left(self._seconds, self._since))
                with contextlib.suppress(BlockingIOError):
                    os.read(signals, 4096)
                if self.over() and not answer.done():
                    raise BrokenOffError
            return answer.result()


@contextlib.contextmanager
def _begun(call: Callable[[], T]) -> Iterator[tuple[Future[T], int]]:
    """Begin a call, and let a descriptor be readable when it has ended."""
    from concurrent.futures import Future  # noqa: PLC0415 - a run that waits for nothing needs none of it

    answer: Future[T] = Future()
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def do() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answer.set_exception(error)
        finally:
            os.close(writer)

    try:
        try:
            # A daemon: at its end the process does not wait for it.
            threading.Thread(target=do, name="hurry", daemon=True).start()
        except BaseException:
            os.close(writer)
            raise
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
