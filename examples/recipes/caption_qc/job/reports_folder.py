"""Reports in a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from .assets import open_asset, shown
from .errors import cannot_write
from .files import require_folder, require_replaceable, temporary_of, whole_file, whole_new_file
from .reports import DASHBOARD_HTML, DASHBOARD_JSON, TELEMETRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from .hurry import Hurry
    from .object_store import Bucket


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of reports, which may be the state folder."""

    path: Path
    """Resolved."""

    def shown(self, name: str = "") -> str:
        """Write its path, or that of what lies there."""
        return shown(self.path / name)

    def is_folder(self, folder: Path) -> bool:
        """Say whether it is that folder."""
        return self.path == folder

    def keys_in(self, queue: Bucket) -> tuple[str, ...]:
        """Say that there are none: a folder lies in no bucket."""
        del queue
        return ()

    def hurried(self, hurry: Hurry) -> Folder:
        """Be the same: what it does to a disk is not waited for over a network."""
        del hurry
        return self

    def make(self) -> None:
        """Make it, and refuse what is in the way of a report."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(error, shown(self.path), "--out") from error
        require_folder(self.path / TELEMETRY, "--out")
        for name in (DASHBOARD_JSON, DASHBOARD_HTML):
            require_replaceable(self.path / name, "--out")

    def write(self, name: str, data: bytes) -> None:
        """Put a report there through a temporary file."""
        with self.whole(name) as file:
            file.write(data)

    def create(self, name: str, data: bytes) -> bool:
        """Put there what no other may have put there."""
        return whole_new_file(self.path / name, data)

    def whole(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Put there what the block writes, through a temporary file."""
        return whole_file(self.path / name)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Read a report: a FIFO can't hang the reader, and a link is not followed."""
        with os.fdopen(open_asset(bytes(self.path / name)), "rb") as file:
            yield file

    def holds(self, name: str) -> bool:
        """Say whether anything of that name is there; a link that leads nowhere is."""
        return os.path.lexists(self.path / name)

    def known_by(self, names: Iterable[str]) -> dict[str, str]:
        """Say what is there by kind, size and time, which are as good as a look into it."""
        found = {}
        for name in names:
            with contextlib.suppress(OSError):
                seen = (self.path / name).lstat()
                found[name] = f"{stat.filemode(seen.st_mode)[0]} {seen.st_size} {seen.st_mtime_ns}"
        return found

    def parquet_below(self, folder: str) -> Iterator[str]:
        """Name the Parquet files below a folder."""
        for path in (self.path / folder).rglob("*.parquet"):
            yield str(path.relative_to(self.path))

    def remove(self, name: str) -> None:
        """Remove a file, and its folder unless something else lies there."""
        path = self.path / name
        try:
            for file in (path, temporary_of(path)):
                file.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.parent.rmdir()
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise cannot_write(error, shown(path), "--out") from error
