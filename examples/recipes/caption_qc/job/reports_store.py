"""Reports in a bucket of an object store: each is made in memory, and put there by one request.

1. A report whose request did not come back is not there as far as we know: the next run puts it there again, and
   what it puts there is the same.
2. A store that can't be reached is asked once in a run, not again for each report and each attempt to say so.
3. In a drain nobody waits for it longer than there is time.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from .errors import Exit, JobError
from .exits import BrokenOffError
from .object_errors import NoBucketError, RefusedError, StoreUnreachableError
from .reports import TELEMETRY, TooLateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .hurry import Hurry
    from .object_store import Bucket, Stored

T = TypeVar("T")

_CONTENT_TYPE: Final = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
# Each is written over in its place: who shows one asks whether it is still that.
_CACHE_CONTROL: Final = "no-cache"


@dataclass(slots=True)
class _Link:
    """The way to the store. Mutable state: why it can't be reached, once it can't."""

    down: StoreUnreachableError | None = None


@dataclass(frozen=True, slots=True)
class InBucket:
    """Reports below the prefix of a bucket."""

    bucket: Bucket
    hurry: Hurry | None = field(default=None, compare=False)
    """What is waited for as long as it allows; `None`: as long as the store's own bounds."""
    _link: _Link = field(default_factory=_Link, compare=False)

    def shown(self, name: str = "") -> str:
        """Write its address, or that of what lies there."""
        return self.bucket.url_of(name) if name else self.bucket.url

    def is_folder(self, folder: Path) -> bool:
        """Say no: no folder is a bucket."""
        del folder
        return False

    def keys_in(self, queue: Bucket) -> tuple[str, ...]:
        """Say how the keys of reports begin in a queue of the same bucket."""
        if queue.name != self.bucket.name or not self.bucket.prefix.startswith(queue.prefix):
            return ()
        return (self.bucket.prefix.removeprefix(queue.prefix) or f"{TELEMETRY}/",)

    def hurried(self, hurry: Hurry) -> InBucket:
        """Wait for the store no longer than `hurry` allows."""
        return replace(self, hurry=hurry)

    def make(self) -> None:
        """Do nothing: asking for the owner's note has shown that the bucket is there."""

    def write(self, name: str, data: bytes) -> None:
        """Put a report there."""
        kind = _CONTENT_TYPE[name.rpartition(".")[2]]
        self._ask(name, lambda: self.bucket.put(name, data, kind, _CACHE_CONTROL))

    def create(self, name: str, data: bytes) -> bool:
        """Put there what no other may have put there; where the store can't tell, after a look."""
        kind = _CONTENT_TYPE[name.rpartition(".")[2]]
        try:
            self._ask(name, lambda: self.bucket.put_new(name, data, kind))
        except FileExistsError:
            return False
        except RefusedError:
            if self.holds(name):
                return False
            self.write(name, data)
        return True

    @contextlib.contextmanager
    def whole(self, name: str) -> Iterator[IO[bytes]]:
        """Put there what the block writes into memory."""
        file = io.BytesIO()
        yield file
        self.write(name, file.getvalue())

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Read a report whole into memory."""
        data, _ = self._ask(name, lambda: self.bucket.get(name))
        yield io.BytesIO(data)

    def holds(self, name: str) -> bool:
        """Say whether there is an object of that name."""
        return self._head(name) is not None

    def known_by(self, names: Iterable[str]) -> dict[str, str]:
        """Say what is there by size and tag: one request for one name of a table, else one for each 1,000 there."""
        found: dict[str, Stored] = {}
        for table, of_table in itertools.groupby(sorted(names), key=_table_of):
            wanted = list(of_table)
            if wanted[1:]:
                found |= self._listed(table, wanted)
            elif (stored := self._head(wanted[0])) is not None:
                found[wanted[0]] = stored
        return {name: f"s3 {stored.size} {quote(stored.etag)}" for name, stored in found.items()}

    def parquet_below(self, folder: str) -> Iterator[str]:
        """Name the Parquet files below a folder, as their pages come."""
        for page in self._pages(f"{folder}/"):
            yield from (stored.key for stored in page if stored.key.endswith(".parquet"))

    def remove(self, name: str) -> None:
        """Remove an object; there are no folders."""
        self._ask(name, lambda: self.bucket.delete(name))

    def _head(self, name: str) -> Stored | None:
        return self._ask(name, lambda: self.bucket.head(name))

    def _listed(self, table: str, wanted: list[str]) -> dict[str, Stored]:
        """Find objects of one table, in the order of their keys, from the first to the last that is wanted."""
        found: dict[str, Stored] = {}
        names = set(wanted)
        for page in self._pages(table, after=wanted[0][:-1]):
            found |= {stored.key: stored for stored in page if stored.key in names}
            if page and page[-1].key >= wanted[-1]:
                break
        return found

    def _pages(self, below: str, after: str = "") -> Iterator[list[Stored]]:
        pages = self.bucket.pages(below, after=after)
        while (page := self._ask(below, lambda: next(pages, None))) is not None:
            yield page

    def _ask(self, name: str, call: Callable[[], T]) -> T:
        """Ask the store about `name`, in time, and only as long as it can be reached."""
        if self._link.down is not None:
            raise self._link.down
        try:
            return call() if self.hurry is None else self.hurry.wait_for(call)
        except BrokenOffError as error:
            found = f"{self.shown(name)} was not answered for in the time that a drain has"
            raise TooLateError(f"{found}; the next run writes what is missing", Exit.UNREACHABLE) from error
        except StoreUnreachableError as error:
            self._link.down = error
            raise
        except NoBucketError as error:
            raise JobError(str(error), Exit.CANNOT_CREATE) from error


def _table_of(name: str) -> str:
    """Return the folder of all windows' files of the table that `name` is of."""
    return name.partition("/window=")[0] + "/"
