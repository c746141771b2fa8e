"""The ledger's tables, made from the columns that the records have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .records import ASSETS, FINDINGS, KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .records import Column

LEDGER_VERSION: Final = 2

_SQL_TYPE: Final = {"text": "TEXT", "int": "INTEGER", "real": "REAL", "time": "INTEGER"}

# `assets` is what the job knows of each file now; a state other than 'done' and 'dead' is unfinished work.
# `records` and `findings` are what was found, for ever. `windows` counts the changes of each window's
# records and remembers which count its files show, and their size and time, so that other files in their place
# are noticed. `runs` has a row for each run that held the lock.
# `summary` keeps what the dashboard says of one window, so that an empty fire needn't count a million rows.
TABLES: Final = frozenset({"assets", "windows", "summary", "runs", "records", "findings"})
_STATE: Final = """
CREATE TABLE assets (
    queue TEXT NOT NULL,
    asset_id TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    profile_sha256 TEXT NOT NULL,
    content_sha256 TEXT,
    state TEXT NOT NULL CHECK (state IN ('running', 'alone', 'suspect', 'suspect last', 'done', 'dead')),
    attempts INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (queue, asset_id)
) WITHOUT ROWID;
CREATE INDEX assets_not_done ON assets (state, asset_id) WHERE state != 'done';
CREATE TABLE windows (
    window_start INTEGER PRIMARY KEY,
    changes INTEGER NOT NULL,
    projected INTEGER NOT NULL,
    counts TEXT,
    files TEXT
);
CREATE INDEX windows_behind ON windows (window_start) WHERE projected != changes;
CREATE TABLE summary (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    window_start INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    content TEXT NOT NULL
);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    profile TEXT NOT NULL,
    profile_sha256 TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    finished_at INTEGER,
    exit_code INTEGER,
    drained INTEGER,
    totals TEXT
) WITHOUT ROWID;
CREATE INDEX runs_started ON runs (started_at);
"""


def create_tables() -> str:
    """Return the script that makes an empty ledger, as one transaction."""
    records = _table("records", ASSETS, KEY)
    findings = _table("findings", FINDINGS[1:], (*KEY, "place"), extra="place INTEGER NOT NULL, ")
    by_window = "CREATE INDEX records_by_window ON records (window_start);"
    version = f"PRAGMA user_version = {LEDGER_VERSION};"
    return f"BEGIN IMMEDIATE;\n{_STATE}\n{records}\n{findings}\n{by_window}\n{version}\nCOMMIT;"


def insert_into(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts one row with `columns`."""
    holders = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({holders})"  # noqa: S608 - our own names


def _table(name: str, columns: Iterable[Column], key: Sequence[str], extra: str = "") -> str:
    fields = ", ".join(f"{column.name} {_SQL_TYPE[column.kind]}" for column in columns)
    return f"CREATE TABLE {name} ({extra}{fields}, PRIMARY KEY ({', '.join(key)})) WITHOUT ROWID;"
