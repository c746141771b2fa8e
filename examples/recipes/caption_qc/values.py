"""What an option may be: readers that make a value of text, or say in one line what was wanted."""

from __future__ import annotations

import argparse
import importlib.util
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from .check import GivenError, Programme, parse_programme
from .job.errors import JobError
from .job.plan import FAIL_ON, WINDOW_FORMAT
from .job.scan import Shard

if TYPE_CHECKING:
    from .job.object_store import Bucket
    from .job.plan import FailOn

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_SECONDS: Final = 366 * 86400
_MINUTE: Final = 60


def duration(text: str) -> float:
    """Read seconds, or a number with s, m, h or d."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else -1.0
    if 0 <= seconds <= _MOST_SECONDS:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no duration up to 366d; write one like 10s, 5m or 1h")


def keep(text: str) -> timedelta:
    """Read how long records are kept."""
    match = re.fullmatch(r"([0-9]{1,5})d", text)
    if match and (days := int(match[1])):
        return timedelta(days=days)
    raise argparse.ArgumentTypeError(f"{text!r} is no time to keep records for; write whole days, like 800d")


def over_zero(text: str) -> float:
    """Read a duration that is over 0."""
    if seconds := duration(text):
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no time to work in; write a duration over 0, like 25s")


def window(text: str) -> float:
    """Read a window: whole minutes, because its name ends with them."""
    if (seconds := duration(text)) and seconds % _MINUTE == 0:
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no window of whole minutes; write one like 5m, 1h or 1d")


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MOST:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {_MOST}")


_MOST: Final = 1000


def path(text: str) -> Path:
    """Read a path; an empty one would mean the working directory."""
    if text and "\0" not in text:
        return Path(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no path; write one like ./state")


def queue(text: str) -> Path | Bucket:
    """Read where assets lie: a folder, or the address of a bucket."""
    return _place(text, "no queue that can be read")


def reports(text: str) -> Path | Bucket:
    """Read where reports go: a folder, or the address of a bucket."""
    return _place(text, "no place that reports can be written to")


def _place(text: str, none: str) -> Path | Bucket:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return path(text)
    from .job.object_store import SCHEME, bucket_of  # noqa: PLC0415 - a local run needs none of it

    if scheme[0] != SCHEME:
        way_out = "write s3://bucket/prefix, or ./ before a folder's name"
        raise argparse.ArgumentTypeError(f"{text!r} is {none}; {way_out}")
    try:
        return bucket_of(text)
    except JobError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def file_at_hand(text: str) -> Path:
    """Read the path of a file that is looked at here."""
    if _SCHEME.match(text) is None:
        return path(text)
    way_out = "fetch it (aws s3 cp, or the like), and give its path"
    raise argparse.ArgumentTypeError(
        f"{text!r} is no path, and inspect reads files of this machine; {way_out}"
    )


def local_path(text: str) -> Path:
    """Read the path of what must lie on a local file system."""
    if _SCHEME.match(text) is None:
        return path(text)
    found = (
        f"{text!r} is no path: lock and ledger need a local file system, and the metrics a local collector"
    )
    raise argparse.ArgumentTypeError(f"{found}; write a path like ./state (reports may go to s3:// by --out)")


# A path that looks so can be written with ./ before it.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def programme(text: str) -> Programme:
    """Read when a programme starts and ends."""
    try:
        return parse_programme(text)
    except GivenError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def cues(text: str) -> tuple[range, ...]:
    """Read numbers of cues and ranges of them."""
    return tuple(map(_cues, text.split(",")))


def _cues(text: str) -> range:
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if 0 < first <= last:
        return range(first, last + 1)
    raise argparse.ArgumentTypeError(f"{text!r} is no cue or range of cues; write them like 3 or 1-4,9")


def time(text: str) -> datetime:
    """Read an ISO 8601 time; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write one like 2026-01-01T00:05Z") from error
    if found.year < _FIRST_YEAR:
        raise argparse.ArgumentTypeError(f"{text!r} is before {_FIRST_YEAR}; write a time since then")
    return found


_FIRST_YEAR: Final = 1970


def windows(text: str) -> tuple[datetime, datetime]:
    """Read one window or two, written as their folders are named or as times."""
    first, slash, last = text.partition("/")
    found = _window_start(first), _window_start(last if slash else first)
    if found[0] <= found[1]:
        return found
    raise argparse.ArgumentTypeError(f"{text!r} ends before it begins; write the earlier window first")


def _window_start(text: str) -> datetime:
    try:
        return datetime.strptime(text, WINDOW_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return time(text)
    except argparse.ArgumentTypeError as error:
        way_out = "write it like 2026-01-01T0005Z, as the folders are named, or two like it with / between"
        raise argparse.ArgumentTypeError(f"{text!r} is no window; {way_out}") from error


def shard(text: str) -> Shard:
    """Read which part of how many a run is."""
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    index, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if 1 <= index <= parts <= _MOST:
        return Shard(index, parts)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write one like 1/4, the first of four")


def fail_on(text: str) -> frozenset[FailOn]:
    """Read what a run exits with 65 for."""
    words = text.split(",")
    if set(words) <= set(FAIL_ON):
        return frozenset(cast("list[FailOn]", words))
    way_out = f"write {', '.join(FAIL_ON)}, or several with commas between"
    raise argparse.ArgumentTypeError(f"{text!r} is nothing to fail on; {way_out}")


def url(text: str) -> str:
    """Read the address of a server; the message does not show it, since it may be a secret."""
    try:
        parts = urlsplit(text)
        there = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # Of a port or a host that can't be.
        there = False
    if there and text.isascii() and text.isprintable() and " " not in text:
        return text
    raise argparse.ArgumentTypeError(
        "this is no http or https URL; write one like https://hc-ping.com/<uuid>"
    )


def scheduler(text: str) -> str:
    """Read where checks go that don't go to processes of the run's own."""
    if text != "local" and not _is_address(text):
        wanted = "write one like tcp://10.0.0.1:8786 or tls://10.0.0.1:8786, or local for a cluster of this machine"
        raise argparse.ArgumentTypeError(f"{text!r} is no address of a Dask scheduler; {wanted}")
    if importlib.util.find_spec("distributed") is None:
        raise argparse.ArgumentTypeError(f"{text} needs Dask; install it with: {_INSTALL_DASK}")
    return text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        there = parts.scheme in {"tcp", "tls"} and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # Of a port or a host that can't be.
        return False
    whole = there and f"{parts.scheme}://{parts.netloc}" == text.rstrip("/") and "@" not in text
    return whole and text.isascii() and text.isprintable() and " " not in text


_INSTALL_DASK: Final = "python -m uv sync --group dask"


def switch(text: str) -> bool:
    """Read yes or no, as the environment gives it."""
    if (found := _SWITCHES.get(text.lower())) is not None:
        return found
    raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no; write 1 or 0")


_SWITCHES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
