"""What a run asks of its queue, whichever it is: a folder, or what lies below a prefix of an object store.

Everything that differs between the two is behind `Queue`: how assets are listed, found, read and moved. A queue is a
frozen value that holds nothing open, and travels to the workers, which open the assets themselves.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from .assets import Asset
    from .hurry import Hurry
    from .plan import Plan
    from .scan import Seen, Terms

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """One asset's bytes, as a worker reads them."""

    data: Callable[[], bytes]
    """Raises as `Queue.pieces` does."""
    sidecar: Callable[[], bytes]
    """Raises as `Queue.sidecar` does."""


class Queue(Protocol):
    """A queue. Assets that are passed in are as they were seen by `scan` or `find`."""

    @property
    def key(self) -> bytes:
        """What tells it from every other queue: its path, or its address."""

    @property
    def name(self) -> str:
        """Its key as text, as every record and message has it."""

    @property
    def label(self) -> str:
        """A short name, not its own alone."""

    @property
    def folder(self) -> Path | None:
        """The folder whose files can be moved away and back; `None` where an asset stays what it is."""

    def shown(self, name: bytes) -> str:
        """Write where one of its assets lies."""

    def require(self) -> None:
        """See that it is there and can be listed.

        Raises:
            JobError: with exit code 66, 69 or 77.
        """

    def hurried(self, hurry: Hurry) -> Queue:
        """Return it as one that this process does not wait for in a drain, and to be there as long as `hurry` allows.

        The workers get it without that: a drain ends them.
        """

    def waited_for(self, call: Callable[[], T], seconds: float = math.inf) -> T:
        """Return what `call` returns, which asks this queue, or raise what it raises.

        Raises:
            BrokenOffError: A drain came.
            WithheldError: So many `seconds` were over.
        """

    def require_reading(self, but: Asset) -> None:
        """See that assets can be read at all, whatever is the matter with one.

        Raises:
            JobError: None can.
        """

    def scan(self, plan: Plan, terms: Terms, seen: Seen) -> Iterator[list[Asset]]:
        """Yield its settled assets, oldest first within each page, counting into `seen`.

        Args:
            plan: Says which places are the job's own, to be passed over.
            terms: Which assets are asked for.
            seen: Counts what is met.

        Raises:
            JobError: It can't be listed. What is unreadable below it is counted instead.
        """

    def find(self, names: Sequence[bytes]) -> list[Asset | None]:
        """Look at some assets and at their sidecars; `None` for one that can't be seen. Raises as `waited_for` does."""

    def fetched(self, asset: Asset, seconds: float) -> Source:
        """Return the bytes of an asset and of its sidecar, or what reads them where that takes no network.

        A fetch ends within about `seconds`, and is not to be counted as the time of a check. Raises as `pieces` does.
        """

    def slowest(self, seconds: float) -> float:
        """Return the seconds in which a fetch that was given `seconds` has surely ended."""

    def pieces(self, asset: Asset) -> Generator[bytes]:
        """Yield the bytes of an asset.

        Raises:
            NotAsSeenError: They are others than those that were seen.
            OSError: They can't be read; `FileNotFoundError`: they are gone.
            JobError: The queue as a whole can't be read from.
        """

    def sidecar(self, asset: Asset) -> bytes:
        """Return the bytes of its sidecar. Raises as `pieces` does."""

    def is_empty(self, plan: Plan) -> bool:
        """Say whether nothing at all lies there, or nothing that can be seen; what is the job's own does not count."""

    def gone(self, names: Sequence[bytes]) -> list[bytes]:
        """Return those of some assets that surely lie there no more."""


def queue_named(name: str) -> Queue:
    """Return the queue whose `name` the ledger keeps."""
    # Here, because each is needed where the other is not.
    key = unquote_to_bytes(name)
    if key.startswith(b"s3://"):
        from .object_store import bucket_named  # noqa: PLC0415
        from .queue_store import StoreQueue  # noqa: PLC0415

        return StoreQueue(bucket_named(key.decode()))
    from .queue_folder import FolderQueue  # noqa: PLC0415

    return FolderQueue(Path(os.fsdecode(key)))
