"""What a ledger that is made again takes from the Parquet files, and from the dead letters' folder.

1. Every file below `telemetry/` has to be one of ours, and whole: nothing is concluded from a part.
2. Where two windows hold one record, since one of their files is older than what became of the ledger, the
   record that was checked last stands.
3. Findings go with the record of their window, or not at all: a crash between the two renames leaves some
   whose record is not there, and their files are then checked again.
4. A window whose files show what the ledger has now is not written again; any other one is.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from .assets import NotAsSeenError, as_text, open_asset, stat_of
from .dead_places import below, dead_letter_folder, letters_in
from .errors import Exit, JobError
from .parquet_reading import NotOursError, read_rows
from .plan import WINDOW_FORMAT, microseconds, time_of
from .projections import files_as_found
from .records import ASSETS, FINDINGS, KEY
from .reports import NONE, TELEMETRY, window_files
from .rows import DEAD_LETTER_RULE, FINDING_COLUMNS, RECORD_COLUMNS, queue_name
from .schema import insert_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .plan import Plan
    from .records import Column, Value

_STATUSES: Final = ("pass", "warn", "fail", "error")


def fill(connection: sqlite3.Connection, plan: Plan) -> tuple[int, int]:
    """Fill a new ledger, and count its windows and records.

    Raises:
        JobError: A file is damaged, foreign or missing.
    """
    there = _windows_there(plan)
    starts = sorted(there)
    read = {start: _Rows(0, _read_assets(connection, plan, start, there[start])) for start in starts}
    for start in starts:
        if there[start].findings:
            read[start] = read[start]._replace(findings=_read_findings(connection, plan, start))
    for first in range(0, len(starts), _AT_ONCE):
        for start, files in files_as_found(plan, starts[first : first + _AT_ONCE]).items():
            _keep_window(connection, start, read[start], files)
    _find_dead_letters(connection, plan)
    return len(starts), sum(_count(connection, start, "records") for start in starts)


# Windows whose files are looked at together.
_AT_ONCE: Final = 1000


class _There(NamedTuple):
    """Which of its two files a window has."""

    findings: bool = False
    assets: bool = False


class _Rows(NamedTuple):
    """How many rows a window's files have."""

    findings: int
    assets: int


def _windows_there(plan: Plan) -> dict[int, _There]:
    """Find the windows that have files; other Parquet files are refused."""
    there: dict[int, _There] = {}
    for name in plan.out.parquet_below(TELEMETRY):
        start = _start_of(name)
        files = window_files(time_of(start)) if start is not None else ()
        if start is None or name not in files:
            here = "/".join(name.split("/")[-3:])
            raise _unusable(plan, name, f"it is not where one of ours would be (as {here})")
        known = there.get(start, _There())
        there[start] = _There(*(had or name == file for had, file in zip(known, files, strict=True)))
    return there


def _start_of(name: str) -> int | None:
    _, _, folder = name.rpartition("/")[0].rpartition("/")
    try:
        start = datetime.strptime(folder, f"window={WINDOW_FORMAT}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return microseconds(start)


def _read_assets(connection: sqlite3.Connection, plan: Plan, start: int, there: _There) -> int:
    if not there.assets:
        return 0
    findings, assets = window_files(time_of(start))
    if not there.findings:
        raise _unusable(plan, assets, f"{plan.out.shown(findings)} is missing beside it")
    count = 0
    for rows in _rows(plan, assets, ASSETS):
        for row in rows:
            _require_record(plan, assets, row, start)
        connection.executemany(_TAKE_RECORD, rows)
        count += len(rows)
    return count


def _require_record(plan: Plan, name: str, row: tuple[Value, ...], start: int) -> None:
    if row[0] != start:
        raise _unusable(plan, name, "it has a record of another window")
    if row[_STATUS] not in _STATUSES or not all(isinstance(row[place], str) for place in _KEY_PLACES):
        raise _unusable(plan, name, "it has a record without a name, a content, a profile or a status")


_STATUS: Final = RECORD_COLUMNS.index("status")
_KEY_PLACES: Final = tuple(map(RECORD_COLUMNS.index, KEY))


def _read_findings(connection: sqlite3.Connection, plan: Plan, start: int) -> int:
    """Take the findings of records of this window; their order within a record is the file's."""
    name, _ = window_files(time_of(start))
    count, place, last, here = 0, 0, None, False
    for rows in _rows(plan, name, FINDINGS):
        placed = []
        for row in rows:
            key = row[1 : 1 + len(KEY)]
            if key == last:
                place += 1
            else:
                place, last = 0, key
                here = connection.execute(_HAS_RECORD, (*key, start)).fetchone() is not None
            if here:
                placed.append((place, *row[1:]))
        try:
            connection.executemany(_TAKE_FINDING, placed)
        except sqlite3.IntegrityError as error:
            raise _unusable(plan, name, f"its rows are not in the order of ours ({error})") from error
        count += len(rows)
    return count


def _rows(plan: Plan, name: str, columns: Sequence[Column]) -> Iterator[list[tuple[Value, ...]]]:
    try:
        yield from read_rows(plan.out.opened(name), columns)
    except NotOursError as error:
        raise _unusable(plan, name, str(error)) from error


def _keep_window(connection: sqlite3.Connection, start: int, read: _Rows, files: str) -> None:
    """Write the window down, as shown by its files if they have the rows that it has now."""
    statuses = dict(connection.execute(_STATUS_COUNTS, (start,)).fetchall())
    here = _Rows(_count(connection, start, "findings"), sum(statuses.values()))
    shows = here == read and NONE not in files.split(", ")
    connection.execute(_KEEP_WINDOW, (start, int(shows), json.dumps(statuses), files))


def _count(connection: sqlite3.Connection, start: int, table: str) -> int:
    query = _COUNT_RECORDS if table == "records" else _COUNT_FINDINGS
    return int(connection.execute(query, (start,)).fetchone()[0])


def _find_dead_letters(connection: sqlite3.Connection, plan: Plan) -> None:
    """Know the files that were moved away by their bytes, and those that no record tells of by their name.

    One whose name has been checked with other bytes since is no dead letter any more, and stays where it is.
    """
    queues = [queue for (queue,) in connection.execute("SELECT DISTINCT queue FROM records")]
    for name, place in letters_in(plan):
        path = below(dead_letter_folder(plan), place)
        try:
            with os.fdopen(open_asset(bytes(path)), "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
                stat = stat_of(os.fstat(file.fileno()))
        except (OSError, NotAsSeenError):
            continue
        known = (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, as_text(place))
        told = False
        for queue in queues:
            key = (queue, as_text(name), content)
            told |= connection.execute(_KEEP_LETTER, (*known, *key, DEAD_LETTER_RULE)).rowcount > 0
        key = (queue_name(plan), as_text(name), content)
        if not told and not connection.execute(_CHECKED_SINCE, key).fetchone():
            connection.execute(_KEEP_FILE, (*known, *key, microseconds(plan.started)))


def _unusable(plan: Plan, name: str, found: str) -> JobError:
    folder = plan.out.shown(name.rpartition("/")[0])
    way_out = f"bring it back from a copy, or move {folder} away: what it recorded is then checked anew"
    return JobError(
        f"the ledger can't be made again from {plan.out.shown(name)}: {found}; {way_out}", Exit.IO_ERROR
    )


_NEWER: Final = ", ".join(f"{name} = excluded.{name}" for name in RECORD_COLUMNS if name not in KEY)
_TAKE_RECORD: Final = f"""
{insert_into("records", RECORD_COLUMNS)}
ON CONFLICT ({", ".join(KEY)}) DO UPDATE SET {_NEWER} WHERE excluded.checked_at > checked_at
"""
_HAS_RECORD: Final = """
SELECT 1 FROM records
WHERE (queue, asset_id, content_sha256, profile_sha256) = (?, ?, ?, ?) AND window_start = ?
"""
_TAKE_FINDING: Final = insert_into("findings", FINDING_COLUMNS)
_STATUS_COUNTS: Final = "SELECT status, COUNT(*) FROM records WHERE window_start = ? GROUP BY status"
_COUNT_RECORDS: Final = "SELECT COUNT(*) FROM records WHERE window_start = ?"
_COUNT_FINDINGS: Final = f"""
SELECT COUNT(*) FROM records r JOIN findings f USING ({", ".join(KEY)}) WHERE r.window_start = ?
"""  # noqa: S608 - our own names
_KEEP_WINDOW: Final = """
INSERT INTO windows (window_start, changes, projected, counts, files) VALUES (?, 1, ?, ?, ?)
"""
_KEEP_LETTER: Final = """
INSERT OR IGNORE INTO dead_letters
    (size, mtime_ns, ctime_ns, inode, place, queue, asset_id, content_sha256, attempts, reason, died_at)
SELECT ?, ?, ?, ?, ?, r.queue, r.asset_id, r.content_sha256, r.attempt, coalesce(f.message, 'not checked'), r.checked_at
FROM records r
LEFT JOIN findings f USING (queue, asset_id, content_sha256, profile_sha256)
WHERE r.queue = ? AND r.asset_id = ? AND r.content_sha256 = ? AND r.status = 'error' AND f.rule = ?
    AND NOT EXISTS (SELECT 1 FROM records n WHERE (n.queue, n.asset_id) = (r.queue, r.asset_id)
        AND n.status != 'error' AND n.checked_at > r.checked_at)
"""
_CHECKED_SINCE: Final = """
SELECT 1 FROM records WHERE queue = ? AND asset_id = ? AND content_sha256 != ? AND status != 'error'
"""
_KEEP_FILE: Final = """
INSERT OR IGNORE INTO dead_letters
    (size, mtime_ns, ctime_ns, inode, place, queue, asset_id, content_sha256, died_at, attempts, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'known by its file alone')
"""
