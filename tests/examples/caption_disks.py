"""A small disk of its own for a test: another device, that can be full and can get room."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
