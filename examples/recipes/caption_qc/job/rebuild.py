"""The ledger, made again from the Parquet files when it is lost.

1. The damaged file is kept under a name with the time. None is ever deleted, and there are at most `MOST_KEPT`.
2. The new one is built whole beside it and renamed into place; a crash before that begins again.
3. One that is damaged is not replaced by an empty one where no run has left its reports: these lie elsewhere then,
   and with them what would be recorded twice.
4. What Parquet does not hold, the stats, attempts and runs, stays unknown, so that content is the judge: each
   file is read once more, and one whose bytes have a record gives no new one.
   `rebuild_rows` says which rows are taken.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from typing import TYPE_CHECKING, Final

from .assets import shown
from .errors import Exit, JobError, cannot_write, ledger_failed
from .files import sync_folder, temporary_of
from .ledger_file import connect
from .reports import DASHBOARD_JSON, TELEMETRY
from .schema import create_tables

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan

MOST_KEPT: Final = 10
_BESIDE: Final = ("", "-wal", "-shm", "-journal")


def rebuild(plan: Plan, why: str) -> str:
    """Make the ledger again, and say so in one line.

    Args:
        plan: The run; its `out` has the Parquet files.
        why: What happened to the ledger that is there, or is not.

    Raises:
        JobError: A Parquet file can't be used, or the new ledger can't be written.
    """
    temporary = temporary_of(plan.ledger)
    try:
        aside = _free_name(plan)
        _remove(temporary)
        try:
            windows, records = _build(plan, temporary)
            _require_reports(plan, why, windows)
            _sync(temporary)
            kept = _set_aside(plan.ledger, aside)
            temporary.replace(plan.ledger)
        finally:
            _remove(temporary)
        sync_folder(plan.state)
    except OSError as error:
        raise cannot_write(error, shown(plan.ledger)) from error
    except sqlite3.Error as error:
        raise ledger_failed(error, plan.ledger) from error
    counts = f"{_counted(records, 'record')} of {_counted(windows, 'window')}"
    done = f"made again from {plan.out.shown(TELEMETRY)}, with {counts}"
    note = f"; the damaged one is kept as {aside.name}" if kept else ""
    return f"the ledger {shown(plan.ledger)} {why}: {done}{note}; each file is read once more"


def _require_reports(plan: Plan, why: str, windows: int) -> None:
    if windows or not plan.ledger.stat().st_size or plan.out.holds(DASHBOARD_JSON):
        return
    found = f"the ledger {shown(plan.ledger)} {why}, and no run has left its reports in {plan.out.shown()}"
    way_out = f"give the --out that runs have, or move {shown(plan.ledger)} away to begin anew"
    raise JobError(f"{found}; {way_out}", Exit.IO_ERROR)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _free_name(plan: Plan) -> Path:
    """Return the name under which the damaged ledger is kept."""
    begin = f"{plan.ledger.name}.damaged-"
    names = {path.name for path in plan.state.iterdir() if path.name.startswith(begin)}
    kept = sum(not name.endswith(_BESIDE[1:]) for name in names)
    if kept >= MOST_KEPT:
        found = f"{kept} damaged ledgers are kept in {shown(plan.state)} already"
        way_out = "find out what damages them, and move them away"
        raise JobError(f"{found}; {way_out}", Exit.IO_ERROR)
    stem = f"{begin}{plan.started:%Y%m%dT%H%M%SZ}"
    choices = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    return next(plan.ledger.with_name(name) for name in choices if name not in names)


def _set_aside(ledger: Path, aside: Path) -> bool:
    """Keep the damaged ledger, itself first: without it the run after a crash here begins again."""
    kept = False
    for suffix in _BESIDE:
        path = ledger.with_name(ledger.name + suffix)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                path.rename(aside.with_name(aside.name + suffix))
                kept = True
            else:
                path.unlink()
    return kept


def _build(plan: Plan, path: Path) -> tuple[int, int]:
    """Build the ledger at `path`, which a crash may leave there half done; count windows and records."""
    # Here, because it brings pyarrow.
    try:
        from .rebuild_rows import fill  # noqa: PLC0415
    except ImportError as error:
        way_out = "install pyarrow, then run again"
        raise JobError(
            f"cannot make the ledger again from Parquet: {error}; {way_out}", Exit.BAD_CONFIG
        ) from error

    with contextlib.closing(connect(path)) as connection:
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            connection.execute(f"PRAGMA {setting}")
        connection.executescript(create_tables())
        connection.execute("BEGIN")
        counts = fill(connection, plan)
        connection.execute("COMMIT")
    return counts


# Pages out of order would be read back from the disk again and again with the usual 2 MB.
_CACHE_KIB: Final = 32_768


def _remove(temporary: Path) -> None:
    for suffix in _BESIDE:
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
