"""Other devices for a test: a small disk that can be full and can get room, and two that only seem to be."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOUNT = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1000", "tmpfs"]


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Callable[[], object]]:
    """Put a disk of `size` KiB at the empty `folder`, and give what makes room on it."""
    mounted = subprocess.run([*_MOUNT, folder, "-o", f"size={size}k"], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here: it takes root")
    try:
        yield lambda: subprocess.run([*_MOUNT, folder, "-o", "remount,size=64m"], check=True)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S607 - the system's own


def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queue and state lie on two devices: the system refuses to rename and to link across."""
    rename, link = Path.rename, os.link

    def crosses(one: Path, other: Path) -> bool:
        return ("dead-letter" in one.parts) != ("dead-letter" in other.parts)

    def rename_within(path: Path, target: Path) -> Path:
        if crosses(path, target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    def link_within(source: Path, target: Path, **options: bool) -> None:
        if crosses(source, target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target, **options)

    monkeypatch.setattr(Path, "rename", rename_within)
    monkeypatch.setattr(os, "link", link_within)
