"""Who owns SIGTERM and SIGINT before a server does, and after it: `leave_on_signal()`, `end_on_signal()`.

The system ends a process that has no handler of its own, but not the first one of a container (PID 1): there such a
signal is lost, and the container waits for SIGKILL. Standard library only, so that it can come before all imports.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def leave_on_signal() -> None:
    """While nothing has been begun: a signal ends the process at once, as asked for, so with status 0."""
    for each in SIGNALS:
        signal.signal(each, _leave)


def end_on_signal() -> None:
    """Once there is nothing left to cut short: one more signal ends the process, whatever it waits for.

    The system's own way needs no turn of the interpreter; a PID 1 gets a handler, since the system spares it.
    """
    for each in SIGNALS:
        signal.signal(each, _end if os.getpid() == 1 else signal.SIG_DFL)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(
        0
    )  # not an exception: raised inside a destructor, or an import that guards itself, it would be lost


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)
