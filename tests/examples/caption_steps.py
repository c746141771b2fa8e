"""The steps of a run, counted in its own process, and a signal at one of them.

A step is what the run asks of the system about one folder, as Python's audit events tell it: a file opened,
renamed or removed, a folder made or listed, the ledger connected. They are counted from the lock on. So a blow
can fall exactly between two renames, which no clock outside could hit.
"""

from __future__ import annotations

import itertools
import os
import sys
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.scandir", "sqlite3.connect"})


def install(orders: str) -> None:
    """Count from now on.

    Args:
        orders: The pipe to tell, the step to strike at (0: none), the signal, whether it goes to the whole
            group (0 or 1), and the folder.
    """
    *numbers_given, folder = orders.split(" ", 4)
    pipe, at, signum, group = map(int, numbers_given)
    numbers = itertools.count(1)
    locked = False

    def hear(event: str, about: Sequence[object]) -> None:
        nonlocal locked
        if not locked:
            locked = event == "fcntl.flock"  # Told before it is done; the next step comes after it.
            return
        if event not in _STEPS or folder not in str(about[0]):
            return
        number = next(numbers)
        os.write(pipe, b".")
        if number == at:
            os.write(pipe, f"\nstruck {monotonic()}\n".encode())
            os.kill(0 if group else os.getpid(), signum)

    sys.addaudithook(hear)
