"""The ledger's file: made, or seen to be the one that it should be.

One that SQLite finds damaged, or that is gone while records made from it are there, is lost, and can be made
again from them (`rebuild`). One that another program made, or another version, is refused and not changed.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from .assets import shown
from .errors import Exit, JobError
from .schema import LEDGER_VERSION, OLDER_VERSION, SINCE_3, TABLES, create_tables, migrate

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan

BUSY_SECONDS: Final = 5.0
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class LedgerLostError(Exception):
    """The ledger is damaged, or gone: in a few words, which."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, and read and change nothing of it yet."""
    # Threads take turns: the batcher's and the scan's are never the main one's at the same time.
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def configure(connection: sqlite3.Connection) -> None:
    """Set the two that a crash must find set; the first changes the file, so it has to be ours by now."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def prepare(connection: sqlite3.Connection, plan: Plan) -> None:
    """Make a new ledger, or see that the one that is there is ours, whole, and of this version.

    Raises:
        LedgerLostError: It has to be made again.
        JobError: It is none of ours, or of another version.
    """
    try:
        _prepare(connection, plan)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise LedgerLostError(f"is damaged ({error})") from error
        raise


def _prepare(connection: sqlite3.Connection, plan: Plan) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not tables and version == 0:
        if plan.telemetry.is_dir() and any(plan.telemetry.rglob("*.parquet")):
            raise LedgerLostError("is missing or empty, and its records are there")
        connection.executescript(create_tables())
    elif tables and not tables >= TABLES:
        raise _not_ours(plan)
    else:
        _require_whole(connection)
        _require_version(connection, version, plan.ledger)
        if not tables >= SINCE_3 and version == LEDGER_VERSION:
            raise _not_ours(plan)


def _not_ours(plan: Plan) -> JobError:
    way_out = "choose another folder with --state"
    return JobError(f"{shown(plan.ledger)} is a database, but not a ledger of ours; {way_out}", Exit.IO_ERROR)


def _require_whole(connection: sqlite3.Connection) -> None:
    """Read the whole file, each time: seen were 0.4 ms for 44 KB and 3 ms a MB for 37 MB."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise LedgerLostError(f"is damaged ({' '.join(str(found).split())})")


def _require_version(connection: sqlite3.Connection, version: int, path: Path) -> None:
    if version == OLDER_VERSION:
        connection.executescript(migrate())
    elif version != LEDGER_VERSION:
        found = f"the ledger {shown(path)} has version {version}, this program writes {LEDGER_VERSION}"
        raise JobError(f"{found}; use the program that made it, or another --state", Exit.BAD_CONFIG)
