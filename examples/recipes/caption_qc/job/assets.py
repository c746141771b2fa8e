"""What an asset is: its name, the stats it is known by, and how its bytes are opened and read.

A name is bytes. What is not UTF-8, `%`, and what would act on a terminal are written `%E9`, so that an
`asset_id` is text anywhere and `urllib.parse.unquote_to_bytes` gives the name back. Every path that is shown
goes through the same form.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

# Opened so that a FIFO can't hang the reader and a link that replaced the file is not followed.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Control and format characters, line and paragraph separators, and the surrogates that stand for bytes.
_ESCAPED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# What SQLite and Parquet hold.
_LARGEST: Final = (1 << 63) - 1


class Stat(NamedTuple):  # Made twice as fast as a frozen dataclass, for each file of each scan.
    """What tells one content of an asset from the next without reading it; each figure fits into 64 bits."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def as_text(self) -> str:
        """Write the four figures as one value of the ledger."""
        return " ".join(map(str, self))

    @classmethod
    def of_text(cls, text: str) -> Stat:
        """Read what `as_text` wrote."""
        return cls(*map(int, text.split()))


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the queue as the scan saw it; `name` is its path in the queue."""

    name: bytes
    stat: Stat
    sidecar: Stat | None = None
    """Of NAME.toml beside NAME.scc, where there is one: another sidecar is another check."""

    @classmethod
    def known(  # noqa: PLR0913, PLR0917 - a row of the ledger
        cls, name: bytes, size: int, mtime_ns: int, ctime_ns: int, inode: int, sidecar: str | None
    ) -> Asset:
        """Make the asset that the ledger knows by `known_by`."""
        return cls(name, Stat(size, mtime_ns, ctime_ns, inode), Stat.of_text(sidecar) if sidecar else None)

    @property
    def asset_id(self) -> str:
        """The name as text."""
        return as_text(self.name)

    @property
    def known_by(self) -> tuple[int, int, int, int, str | None]:
        """What tells this content, and what it is judged by, from the next: as the ledger keeps it."""
        return *self.stat, self.sidecar.as_text() if self.sidecar else None

    def path_in(self, queue: bytes) -> bytes:
        """Return where the file lies."""
        return queue + b"/" + self.name

    def sidecar_in(self, queue: bytes) -> bytes:
        """Return where its sidecar lies, or would."""
        return beside(self.path_in(queue))


class NotAsSeenError(Exception):
    """The file is no longer the one that was seen: left for the next fire."""


class WithheldError(OSError):
    """Whoever keeps the file can't give its bytes for now."""


def beside(path: bytes) -> bytes:
    """Name the sidecar of the caption file at `path`."""
    return path[: -len(b".scc")] + b".toml"


def as_text(name: bytes) -> str:
    """Write `name` as text that can be printed anywhere and turned back into the bytes."""
    text = name.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return "".join(_percent(char) if char == "%" else _escaped(char) for char in text)


def shown(path: Path) -> str:
    """Write a path as messages, logs and tables show it."""
    return as_text(bytes(path))


def printable(text: str) -> str:
    """Write a message so that it stays one line and does nothing to a terminal, whatever it quotes."""
    return text if text.isascii() and text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return _percent(char) if unicodedata.category(char) in _ESCAPED_CATEGORIES else char


def _percent(char: str) -> str:
    # A surrogate stands for a byte if it came from a path, else for itself.
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", errors))


def stat_of(found: os.stat_result) -> Stat:
    """Keep the four figures of `found` that name a content.

    A time of modification before 1677 or after 2262 is written as the first or last that can be; the other
    two, which nobody reads, keep their lower 64 bits and so go on telling one file from another.
    """
    figures = Stat(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    if min(figures) >= -_LARGEST and max(figures) <= _LARGEST:
        return figures
    size, modified, changed, inode = figures
    return Stat(size, max(-_LARGEST, min(_LARGEST, modified)), _signed(changed), _signed(inode))


def _signed(number: int) -> int:
    """Keep the lower 64 bits, as the signed number that SQLite holds."""
    return ((number + _LARGEST + 1) & ((1 << 64) - 1)) - _LARGEST - 1


def open_asset(path: bytes) -> int:
    """Open a regular file and return its descriptor.

    Raises:
        NotAsSeenError: `path` is no regular file (a link is an `OSError` of the system).
    """
    descriptor = os.open(path, _OPEN_FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotAsSeenError("it is not a regular file")


def read_as_seen(path: bytes, seen: Stat) -> bytes:
    """Read the whole file, once, if it is the one that was seen before the reading and after it.

    Raises:
        NotAsSeenError: it was replaced, or written to.
    """
    with open(open_asset(path), "rb", buffering=0) as file:
        compare(file.fileno(), seen)
        data = file.read(seen.size + 1)
        while len(data) <= seen.size and (more := file.read(seen.size + 1 - len(data))):
            data += more
        compare(file.fileno(), seen)
    if len(data) != seen.size:
        raise NotAsSeenError("its length changed while it was read")
    return data


def compare(descriptor: int, seen: Stat) -> None:
    """See that an open file is the one that was seen.

    Raises:
        NotAsSeenError: It is not.
    """
    if stat_of(os.fstat(descriptor)) != seen:
        raise NotAsSeenError("it changed since it was seen")
