"""The three standard streams, whatever they were given to us as: closed, full, or of few characters.

What is said on standard error is never what ends a run: whoever reads it may be gone.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import IO

from .assets import printable


def mend_streams() -> None:
    """Give the process its three descriptors, and both outputs text that always can be written.

    A closed one would be the number of the next file that is opened: the ledger's, into which any library
    may then write its complaints. It is replaced by one that refuses to be written, so that the loss shows.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # The lowest number that is free.
    sys.stdout = _mended(sys.stdout, 1)
    sys.stderr = _mended(sys.stderr, 2)


def say(line: str) -> None:
    """Write one line on standard error, if anybody takes it."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=sys.stderr, flush=True)


def delivered(stream: IO[str]) -> OSError | None:
    """Write out what a stream holds; what it refuses is dropped, and said.

    Python's own attempt at the end would make an exit code of it that is none of ours.
    """
    try:
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
        return error
    return None


def _mended(stream: IO[str] | None, number: int) -> IO[str]:
    if stream is None:
        return os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream
