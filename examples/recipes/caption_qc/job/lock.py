"""The run lock: one run a queue at a time.

The lock is the kernel's (`flock`), so it ends with its holder, however the holder dies. What stands in the
file is for people, and names the holder to those that are refused: it is written only by a holder, and never
emptied by one that was refused. A file that holds anything else is not written at all.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .assets import printable, shown
from .errors import Exit, JobError, cannot_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

# A FIFO must not hang us, a link not lead elsewhere, a worker not inherit the lock.
_READ_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | _READ_FLAGS
# What `flock` says on a file system that has no locks, or none between machines.
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_UNKNOWN: Final = "unknown"
# More than any holder writes. After a power cut a file can have its length and not yet its bytes.
_LONGEST: Final = 4096
_OURS: Final = re.compile(rb"pid \d+\nhost |\0*\Z")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock, as the lock file says."""

    pid: str
    host: str
    start: str

    @classmethod
    def this_run(cls, started: datetime) -> Holder:
        """Name this process, as others will read it."""
        start = started.isoformat(timespec="seconds")
        return cls(str(os.getpid()), printable(socket.gethostname()), start)


class LockHeldError(JobError):
    """Another run holds the lock."""

    def __init__(self, holder: Holder, path: Path) -> None:
        who = f"pid {holder.pid} since {holder.start} on {holder.host}"
        super().__init__(f"previous run still active: {who}, lock {shown(path)}", Exit.LOCK_HELD)
        self.holder = holder


@contextlib.contextmanager
def run_lock(path: Path, *, started: datetime) -> Iterator[None]:
    """Hold the lock at `path` for the block.

    Raises:
        LockHeldError: another run holds it.
        JobError: the lock file can't be written, or is a file of something else.
    """
    try:
        descriptor = _locked(path)
        try:
            _require_ours(descriptor, path)
            _write_holder(descriptor, started)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise cannot_write(error, f"the lock {shown(path)}", "--lock (or --state)") from error
    try:
        yield
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> Holder:
    """Read who holds the lock, or held it last, and leave the lock alone.

    Raises:
        OSError: the file can't be read; there is none yet.
        JobError: it is no regular file.
    """
    _require_no_device(path)
    descriptor = os.open(path, os.O_RDONLY | _READ_FLAGS)
    try:
        _require_regular(descriptor, path)
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Open and lock the file that `path` names; one that was replaced meanwhile is let go."""
    while True:
        _require_no_device(path)
        descriptor = os.open(path, _OPEN_FLAGS, 0o644)
        try:
            _require_regular(descriptor, path)
            _lock(descriptor, path)
            if _names(path, descriptor):
                return descriptor
        except BlockingIOError:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise LockHeldError(holder, path) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        found = f"the file system of the lock {shown(path)} has no locks ({error.strerror})"
        way_out = "put it on a local disk with --lock (or --state)"
        raise JobError(f"{found}; {way_out}", Exit.BAD_CONFIG) from error


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _require_no_device(path: Path) -> None:
    """Refuse what opening alone may set going: a tape, a watchdog."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise _refused(path, "is not a regular file")


def _require_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _refused(path, "is not a regular file")


def _require_ours(descriptor: int, path: Path) -> None:
    """Refuse a file in which anything but a holder's lines stands: `--lock` may name any file."""
    found = os.pread(descriptor, _LONGEST + 1, 0)
    if len(found) > _LONGEST or not _OURS.match(found):
        raise _refused(path, "holds something else, which is not written over")


def _refused(path: Path, why: str) -> JobError:
    way_out = "give --lock the path of a file that is empty or not there yet"
    return JobError(f"the lock {shown(path)} {why}; {way_out}", Exit.CANNOT_CREATE)


def _write_holder(descriptor: int, started: datetime) -> None:
    """Write over what the last holder left, then cut: the file is empty at no time."""
    holder = Holder.this_run(started)
    text = f"pid {holder.pid}\nhost {holder.host}\nstart {holder.start}\n".encode()
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))


def _read_holder(descriptor: int) -> Holder:
    """Take the first line of a kind: behind it may still stand what is about to be cut."""
    text = os.pread(descriptor, _LONGEST, 0).decode("utf-8", "replace")
    lines = [line.split(" ", 1) for line in text.splitlines() if " " in line]
    fields = dict(reversed(lines))
    return Holder(*(printable(fields.get(key, _UNKNOWN)) for key in ("pid", "host", "start")))
