"""The ledger's tables, made from the columns that the records have."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from .records import ASSETS, FINDINGS, KEY, TALLY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .records import Column

LEDGER_VERSION: Final = 5
# What `migrate` makes a ledger of this version from.
OLDER_VERSIONS: Final = (2, 3, 4)

_SQL_TYPE: Final = {"text": "TEXT", "int": "INTEGER", "real": "REAL", "time": "INTEGER"}

# `assets` is what the job knows of each file now; a state other than 'done' and 'dead' is unfinished work.
# `sidecar` is the stat of the file beside it, as text. `records` and `findings` are what was found, until they
# are pruned. `windows` counts the changes of each window's records and remembers which count its files show,
# and their size and time, so that other files in their place are noticed. `runs` has a row for each run that
# held the lock, numbered as they came, since a clock may have been wrong once; `rebuilt` says so if it had to
# make the ledger again.
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
    sidecar TEXT,
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
"""
# `summary` keeps what the dashboards say of records and ledger, as text, so that an empty fire needn't look at a
# million rows, nor parse what it writes: `counts` are the totals, `fragment` is of the page, and the JSON is in
# `summary_text`, in parts. `made_from` is a digest of all that they follow from, of the window's records by their
# count of changes; `checksum` is of the parts and of the fragment.
_SUMMARY: Final = """
CREATE TABLE summary (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    window_start INTEGER,
    made_from TEXT NOT NULL,
    counts TEXT NOT NULL,
    fragment TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE summary_text (part INTEGER PRIMARY KEY, content TEXT NOT NULL);
"""
_RUNS: Final = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    started_at INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    profile TEXT NOT NULL,
    profile_sha256 TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    finished_at INTEGER,
    exit_code INTEGER,
    drained INTEGER,
    totals TEXT,
    rebuilt TEXT
);
"""
# `dead_letters` are files that were given up: `place` is where one lies below dead-letter/, NULL while it lies
# in the queue; `move` is what is to be done with the file, and stands before it is begun. `pruned` are windows
# whose records are gone and whose files may still be there. `skips` counts the fires that were refused, and
# `folded` tells which lines of the log the count has.
SINCE_3: Final = frozenset({"dead_letters", "pruned", "skips"})
_SINCE_3: Final = """
CREATE TABLE dead_letters (
    queue TEXT NOT NULL,
    asset_id TEXT NOT NULL,
    content_sha256 TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    place TEXT,
    move TEXT CHECK (move IN ('out', 'back')),
    PRIMARY KEY (queue, asset_id, content_sha256)
) WITHOUT ROWID;
CREATE INDEX dead_letters_to_move ON dead_letters (move) WHERE move IS NOT NULL;
CREATE TABLE pruned (window_start INTEGER PRIMARY KEY);
CREATE TABLE skips (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    total INTEGER NOT NULL,
    folded TEXT NOT NULL
);
"""
_OLD_DEAD_LETTERS: Final = """
INSERT INTO dead_letters
SELECT a.queue, a.asset_id, a.content_sha256, a.attempts, coalesce(f.message, 'not checked'),
    coalesce(r.checked_at, 0), a.size, a.mtime_ns, a.ctime_ns, a.inode, NULL, 'out'
FROM assets a
LEFT JOIN records r USING (queue, asset_id, content_sha256, profile_sha256)
LEFT JOIN findings f ON (f.queue, f.asset_id, f.content_sha256, f.profile_sha256, f.place)
    = (a.queue, a.asset_id, a.content_sha256, a.profile_sha256, 0)
WHERE a.state = 'dead' AND a.content_sha256 IS NOT NULL;
"""
# Those of a clock that was ahead come first, as far as can be told by now.
_NUMBERED_RUNS: Final = f"""
ALTER TABLE runs RENAME TO runs_before;
{_RUNS}
INSERT INTO runs (run_id, started_at, window_start, profile, profile_sha256, tool_version, finished_at, exit_code,
    drained, totals, rebuilt)
SELECT run_id, started_at, window_start, profile, profile_sha256, tool_version, finished_at, exit_code,
    drained, totals, rebuilt
FROM runs_before ORDER BY started_at <= strftime('%s', 'now') * 1000000, started_at, run_id;
DROP TABLE runs_before;
"""  # noqa: S608 - our own text


def create_tables() -> str:
    """Return the script that makes an empty ledger, as one transaction."""
    records = _table("records", (*ASSETS, TALLY), KEY)
    findings = _table("findings", FINDINGS[1:], (*KEY, "place"), extra="place INTEGER NOT NULL, ")
    by_window = "CREATE INDEX records_by_window ON records (window_start);"
    return _transaction(_STATE, _SUMMARY, _RUNS, _SINCE_3, records, findings, by_window)


def migrate(version: int) -> str:
    """Return the script that brings a ledger of one of `OLDER_VERSIONS` up to this one, as one transaction."""
    columns = "ALTER TABLE assets ADD COLUMN sidecar TEXT; ALTER TABLE runs ADD COLUMN rebuilt TEXT;"
    to_3 = (columns, _SINCE_3, _OLD_DEAD_LETTERS)
    new_columns = (*_added("records", (*ASSETS, TALLY), since=2), *_added("findings", FINDINGS, since=2))
    to_5 = (*new_columns, "DROP TABLE summary;", _SUMMARY)
    steps = (to_3, (_NUMBERED_RUNS,), to_5)
    return _transaction(*chain.from_iterable(steps[OLDER_VERSIONS.index(version) :]))


def _added(table: str, columns: Iterable[Column], since: int) -> Iterator[str]:
    for column in columns:
        if column.since == since:
            yield f"ALTER TABLE {table} ADD COLUMN {column.name} {_SQL_TYPE[column.kind]};"


def insert_into(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts one row with `columns`."""
    holders = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({holders})"  # noqa: S608 - our own names


def _transaction(*scripts: str) -> str:
    version = f"PRAGMA user_version = {LEDGER_VERSION};"
    return "\n".join(["BEGIN IMMEDIATE;", *scripts, version, "COMMIT;"])


def _table(name: str, columns: Iterable[Column], key: Sequence[str], extra: str = "") -> str:
    fields = ", ".join(f"{column.name} {_SQL_TYPE[column.kind]}" for column in columns)
    return f"CREATE TABLE {name} ({extra}{fields}, PRIMARY KEY ({', '.join(key)})) WITHOUT ROWID;"
