"""Lets a signal wake an event loop that is about to sleep.

Python's handler runs in the main thread, between two of its instructions. A signal that comes after the last
of them and before the system has put the thread to sleep interrupts nothing: without more it would be heard
when the loop wakes for another reason, which may be never.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Iterator


@contextlib.contextmanager
def woken_by_signals(loop: AbstractEventLoop) -> Iterator[None]:
    """Wake `loop`, which runs in the main thread, at each signal that comes in the block."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    # A full pipe has woken it.
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    loop.add_reader(reader, os.read, reader, 4096)
    try:
        yield
    finally:
        loop.remove_reader(reader)
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
