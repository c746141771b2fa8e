"""How a run ends: the exit codes, and the one-line errors that carry them."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from typing import TYPE_CHECKING, Final

from examples.recipes.caption_qc.check import ProfileError

from .assets import shown
from .exits import Exit, JobError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "Exit",
    "JobError",
    "cannot_look",
    "cannot_write",
    "exit_code_of",
    "lacks_thread_or_memory",
    "ledger_damaged",
    "ledger_failed",
    "refusal_of",
    "trusting",
]


def refusal_of(error: Exception) -> JobError | None:
    """Make one line and a code of what a user can mend; `None` for what is a fault of ours."""
    if isinstance(error, JobError):
        return error
    told = _told(error)
    return None if told is None else JobError(*told)


def _told(error: Exception) -> tuple[str, Exit] | None:
    match error:
        case ProfileError():
            return str(error), Exit.BAD_CONFIG
        case ImportError():
            way_out = "install what the recipes need (the dependency group `recipes`), then run again"
            return f"this installation is not whole: {error}; {way_out}", Exit.BAD_CONFIG
        case OSError():
            way_out = "mend that, then run again: nothing recorded is lost"
            return f"the system refused: {error}; {way_out}", Exit.IO_ERROR
        case MemoryError() | RuntimeError() if lacks_thread_or_memory(error):
            found = f"the system refused memory or a thread ({str(error) or type(error).__name__})"
            return f"{found}; raise the limits of this process, or lower --workers", Exit.IO_ERROR
        case sqlite3.Error():
            return f"the ledger failed ({error}); {_WAY_OUT[Exit.IO_ERROR]}", Exit.IO_ERROR
    return None


# What Python says by a RuntimeError that is nothing else's.
_NO_THREAD: Final = "can't start new thread"


def lacks_thread_or_memory(error: BaseException | None) -> bool:
    """Say whether the system refused a thread or memory, which is no fault of ours."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_THREAD in str(error))


def exit_code_of(error: Exception) -> int:
    """Return the code that the command exits with when this is raised; Python's own is 1."""
    refusal = refusal_of(error)
    return 1 if refusal is None else int(refusal.code)


_EXIT_OF: Final = {
    errno.EACCES: Exit.NO_PERMISSION,
    errno.EPERM: Exit.NO_PERMISSION,
    errno.EROFS: Exit.CANNOT_CREATE,
    errno.ENOENT: Exit.CANNOT_CREATE,
    errno.ENOTDIR: Exit.CANNOT_CREATE,
    errno.ENOTEMPTY: Exit.CANNOT_CREATE,
    errno.EEXIST: Exit.CANNOT_CREATE,
    errno.EISDIR: Exit.CANNOT_CREATE,
    errno.ENAMETOOLONG: Exit.CANNOT_CREATE,
    errno.ELOOP: Exit.CANNOT_CREATE,
    errno.ENXIO: Exit.CANNOT_CREATE,
}
_WAY_OUT: Final = {
    Exit.NO_PERMISSION: "give this user the right to write there, or choose another place with {}",
    Exit.CANNOT_CREATE: "choose a place that can be written with {}",
    Exit.IO_ERROR: "free some space or mend the disk, then run again: nothing recorded is lost",
}


def cannot_write(error: OSError, what: str, option: str = "--state") -> JobError:
    """Say that `what` could not be written, with the exit code of the system's reason.

    Args:
        error: What the system said.
        what: Names the file or folder.
        option: Says where it is to be; the way out names it.
    """
    code = _EXIT_OF.get(error.errno or 0, Exit.IO_ERROR)
    way_out = _WAY_OUT[code].format(option)
    return JobError(f"cannot write {what}: {error.strerror or error}; {way_out}", code)


def cannot_look(error: OSError, state: Path) -> JobError:
    """Say that what runs have left in `state` can't be looked at."""
    found = f"cannot read the state in {shown(state)}: {error.strerror or error}"
    code = Exit.NO_PERMISSION if isinstance(error, PermissionError) else Exit.IO_ERROR
    return JobError(f"{found}; ask as the user that does the runs, or give --state another folder", code)


_SQLITE_CANNOT_CREATE: Final = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_SQLITE_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SQLITE_FULL: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
# Bytes: what SQLite wants at once, for the index of its write-ahead log, is half of it.
_NO_ROOM: Final = 1 << 16
# What reading raises when a value is not of the kind that a run writes.
_ODD_VALUE: Final = (ArithmeticError, LookupError, TypeError, ValueError)


@contextlib.contextmanager
def trusting(ledger: Path) -> Iterator[None]:
    """Read the ledger, or make something of what it says, in the block.

    Raises:
        JobError: for what SQLite refuses, and for what no run can have written.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise ledger_failed(error, ledger) from error
    except _ODD_VALUE as error:
        raise ledger_damaged(ledger, f"{type(error).__name__}: {error}") from error


def ledger_damaged(path: Path, found: str) -> JobError:
    """Say that the ledger is not what runs have written.

    A damage that opening it sees is mended by itself; this is of one that it doesn't see.
    """
    way_out = f"move {shown(path)} away, then run again: it is made again from the Parquet files"
    return JobError(f"the ledger {shown(path)} is damaged ({found}); {way_out}", Exit.IO_ERROR)


def ledger_failed(error: sqlite3.Error, path: Path) -> JobError:
    """Say what SQLite said about the ledger, with the exit code of its reason."""
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if primary in _SQLITE_CANNOT_CREATE and (refused := _refusal(path)) is not None:
        return cannot_write(refused, shown(path))
    if primary in _SQLITE_DAMAGED:
        return ledger_damaged(path, str(error))
    if primary == sqlite3.SQLITE_BUSY:
        way_out = "close the program that holds it, then run again"
        return JobError(f"the ledger {shown(path)} is in use ({error}); {way_out}", Exit.IO_ERROR)
    full = "no space left on the disk: " if primary in _SQLITE_FULL and _is_full(path) else ""
    return JobError(
        f"the ledger {shown(path)} failed ({full}{error}); {_WAY_OUT[Exit.IO_ERROR]}", Exit.IO_ERROR
    )


def _is_full(path: Path) -> bool:
    """Ask the system whether there is no room: SQLite may call it an I/O error."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _NO_ROOM or (room.f_files > 0 and room.f_favail == 0)


def _refusal(path: Path) -> OSError | None:
    """Ask the system itself why SQLite can't write, which does not say: the ledger, or files beside it."""
    probe = path.with_name(f".{path.name}.probe")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644))
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        probe.unlink()
    except OSError as error:
        return error
    return None
