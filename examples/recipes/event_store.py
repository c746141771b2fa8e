"""Events in SQLite, for the HTTP service: a batch a transaction, each under a stable id of its caller's.

An id that is stored already is left as it is, so that a retry is harmless. One thread owns the connection,
from opening it to closing it; SQLite is asked for a write-ahead log, so that readers hold up no write.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor

from pydantic import BaseModel, Field, JsonValue, field_validator

_CREATE = "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, payload TEXT NOT NULL)"
_INSERT = "INSERT INTO events (id, payload) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
_WAY_OUT = "give the path of a SQLite file, or of a new one, in a folder that exists and can be written"


class Event(BaseModel):
    """What to store, and the caller's own stable id for it."""

    id: str = Field(min_length=1, max_length=200)
    payload: JsonValue

    @field_validator("payload")
    @classmethod
    def _is_json(cls, payload: JsonValue) -> JsonValue:
        """Refuse NaN and infinity here: in the batch they would fail the siblings too."""
        json.dumps(payload, allow_nan=False)
        return payload


class EventStore:
    """Events in SQLite. One thread owns the connection, from opening it to closing it."""

    def __init__(self, executor: ThreadPoolExecutor, connection: sqlite3.Connection) -> None:
        self.executor = executor
        self._connection = connection

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> EventStore:
        """Open or create the database.

        Raises:
            RuntimeError: It can't be used.
        """
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="events")
        try:
            connection = await asyncio.get_running_loop().run_in_executor(executor, _connect, path)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(executor, connection)

    def store(self, events: list[Event]) -> list[bool]:
        """Store a batch in one transaction, and say of each event whether its id was new."""
        with self._connection as transaction:
            return [
                transaction.execute(_INSERT, (event.id, json.dumps(event.payload))).rowcount == 1
                for event in events
            ]

    def close(self) -> Future[None]:
        """Close the database behind the write that may still run."""
        closing = self.executor.submit(self._connection.close)
        self.executor.shutdown(wait=False)
        return closing


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    if not os.fspath(path):  # SQLite would take it for a database that is gone at the end
        raise RuntimeError(f"the events' database needs a path, and got an empty one: {_WAY_OUT}")
    try:
        connection = sqlite3.connect(path)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, ValueError) as error:
        raise RuntimeError(f"the events' database {path} can't be used ({error}): {_WAY_OUT}") from error
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the table, or see that the one that is there will do.

    Raises:
        ValueError: It is another's.
        sqlite3.Error: The database can't be used.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(_CREATE)
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('events')")]
    if sorted(columns) != ["id", "payload"]:
        raise ValueError(f"its table events has the columns {columns}, and not id and payload")
    connection.execute(f"EXPLAIN {_INSERT}", ("", ""))  # an id that is not unique is found out here too
