"""The scan: a queue of any size, a page at a time, never as a list.

Folders are walked as open iterators, so that memory holds one page and one iterator a level; only the few that
lie very deep are listed at once, so that the depth of a tree can't use up the descriptors. What is no caption
file to check now is passed over and counted.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from .assets import Asset, Stat, as_text, beside, stat_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from datetime import datetime

PAGE_SIZE: Final = 1000
# Levels whose folders stay open; a process has 1024 descriptors, and the rest of the job needs some.
MOST_OPEN: Final = 64
# Our own state folders stand here by default; a queue that contains one is not a queue of dead letters.
STATE_FOLDER: Final = "caption-qc-state"
# What tells a state folder from one that was delivered under such a name.
_STATE_FILES: Final = (b"run.lock", b"ledger.sqlite")

FileKey: TypeAlias = tuple[int, int]
_SECOND: Final = 1_000_000_000


@dataclass(slots=True)
class Seen:
    """What the scan has met so far."""

    assets: int = 0
    """Caption files, whether they are to be checked now or not."""
    settling: int = 0
    """Caption files that changed too short a time ago."""
    links: int = 0
    """Symbolic links, which are not followed."""
    unreadable: int = 0
    """Folders and files that the system does not let us look at."""
    oldest_settling_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    """One line for each of the first few that are unreadable."""

    def cannot_read(self, name: bytes, error: OSError) -> None:
        """Count one that can't be looked at."""
        self.unreadable += 1
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(f"cannot read {as_text(name) or 'the queue'}: {error.strerror or error}")


_MOST_WARNINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts of a queue, from 1: each asset is in exactly one, by its name alone, for ever."""

    index: int
    count: int

    def holds(self, name: bytes) -> bool:
        """Say whether the asset of this name is in it."""
        return int.from_bytes(sha256(name).digest()[:8]) % self.count == self.index - 1


def never() -> bool:
    """Say that nothing stops the scan."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Which assets of a queue are asked for."""

    settle: float
    """Seconds; an asset changed less than this before `now` is left for the next fire."""
    now: datetime
    shard: Shard | None = None
    """The part of the queue that is ours; `None`: all of it."""
    stopped: Callable[[], bool] = never
    """Asked at each entry; the scan ends when the answer is yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk(Terms):
    """Which folder to scan, and what to leave out."""

    queue: bytes
    skip: frozenset[FileKey] = frozenset()
    """Folders to leave out, by device and inode."""

    @classmethod
    def of(cls, terms: Terms, *, queue: bytes, skip: frozenset[FileKey]) -> Walk:
        """Make the walk that finds what is asked for."""
        return cls(
            queue=queue,
            skip=skip,
            settle=terms.settle,
            now=terms.now,
            shard=terms.shard,
            stopped=terms.stopped,
        )


class _Entries(Protocol):
    """What is left of a folder's entries."""

    def __iter__(self) -> Iterator[os.DirEntry[bytes]]: ...
    def __next__(self) -> os.DirEntry[bytes]: ...
    def close(self) -> None:
        """Give the descriptor back."""


_Level: TypeAlias = tuple[bytes, _Entries]


def file_key(found: os.stat_result) -> FileKey:
    """Name a file or folder whatever its path is."""
    return found.st_dev, found.st_ino


def scan_queue(walk: Walk, seen: Seen) -> Iterator[list[Asset]]:
    """Yield the settled caption files of the queue, oldest first within each page, counting into `seen`.

    Raises:
        OSError: the queue itself can't be listed. An unreadable folder below it is counted instead.
    """
    return paged(_captions(walk, seen), walk, seen)


def paged(captions: Iterator[Asset], terms: Terms, seen: Seen) -> Iterator[list[Asset]]:
    """Yield those that are settled, a page at a time, oldest first within each, counting all into `seen`."""
    page: list[Asset] = []
    for asset in _settled(captions, terms, seen):
        page.append(asset)
        if len(page) == PAGE_SIZE:
            yield sorted(page, key=_age)
            page = []
    if page:
        yield sorted(page, key=_age)


_age = attrgetter("stat.mtime_ns", "name")


def _settled(captions: Iterator[Asset], terms: Terms, seen: Seen) -> Iterator[Asset]:
    now_ns = int(terms.now.timestamp() * _SECOND)
    settle_ns = int(terms.settle * _SECOND)
    for asset in captions:
        seen.assets += 1
        # A time far in the future is a wrong clock's; such a file would otherwise never be checked.
        if abs(now_ns - asset.stat.mtime_ns) >= settle_ns:
            yield asset
            continue
        seen.settling += 1
        seen.oldest_settling_ns = min(seen.oldest_settling_ns or asset.stat.mtime_ns, asset.stat.mtime_ns)


def _captions(walk: Walk, seen: Seen) -> Iterator[Asset]:
    """Walk the queue depth first; a level is an open folder, its prefix and its iterator."""
    levels: list[_Level] = [(b"", os.scandir(walk.queue))]
    try:
        while levels and not walk.stopped():
            prefix, entries = levels[-1]
            try:
                entry = next(entries, None)
            except OSError as error:
                seen.cannot_read(prefix, error)
                entry = None
            if entry is None:
                entries.close()
                levels.pop()
                continue
            name = prefix + entry.name
            match _kind(entry, walk, seen, name):
                case Asset() as asset:
                    yield asset
                case "folder":
                    _enter(levels, walk, seen, name)
    finally:
        for _, entries in levels:
            entries.close()


def _kind(entry: os.DirEntry[bytes], walk: Walk, seen: Seen, name: bytes) -> Asset | str | None:
    """Say what `entry` is: an asset, a folder to enter, or nothing of ours."""
    if entry.name.startswith((b".", b"~")):
        return None
    try:
        if entry.is_symlink():
            seen.links += 1
        elif entry.is_dir(follow_symlinks=False):
            return None if _left_out(entry, walk, name) else "folder"
        elif _is_ours(entry, walk, name):
            sidecar = sidecar_of(walk.queue + b"/" + name)
            return Asset(name, stat_of(entry.stat(follow_symlinks=False)), sidecar)
    except FileNotFoundError:  # Gone since it was listed.
        return None
    except OSError as error:
        seen.cannot_read(name, error)
    return None


def _is_ours(entry: os.DirEntry[bytes], walk: Walk, name: bytes) -> bool:
    if not (entry.name.lower().endswith(b".scc") and entry.is_file(follow_symlinks=False)):
        return False
    return walk.shard is None or walk.shard.holds(name)


def sidecar_of(path: bytes) -> Stat | None:
    """Look for the sidecar of the file at `path`; what is no regular file is none, nor what a long name can't have."""
    sidecar = beside(path)
    if not os.access(sidecar, os.F_OK):  # It has none, as most; told so, not raised, it costs half as much.
        return None
    try:
        found = os.lstat(sidecar)
    except OSError:
        return None
    return stat_of(found) if stat.S_ISREG(found.st_mode) else None


def _left_out(entry: os.DirEntry[bytes], walk: Walk, name: bytes) -> bool:
    return file_key(entry.stat(follow_symlinks=False)) in walk.skip or _holds_state(walk.queue, name)


def _holds_state(queue: bytes, name: bytes) -> bool:
    """Say whether a folder is a state folder where ours stand by default: so named, or in one so named."""
    if STATE_FOLDER.encode() not in name.split(b"/")[-2:]:
        return False
    return any(os.access(b"/".join((queue, name, file)), os.F_OK) for file in _STATE_FILES)


def _enter(levels: list[_Level], walk: Walk, seen: Seen, name: bytes) -> None:
    try:
        entries = os.scandir(walk.queue + b"/" + name)
        levels.append((name + b"/", entries if len(levels) < MOST_OPEN else _listed(entries)))
    except FileNotFoundError:
        return
    except OSError as error:
        seen.cannot_read(name, error)


def _listed(entries: os._ScandirIterator[bytes]) -> Generator[os.DirEntry[bytes]]:
    with entries:
        found = list(entries)
    yield from found
