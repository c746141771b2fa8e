"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING

from .errors import cannot_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write `path` through a temporary file: synced and renamed when the block ends well, else removed.

    The temporary name is always the same, so that what a killed run left is written over by the next.

    Raises:
        JobError: the system refused it.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(error, str(path)) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
