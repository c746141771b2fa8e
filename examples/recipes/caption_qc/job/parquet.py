"""A window's two Parquet files, streamed from the ledger by an explicit schema."""

from __future__ import annotations

import itertools
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from .exits import BrokenOffError
from .records import ASSETS, FINDINGS, KEY, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .ledger import Ledger
    from .records import Column

# Rows held in memory at once as Python's values, which take ten times the room of Arrow's.
ROWS_AT_ONCE: Final = 1_000
# Readers like row groups of some size; 100,000 records took 40 MB with ten of these a group, 25 MB with three.
_BATCHES_A_GROUP: Final = 3
_ARROW_TYPE: Final[dict[str, pa.DataType]] = {
    "text": pa.string(),
    "int": pa.int64(),
    "real": pa.float64(),
    "time": pa.timestamp("us", tz="UTC"),
}


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of a table: `schema_version`, then its columns."""
    version = pa.field("schema_version", pa.int64(), nullable=False)
    fields = [pa.field(column.name, _ARROW_TYPE[column.kind]) for column in columns]
    return pa.schema([version, *fields], metadata={"schema_version": str(SCHEMA_VERSION)})


def write_findings(ledger: Ledger, window: int, file: IO[bytes], stopped: Callable[[], bool]) -> None:
    """Write the findings of a window's records.

    Raises:
        BrokenOffError: `stopped`, which is asked after each group of rows, says so.
        JobError: The ledger can't be read.
    """
    names = ", ".join("r.window_start" if c.name == "window_start" else f"f.{c.name}" for c in FINDINGS)
    key = ", ".join(KEY)
    query = f"SELECT {names} FROM records r JOIN findings f USING ({key})"  # noqa: S608 - our own names
    query = f"{query} WHERE r.window_start = ? ORDER BY {key}, f.place"
    _write(file, FINDINGS, _batches(ledger, FINDINGS, query, window), stopped)


def write_assets(ledger: Ledger, window: int, file: IO[bytes], stopped: Callable[[], bool]) -> None:
    """Write a window's records, or break off as `write_findings` does."""
    names = ", ".join(column.name for column in ASSETS)
    query = f"SELECT {names} FROM records WHERE window_start = ? ORDER BY {', '.join(KEY)}"  # noqa: S608
    _write(file, ASSETS, _batches(ledger, ASSETS, query, window), stopped)


def _write(
    file: IO[bytes], columns: Sequence[Column], batches: Iterator[pa.RecordBatch], stopped: Callable[[], bool]
) -> None:
    schema = schema_of(columns)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(itertools.islice(batches, _BATCHES_A_GROUP)):
            writer.write_table(pa.Table.from_batches(group))
            if len(group) == _BATCHES_A_GROUP and stopped():
                raise BrokenOffError


def _batches(ledger: Ledger, columns: Sequence[Column], query: str, window: int) -> Iterator[pa.RecordBatch]:
    schema = schema_of(columns)
    rows = ledger.read(query, (window,))
    while True:
        with ledger.trusted():
            if not (some := rows.fetchmany(ROWS_AT_ONCE)):
                return
            version = pa.array([SCHEMA_VERSION] * len(some), pa.int64())
            arrays = [
                pa.array(values, _ARROW_TYPE[column.kind])
                for column, values in zip(columns, zip(*some, strict=True), strict=True)
            ]
            batch = pa.RecordBatch.from_arrays([version, *arrays], schema=schema)
        yield batch
