"""The ledger: the one truth of the job, in SQLite.

1. What runs is written down before the work, and what came of it in one transaction with its records: a crash
   at any moment leaves an asset new, suspect or done, and a record is there once or not at all, by its key.
2. What can't be written of one asset leaves that asset to the next run, and takes no other with it.
3. Everything else on disk is made from the ledger and can be made again; a ledger that is lost is made again
   from its records there.

One writer, which is whoever holds the run lock: `write` is called by one thread at a time (the batcher that
groups the commits), `todo` by the scan, on a connection of its own.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import unquote_to_bytes

from . import TOOL_VERSION
from .assets import Asset, shown
from .errors import Exit, JobError, ledger_failed, trusting
from .ledger_file import (
    LedgerLostError,
    configure,
    connect,
    forget_note,
    last_checked,
    note_whole,
    prepare,
    require_ledger_file,
)
from .plan import microseconds, time_of
from .recording import Finished, Recorded, Recorder, Started, Write
from .rows import queue_name
from .schema import insert_into

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from .plan import Plan
    from .totals import Ended

__all__ = [
    "Finished",
    "Ledger",
    "Recorded",
    "Started",
    "Suspect",
    "Write",
    "left_lost",
    "made_again",
    "open_ledger",
]


@dataclass(frozen=True, slots=True)
class Suspect:
    """An asset that was running when a run or a pool died, and how often it died alone so far."""

    asset: Asset
    attempts: int
    last: bool
    """A run died while it was alone: it goes last, so that it can't keep the queue from being checked."""


@contextlib.contextmanager
def open_ledger(
    plan: Plan,
    warn: Callable[[str], object] = lambda _: None,
    mend: Callable[[Plan, str], str] | None = None,
) -> Iterator[Ledger]:
    """Open the ledger of the plan's state folder, made when it is not there.

    Args:
        plan: The run.
        warn: Told in one line when the ledger was lost and has been made again.
        mend: What is done about a ledger that is lost, told why it is, and returns that line; `None`: `made_again`.

    Raises:
        JobError: for whatever SQLite refuses, here and in the block.
    """
    require_ledger_file(plan.ledger)
    checked = last_checked(plan.ledger, plan.started)
    try:
        rebuilt = _prepared(plan, warn, checked, mend or made_again)
        with (
            contextlib.closing(connect(plan.ledger)) as writer,
            contextlib.closing(connect(plan.ledger)) as reader,
        ):
            with trusting(plan.ledger):
                for connection in (writer, reader):
                    configure(connection)
            forget_note(plan.ledger)  # A run that dies or fails leaves none.
            yield Ledger(plan, writer, reader, rebuilt, read_through=checked is None)
        note_whole(plan.ledger, checked or plan.started)
    except sqlite3.Error as error:
        raise ledger_failed(error, plan.ledger) from error


def made_again(plan: Plan, why: str) -> str:
    """Make the ledger again from its Parquet files, and say so.

    Raises:
        JobError: A Parquet file can't be used, or the new ledger can't be written.
    """
    # Here, because it brings pyarrow, and a ledger is hardly ever lost.
    from .rebuild import rebuild  # noqa: PLC0415

    return rebuild(plan, why)


def left_lost(plan: Plan, why: str) -> NoReturn:
    """Leave it to a run, which knows where its Parquet files are.

    Raises:
        JobError: always.
    """
    way_out = "do a run first, with the --out that runs have: it makes the ledger again"
    raise JobError(f"the ledger {shown(plan.ledger)} {why}; {way_out}", Exit.IO_ERROR)


def _prepared(
    plan: Plan,
    warn: Callable[[str], object],
    checked: datetime | None,
    mend: Callable[[Plan, str], str],
) -> str | None:
    """Let the ledger be there and in order, and return what was said if it had to be made again."""
    try:
        with contextlib.closing(connect(plan.ledger)) as connection, trusting(plan.ledger):
            prepare(connection, plan, checked)
    except LedgerLostError as lost:
        reason = str(lost)
    else:
        return None
    said = mend(plan, reason)
    warn(said)
    return said


class Ledger:
    """The ledger, open for one run."""

    def __init__(
        self,
        plan: Plan,
        writer: sqlite3.Connection,
        reader: sqlite3.Connection,
        rebuilt: str | None,
        *,
        read_through: bool,
    ) -> None:
        self._plan = plan
        self._queue = queue_name(plan)
        self._writer = writer
        self._reader = reader
        self._recorder = Recorder(plan)
        self._rebuilt = rebuilt
        self.read_through = read_through
        """Whether this run has read the whole file, as one does once a day."""

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
            "rebuilt": self._rebuilt,
        }
        with self.transaction() as cursor:
            cursor.execute(insert_into("runs", tuple(values)), tuple(values.values()))

    def end_run(self, ended: Ended) -> None:
        """Write down how the run ended."""
        counts = json.dumps(json.loads(ended.totals.as_json()) | {"queue": self._queue})
        with self.transaction() as cursor:
            values = (microseconds(ended.at), int(ended.code), ended.drained, counts, self._plan.run_id)
            cursor.execute(_END_RUN, values)

    def suspects(self) -> list[Suspect]:
        """List what is suspect, at a moment when nothing runs: what is called running was left so."""
        with self.transaction() as cursor:
            cursor.execute(_SUSPECT_EVERYTHING)
            rows = cursor.execute(_SUSPECTS, (self._queue,)).fetchall()
            suspects = [
                Suspect(_asset(name, known), attempts, bool(last)) for name, attempts, last, *known in rows
            ]
        shard = self._plan.shard
        return [suspect for suspect in suspects if shard is None or shard.holds(suspect.asset.name)]

    def todo(self, page: Sequence[Asset]) -> list[Asset]:
        """Return the assets of `page` that are new, changed, or were checked against another profile."""
        names = {asset.asset_id: asset for asset in page}
        profile = self._plan.profile.sha256
        with self.trusted():
            rows = self._reader.execute(_KNOWN.format(", ".join("?" * len(names))), (self._queue, *names))
            for name, state, judged_by, *known in rows:
                if (state != "done" or judged_by == profile) and names[name].known_by == tuple(known):
                    del names[name]
        return list(names.values())

    def write(self, batch: Sequence[Write]) -> list[tuple[Recorded, ...]]:
        """Write a batch down as one transaction, and say for each ending what was written."""
        with self.transaction() as cursor:
            return [self._recorder.write(cursor, write) for write in batch]

    def read(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a query for a projection."""
        with self.trusted():
            return self._reader.execute(query, values)

    def trusted(self) -> contextlib.AbstractContextManager[None]:
        """Make something of what `read` found in the block: what no run can have written is a `JobError`."""
        return trusting(self._plan.ledger)

    def mark_projected(self, window: int, changes: int, files: str) -> None:
        """Remember that the `files` of a window show its first `changes` changes, and its counts by status."""
        with self.transaction() as cursor:
            counts = json.dumps(dict(cursor.execute(_COUNTS, (window,)).fetchall()))
            cursor.execute(_PROJECTED, (changes, counts, files, window))

    def mark_removed(self, window: int) -> None:
        """Remember that the files of a pruned window are gone."""
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM pruned WHERE window_start = ?", (window,))

    def keep_summary(self, window: int, changes: int, content: str) -> None:
        """Keep what the dashboard says of `window` at `changes`, in the place of any other window's."""
        with self.transaction() as cursor:
            values = (1, window, changes, content)
            cursor.execute("INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?)", values)

    def dead_letters(self) -> int:
        """Count the files that are given up."""
        return int(self._one("SELECT COUNT(*) FROM dead_letters", ())[0])

    def last_success(self, until: datetime) -> datetime | None:
        """Return when the newest run with exit code 0 ended, of those that ended by then.

        The clock may have been wrong once: a success that is yet to come would hide all that fails until then.
        """
        found = self._one(_LAST_SUCCESS, (None,), (microseconds(until),))[0]
        return None if found is None else time_of(found)

    def folded_skips(self) -> tuple[int, str]:
        """Return how many fires were refused, and what tells which lines of the log that counts."""
        total, folded = self._one(_SKIPS, (0, ""))
        return total, folded

    def fold_skips(self, total: int, folded: str) -> None:
        """Keep both."""
        with self.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO skips VALUES (1, ?, ?)", (total, folded))

    def vacuum(self) -> None:
        """Give the disk back what removed rows took; it takes the room of a second ledger while it works."""
        with self.trusted():
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Write in the block, all of it or nothing."""
        with self.trusted(), contextlib.closing(self._writer.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite ends it by itself when the disk is full.
                    cursor.execute("ROLLBACK")
                raise

    def _one(self, query: str, default: tuple[Any, ...], values: tuple[object, ...] = ()) -> tuple[Any, ...]:
        with self.trusted():
            found: tuple[Any, ...] | None = self._reader.execute(query, values).fetchone()
            return default if found is None else found


def _asset(name: object, known: Sequence[object]) -> Asset:
    """Take an asset from a row; SQLite keeps any kind of value in any column."""
    match name, known:
        case str(text), [int(size), int(mtime_ns), int(ctime_ns), int(inode), None | str() as sidecar]:
            return Asset.known(unquote_to_bytes(text), size, mtime_ns, ctime_ns, inode, sidecar)
        case _:
            raise TypeError(f"{name!r} with {known!r} is no asset")


_SUSPECT_EVERYTHING: Final = """
UPDATE assets SET state = CASE state WHEN 'alone' THEN 'suspect last' ELSE 'suspect' END
WHERE state IN ('running', 'alone')
"""
_SUSPECTS: Final = """
SELECT asset_id, attempts, state = 'suspect last', size, mtime_ns, ctime_ns, inode, sidecar FROM assets
WHERE queue = ? AND state IN ('suspect', 'suspect last') ORDER BY state, asset_id
"""
_END_RUN: Final = "UPDATE runs SET finished_at = ?, exit_code = ?, drained = ?, totals = ? WHERE run_id = ?"
_KNOWN: Final = """
SELECT asset_id, state, profile_sha256, size, mtime_ns, ctime_ns, inode, sidecar FROM assets
WHERE queue = ? AND asset_id IN ({})
"""
_COUNTS: Final = "SELECT status, COUNT(*) FROM records WHERE window_start = ? GROUP BY status"
_PROJECTED: Final = "UPDATE windows SET projected = ?, counts = ?, files = ? WHERE window_start = ?"
# By their numbers, from the end: no look at the thousands of runs before it.
_LAST_SUCCESS: Final = """
SELECT finished_at FROM runs WHERE exit_code = 0 AND finished_at <= ? ORDER BY number DESC LIMIT 1
"""
_SKIPS: Final = "SELECT total, folded FROM skips"
