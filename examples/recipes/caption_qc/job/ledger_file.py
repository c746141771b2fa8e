"""The ledger's file: made, or seen to be the one that it should be.

1. One that SQLite finds damaged, or that is gone while records made from it are there, is lost, and can be made
   again from them (`rebuild`). One that another program made, or another version, is refused and not changed.
2. Reading it through takes 3 ms a MB, which an empty fire has not for years of records. So it is done when the
   file is not as the last run left it, when that died or failed, and once a day; what the last run left stands
   in a note beside it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from .assets import NotAsSeenError, open_asset, shown
from .errors import Exit, JobError
from .files import require_regular
from .plan import microseconds, time_of
from .reports import TELEMETRY
from .schema import LEDGER_VERSION, OLDER_VERSIONS, SINCE_3, TABLES, create_tables, migrate

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from .plan import Plan

BUSY_SECONDS: Final = 5.0
CHECK_EVERY: Final = timedelta(days=1)
# Over twice what five numbers of 64 bits take.
_LONGEST_NOTE: Final = 256
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class LedgerLostError(Exception):
    """The ledger is damaged, or gone: in a few words, which."""


def require_ledger_file(path: Path) -> None:
    """Refuse what is no regular file where the ledger is, or what SQLite opens beside it: a FIFO would hang it.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    for beside in ("", "-journal", "-wal", "-shm"):
        require_regular(path.with_name(path.name + beside))


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, and read and change nothing of it yet."""
    # Threads take turns: the batcher's and the scan's are never the main one's at the same time.
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def last_checked(ledger: Path, now: datetime) -> datetime | None:
    """Return when the file was last read through; `None` when it has to be now."""
    try:
        with os.fdopen(open_asset(bytes(_note_of(ledger))), "rb") as note:
            *seen, checked_at = map(int, note.read(_LONGEST_NOTE).split())
        checked, same = time_of(checked_at), seen == _known_by(ledger)
    except (NotAsSeenError, OSError, ValueError, OverflowError):
        return None
    return checked if same and timedelta(0) <= now - checked < CHECK_EVERY else None


def note_whole(ledger: Path, checked: datetime) -> None:
    """Note how a run left the file, which was last read through at `checked`."""
    with contextlib.suppress(OSError):  # Without a note the next run reads it through.
        text = " ".join(map(str, (*_known_by(ledger), microseconds(checked))))
        # Made anew: what lies there may be a FIFO, or lead elsewhere.
        _note_of(ledger).unlink(missing_ok=True)
        with _note_of(ledger).open("x", encoding="ascii") as note:
            note.write(f"{text}\n")


def forget_note(ledger: Path) -> None:
    """Let the next run read the file through."""
    with contextlib.suppress(OSError):
        _note_of(ledger).unlink(missing_ok=True)


def _note_of(ledger: Path) -> Path:
    return ledger.with_name("ledger.checked")


def _known_by(ledger: Path) -> list[int]:
    seen = ledger.stat()
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]


def configure(connection: sqlite3.Connection) -> None:
    """Set the two that a crash must find set; the first changes the file, so it has to be ours by now."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def prepare(connection: sqlite3.Connection, plan: Plan, checked: datetime | None) -> None:
    """Make a new ledger, or see that the one that is there is ours, whole, and of this version.

    Args:
        connection: Opened and not used yet.
        plan: The run.
        checked: When the file was last read through; `None`: it is now.

    Raises:
        LedgerLostError: It has to be made again.
        JobError: It is none of ours, or of another version.
    """
    try:
        _prepare(connection, plan, checked)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise LedgerLostError(f"is damaged ({error})") from error
        raise


def _prepare(connection: sqlite3.Connection, plan: Plan, checked: datetime | None) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not tables and version == 0:
        if any(plan.out.parquet_below(TELEMETRY)):
            raise LedgerLostError("is missing or empty, and its records are there")
        connection.executescript(create_tables())
    elif tables and not tables >= TABLES:
        raise _not_ours(plan)
    else:
        if checked is None:
            _require_whole(connection)
        if not tables >= SINCE_3 and version in {*OLDER_VERSIONS[1:], LEDGER_VERSION}:
            raise _not_ours(plan)
        _require_version(connection, version, plan.ledger)


def _not_ours(plan: Plan) -> JobError:
    way_out = "choose another folder with --state"
    return JobError(f"{shown(plan.ledger)} is a database, but not a ledger of ours; {way_out}", Exit.IO_ERROR)


def _require_whole(connection: sqlite3.Connection) -> None:
    """Read the whole file: seen were 0.4 ms for 44 KB, 0.1 s for 37 MB and 0.8 s for 454 MB."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise LedgerLostError(f"is damaged ({' '.join(str(found).split())})")


def _require_version(connection: sqlite3.Connection, version: int, path: Path) -> None:
    if version in OLDER_VERSIONS:
        connection.executescript(migrate(version))
    elif version != LEDGER_VERSION:
        found = f"the ledger {shown(path)} has version {version}, this program writes {LEDGER_VERSION}"
        raise JobError(f"{found}; use the program that made it, or another --state", Exit.BAD_CONFIG)
