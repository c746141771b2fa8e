"""Caption files whose check ends badly, and what makes it so: a wrapper around `check` in the workers.

The product has no hook for this. `install` runs in a worker before the product is imported
(`caption_site/sitecustomize.py`), so the worker takes the wrapper for the check. Each bad file is a good one
with a line at its end that says what its check does.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = b"\nWHEN CHECKED: "
_PIECE = 64 << 20


def bad_file(content: bytes, worst: str) -> bytes:
    """Make a bad file of a good one; `worst` is one of `WORST`."""
    assert worst in WORST
    return content + _MARK + worst.encode() + b"\n"


def install() -> None:
    """Let the check of bad files do its worst, in this process."""
    from examples.recipes.caption_qc import check as checks  # noqa: PLC0415 - in workers alone

    real: Callable[..., object] = checks.check

    def check(data: bytes, *args: Any, **kwargs: Any) -> object:
        _, mark, worst = data.rpartition(_MARK)
        if mark:
            WORST[worst.decode().strip()]()
        return real(data, *args, **kwargs)

    checks.check = check  # type: ignore[assignment]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave() -> None:
    os._exit(0)


def _spin() -> None:
    while True:
        pass


def _late() -> None:
    """Spin, and let what is left of the time that the worker has set itself be over in a moment.

    So all checks of a run can have time enough for a machine that stands still, and this one ends at once.
    """
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    if left:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
    _spin()


def _sleep() -> None:
    time.sleep(1e6)


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(b"x" * _PIECE)


def _raise() -> None:
    raise RuntimeError("a fault in the check")


def _gate() -> None:
    """Wait in a FIFO: whoever opens it to write knows that the check has begun, and lets it go on by closing it."""
    with open(os.environ["CAPTION_GATE"], "rb") as gate:  # noqa: PTH123 - a FIFO
        gate.read()


WORST = {
    "kill": _kill,
    "leave": _leave,
    "spin": _spin,
    "late": _late,
    "sleep": _sleep,
    "eat": _eat,
    "raise": _raise,
    "gate": _gate,
}
"""What the check of a bad file can do; time and memory end by the worker's own limits."""
