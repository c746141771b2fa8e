"""The rows of a Parquet file of ours, read back a row group at a time; any other file is refused."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet

from .parquet import ROWS_AT_ONCE, schema_of
from .records import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .records import Column, Value

# A FIFO can't hang the reader, and a link is not followed.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class NotOursError(Exception):
    """The file holds no rows of ours: in a few words, why."""


def read_rows(path: Path, columns: Sequence[Column]) -> Iterator[list[tuple[Value, ...]]]:
    """Yield the rows of a file some at a time; a time is microseconds since 1970.

    Raises:
        NotOursError: It is damaged, foreign, or of a newer version than this program writes.
    """
    try:
        with _opened(path) as file:
            _require_ours(file, columns)
            names = [column.name for column in columns]
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
                yield list(zip(*(_values(batch, column) for column in columns), strict=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        # One line of it: the library's messages have several.
        raise NotOursError(str(error).strip().partition("\n")[0]) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[parquet.ParquetFile]:
    with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise NotOursError("it is not a regular file")
        with parquet.ParquetFile(raw) as file:
            yield file


def _require_ours(file: parquet.ParquetFile, columns: Sequence[Column]) -> None:
    schema = file.schema_arrow
    version = (schema.metadata or {}).get(b"schema_version", b"")
    if not version.isdigit():
        raise NotOursError("it has no schema_version in its metadata")
    if int(version) > SCHEMA_VERSION:
        raise NotOursError(f"it has schema_version {int(version)}, this program knows {SCHEMA_VERSION}")
    for field in schema_of(columns):
        place = schema.get_field_index(field.name)
        if place < 0 or schema.field(place).type != field.type:
            raise NotOursError(f"its column {field.name} is missing or is no {field.type}")


def _values(batch: pa.RecordBatch, column: Column) -> list[Any]:
    values = batch.column(column.name)
    found: list[Any] = (values.cast(pa.int64()) if column.kind == "time" else values).to_pylist()
    return found
