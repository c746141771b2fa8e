"""A queue that is a folder: its assets are the files in it and below."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from .assets import Asset, compare, open_asset, read_as_seen, shown, stat_of
from .dead_places import below, dead_letter_folder
from .exits import Exit, JobError
from .queues import Source
from .scan import Walk, file_key, scan_queue, sidecar_of
from .sidecar import sidecar_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from .hurry import Hurry
    from .plan import Plan
    from .scan import FileKey, Seen, Terms

T = TypeVar("T")

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FolderQueue:
    """The files of a folder; `Queue` says what each method is."""

    folder: Path
    """Resolved."""

    @property
    def key(self) -> bytes:
        """The path."""
        return bytes(self.folder)

    @property
    def name(self) -> str:
        """The path as text."""
        return shown(self.folder)

    @property
    def label(self) -> str:
        """The folder's own name."""
        return self.folder.name or "root"

    def shown(self, name: bytes) -> str:
        """Write the file's path."""
        return shown(below(self.folder, name))

    def require(self) -> None:
        """See that it can be listed and entered."""
        try:
            with os.scandir(self.folder):
                (self.folder / "..").stat()  # Listing takes the right to read, this the right to enter.
        except OSError as error:
            raise self._refused(error) from error

    def hurried(self, hurry: Hurry) -> FolderQueue:
        """Return itself: nothing that a file system is asked for ends before its time."""
        del hurry
        return self

    def waited_for(self, call: Callable[[], T], seconds: float = math.inf) -> T:
        """Call."""
        del seconds
        return call()

    def require_reading(self, but: Asset) -> None:
        """Do nothing: what a file system refuses, it refuses of one file."""
        del but

    def scan(self, plan: Plan, terms: Terms, seen: Seen) -> Iterator[list[Asset]]:
        """Walk the folder."""
        skip = frozenset(_keys_of(plan.state, dead_letter_folder(plan)))
        try:
            yield from scan_queue(Walk.of(terms, queue=self.key, skip=skip), seen)
        except OSError as error:  # The folder itself: what is unreadable below it is counted.
            raise self._refused(error) from error

    def find(self, names: Sequence[bytes]) -> list[Asset | None]:
        """Look at the files."""
        return list(map(self._found, names))

    def _found(self, name: bytes) -> Asset | None:
        path = below(self.folder, name)
        try:
            return Asset(name, stat_of(path.lstat()), sidecar_of(bytes(path)))
        except OSError:
            return None

    def fetched(self, asset: Asset, seconds: float) -> Source:
        """Return what reads the files: a disk that hangs is for the check's own time to end."""
        del seconds
        return Source(
            partial(read_as_seen, asset.path_in(self.key), asset.stat), partial(self.sidecar, asset)
        )

    def slowest(self, seconds: float) -> float:
        """Return no time: nothing is read yet."""
        del seconds
        return 0.0

    def pieces(self, asset: Asset) -> Generator[bytes]:
        """Read the file, which must be the one that was seen before and after it."""
        with os.fdopen(open_asset(asset.path_in(self.key)), "rb", buffering=0) as file:
            compare(file.fileno(), asset.stat)
            while piece := file.read(_PIECE):
                yield piece
            compare(file.fileno(), asset.stat)

    def sidecar(self, asset: Asset) -> bytes:
        """Read the sidecar's file."""
        if asset.sidecar is None:
            return b""
        try:
            return read_as_seen(asset.sidecar_in(self.key), asset.sidecar)
        except FileNotFoundError as error:
            raise sidecar_gone() from error

    def is_empty(self, plan: Plan) -> bool:
        """Look for one entry."""
        del plan
        try:
            with os.scandir(self.folder) as entries:
                return next(entries, None) is None
        except OSError:
            return True

    def gone(self, names: Sequence[bytes]) -> list[bytes]:
        """Look for the files."""
        return [name for name in names if self._is_gone(name)]

    def _is_gone(self, name: bytes) -> bool:
        try:
            below(self.folder, name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return False

    def _refused(self, error: OSError) -> JobError:
        if isinstance(error, PermissionError):
            found = f"cannot read the queue {self.name}: {error.strerror}"
            return JobError(f"{found}; give this user the right to read and enter it", Exit.NO_PERMISSION)
        found = f"no queue at {self.name}: {error.strerror}"
        return JobError(f"{found}; give the folder that holds the caption files", Exit.NO_QUEUE)


def _keys_of(*folders: Path) -> Iterator[FileKey]:
    """Name those of ours that are there: the queue may be, or be around, the state folder."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            yield file_key(folder.stat())
