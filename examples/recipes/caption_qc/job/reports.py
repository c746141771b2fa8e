"""Where the reports of a run lie: Parquet and dashboards, in a folder (`reports_folder`) or a bucket (`reports_store`).

1. A report is there whole or not at all, and is written over whole.
2. It is named by its path below the place, with slashes; what it is known by tells it from any other that may be
   put there.
3. Lock, ledger and metrics are not among them: they are files, on this machine.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, Protocol

from .errors import JobError
from .plan import window_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from .hurry import Hurry
    from .object_store import Bucket

DASHBOARD_JSON: Final = "dashboard.json"
DASHBOARD_HTML: Final = "dashboard.html"
TELEMETRY: Final = "telemetry"
ASSETS: Final = f"{TELEMETRY}/assets"
# What a report that is not there is known by.
NONE: Final = "none"


class TooLateError(JobError):
    """The place did not answer in the time that a drain has."""


class Reports(Protocol):
    """A place of reports. Whatever can't be done, but for `opened`, is a `JobError` with its exit code."""

    def shown(self, name: str = "") -> str:
        """Write the place, or what lies there, as messages show it."""

    def is_folder(self, folder: Path) -> bool:
        """Say whether the place is that folder."""

    def keys_in(self, queue: Bucket) -> tuple[str, ...]:
        """Say how the keys of reports begin in a queue that is, or is around, the place: it passes over them."""

    def hurried(self, hurry: Hurry) -> Reports:
        """Return the place as one that nobody waits for longer than `hurry` allows."""

    def make(self) -> None:
        """Let the place be there, and refuse what is in the way of a report."""

    def write(self, name: str, data: bytes) -> None:
        """Put a report there."""

    def create(self, name: str, data: bytes) -> bool:
        """Put it there where nothing of that name is, else return `False`.

        Of all who ask at one time, one does so, if the place can tell: look at what is there then.
        """

    def whole(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Put there what the block writes, if it ends well."""

    def opened(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Read a report.

        Raises:
            NotAsSeenError: What is there is no report.
            OSError: It can't be read; `FileNotFoundError` where there is none.
            JobError: The place can't be reached.
        """

    def holds(self, name: str) -> bool:
        """Say whether anything of that name is there."""

    def known_by(self, names: Iterable[str]) -> dict[str, str]:
        """Say what each of these is known by now, of those that are there."""

    def parquet_below(self, folder: str) -> Iterator[str]:
        """Name the Parquet files below a folder of the place."""

    def remove(self, name: str) -> None:
        """Remove a report that may be there, and its folder with the last one in it."""


def window_files(window: datetime) -> tuple[str, str]:
    """Name the files of a window: its findings and its assets."""
    folder = f"window={window_name(window)}"
    return f"{TELEMETRY}/findings/{folder}/findings.parquet", f"{ASSETS}/{folder}/assets.parquet"


def bytes_noted(files: str | None) -> int:
    """Return how large the files of a window were when they were written."""
    found = (file.split(" ")[1] for file in (files or NONE).split(", ") if file != NONE)
    return sum(map(int, found))
