"""A queue on an object store: its assets are the objects below a prefix, by their keys.

1. The listing comes in the order of the keys, so NAME.toml after NAME.scc; between them only keys that begin with
   `NAME.`. So a caption waits for its sidecar while such keys pass: of those that wait, each one's name begins with
   another's, and they are as few as a key has dots.
2. An object is known by size, time and tag. A store keeps whole seconds, and two writes in one second may be of one
   length: the tag alone tells them apart.
3. An asset is read by one request, and is what was seen if the answer itself says so, before its bytes are read.
4. There is no rename, so nothing is moved: a dead letter stays where it lies.
"""

from __future__ import annotations

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Final

from .assets import Asset, NotAsSeenError, Stat, as_text, beside
from .exits import Exit, JobError
from .object_errors import DeniedError, RefusedError
from .object_store import SLOWEST_SECONDS, Bucket
from .queues import Source
from .scan import paged
from .sidecar import LARGEST_SIDECAR, sidecar_gone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from .object_store import Stored
    from .plan import Plan
    from .scan import Seen, Shard, Terms

_SECOND: Final = 1_000_000_000
# Requests: each takes some ten milliseconds, nearly all of it waiting.
_AT_A_TIME: Final = 16
# Of the name of a state folder, which gets a digest behind it.
_LONGEST_LABEL: Final = 100


@dataclass(frozen=True, slots=True)
class StoreQueue:
    """The objects below a bucket's prefix; `Queue` says what each method is."""

    bucket: Bucket

    @property
    def key(self) -> bytes:
        """The address."""
        return self.bucket.url.encode()

    @property
    def name(self) -> str:
        """The address as text."""
        return as_text(self.key)

    @property
    def label(self) -> str:
        """The last part of the prefix, else the bucket's name."""
        last = self.bucket.prefix.rstrip("/").rpartition("/")[2]
        return as_text((last or self.bucket.name).encode())[:_LONGEST_LABEL]

    @property
    def folder(self) -> Path | None:
        """Return none: there is no rename on a store."""
        return None

    def shown(self, name: bytes) -> str:
        """Write the object's address."""
        return self.bucket.url_of(name.decode())

    def require(self) -> None:
        """Ask for one key."""
        self.bucket.require()

    def scan(self, plan: Plan, terms: Terms, seen: Seen) -> Iterator[list[Asset]]:
        """List the objects; our own reports, where they lie among them, are passed over as a whole."""
        pages = self.bucket.pages(skip=plan.out.keys_in(self.bucket))
        objects = _until_stopped(pages, terms)
        return paged(captions(objects, terms.shard), terms, seen)

    def find(self, names: Sequence[bytes]) -> list[Asset | None]:
        """Ask what lies there, for several at a time."""
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            return list(threads.map(self._found, names))

    def _found(self, name: bytes) -> Asset | None:
        try:
            found = self.bucket.head(name.decode())
            sidecar = None if found is None else self.bucket.head(beside(name).decode())
        except (DeniedError, RefusedError):
            return None
        return None if found is None else _asset(found, sidecar)

    def fetched(self, asset: Asset, seconds: float) -> Source:
        """Read the object, and its sidecar, into memory."""
        until = monotonic() + seconds
        data = b"".join(self._read(asset.name, asset.stat, until))
        small = asset.sidecar is not None and asset.sidecar.size <= LARGEST_SIDECAR
        sidecar = self.sidecar(asset, until) if small else b""
        return Source(lambda: data, lambda: sidecar)

    def slowest(self, seconds: float) -> float:
        """Add to the time that is given one answer which is waited for beyond it."""
        return seconds + SLOWEST_SECONDS

    def pieces(self, asset: Asset) -> Generator[bytes]:
        """Read the object."""
        return self._read(asset.name, asset.stat)

    def sidecar(self, asset: Asset, until: float | None = None) -> bytes:
        """Read the sidecar's object."""
        if asset.sidecar is None:
            return b""
        try:
            return b"".join(self._read(beside(asset.name), asset.sidecar, until))
        except FileNotFoundError as error:
            raise sidecar_gone() from error

    def is_empty(self) -> bool:
        """Ask for the first page; our own reports count too: they say that this is the place."""
        with contextlib.suppress(JobError):
            return not any(next(self.bucket.pages(), []))
        return True

    def gone(self, names: Sequence[bytes]) -> list[bytes]:
        """Ask what lies there, for several at a time."""
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            return list(itertools.compress(names, threads.map(self._is_gone, names)))

    def _is_gone(self, name: bytes) -> bool:
        with contextlib.suppress(DeniedError, RefusedError):
            return self.bucket.head(name.decode()) is None
        return False

    def _read(self, name: bytes, seen: Stat, until: float | None = None) -> Generator[bytes]:
        length = 0
        try:
            with self.bucket.open(name.decode()) as (stored, pieces):
                if _stat(stored) != seen:
                    raise NotAsSeenError("it changed since it was seen")
                for piece in pieces:
                    if until is not None and monotonic() > until:
                        raise TimeoutError("it could not be read in time")
                    length += len(piece)
                    yield piece
        except (DeniedError, RefusedError) as error:  # Of this object; the others may be read.
            raise PermissionError(str(error)) from error
        if length != seen.size:
            raise NotAsSeenError("its length changed while it was read")


def captions(objects: Iterable[Stored], shard: Shard | None = None) -> Iterator[Asset]:
    """Yield the caption files of a listing, each with its sidecar; at most a few wait for theirs.

    Raises:
        JobError: The keys come in another order, so that sidecars would be missed.
    """
    waiting: list[tuple[str, Stored]] = []
    last = ""
    for found in objects:
        if found.key < last:
            raise _disorder(last, found.key)
        last = found.key
        for sidecar_key, caption in waiting:
            if sidecar_key <= last:
                yield _asset(caption, found if sidecar_key == last else None)
        waiting = [both for both in waiting if both[0] > last]
        if _is_caption(last) and (shard is None or shard.holds(last.encode())):
            waiting.append((beside(last.encode()).decode(), found))
    for _, caption in waiting:
        yield _asset(caption, None)


def _is_caption(key: str) -> bool:
    return key.lower().endswith(".scc") and not any(map(_is_hidden, key.split("/")))


def _is_hidden(part: str) -> bool:
    # What would be a step in a path is a name as any other.
    return part.startswith((".", "~")) and part not in {".", ".."}


def _until_stopped(pages: Iterable[list[Stored]], terms: Terms) -> Iterator[Stored]:
    for page in pages:
        for found in page:
            if terms.stopped():
                return
            yield found


def _asset(found: Stored, sidecar: Stored | None) -> Asset:
    return Asset(found.key.encode(), _stat(found), None if sidecar is None else _stat(sidecar))


def _stat(found: Stored) -> Stat:
    """Write what an object is known by as the figures of a file.

    Its time stands for both of a file's: how long an asset has waited is counted from the second. Of the tag's digest
    as many bits are kept as the fourth holds: what they tell apart are the contents of one key.
    """
    moment = int(found.modified.timestamp()) * _SECOND
    return Stat(found.size, moment, moment, int.from_bytes(sha256(found.etag.encode()).digest()[:8]) >> 1)


def _disorder(last: str, key: str) -> JobError:
    found = f"the store lists {as_text(key.encode())} after {as_text(last.encode())}"
    way_out = "use a bucket that lists its keys in their order, as all but S3's directory buckets do"
    return JobError(f"{found}, and a sidecar may be missed so; {way_out}", Exit.BAD_CONFIG)
