"""Where lock and ledger may lie: on a local file system.

Over a network, `flock` may reach one machine only and SQLite's WAL can't share its memory: two machines
would run at once and damage the ledger. So these types are refused before anything is written. Reports and
metrics may lie anywhere: they are written whole and renamed, and made again from the ledger.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path, PurePath
from typing import Final

from .assets import shown
from .errors import Exit, JobError

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
# What the kernel, or a kernel module of its maker, calls a file system whose disk may be another machine's. Of
# FUSE's, `fuseblk` is a local disk; all others may be anything.
_NETWORK_TYPES: Final = frozenset(
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse", "gfs", "gfs2", "glusterfs"}
    | {"gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"}
    | {"smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)


def require_local(path: Path) -> None:
    """Refuse `path` where its file system is a network's.

    Raises:
        JobError: with the type that was found, and exit code 78.
    """
    real = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        (real / "..").stat()  # Walking through it makes an automounter mount what lies there.
    try:
        mountinfo = _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # No such file outside Linux; what can't be known can't be refused.
        return
    found = network_type(real, mountinfo)
    if found is not None:
        way_out = "keep the state on a local disk with --state (and the lock with --lock)"
        raise JobError(f"{shown(path)} lies on a network file system ({found}); {way_out}", Exit.BAD_CONFIG)


def network_type(path: PurePath, mountinfo: str) -> str | None:
    """Return the type of `path`'s file system if it is a network's, else `None`."""
    found, depth = "", -1
    # Not `splitlines`: of all that it splits at, a name may hold anything but a line feed.
    for line in mountinfo.split("\n"):
        fields, _, tail = line.partition(" - ")
        if not tail:
            continue
        mount_point = PurePath(_unescaped(fields.split(" ")[4]))
        # Of two mounts on one point the later hides the earlier.
        if path.is_relative_to(mount_point) and len(mount_point.parts) >= depth:
            found, depth = tail.split(" ")[0], len(mount_point.parts)
    return found if found in _NETWORK_TYPES or found.startswith("fuse.") else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
