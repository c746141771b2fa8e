"""What the ledger knows of the past, read beside whatever run has it open; nothing is written or left."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from .assets import shown
from .errors import Exit, JobError, trusting
from .ledger_file import BUSY_SECONDS, require_ledger_file
from .plan import time_of
from .reports import bytes_noted
from .schema import LEDGER_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from .plan import Plan

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that held the lock. What it did not come to write is `None`."""

    run_id: str
    started: datetime
    window: datetime
    profile: str
    finished: datetime | None
    exit_code: int | None
    drained: bool
    totals: dict[str, Any]
    rebuilt: str | None
    """What it said when it had to make the ledger again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFact:
    """A file that was given up."""

    asset_id: str
    queue: str
    """The name of the queue that it is of, which may have been moved since."""
    content_sha256: str
    reason: str
    attempts: int
    at: datetime
    place: str | None
    """Where it lies below `dead-letter/`; `None`: in the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQueue:
    """A queue that runs had with this ledger: under another path it is another one."""

    queue: str
    records: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept."""

    windows: int
    records: int
    oldest: datetime | None
    newest: datetime | None
    bytes: int
    """Of the ledger, and of the Parquet files as they were written."""


def read_history(plan: Plan, read: Callable[[History], T]) -> T | None:
    """Return what `read` makes of the ledger; `None` where there is none yet.

    `read` may be called twice: a ledger that nobody has open is read so that nothing is made beside it, and read
    once more if a run began meanwhile.

    Raises:
        JobError: It can't be read.
    """
    require_ledger_file(plan.ledger)
    if (before := _at_rest(plan.ledger)) is not None:
        with contextlib.suppress(JobError):
            found = _read(plan, "immutable=1", read)
            if _at_rest(plan.ledger) == before:
                return found
    return _read(plan, "mode=ro", read) if plan.ledger.exists() else None


def _at_rest(path: Path) -> tuple[int, int, int] | None:
    """Say what the ledger is known by while no run has it open, and none died with it open; else `None`."""
    try:
        if _size(path.with_name(f"{path.name}-wal")):
            return None
        seen = path.stat()
    except FileNotFoundError:
        return None
    return seen.st_size, seen.st_mtime_ns, seen.st_ino


def _read(plan: Plan, mode: str, read: Callable[[History], T]) -> T:
    uri = f"file:{quote(bytes(plan.ledger))}?mode=ro&{mode}"
    with (
        trusting(plan.ledger),
        contextlib.closing(
            sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        ) as connection,
    ):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            found = f"the ledger {shown(plan.ledger)} is empty"
            way_out = "do a run first, which makes it again from its Parquet files, or anew"
            raise JobError(f"{found}; {way_out}", Exit.IO_ERROR)
        if version != LEDGER_VERSION:
            found = (
                f"the ledger {shown(plan.ledger)} has version {version}, this program reads {LEDGER_VERSION}"
            )
            raise JobError(f"{found}; do a run first, which brings an older one up", Exit.BAD_CONFIG)
        return read(History(plan, connection))


class History:
    """The ledger, open for reading."""

    def __init__(self, plan: Plan, connection: sqlite3.Connection) -> None:
        self._plan = plan
        self._connection = connection

    def runs(self, limit: int) -> list[PastRun]:
        """List the last runs, the newest first: as they were written, whatever their clock said."""
        return [
            PastRun(
                run_id=run_id,
                started=time_of(started),
                window=time_of(window),
                profile=profile,
                finished=_time_or_none(finished),
                exit_code=code,
                drained=bool(drained),
                totals=json.loads(totals) if totals else {},
                rebuilt=rebuilt,
            )
            for run_id, started, window, profile, finished, code, drained, totals, rebuilt in self._ask(
                _RUNS, limit
            )
        ]

    def dead_letters(self, limit: int) -> list[DeadLetterFact]:
        """List the dead letters, the newest first."""
        return [
            DeadLetterFact(
                asset_id=name,
                queue=queue,
                content_sha256=content,
                reason=reason,
                attempts=attempts,
                at=time_of(died_at),
                place=place,
            )
            for name, queue, content, reason, attempts, died_at, place in self._ask(_DEAD_LETTERS, limit)
        ]

    def dead_letter_count(self) -> int:
        """Count the dead letters."""
        return int(self._ask("SELECT COUNT(*) FROM dead_letters")[0][0])

    def kept(self) -> Kept:
        """Say what is kept."""
        ((windows, oldest, newest),) = self._ask(_WINDOWS)
        ((records,),) = self._ask("SELECT COUNT(*) FROM records")
        ledger = self._plan.ledger
        files = (ledger.with_name(ledger.name + suffix) for suffix in ("", "-wal", "-shm"))
        return Kept(
            windows=windows,
            records=records,
            oldest=_time_or_none(oldest),
            newest=_time_or_none(newest),
            bytes=sum(map(_size, files)) + sum(bytes_noted(files) for (files,) in self._ask(_FILES)),
        )

    def skips_total(self) -> int:
        """Count the fires that were refused, as far as runs have counted them."""
        return sum(total for (total,) in self._ask("SELECT total FROM skips"))

    def queue(self) -> str | None:
        """Return the name of the queue that the last run had; `None` where nothing is recorded yet."""
        names = self._queue_names()
        if len(names) < _SEVERAL:
            return next(iter(names), None)
        last = self._ask(_QUEUE_OF_LAST_RUN) or self._ask(_QUEUE_OF_NEWEST_RECORD)
        return str(last[0][0]) if last else min(names)

    def queues(self) -> list[KnownQueue]:
        """Count what is kept of each queue; of one alone nothing has to be counted."""
        if len(self._queue_names()) < _SEVERAL:
            return []
        records, letters = (dict(self._ask(query)) for query in (_RECORDS_BY_QUEUE, _LETTERS_BY_QUEUE))
        return [
            KnownQueue(queue=name, records=records.get(name, 0), dead_letters=letters.get(name, 0))
            for name in sorted({self.queue() or "", *records, *letters} - {""})
        ]

    def _queue_names(self) -> set[str]:
        """Find the first and the last name: whether there are several is what matters."""
        return {name for row in self._ask(_QUEUES) for name in row if name is not None}

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()


def _time_or_none(stamp: int | None) -> datetime | None:
    return None if stamp is None else time_of(stamp)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


_RUNS: Final = """
SELECT run_id, started_at, window_start, profile, finished_at, exit_code, drained, totals, rebuilt FROM runs
ORDER BY number DESC LIMIT ?
"""
_DEAD_LETTERS: Final = """
SELECT asset_id, queue, content_sha256, reason, attempts, died_at, place FROM dead_letters
ORDER BY died_at DESC, asset_id LIMIT ?
"""
_WINDOWS: Final = "SELECT COUNT(*), MIN(window_start), MAX(window_start) FROM windows"
_FILES: Final = "SELECT files FROM windows"
_SEVERAL: Final = 2
_QUEUES: Final = (
    "SELECT MIN(queue), MAX(queue) FROM assets UNION ALL SELECT MIN(queue), MAX(queue) FROM records"
    " UNION ALL SELECT MIN(queue), MAX(queue) FROM dead_letters"
)
# Of those that saw their queue: one whose queue was mistyped ends with another code.
_QUEUE_OF_LAST_RUN: Final = """
SELECT json_extract(totals, '$.queue') FROM runs
WHERE exit_code IN (0, 65) AND json_extract(totals, '$.queue') IS NOT NULL ORDER BY number DESC LIMIT 1
"""
# Of runs that did not write down which queue they had.
_QUEUE_OF_NEWEST_RECORD: Final = """
SELECT queue FROM records WHERE window_start = (SELECT MAX(window_start) FROM records)
ORDER BY checked_at DESC LIMIT 1
"""
_RECORDS_BY_QUEUE: Final = "SELECT queue, COUNT(*) FROM records GROUP BY queue"
_LETTERS_BY_QUEUE: Final = "SELECT queue, COUNT(*) FROM dead_letters GROUP BY queue"
