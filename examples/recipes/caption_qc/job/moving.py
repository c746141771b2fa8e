"""Files moved out of the queue and back into it: at whatever line a process is killed, no bytes are lost.

1. Others write to the queue at any time. So a file is taken by renaming whatever lies there, and looked at
   afterwards; what turns out to be another one goes back. Nothing in the queue is ever renamed over.
2. Below `dead-letter/` only the holder of the run lock writes: what was free there stays free.
3. Across devices a file is copied to a temporary name, synced and renamed, and the first one removed last.
4. Each function may be called again after a crash in the middle, and goes on from what it finds.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from typing import TYPE_CHECKING, Final

from .assets import NotAsSeenError, open_asset, stat_of
from .dead_places import holds
from .files import sync_folder

if TYPE_CHECKING:
    from pathlib import Path

    from .assets import Stat

# A file system without hard links, or a file that this user may not link to.
_NO_LINK: Final = frozenset({errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


class OccupiedError(Exception):
    """Something lies where the file would go."""


def take_out(source: Path, target: Path, seen: Stat, content_sha256: str) -> None:
    """Move the file that was seen at `source` to `target`, where nothing lies.

    Raises:
        NotAsSeenError: Another file lies at `source`; it stays, or is there again.
        OSError: It can't be moved, and stays; `FileNotFoundError`: it is gone.
    """
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target, seen)
        try:
            remove(source, content_sha256)
        except OSError:
            target.unlink()
            raise
    if not holds(target, content_sha256):
        put_back(target, source)
        raise NotAsSeenError("it was replaced while it was moved")
    _sync_folders(source, target)


def remove(source: Path, content_sha256: str) -> None:
    """Remove the file at `source`, of which `target` is a copy, unless it has other bytes by now."""
    aside = aside_of(source)
    with contextlib.suppress(FileNotFoundError):
        source.rename(aside)
    settle_aside(source, content_sha256)


def settle_aside(source: Path, content_sha256: str) -> None:
    """Finish a removal: what was put aside goes, if it is what was to go, or goes back."""
    aside = aside_of(source)
    if not os.path.lexists(aside):
        return
    if holds(aside, content_sha256):
        aside.unlink()
    else:
        put_back(aside, source)


def put_back(source: Path, target: Path) -> None:
    """Move the file at `source` to `target` in the queue, but never over what lies there.

    Raises:
        OccupiedError: Something lies there; both stay as they are.
        OSError: It can't be moved, and stays.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISDIR(source.lstat().st_mode):
        _rename_back(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not os.path.samestat(source.lstat(), target.lstat()):  # Else linked before a crash.
            raise OccupiedError from None
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy_back(source, target)
    _sync_folders(target)
    source.unlink()
    _sync_folders(source)


def _rename_back(source: Path, target: Path) -> None:
    """Move a folder with all that is in it; it can't be linked, and is never renamed over a file."""
    if os.path.lexists(target):
        raise OccupiedError
    source.rename(target)
    _sync_folders(source, target)


def aside_of(source: Path) -> Path:
    """Name the hidden file beside `source` that it is while it is removed; the scan passes over those."""
    return _hidden(source, "moving")


def remove_copy(target: Path) -> None:
    """Remove what a crash left of a copy that was to be `target`."""
    _copy_of(target).unlink(missing_ok=True)


def _copy_of(target: Path) -> Path:
    return _hidden(target, "copy")


def _hidden(path: Path, what: str) -> Path:
    # Of one length, since the name itself may be as long as names can be.
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
    return path.with_name(f".caption-qc-{digest}.{what}")


def _copy_back(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise OccupiedError
    copy = _copy_of(target)
    _copy_file(source, copy)
    try:
        os.link(copy, target, follow_symlinks=False)
    except FileExistsError:
        copy.unlink()
        raise OccupiedError from None
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        copy.rename(target)  # It was free a moment ago; no file system of this kind can say it better.
    else:
        copy.unlink()


def _copy(source: Path, target: Path, seen: Stat) -> None:
    copy = _copy_of(target)
    if _copy_file(source, copy) != seen:
        copy.unlink()
        raise NotAsSeenError("it changed while it was copied")
    copy.rename(target)
    _sync_folders(target)


def _copy_file(source: Path, target: Path) -> Stat:
    """Copy bytes, mode and times to a synced file, and return the source's stat once it has been read."""
    target.unlink(missing_ok=True)
    try:
        with os.fdopen(open_asset(bytes(source)), "rb") as file, target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            shutil.copystat(source, target)
            os.fsync(copy.fileno())
            return stat_of(os.fstat(file.fileno()))
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _sync_folders(*paths: Path) -> None:
    for path in paths:
        sync_folder(path.parent)
