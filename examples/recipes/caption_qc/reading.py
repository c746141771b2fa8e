"""How `inspect` reads files: regular ones alone, to a limit, and not while they change."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from .check import GivenError, parse_sidecar, read_reference
from .job.assets import NotAsSeenError, open_asset, read_as_seen, shown, stat_of
from .job.errors import Exit, JobError

if TYPE_CHECKING:
    from pathlib import Path

    from .check import Programme, Reference

_LARGEST_SIDECAR: Final = 1_000_000
_NO_SUCH_FILE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
"""No file of that name is there, or none can be: a name may be too long with another ending."""


class TooLongError(Exception):
    """A file has more bytes than were asked for; none of them was read."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(f"it has {size} bytes, over the limit of {most}")
        self.size = size


UNREADABLE = (OSError, NotAsSeenError, TooLongError)
"""What `read_file` raises."""


def read_file(file: Path, most: int) -> bytes:
    """Read a whole file; a link is followed.

    Raises:
        OSError: The system refused it.
        NotAsSeenError: It is not a regular file, or it changed while it was read.
        TooLongError: It has over `most` bytes.
    """
    path = os.path.realpath(bytes(file))
    descriptor = open_asset(path)
    try:
        seen = stat_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    if seen.size > most:
        raise TooLongError(seen.size, most)
    return read_as_seen(path, seen)


def why_unread(error: Exception) -> str:
    """Say why a file was not read, in a few words."""
    return str((error.strerror if isinstance(error, OSError) else None) or error)


def reference_of(file: Path, most: int) -> Reference:
    """Read the track that cues are compared with.

    Raises:
        JobError: It can't be read, or is no track.
    """
    try:
        return read_reference(read_file(file, most), shown(file))
    except UNREADABLE as error:
        found = f"cannot read the reference {shown(file)}: {why_unread(error)}"
        raise JobError(f"{found}; give the path of an SCC, WebVTT or SRT file", Exit.NO_QUEUE) from error
    except GivenError as error:
        raise JobError(str(error), Exit.NO_QUEUE) from error


def sidecar_of(file: Path) -> Programme | None:
    """Read what lies beside a file as NAME.toml, if anything does.

    Raises:
        JobError: It can't be read, or is no sidecar.
    """
    sidecar = file.with_suffix(".toml")
    if sidecar == file:
        return None
    try:
        return parse_sidecar(read_file(sidecar, _LARGEST_SIDECAR), shown(sidecar))
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno in _NO_SUCH_FILE:
            return None
        found = f"cannot read {shown(sidecar)}, which lies beside {shown(file)}: {why_unread(error)}"
        raise JobError(f"{found}; mend it, move it away, or give --programme", Exit.BAD_CONFIG) from error
    except GivenError as error:
        raise JobError(str(error), Exit.BAD_CONFIG) from error
