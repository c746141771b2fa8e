"""The ledger: the one truth of the job, in SQLite.

1. What runs is written down before the work, and what came of it in one transaction with its records: a crash
   at any moment leaves an asset new, suspect or done, and a record is there once or not at all, by its key.
2. What can't be written of one asset leaves that asset to the next run, and takes no other with it.
3. Everything else on disk is made from the ledger and can be made again.

One writer, which is whoever holds the run lock: `write` is called by one thread at a time (the batcher that
groups the commits), `todo` by the scan, on a connection of its own.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from . import TOOL_VERSION
from .assets import Asset, Stat
from .errors import ledger_failed, trusting
from .files import require_regular
from .ledger_file import configure, connect, prepare
from .outcomes import Checked, DeadLetter, Died, Ending, Left
from .plan import microseconds
from .rows import FINDING_COLUMNS, RECORD_COLUMNS, finding_rows, queue_name, record_row
from .schema import insert_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from .plan import Plan
    from .totals import Ended


@dataclass(frozen=True, slots=True)
class Started:
    """These assets are about to be checked; `alone` when nothing else runs beside the one there is."""

    assets: tuple[Asset, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of these assets, and when."""

    endings: tuple[Ending, ...]
    at: datetime


Write: TypeAlias = Started | Finished


class Recorded(NamedTuple):
    """What was written of one ending; another than was given when that could not be."""

    ending: Ending
    new: bool
    """Whether it gave a new record."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An asset that was running when a run or a pool died, and how often it died alone so far."""

    asset: Asset
    attempts: int
    last: bool
    """A run died while it was alone: it goes last, so that it can't keep the queue from being checked."""


@contextlib.contextmanager
def open_ledger(plan: Plan) -> Iterator[Ledger]:
    """Open the ledger of the plan's state folder, made when it is not there.

    Raises:
        JobError: for whatever SQLite refuses, here and in the block.
    """
    require_regular(plan.ledger)
    try:
        with (
            contextlib.closing(connect(plan.ledger)) as writer,
            contextlib.closing(connect(plan.ledger)) as reader,
        ):
            with trusting(plan.ledger):
                prepare(writer, plan)
                for connection in (writer, reader):
                    configure(connection)
            yield Ledger(plan, writer, reader)
    except sqlite3.Error as error:
        raise ledger_failed(error, plan.ledger) from error


class Ledger:
    """The ledger, open for one run."""

    def __init__(self, plan: Plan, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._plan = plan
        self._queue = queue_name(plan)
        self._writer = writer
        self._reader = reader

    def begin_run(self) -> None:
        """Write down that the run has begun."""
        plan = self._plan
        values = {
            "run_id": plan.run_id,
            "started_at": microseconds(plan.started),
            "window_start": microseconds(plan.window),
            "profile": plan.profile.name,
            "profile_sha256": plan.profile.sha256,
            "tool_version": TOOL_VERSION,
        }
        with self._transaction() as cursor:
            cursor.execute(insert_into("runs", tuple(values)), tuple(values.values()))

    def end_run(self, ended: Ended) -> None:
        """Write down how the run ended."""
        counts = ended.totals.as_json()
        with self._transaction() as cursor:
            values = (microseconds(ended.at), int(ended.code), ended.drained, counts, self._plan.run_id)
            cursor.execute(_END_RUN, values)

    def suspects(self) -> list[Suspect]:
        """List what is suspect, at a moment when nothing runs: what is called running was left so."""
        with self._transaction() as cursor:
            cursor.execute(_SUSPECT_EVERYTHING)
            rows = cursor.execute(_SUSPECTS, (self._queue,)).fetchall()
            return [Suspect(_asset(name, stat), attempts, bool(last)) for name, attempts, last, *stat in rows]

    def todo(self, page: Sequence[Asset]) -> list[Asset]:
        """Return the assets of `page` that are new, changed, or were checked against another profile."""
        holders = ", ".join("?" * len(page))
        names = {asset.asset_id: asset for asset in page}
        with trusting(self._plan.ledger):
            rows = self._reader.execute(_KNOWN.format(holders), (self._queue, *names))
            for name, state, profile, *stat in rows:
                unchanged = Stat(*stat) == names[name].stat
                if unchanged and (state != "done" or profile == self._plan.profile.sha256):
                    del names[name]
        return list(names.values())

    def write(self, batch: Sequence[Write]) -> list[tuple[Recorded, ...]]:
        """Write a batch down as one transaction, and say for each ending what was written."""
        with self._transaction() as cursor:
            return [self._write_one(cursor, write) for write in batch]

    def read(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a query for a projection."""
        return self._reader.execute(query, values)

    def mark_projected(self, window: int, changes: int, files: str) -> None:
        """Remember that the `files` of a window show its first `changes` changes, and its counts by status."""
        with self._transaction() as cursor:
            counts = json.dumps(dict(cursor.execute(_COUNTS, (window,)).fetchall()))
            cursor.execute(_PROJECTED, (changes, counts, files, window))

    def keep_summary(self, window: int, changes: int, content: str) -> None:
        """Keep what the dashboard says of `window` at `changes`, in the place of any other window's."""
        with self._transaction() as cursor:
            values = (1, window, changes, content)
            cursor.execute("INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?)", values)

    def _write_one(self, cursor: sqlite3.Cursor, write: Write) -> tuple[Recorded, ...]:
        if isinstance(write, Started):
            state = "alone" if write.alone else "running"
            cursor.executemany(_START, [self._asset_row(asset, state) for asset in write.assets])
            return ()
        return tuple(self._record(cursor, ending, write.at) for ending in write.endings)

    def _record(self, cursor: sqlite3.Cursor, ending: Ending, at: datetime) -> Recorded:
        """Write one ending; one that can't be is undone alone, and its asset left."""
        cursor.execute("SAVEPOINT ending")
        try:
            recorded = Recorded(ending, self._write_ending(cursor, ending, at))
        except _UNWRITABLE as error:
            cursor.execute("ROLLBACK TO ending")
            detail = f"it could not be recorded: {type(error).__name__}: {error}"
            left = Left(asset=ending.asset, why="unrecorded", detail=detail)
            recorded = Recorded(left, self._write_ending(cursor, left, at))
        cursor.execute("RELEASE ending")
        return recorded

    def _write_ending(self, cursor: sqlite3.Cursor, ending: Ending, at: datetime) -> bool:
        key = (self._queue, ending.asset.asset_id)
        match ending:
            case Left():
                seen = ending.asset.stat
                stat = (seen.size, seen.mtime_ns, seen.ctime_ns, seen.inode)
                cursor.execute(_FORGET, (*key, *stat))
                return False
            case Died():
                cursor.execute(_DIED, key)
                return False
            case Checked() | DeadLetter():
                return self._write_record(cursor, ending, at)

    def _write_record(self, cursor: sqlite3.Cursor, ending: Checked | DeadLetter, at: datetime) -> bool:
        state = "done" if isinstance(ending, Checked) else "dead"
        cursor.execute(_START, self._asset_row(ending.asset, state))
        key = (self._queue, ending.asset.asset_id)
        (died,) = cursor.execute(_ATTEMPTS, key).fetchone()
        attempts = 0 if isinstance(ending, Checked) else ending.attempts
        cursor.execute(_SET_CONTENT, (ending.content_sha256, attempts, *key))
        record_key = (*key, ending.content_sha256, self._plan.profile.sha256)
        if not self._make_room(cursor, record_key, ending):
            return False
        attempt = died + 1 if isinstance(ending, Checked) else ending.attempts
        cursor.execute(_RECORD, record_row(self._plan, ending, attempt, at))
        cursor.executemany(_FINDING, finding_rows(self._plan, ending))
        cursor.execute(_CHANGED, (microseconds(self._plan.window),))
        return True

    def _make_room(self, cursor: sqlite3.Cursor, key: tuple[str, ...], ending: Checked | DeadLetter) -> bool:
        """Say whether a record belongs under `key`: a check replaces a dead letter's, and nothing else."""
        there = cursor.execute(_RECORD_THERE, key).fetchone()
        if there is None:
            return True
        status, window = there
        if status != "error" or isinstance(ending, DeadLetter):
            return False
        cursor.execute(_DELETE_FINDINGS, key)
        cursor.execute(_DELETE_RECORD, key)
        cursor.execute(_CHANGED, (window,))
        return True

    def _asset_row(self, asset: Asset, state: str) -> tuple[object, ...]:
        seen = asset.stat
        where = (self._queue, asset.asset_id, seen.size, seen.mtime_ns, seen.ctime_ns, seen.inode)
        return (*where, self._plan.profile.sha256, state, self._plan.run_id)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with trusting(self._plan.ledger), contextlib.closing(self._writer.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite ends it by itself when the disk is full.
                    cursor.execute("ROLLBACK")
                raise


def _asset(name: object, stat: Sequence[object]) -> Asset:
    """Take an asset from a row; SQLite keeps any kind of value in any column."""
    match name, stat:
        case str(text), [int(size), int(mtime_ns), int(ctime_ns), int(inode)]:
            return Asset(unquote_to_bytes(text), Stat(size, mtime_ns, ctime_ns, inode))
        case _:
            raise TypeError(f"{name!r} with {stat!r} is no asset")


# What a value can be to blame for; the rest is the disk's, or the whole ledger's.
_UNWRITABLE: Final = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
# Not what a later look at the file has left there.
_FORGET: Final = """
DELETE FROM assets
WHERE queue = ? AND asset_id = ? AND (size, mtime_ns, ctime_ns, inode) = (?, ?, ?, ?)
"""
_SUSPECT_EVERYTHING: Final = """
UPDATE assets SET state = CASE state WHEN 'alone' THEN 'suspect last' ELSE 'suspect' END
WHERE state IN ('running', 'alone')
"""
_SUSPECTS: Final = """
SELECT asset_id, attempts, state = 'suspect last', size, mtime_ns, ctime_ns, inode FROM assets
WHERE queue = ? AND state IN ('suspect', 'suspect last') ORDER BY state, asset_id
"""
_END_RUN: Final = "UPDATE runs SET finished_at = ?, exit_code = ?, drained = ?, totals = ? WHERE run_id = ?"
_KNOWN: Final = """
SELECT asset_id, state, profile_sha256, size, mtime_ns, ctime_ns, inode FROM assets
WHERE queue = ? AND asset_id IN ({})
"""
# Attempts are of one content: they start again when the file is another.
_START: Final = """
INSERT INTO assets (queue, asset_id, size, mtime_ns, ctime_ns, inode, profile_sha256, state, run_id, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (queue, asset_id) DO UPDATE SET
    attempts = CASE
        WHEN (size, mtime_ns, ctime_ns, inode)
            = (excluded.size, excluded.mtime_ns, excluded.ctime_ns, excluded.inode)
        THEN attempts ELSE 0 END,
    size = excluded.size, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
    profile_sha256 = excluded.profile_sha256, state = excluded.state, run_id = excluded.run_id
"""
_DIED: Final = """
UPDATE assets SET state = 'suspect', attempts = attempts + 1 WHERE queue = ? AND asset_id = ?
"""
_ATTEMPTS: Final = "SELECT attempts FROM assets WHERE queue = ? AND asset_id = ?"
_SET_CONTENT: Final = "UPDATE assets SET content_sha256 = ?, attempts = ? WHERE queue = ? AND asset_id = ?"
_RECORD: Final = insert_into("records", RECORD_COLUMNS)
_FINDING: Final = insert_into("findings", FINDING_COLUMNS)
_RECORD_THERE: Final = """
SELECT status, window_start FROM records
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
_DELETE_RECORD: Final = """
DELETE FROM records WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
_DELETE_FINDINGS: Final = """
DELETE FROM findings WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
_COUNTS: Final = "SELECT status, COUNT(*) FROM records WHERE window_start = ? GROUP BY status"
_PROJECTED: Final = "UPDATE windows SET projected = ?, counts = ?, files = ? WHERE window_start = ?"
_CHANGED: Final = """
INSERT INTO windows (window_start, changes, projected) VALUES (?, 1, 0)
ON CONFLICT (window_start) DO UPDATE SET changes = changes + 1
"""
