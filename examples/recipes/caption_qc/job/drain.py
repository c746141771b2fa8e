"""The drain: the first SIGTERM or SIGINT asks the run to end in good order, the second ends it at once."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Drain:
    """Whether the run was asked to end.

    Mutable state: `requested`, and the callback that wakes whoever waits at the moment.
    """

    def __init__(self) -> None:
        self.requested = False
        self._wake: Callable[[], object] | None = None

    def install(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def release(self) -> None:
        """Give both signals back to the system: the first one ends the process."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def notify(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the request comes, from within a signal handler; at once if it has come."""
        self._wake = wake
        if self.requested:
            wake()

    def forget(self) -> None:
        """Wake nobody any more."""
        self._wake = None

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if self.requested:
            os._exit(128 + signum)
        self.requested = True
        if self._wake is not None:
            self._wake()
