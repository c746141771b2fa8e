"""The columns of the two tables of records: the ledger and the Parquet files are both made from these."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["text", "int", "real", "time"]
Value: TypeAlias = str | int | float | None

# Raised when a column is added; columns are never renamed, retyped or removed.
SCHEMA_VERSION: Final = 2


class Column(NamedTuple):
    """One column. A time is microseconds since 1970 (UTC) in the ledger, timestamp[us, UTC] in Parquet."""

    name: str
    kind: Kind
    since: int = 1
    """The first version that has it; read from files of older ones it is null."""


# One record a queue, asset, content and profile: these four are the key of both tables.
KEY: Final = ("queue", "asset_id", "content_sha256", "profile_sha256")

ASSETS: Final = (
    Column("window_start", "time"),
    Column("queue", "text"),
    Column("asset_id", "text"),
    Column("content_sha256", "text"),
    Column("size_bytes", "int"),
    Column("mtime_ns", "int"),
    Column("status", "text"),
    Column("attempt", "int"),
    Column("time_base", "text"),
    Column("first_tc", "text"),
    Column("last_tc", "text"),
    Column("duration_frames", "int"),
    Column("cues", "int"),
    Column("words", "int"),
    Column("mode_pop", "int"),
    Column("mode_roll", "int"),
    Column("mode_paint", "int"),
    Column("parity_errors", "int"),
    Column("max_cps", "real"),
    Column("p95_cps", "real"),
    Column("wpm", "real"),
    Column("share_over_cps", "real"),
    Column("max_rows", "int"),
    Column("max_cols", "int"),
    Column("profile", "text"),
    Column("profile_sha256", "text"),
    Column("tool_version", "text"),
    Column("run_id", "text"),
    Column("checked_at", "time"),
    Column("check_seconds", "real"),
)

# Of the ledger alone: how often each rule was broken, so that nobody has to count a million findings for it. Null
# where the record was taken from Parquet, or is older than the column.
TALLY: Final = Column("tally", "text", since=2)

FINDINGS: Final = (
    Column("window_start", "time"),
    Column("queue", "text"),
    Column("asset_id", "text"),
    Column("content_sha256", "text"),
    Column("profile_sha256", "text"),
    Column("number", "int"),
    Column("rule", "text"),
    Column("severity", "text"),
    Column("channel", "text"),
    Column("line", "int"),
    Column("word", "int"),
    Column("timecode", "text"),
    Column("frame", "int"),
    Column("cue", "int"),
    Column("measured", "real"),
    Column("threshold", "real"),
    Column("unit", "text"),
    Column("message", "text"),
    Column("caption", "text", since=2),
    Column("caption_start", "real", since=2),
    Column("caption_end", "real", since=2),
)
