"""Events in SQLite, for the HTTP service: a batch a transaction, each under a stable id of its caller's.

An id that is stored already is left as it is: with the same payload a retry is harmless, and with another one
it is refused. Payloads are the same where their JSON is, whatever the order of their keys; `1` and `1.0` are
two. One thread owns the connection, from opening it to closing it; SQLite is asked for a write-ahead log, so
that readers hold up no write, and to sync at each commit. What was answered is on the disk, in the file that has
the database's name: where that was removed or replaced meanwhile, the batch fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from examples.recipes.backend_errors import ItemRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger(__name__)

BUSY_TIMEOUT = 0.8
"""Seconds to wait for another process's lock: two batches in a row fail within the command's response timeout, so
that their clients are told why."""

_CREATE = "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, payload TEXT NOT NULL)"
_INSERT = "INSERT INTO events (id, payload) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
_SELECT = "SELECT payload FROM events WHERE id = ?"
_WAY_OUT = "give the path of a SQLite file, or of a new one, in a folder that exists and can be written"
_LONGER = "0" * 200
"""No id of a client's is as long as those that it begins."""
_PROBES = [(_LONGER + end, "1.0") for end in ("1", "1.0", "a", "A", "a ")]
"""What a table that counts in numbers, or ignores case or blanks, would take for one, or change."""

Record: TypeAlias = tuple[str, str]
"""An id, and the text of its payload: what waits in the queue is no larger than what was sent."""


class DatabaseUnusable(RuntimeError):
    """The events' database can't be opened, or not written."""


class PayloadDiffers(ItemRefused):
    """The id is stored already, and with another payload, which stays."""


class Event(BaseModel):
    """What to store, and the caller's own stable id for it."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=200)
    payload: JsonValue

    @field_validator("payload")
    @classmethod
    def _is_json(cls, payload: JsonValue) -> JsonValue:
        """Refuse NaN and infinity here: in the batch they would fail the siblings too."""
        json.dumps(payload, allow_nan=False)
        return payload

    def record(self) -> Record:
        """Return it as it is stored."""
        return self.id, json.dumps(self.payload, sort_keys=True, separators=(",", ":"))


class EventStore:
    """Events in SQLite. One thread owns the connection, from opening it to closing it."""

    def __init__(self, executor: ThreadPoolExecutor, connection: sqlite3.Connection, path: Path) -> None:
        self.executor = executor
        self._connection = connection
        self._path = path
        self._file = _identity(path)

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> EventStore:
        """Open or create the database.

        Raises:
            DatabaseUnusable: It can't be used.
        """
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="events")
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, cls._opened, executor, path)
        except BaseException:
            executor.shutdown(wait=False)
            raise

    @classmethod
    def _opened(cls, executor: ThreadPoolExecutor, path: str | os.PathLike[str]) -> EventStore:
        connection = _connect(path)
        return cls(executor, connection, _file_of(connection, path))

    def store(self, records: Sequence[Record]) -> list[bool | PayloadDiffers]:
        """Store a batch in one transaction, and say of each whether its id was new.

        Raises:
            sqlite3.Error: Nothing of it is stored.
            DatabaseUnusable: It is stored nowhere that lasts: the database's file is gone.
        """
        try:
            with self._connection as transaction:
                outcomes = [_stored(transaction, record) for record in records]
            self._check_file()
        except Exception as error:
            # Here too: those who sent them may have gone by now, and nobody else would tell.
            _log.warning("a batch of %d events was not stored: %s", len(records), error)
            raise
        return outcomes

    def _check_file(self) -> None:
        """Behind the commit, so that what was removed before is always found out."""
        there = _identity(self._path)
        if there is None or there != self._file:
            raise DatabaseUnusable(
                f"the events' database {self._path} was removed or replaced while the service ran, which still has "
                "the old one open: restart the service, and send again what it refused"
            )

    def close(self) -> Future[None]:
        """Close the database behind the write that may still run."""
        closing = self.executor.submit(self._connection.close)
        self.executor.shutdown(wait=False)
        return closing


def _stored(transaction: sqlite3.Connection, record: Record) -> bool | PayloadDiffers:
    if transaction.execute(_INSERT, record).rowcount == 1:
        return True
    key, payload = record
    ((there,),) = transaction.execute(_SELECT, (key,))
    return False if there == payload else PayloadDiffers("this id is stored already, with another payload")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _file_of(connection: sqlite3.Connection, path: str | os.PathLike[str]) -> Path:
    """Return the path that was given, a link too, or what SQLite makes of it: it may be built to read URIs."""
    named = Path(path).absolute()
    return named if named.exists() else Path(os.fsdecode(_opened_file(connection)))


def _opened_file(connection: sqlite3.Connection) -> bytes:
    ((file,),) = connection.execute("SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'")
    return file or b""


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    if not os.fspath(path):  # SQLite would take it for a database that is gone at the end
        raise DatabaseUnusable(f"the events' database needs a path, and got an empty one: {_WAY_OUT}")
    try:
        connection = sqlite3.connect(path, isolation_level="IMMEDIATE")
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, ValueError) as error:
        raise DatabaseUnusable(f"the events' database {path} can't be used ({error}): {_WAY_OUT}") from error
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the table, or see that the one that is there will do.

    Raises:
        ValueError: It is another's, or in no file.
        sqlite3.Error: The database can't be used.
    """
    if not _opened_file(connection):
        raise ValueError("SQLite would keep it in memory, and lose it at the end")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # as SQLite may be built to do less
    connection.execute(_CREATE)
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('events')")]
    if sorted(columns) != ["id", "payload"]:
        raise ValueError(f"its table events has the columns {columns}, and not id and payload")
    _try(connection)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT * 1000:.0f}")


def _try(connection: sqlite3.Connection) -> None:
    """See that events can be written and come back as they are, before the first one; nothing of it stays."""
    news = [_stored(connection, probe) for probe in _PROBES]
    kept = [
        tuple(connection.execute("SELECT id, payload FROM events WHERE id = ?", (key,))) for key, _ in _PROBES
    ]
    connection.rollback()
    if news != [True] * len(_PROBES) or kept != [(probe,) for probe in _PROBES]:
        raise ValueError("its table events is another's: it would not keep each id and payload as it is")
