"""Who holds the run lock, seen from outside: the lock is not taken for a moment, nor is its file written.

To try the lock is to hold it for that moment, and a run that starts then would be refused. The kernel lists
the locks that are held in `/proc/locks`, by device and inode of their files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .lock import Holder, read_holder

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCKS: Final = Path("/proc/locks")
# The list is read in pieces; one that changes between two of them may lack a line, so it is read twice.
_READINGS: Final = 2


@dataclass(frozen=True, slots=True)
class LockState:
    """Whether the lock is held, and by whom."""

    held: bool | None
    """`None` where the system does not say."""
    holder: Holder | None
    """Who holds it, or held it last, as the file says; `None` where there is no file yet."""


def lock_state(path: Path) -> LockState:
    """Look at the lock.

    Raises:
        OSError: the file is there and can't be read.
    """
    try:
        found = path.stat()
        holder = read_holder(path)
    except FileNotFoundError:
        return LockState(held=False, holder=None)
    try:
        held = any(_is_held(found, holder) for _ in range(_READINGS))
    except OSError:  # No such list outside Linux.
        return LockState(held=None, holder=holder)
    return LockState(held=held, holder=read_holder(path) if held else holder)


def _is_held(found: os.stat_result, holder: Holder) -> bool:
    """Look for the file's inode, and for its device or its holder: some file systems show another device."""
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return any(
        inode == found.st_ino and (device == listed or pid == holder.pid)
        for pid, listed, inode in _held_locks()
    )


def _held_locks() -> Iterator[tuple[str, str, int]]:
    """Yield pid, device and inode of each `flock` that is held."""
    for line in _LOCKS.read_text(encoding="ascii").splitlines():
        # `12: FLOCK  ADVISORY  WRITE 708 fe:00:2196010 0 EOF`; one that waits has `->` behind its number.
        match line.split():
            case [_, "FLOCK", _, "WRITE", pid, where, *_]:
                device, _, inode = where.rpartition(":")
                yield pid, device, int(inode)
