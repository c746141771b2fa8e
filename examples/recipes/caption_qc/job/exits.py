"""How a run ends, for what a worker imports too: the exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, those of sysexits.h where it has one."""

    OK = 0
    USAGE = 64
    FOUND = 65
    NO_QUEUE = 66
    UNREACHABLE = 69
    CANNOT_CREATE = 73
    IO_ERROR = 74
    LOCK_HELD = 75
    NO_PERMISSION = 77
    BAD_CONFIG = 78


class BrokenOffError(Exception):
    """It is not done: it would take longer than whoever asked for it can wait."""


class JobError(Exception):
    """A run can't go on: one line that says what was found and the way out, and the exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code
