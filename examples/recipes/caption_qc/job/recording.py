"""What came of an asset, as rows: the law of which record there is.

1. A record's key is queue, asset, content and what it was judged by; there is one a key.
2. A check takes the place of a dead letter's record of the same content, whatever that was judged by, and of
   none else: equal content under an equal profile gives no new record. It stands in the window of its run.
3. With `--redo` a check takes the place of all records of its content in the windows that are done again, and
   stands in the first of those; one of its own key in another window gives way too.
4. A dead letter takes the place of a check of its own key, which can't be done any more: with `--redo` in the
   window of that, else in that of its run. What was judged by another profile or sidecar stays, and so does an
   error that is there.
5. Of a name's records the newest is of what was met there last. So one whose key comes back after others, as
   bytes A do after B, moves: it becomes that of the new check, in the window of its run, and is still the only
   one. A file that was merely touched is as it was, and its record stays where it is.
6. A check of what lies under a name ends the dead letters of that name: delivered again, it is mended.
7. A window counts each change of its records, so that its files are known to be behind.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from .outcomes import Checked, DeadLetter, Died, Ending, Left
from .plan import microseconds
from .records import TALLY
from .rows import FINDING_COLUMNS, RECORD_COLUMNS, finding_rows, queue_name, record_key, record_row, tally_of
from .schema import insert_into

if TYPE_CHECKING:
    from datetime import datetime

    from .assets import Asset
    from .plan import Plan

Key: TypeAlias = tuple[str, str, str, str]


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


class Recorder:
    """Writes what came of assets, within the transaction of the cursor that it is given."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._queue = queue_name(plan)
        self._window = microseconds(plan.window)

    def write(self, cursor: sqlite3.Cursor, write: Write) -> tuple[Recorded, ...]:
        """Write one down, and say for each ending what was written."""
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
                cursor.execute(_FORGET, (*key, *ending.asset.known_by))
                return False
            case Died():
                cursor.execute(_DIED, key)
                return False
            case Checked() | DeadLetter():
                return self._write_checked(cursor, ending, at)

    def _write_checked(self, cursor: sqlite3.Cursor, ending: Checked | DeadLetter, at: datetime) -> bool:
        key = (self._queue, ending.asset.asset_id)
        state, attempts = ("done", 0) if isinstance(ending, Checked) else ("dead", ending.attempts)
        cursor.execute(_START, self._asset_row(ending.asset, state))
        died, known = cursor.execute(_KNOWN, key).fetchone()
        cursor.execute(_SET_CONTENT, (ending.content_sha256, attempts, *key))
        if isinstance(ending, DeadLetter):
            # The file that lies there now has taken the place of one that was given up and not moved.
            cursor.execute(_DROP_UNMOVED, key)
            self._give_up(cursor, ending, at)
        else:  # What was delivered since has been checked; the file that was moved away is kept.
            cursor.execute(_DROP_LETTERS, key)
        room = self._room_for(cursor, ending)
        comes_back = room is None and self._comes_back(cursor, ending, known)
        window = self._window if comes_back else room
        if window is None:
            return False
        record = record_row(self._plan, ending, attempts or died + 1, at, window)
        cursor.execute(_RECORD, (*record, tally_of(ending)))
        cursor.executemany(_FINDING, finding_rows(self._plan, ending))
        cursor.execute(_CHANGED, (window,))
        return not comes_back

    def _comes_back(self, cursor: sqlite3.Cursor, ending: Checked | DeadLetter, known: str | None) -> bool:
        """Remove the record that is there if something else was met under this name since, and say whether."""
        key = record_key(self._plan, ending)
        window, later = cursor.execute(_MET_SINCE, key).fetchone()
        if not later and known in {None, ending.content_sha256}:
            return False
        remove_record(cursor, key, window)
        return True

    def _give_up(self, cursor: sqlite3.Cursor, ending: DeadLetter, at: datetime) -> None:
        key = (self._queue, ending.asset.asset_id, ending.content_sha256)
        size, mtime_ns, ctime_ns, inode, _ = ending.asset.known_by
        facts = (ending.attempts, ending.reason, microseconds(at), size, mtime_ns, ctime_ns, inode)
        cursor.execute(_GIVE_UP, (*key, *facts))

    def _room_for(self, cursor: sqlite3.Cursor, ending: Checked | DeadLetter) -> int | None:
        """Return the window in which a new record belongs, having removed what it replaces; `None` for no record."""
        key = record_key(self._plan, ending)
        there = cursor.execute(_RECORD_THERE, key).fetchone()
        if isinstance(ending, DeadLetter):
            return self._room_for_letter(cursor, key, there)
        again = self._done_again(cursor, ending)
        given_up = [(window, (*key[:3], judged_by)) for judged_by, window in cursor.execute(_ERRORS, key[:3])]
        same = [(there[1], key)] if again and there is not None else []
        for old_window, old_key in dict.fromkeys([*again, *given_up, *same]):
            remove_record(cursor, old_key, old_window)
        if again:
            return again[0][0]
        return self._window if there is None or there[0] == "error" else None

    def _room_for_letter(self, cursor: sqlite3.Cursor, key: Key, there: tuple[str, int] | None) -> int | None:
        if there is None:
            return self._window
        status, window = there
        if status == "error":
            return None
        remove_record(cursor, key, window)
        return window if self._plan.redo else self._window

    def _done_again(self, cursor: sqlite3.Cursor, ending: Checked) -> list[tuple[int, Key]]:
        """List the records that a redo replaces, the first window's first; none of them is this run's own."""
        if self._plan.redo is None:
            return []
        content = (self._queue, ending.asset.asset_id, ending.content_sha256)
        first, last = map(microseconds, self._plan.redo)
        rows = cursor.execute(_DONE_AGAIN, (*content, first, last, self._plan.run_id)).fetchall()
        return [(window, (*content, profile)) for window, profile in rows]

    def _asset_row(self, asset: Asset, state: str) -> tuple[object, ...]:
        where = (self._queue, asset.asset_id, *asset.known_by)
        return (*where, self._plan.profile.sha256, state, self._plan.run_id)


def remove_record(cursor: sqlite3.Cursor, key: Key, window: int) -> None:
    """Remove a record of `window`, and its findings."""
    cursor.execute(_DELETE_FINDINGS, key)
    cursor.execute(_DELETE_RECORD, key)
    cursor.execute(_CHANGED, (window,))


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
DELETE FROM assets WHERE queue = ? AND asset_id = ?
    AND (size, mtime_ns, ctime_ns, inode) = (?, ?, ?, ?) AND sidecar IS ?
"""
# Attempts are of one content: they start again when the file is another.
_START: Final = """
INSERT INTO assets
    (queue, asset_id, size, mtime_ns, ctime_ns, inode, sidecar, profile_sha256, state, run_id, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (queue, asset_id) DO UPDATE SET
    attempts = CASE
        WHEN (size, mtime_ns, ctime_ns, inode)
            = (excluded.size, excluded.mtime_ns, excluded.ctime_ns, excluded.inode)
            AND sidecar IS excluded.sidecar
        THEN attempts ELSE 0 END,
    size = excluded.size, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,
    sidecar = excluded.sidecar,
    profile_sha256 = excluded.profile_sha256, state = excluded.state, run_id = excluded.run_id
"""
_DIED: Final = """
UPDATE assets SET state = 'suspect', attempts = attempts + 1 WHERE queue = ? AND asset_id = ?
"""
_KNOWN: Final = "SELECT attempts, content_sha256 FROM assets WHERE queue = ? AND asset_id = ?"
_SET_CONTENT: Final = "UPDATE assets SET content_sha256 = ?, attempts = ? WHERE queue = ? AND asset_id = ?"
_DROP_UNMOVED: Final = "DELETE FROM dead_letters WHERE queue = ? AND asset_id = ? AND place IS NULL"
_DROP_LETTERS: Final = "DELETE FROM dead_letters WHERE queue = ? AND asset_id = ?"
# One of the same bytes that was moved before keeps its place: the file in the queue is a second one of it.
_GIVE_UP: Final = """
INSERT INTO dead_letters
    (queue, asset_id, content_sha256, attempts, reason, died_at, size, mtime_ns, ctime_ns, inode, move)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'out')
ON CONFLICT (queue, asset_id, content_sha256) DO UPDATE SET
    attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at, size = excluded.size,
    mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode, move = 'out'
"""
_RECORD: Final = insert_into("records", (*RECORD_COLUMNS, TALLY.name))
_FINDING: Final = insert_into("findings", FINDING_COLUMNS)
_RECORD_THERE: Final = """
SELECT status, window_start FROM records
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
# By their times, which Parquet has too; what the ledger knows of the file itself is gone when it is made again.
_MET_SINCE: Final = """
SELECT r.window_start, EXISTS (
    SELECT 1 FROM records n WHERE (n.queue, n.asset_id) = (r.queue, r.asset_id) AND n.checked_at > r.checked_at)
FROM records r WHERE (queue, asset_id, content_sha256, profile_sha256) = (?, ?, ?, ?)
"""
_ERRORS: Final = """
SELECT profile_sha256, window_start FROM records
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND status = 'error'
"""
_DONE_AGAIN: Final = """
SELECT window_start, profile_sha256 FROM records
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND window_start BETWEEN ? AND ? AND run_id != ?
ORDER BY window_start, profile_sha256
"""
_DELETE_RECORD: Final = """
DELETE FROM records WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
_DELETE_FINDINGS: Final = """
DELETE FROM findings WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
_CHANGED: Final = """
INSERT INTO windows (window_start, changes, projected) VALUES (?, 1, 0)
ON CONFLICT (window_start) DO UPDATE SET changes = changes + 1
"""
