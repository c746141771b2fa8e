"""Old windows dropped: their records, findings and Parquet folders, and what the ledger has for nobody.

1. Whole windows alone, and never the newest; one that is yet to come is no newer, since a clock was wrong. Nothing
   is dropped by itself: keeping records is a duty.
2. The ledger first, a transaction a window; that the window's folders are to go stands in it until they are
   gone, so that a crash in between is finished by the next prune, or the next run that writes reports.
3. A file that still lies in the queue is not checked again because its record went: the ledger goes on knowing
   it. It forgets those that lie there no more. With a queue that is empty it forgets none: a disk that is not
   mounted looks so.
4. The files of dead letters stay where they are, and stay dead letters.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from .assets import as_text
from .errors import JobError
from .plan import microseconds, time_of
from .projections import remove_pruned
from .reports import bytes_noted
from .rows import queue_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .ledger import Ledger
    from .plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was dropped, or would be."""

    windows: int
    records: int
    findings: int
    assets: int
    """Files that lie in the queue no more and that the ledger knows no longer."""
    runs: int
    bytes: int
    """Of Parquet files as they were written, and what the ledger gave back; planned are the files alone."""
    oldest: datetime | None
    """The oldest window that stays."""
    note: str | None = None
    """What could not be done, and when it will be."""


def plan_prune(plan: Plan, ledger: Ledger, before: datetime) -> Pruned:
    """Say what `prune` would drop.

    Raises:
        JobError: The ledger can't be read.
    """
    with ledger.trusted():
        windows = _old_windows(plan, ledger, before)
        counts = [_counts(ledger, window) for window in windows]
        return Pruned(
            windows=len(windows),
            records=sum(records for records, _ in counts),
            findings=sum(findings for _, findings in counts),
            assets=0,
            runs=int(ledger.read(_COUNT_RUNS, _times(plan, before)).fetchone()[0]),
            bytes=sum(_bytes_of(ledger, window) for window in windows),
            oldest=_oldest(ledger, windows),
        )


def prune(plan: Plan, ledger: Ledger, before: datetime) -> Pruned:
    """Drop the windows that started before `before`, and give the disk back.

    Args:
        plan: Names queue and folders.
        ledger: Opened by the holder of the run lock.
        before: What is kept starts here.

    Raises:
        JobError: The ledger refused. What was dropped by then stays so, and the next prune goes on.
    """
    planned = plan_prune(plan, ledger, before)
    size = _ledger_bytes(plan)
    for window in _old_windows(plan, ledger, before):
        _drop_window(ledger, window)
        remove_pruned(plan, ledger)
    remove_pruned(plan, ledger)
    with ledger.transaction() as cursor:
        runs = cursor.execute(_DROP_RUNS, _times(plan, before)).rowcount
    assets = _forget_gone(plan, ledger)
    note = _vacuum(ledger)
    return Pruned(
        windows=planned.windows,
        records=planned.records,
        findings=planned.findings,
        assets=assets,
        runs=runs,
        bytes=planned.bytes + max(0, size - _ledger_bytes(plan)),
        oldest=planned.oldest,
        note=note,
    )


def _old_windows(plan: Plan, ledger: Ledger, before: datetime) -> list[int]:
    return [window for (window,) in ledger.read(_OLD_WINDOWS, _times(plan, before))]


def _times(plan: Plan, before: datetime) -> tuple[int, int]:
    return microseconds(before), microseconds(plan.started)


def _counts(ledger: Ledger, window: int) -> tuple[int, int]:
    (records,) = ledger.read(_COUNT_RECORDS, (window,)).fetchone()
    (findings,) = ledger.read(_COUNT_FINDINGS, (window,)).fetchone()
    return records, findings


def _oldest(ledger: Ledger, dropped: list[int]) -> datetime | None:
    after = dropped[-1] if dropped else -1
    (found,) = ledger.read(
        "SELECT MIN(window_start) FROM windows WHERE window_start > ?", (after,)
    ).fetchone()
    return None if found is None else time_of(found)


def _bytes_of(ledger: Ledger, window: int) -> int:
    (files,) = ledger.read("SELECT files FROM windows WHERE window_start = ?", (window,)).fetchone()
    return bytes_noted(files)


def _ledger_bytes(plan: Plan) -> int:
    found = 0
    for suffix in ("", "-wal"):
        with contextlib.suppress(OSError):
            found += plan.ledger.with_name(plan.ledger.name + suffix).stat().st_size
    return found


def _drop_window(ledger: Ledger, window: int) -> None:
    with ledger.transaction() as cursor:
        for statement in _DROP_WINDOW:
            cursor.execute(statement, (window,))


def _forget_gone(plan: Plan, ledger: Ledger) -> int:
    """Forget the files that have no record any more and lie in the queue no more."""
    if plan.queue.is_empty(plan):
        return 0
    forgotten = 0
    for page in _without_record(plan, ledger):
        lost = plan.queue.gone([unquote_to_bytes(name) for name in page])
        gone = [(queue_name(plan), as_text(name)) for name in lost]
        with ledger.transaction() as cursor:
            cursor.executemany(_FORGET, gone)
        forgotten += len(gone)
    return forgotten


def _without_record(plan: Plan, ledger: Ledger) -> Iterator[list[str]]:
    after = ""
    while True:
        with ledger.trusted():
            rows = ledger.read(_WITHOUT_RECORD, (queue_name(plan), after, _PAGE)).fetchall()
        if not rows:
            return
        names = [str(name) for (name,) in rows]
        after = names[-1]
        yield names


_PAGE: Final = 1000


def _vacuum(ledger: Ledger) -> str | None:
    try:
        ledger.vacuum()
    except JobError as error:
        return f"the ledger keeps its size for now, and its free room for the next records: {error}"
    return None


_OLD_WINDOWS: Final = """
SELECT window_start FROM windows
WHERE window_start < ?1 AND window_start < (SELECT MAX(window_start) FROM windows WHERE window_start <= ?2)
ORDER BY window_start
"""
_COUNT_RECORDS: Final = "SELECT COUNT(*) FROM records WHERE window_start = ?"
_COUNT_FINDINGS: Final = """
SELECT COUNT(*) FROM records r JOIN findings f USING (queue, asset_id, content_sha256, profile_sha256)
WHERE r.window_start = ?
"""
_DROP_WINDOW: Final = (
    """
DELETE FROM findings WHERE (queue, asset_id, content_sha256, profile_sha256) IN (
    SELECT queue, asset_id, content_sha256, profile_sha256 FROM records WHERE window_start = ?)
""",
    "DELETE FROM records WHERE window_start = ?",
    "DELETE FROM summary WHERE window_start = ?",
    "DELETE FROM windows WHERE window_start = ?",
    "INSERT OR IGNORE INTO pruned VALUES (?)",
)
# The newest run, and the newest that ended well, stay: alerts ask for their age.
_OLD_RUNS: Final = """
FROM runs WHERE started_at < ?1 AND number NOT IN (
    (SELECT MAX(number) FROM runs),
    (SELECT coalesce(MAX(number), 0) FROM runs WHERE exit_code = 0 AND finished_at <= ?2))
"""
_COUNT_RUNS: Final = f"SELECT COUNT(*) {_OLD_RUNS}"
_DROP_RUNS: Final = f"DELETE {_OLD_RUNS}"
_WITHOUT_RECORD: Final = """
SELECT asset_id FROM assets a WHERE queue = ? AND asset_id > ? AND state = 'done'
    AND NOT EXISTS (SELECT 1 FROM records r WHERE r.queue = a.queue AND r.asset_id = a.asset_id)
ORDER BY asset_id LIMIT ?
"""
_FORGET: Final = "DELETE FROM assets WHERE queue = ? AND asset_id = ? AND state = 'done'"
