"""`inspect`: what a file shows and what is wrong with it, as tables or as JSON."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .check import check, too_large
from .job.assets import NotAsSeenError, open_asset, read_as_seen, shown, stat_of
from .job.errors import Exit
from .job.streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .check import Profile, Report


def inspect_files(files: Sequence[Path], profile: Profile, *, as_json: bool) -> int:
    """Show each file; one that can't be read is named on standard error, and the others are shown.

    Returns:
        0 whatever was found, or 66 where a file can't be read.
    """
    # `inspect ... | head` ends like any other tool whose reader has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    show = _print_json if as_json else _print_tables
    code = Exit.OK
    for file in files:
        try:
            report = inspect_file(file, profile)
        except (OSError, NotAsSeenError) as error:
            say(f"caption_qc: cannot read {shown(file)}: {_reason(file, error)}")
            code = Exit.NO_QUEUE
        else:
            show(file, report)
    return code


def inspect_file(file: Path, profile: Profile) -> Report:
    """Check one file; one that is too large is not read.

    Raises:
        OSError: It can't be read.
        NotAsSeenError: It is not a regular file, or it changed while it was read.
    """
    path = os.path.realpath(bytes(file))
    descriptor = open_asset(path)
    try:
        seen = stat_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    return too_large(seen.size, profile) or check(read_as_seen(path, seen), profile)


def as_object(file: Path, report: Report) -> dict[str, Any]:
    """Return what `--json` prints of a file."""
    return {"file": shown(file), **asdict(report)}


def _reason(file: Path, error: OSError | NotAsSeenError) -> str:
    if file.is_dir():
        return "it is a folder; `run` checks the files of a folder, here give the path of one"
    reason = error.strerror if isinstance(error, OSError) else error
    return f"{reason}; give the path of a caption file"


def _print_json(file: Path, report: Report) -> None:
    print(json.dumps(as_object(file, report)))


def _print_tables(file: Path, report: Report) -> None:
    from .tables import print_tables  # noqa: PLC0415 - JSON needs no rich

    print_tables(file, report)
