"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final

from .assets import shown
from .errors import Exit, JobError, cannot_write
from .exits import BrokenOffError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


__all__ = [
    "BrokenOffError",
    "require_folder",
    "require_regular",
    "require_replaceable",
    "sync_folder",
    "temporary_of",
    "whole_file",
    "whole_new_file",
]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write `path` through a temporary file: synced and renamed when the block ends well, else removed.

    The temporary name is always the same, so that what a killed run left is written over by the next.

    Raises:
        JobError: the system refused it, or what is there is no file that could be replaced.
    """
    require_replaceable(path)
    temporary = temporary_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)  # Not opened: a FIFO would hang us, a link lead elsewhere.
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(error, shown(path)) from error


def whole_new_file(path: Path, data: bytes) -> bool:
    """Write `path` if nothing is there, else return `False`; of several who do so at one time, one writes it.

    Raises:
        JobError: the system refused it.
    """
    # Another's has other data, and so another name.
    temporary = path.with_name(f".{path.name}.{sha256(data).hexdigest()[:16]}")
    with whole_file(temporary) as file:
        file.write(data)
    try:
        _link(temporary, path, data)
        sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise cannot_write(error, shown(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _link(whole: Path, path: Path, data: bytes) -> None:
    """Give a whole file a name that nothing has; where links can't be, make a file, which a kill may leave empty."""
    try:
        path.hardlink_to(whole)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


def temporary_of(path: Path) -> Path:
    """Name the file that `path` is before it is whole."""
    return path.with_name(f".{path.name}.tmp")


def require_regular(path: Path) -> None:
    """Refuse what is there and no regular file, before anything opens it: a FIFO would hang it.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(error, shown(path)) from error
    if not stat.S_ISREG(mode):
        raise _in_the_way(path, "it is not a regular file", "--state")


def require_replaceable(path: Path, option: str = "--out (or --state)") -> None:
    """Refuse what a file that is renamed over it would destroy: a device, a FIFO, a socket, a folder.

    A link is replaced, not followed, where it leads to a regular file; one that leads elsewhere is refused.

    Args:
        path: Where the file is to be.
        option: Says where it is to be; the way out names it.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _in_the_way(path, "it is not a regular file", option)
    except FileNotFoundError:
        if path.is_symlink():
            raise _in_the_way(path, "it is a link that leads nowhere", option) from None
    except OSError as error:
        raise cannot_write(error, shown(path), option) from error


def require_folder(path: Path, option: str) -> None:
    """Refuse what is there and no folder.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise _in_the_way(path, "it is not a folder", option)
    except OSError as error:
        raise cannot_write(error, shown(path), option) from error


def _in_the_way(path: Path, found: str, option: str) -> JobError:
    way_out = f"move it away, or choose another place with {option}"
    return JobError(f"cannot write {shown(path)}: {found}; {way_out}", Exit.CANNOT_CREATE)


def sync_folder(folder: Path) -> None:
    """Let the names in `folder` be on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
