"""The rows of a Parquet file of ours, read back a row group at a time; any other file is refused."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from .assets import NotAsSeenError
from .parquet import ROWS_AT_ONCE, schema_of
from .records import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from .records import Column, Value


class NotOursError(Exception):
    """The file holds no rows of ours: in a few words, why."""


def read_rows(
    opened: AbstractContextManager[IO[bytes]], columns: Sequence[Column]
) -> Iterator[list[tuple[Value, ...]]]:
    """Yield the rows of a file some at a time; a time is microseconds since 1970.

    Raises:
        NotOursError: It is damaged, foreign, or of a newer version than this program writes.
    """
    try:
        with opened as raw, parquet.ParquetFile(raw) as file:
            version = _require_ours(file, columns)
            names = [column.name for column in columns if column.since <= version]
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
                yield list(zip(*(_values(batch, column, version) for column in columns), strict=True))
    except (pa.ArrowException, NotAsSeenError, OSError, ValueError) as error:
        # One line of it: the library's messages have several.
        raise NotOursError(str(error).strip().partition("\n")[0]) from error


def _require_ours(file: parquet.ParquetFile, columns: Sequence[Column]) -> int:
    """Refuse what is not as this program has written it, and return the version that it was then."""
    schema = file.schema_arrow
    noted = (schema.metadata or {}).get(b"schema_version", b"")
    if not noted.isdigit():
        raise NotOursError("it has no schema_version in its metadata")
    if (version := int(noted)) > SCHEMA_VERSION:
        raise NotOursError(f"it has schema_version {version}, this program knows {SCHEMA_VERSION}")
    for field in schema_of([column for column in columns if column.since <= version]):
        place = schema.get_field_index(field.name)
        if place < 0 or schema.field(place).type != field.type:
            raise NotOursError(f"its column {field.name} is missing or is no {field.type}")
    return version


def _values(batch: pa.RecordBatch, column: Column, version: int) -> list[Any]:
    if column.since > version:
        return [None] * batch.num_rows
    values = batch.column(column.name)
    found: list[Any] = (values.cast(pa.int64()) if column.kind == "time" else values).to_pylist()
    return found
