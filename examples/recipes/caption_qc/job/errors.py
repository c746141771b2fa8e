"""How a run ends: the exit codes, and the one-line errors that carry them."""

from __future__ import annotations

import errno
import os
import sqlite3
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """Exit codes, those of sysexits.h where it has one."""

    OK = 0
    USAGE = 64
    NO_QUEUE = 66
    CANNOT_CREATE = 73
    IO_ERROR = 74
    LOCK_HELD = 75
    NO_PERMISSION = 77
    BAD_CONFIG = 78


class JobError(Exception):
    """A run can't go on: one line that says what was found and the way out, and the exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


_EXIT_OF: Final = {
    errno.EACCES: Exit.NO_PERMISSION,
    errno.EPERM: Exit.NO_PERMISSION,
    errno.EROFS: Exit.CANNOT_CREATE,
    errno.ENOENT: Exit.CANNOT_CREATE,
    errno.ENOTDIR: Exit.CANNOT_CREATE,
    errno.EEXIST: Exit.CANNOT_CREATE,
    errno.EISDIR: Exit.CANNOT_CREATE,
    errno.ENAMETOOLONG: Exit.CANNOT_CREATE,
    errno.ELOOP: Exit.CANNOT_CREATE,
}
_WAY_OUT: Final = {
    Exit.NO_PERMISSION: "give this user the right to write there, or choose another folder with --state",
    Exit.CANNOT_CREATE: "choose a folder that can be written with --state",
    Exit.IO_ERROR: "free some space or mend the disk, then run again: nothing recorded is lost",
}


def cannot_write(error: OSError, what: str) -> JobError:
    """Say that `what` could not be written, with the exit code of the system's reason."""
    code = _EXIT_OF.get(error.errno or 0, Exit.IO_ERROR)
    return JobError(f"cannot write {what}: {error.strerror or error}; {_WAY_OUT[code]}", code)


_SQLITE_CANNOT_CREATE: Final = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_SQLITE_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def ledger_failed(error: sqlite3.Error, path: str) -> JobError:
    """Say what SQLite said about the ledger, with the exit code of its reason."""
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if primary in _SQLITE_CANNOT_CREATE and (refused := _refusal(path)) is not None:
        return cannot_write(refused, path)
    if primary in _SQLITE_DAMAGED:
        way_out = "move it away and run again: every asset is then checked anew"
        return JobError(f"the ledger {path} is damaged ({error}); {way_out}", Exit.IO_ERROR)
    if primary == sqlite3.SQLITE_BUSY:
        way_out = "close the program that holds it, then run again"
        return JobError(f"the ledger {path} is in use ({error}); {way_out}", Exit.IO_ERROR)
    return JobError(f"the ledger {path} failed ({error}); {_WAY_OUT[Exit.IO_ERROR]}", Exit.IO_ERROR)


def _refusal(path: str) -> OSError | None:
    """Ask the system itself why a file can't be written: SQLite does not say."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except OSError as error:
        return error
    return None
