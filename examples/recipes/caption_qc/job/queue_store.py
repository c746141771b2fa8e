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
import math
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .apart import within
from .assets import Asset, NotAsSeenError, Stat, WithheldError, as_text, beside
from .exits import BrokenOffError, Exit, JobError
from .object_errors import DeniedError, RefusedError, StoreUnreachableError, too_slow
from .object_store import SLOWEST_SECONDS, Bucket
from .queues import Source
from .scan import paged
from .sidecar import LARGEST_SIDECAR, sidecar_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from .hurry import Hurry
    from .object_store import Stored
    from .plan import Plan
    from .scan import Seen, Shard, Terms

S = TypeVar("S")
T = TypeVar("T")

_SECOND: Final = 1_000_000_000
# Requests: each takes some ten milliseconds, nearly all of it waiting.
_AT_A_TIME: Final = 16
# Seconds for one page of a listing, 300 kB at most: nobody's line is as slow as to need them.
_LISTING_SECONDS: Final = 120.0
# Of what is there, or not, and may not be asked for.
_UNSEEN: Final = Stat(0, 0, 0, 0)
# Bytes of a key, as S3 has it.
_LONGEST_KEY: Final = 1024
# Of the name of a state folder, which gets a digest behind it.
_LONGEST_LABEL: Final = 100
_LONGEST_LABEL_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class StoreQueue:
    """The objects below a bucket's prefix; `Queue` says what each method is."""

    bucket: Bucket
    hurry: Hurry | None = field(default=None, compare=False)
    """What is waited for as long as it allows; `None`: as long as the store's own bounds."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without hurry, which is of this process."""
        return type(self), (self.bucket,)

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
        label = as_text((last or self.bucket.name).encode())[:_LONGEST_LABEL]
        return label.encode()[:_LONGEST_LABEL_BYTES].decode(errors="ignore")

    @property
    def folder(self) -> Path | None:
        """Return none: there is no rename on a store."""
        return None

    def shown(self, name: bytes) -> str:
        """Write the object's address."""
        return self.bucket.url_of(name.decode())

    def require(self) -> None:
        """Ask for one key, for as long as there is time: whether the queue is one is not known before."""
        try:
            if self.hurry is None:
                within(_LISTING_SECONDS, self.bucket.require)
            else:
                self.hurry.wait_for(self.bucket.require, _LISTING_SECONDS)
        except TimeoutError as error:
            raise too_slow(self.name, error) from error
        except BrokenOffError as error:
            found = f"{self.name} was not answered for in the time that a drain has"
            raise JobError(f"{found}; run again: nothing recorded is lost", Exit.UNREACHABLE) from error

    def hurried(self, hurry: Hurry) -> StoreQueue:
        """Let no drain wait for an answer; each comes to a thread that can be left behind."""
        return replace(self, hurry=hurry)

    def waited_for(self, call: Callable[[], T], seconds: float = math.inf) -> T:
        """Call, in a thread of its own where it may have to be left behind."""
        try:
            if self.hurry is not None:
                return self.hurry.at_once().wait_for(call, seconds)
            return call() if seconds == math.inf else within(seconds, call)
        except TimeoutError as error:
            raise WithheldError("it could not be read in time") from error

    def require_reading(self, but: Asset) -> None:
        """Ask for a few others of the objects, whichever; one that is answered for is enough."""
        page = self._next_of(self.bucket.pages()) or []
        keys = [found.key for found in page if found.key != but.name.decode()]
        refused: StoreUnreachableError | None = None
        for at in sorted({0, len(keys) // 2, len(keys) - 1}) if keys else ():
            if (refused := self._refusal_of(keys[at])) is None:
                return
        if refused is not None:
            raise refused

    def _refusal_of(self, key: str) -> StoreUnreachableError | None:
        """Ask for an object, and say why the store can't give it; a refusal of its own is an answer too."""

        def ask() -> None:
            with self.bucket.open(key):
                pass

        try:
            self.waited_for(ask, SLOWEST_SECONDS)
        except StoreUnreachableError as error:
            return error
        except WithheldError as error:
            return too_slow(self.bucket.url_of(key), error)
        except (FileNotFoundError, DeniedError, RefusedError):
            pass
        return None

    def scan(self, plan: Plan, terms: Terms, seen: Seen) -> Iterator[list[Asset]]:
        """List the objects; our own reports, where they lie among them, are passed over as a whole."""
        pages = self.bucket.pages(skip=plan.out.keys_in(self.bucket))
        objects = _until_stopped(self._pages_in_time(pages), terms)
        return paged(captions(objects, terms.shard), terms, seen)

    def find(self, names: Sequence[bytes]) -> list[Asset | None]:
        """Ask what lies there, for several at a time."""
        return self.waited_for(lambda: _several(self._found, names))

    def _found(self, name: bytes) -> Asset | None:
        try:
            found = self.bucket.head(name.decode())
        except (DeniedError, RefusedError):
            return None
        return None if found is None else Asset(name, _stat(found), self._sidecar_of(name))

    def _sidecar_of(self, name: bytes) -> Stat | None:
        key = beside(name)  # It is longer than the name by one byte or more, and may be no key.
        if len(key) > _LONGEST_KEY - len(self.bucket.prefix.encode()):
            return None
        try:
            found = self.bucket.head(key.decode())
        except (DeniedError, RefusedError):  # Whoever reads it is told why it can't be.
            return _UNSEEN
        return None if found is None else _stat(found)

    def fetched(self, asset: Asset, seconds: float) -> Source:
        """Read the object, and its sidecar, into memory: in a thread, since an answer may trickle and never pause."""
        return self.waited_for(lambda: self._fetched(asset, monotonic() + seconds), self.slowest(seconds))

    def _fetched(self, asset: Asset, until: float) -> Source:
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
            pieces = self._read(beside(asset.name), asset.sidecar, until)
            return self.waited_for(lambda: b"".join(pieces))
        except BrokenOffError as error:
            raise OSError("the run was asked to end") from error
        except FileNotFoundError as error:
            raise sidecar_gone() from error

    def is_empty(self, plan: Plan) -> bool:
        """Look for a caption; the dashboards, which may lie beside, are none."""
        pages = self.bucket.pages(skip=plan.out.keys_in(self.bucket))
        with contextlib.suppress(JobError):
            return not any(_is_caption(found.key) for page in pages for found in page)
        return True

    def gone(self, names: Sequence[bytes]) -> list[bytes]:
        """Ask what lies there, for several at a time."""
        return list(itertools.compress(names, _several(self._is_gone, names)))

    def _is_gone(self, name: bytes) -> bool:
        with contextlib.suppress(DeniedError, RefusedError):
            return self.bucket.head(name.decode()) is None
        return False

    def _pages_in_time(self, pages: Iterator[list[Stored]]) -> Iterator[list[Stored]]:
        with contextlib.suppress(BrokenOffError):
            while (page := self._next_of(pages)) is not None:
                yield page

    def _next_of(self, pages: Iterator[list[Stored]]) -> list[Stored] | None:
        try:
            return self.waited_for(lambda: next(pages, None), _LISTING_SECONDS)
        except WithheldError as error:
            why = TimeoutError(f"no answer within {_LISTING_SECONDS:g} s")
            raise too_slow(self.name, why) from error

    def _read(self, name: bytes, seen: Stat, until: float | None = None) -> Generator[bytes]:
        length = 0
        try:
            with self.bucket.open(name.decode()) as (stored, pieces):
                if _stat(stored) != seen:
                    raise NotAsSeenError("it changed since it was seen")
                for piece in pieces:
                    if until is not None and monotonic() > until:
                        raise WithheldError("it could not be read in time")
                    length += len(piece)
                    yield piece
        except (DeniedError, RefusedError) as error:  # Of this object; the others may be read.
            raise PermissionError(str(error)) from error
        except StoreUnreachableError as error:  # Of this answer alone, or of all that would be asked for?
            with contextlib.suppress(DeniedError, RefusedError):
                self.bucket.require()
            raise WithheldError(str(error)) from error
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


def _several(ask: Callable[[S], T], about: Sequence[S]) -> list[T]:
    """Ask about several at a time; whoever leaves this behind does not wait for these threads either."""
    from multiprocessing.pool import ThreadPool  # noqa: PLC0415 - of no use to a worker

    with ThreadPool(_AT_A_TIME) as threads:
        return threads.map(ask, about, chunksize=1)


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
