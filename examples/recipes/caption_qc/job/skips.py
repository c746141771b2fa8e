"""What became of fires that found the lock held: a line each in `skips.log`, and how many there were.

A refused run opens no database: it appends its line and says in `metrics-skips.prom` how many were refused in
a row, so that a run that hangs is seen while it hangs. A run that gets the lock counts the lines into the
ledger, once each:

1. A line is appended whole, in one write, and names the holder whom it met. So what is in a row, since the last
   run that got the lock, is what names the last holder. (Who comes in the instant between the lock and the name
   meets the holder before, and is in that one's row.)
2. The ledger keeps the total and, in the same transaction, how far the log is counted in it: the position, and
   a digest of what ends there. A log that was cut or replaced has something else there, and is counted from its
   beginning. So a crash anywhere counts nothing twice and loses nothing.
3. Who appends, cuts or writes the metric holds the log's own lock for that moment: nothing is cut that is not
   counted, and the metric never goes backwards. A run with work to do does not wait for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final

from .assets import shown
from .errors import cannot_write
from .files import require_regular
from .lock import Holder, read_holder
from .metrics_file import write_metrics_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .ledger import Ledger
    from .plan import Plan

# From this size on the log is emptied when all of it is counted; before, people may like to read it.
MOST_KEPT: Final = 64 * 1024
METRIC: Final = "caption_qc_lock_conflicts_in_a_row"
_LONGEST_PIECE: Final = 4096
# More than the longest line, so that what is before a position tells one log from another.
_MARKED: Final = 512


def note(plan: Plan, holder: Holder) -> None:
    """Note that this run was refused by `holder`: in the log, and in the metric.

    Raises:
        JobError: the log or the metric can't be written.
    """
    now = datetime.now(UTC).isoformat()
    line = f"{now} pid {os.getpid()} {_met(holder)}".encode()
    require_regular(plan.skips)
    try:
        with _open_log(plan.skips) as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # Others hold it for the moment that this takes.
            _append(log, line)
            _write_metric(plan, _in_a_row(log, holder))
    except OSError as error:
        raise cannot_write(error, shown(plan.skips)) from error


def fold(plan: Plan, ledger: Ledger) -> None:
    """Count what was refused since the last time into the ledger; this run holds the lock.

    Raises:
        JobError: the log can't be read, or the ledger or the metric not be written.
    """
    require_regular(plan.skips)
    try:
        with _open_log(plan.skips) as log:
            position = _count_into(ledger, log)
            _tidy(plan, log, position)
    except OSError as error:
        raise cannot_write(error, shown(plan.skips)) from error


def in_a_row(plan: Plan) -> int:
    """Count the runs that were refused since the last one that got the lock, without writing anything.

    Raises:
        JobError: the log or the lock is there and can't be read.
    """
    require_regular(plan.skips)
    try:
        with plan.skips.open("rb", buffering=0) as log:
            return _in_a_row(log, read_holder(plan.lock))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise cannot_write(error, shown(plan.skips)) from error


def _met(holder: Holder) -> str:
    return f"skipped: pid {holder.pid} since {holder.start}\n"


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[IO[bytes]]:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0) as log:
        yield log


def _append(log: IO[bytes], line: bytes) -> None:
    """Append the line, or none of it."""
    before = os.fstat(log.fileno()).st_size
    if log.write(line) != len(line):
        os.ftruncate(log.fileno(), before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _in_a_row(log: IO[bytes], holder: Holder) -> int:
    ending = _met(holder).encode()
    return sum(piece.endswith(ending) for piece in _pieces(log, 0))


def _pieces(log: IO[bytes], start: int) -> Iterator[bytes]:
    """Yield the lines from `start` on; where the file has none, being something else, pieces of it."""
    with os.fdopen(os.dup(log.fileno()), "rb") as reader:
        reader.seek(start)
        while piece := reader.readline(_LONGEST_PIECE):
            yield piece


def _count_into(ledger: Ledger, log: IO[bytes]) -> int:
    """Add to the total what stands behind the last line that is in it, and return the new position."""
    total, folded = ledger.folded_skips()
    start = _counted_before(log, folded)
    lines, position = _count(log, start)
    if lines:
        ledger.fold_skips(total + lines, f"{position} {_mark(log, position)}")
    return position


def _counted_before(log: IO[bytes], folded: str) -> int:
    """Return the position up to which the log is counted: 0 where it is not the same log any more."""
    position, _, mark = folded.partition(" ")
    return int(position) if position and mark == _mark(log, int(position)) else 0


def _count(log: IO[bytes], start: int) -> tuple[int, int]:
    """Count whole lines, and say where they end: the rest of one that is being written is left for later."""
    lines, position, seen = 0, start, start
    for piece in _pieces(log, start):
        seen += len(piece)
        if piece.endswith(b"\n"):
            lines, position = lines + 1, seen
    return lines, position


def _mark(log: IO[bytes], position: int) -> str:
    """Tell what ends at `position`; lines have a time and a pid, so that there is no such end twice."""
    start = max(0, position - _MARKED)
    return hashlib.sha256(os.pread(log.fileno(), position - start, start)).hexdigest()


def _tidy(plan: Plan, log: IO[bytes], position: int) -> None:
    """Say what is in a row now, and empty a log that has grown, unless somebody has it this moment.

    Whoever has it was refused, and says what is in a row itself.
    """
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    mine = _in_a_row(log, Holder.this_run(plan.started))
    _write_metric(plan, mine)
    if not mine and position == os.fstat(log.fileno()).st_size > MOST_KEPT:
        os.ftruncate(log.fileno(), 0)


def _write_metric(plan: Plan, number: int) -> None:
    meaning = "Runs that were refused since the last one that got the lock."
    text = f"# HELP {METRIC} {meaning}\n# TYPE {METRIC} gauge\n{METRIC} {number}\n"
    write_metrics_file(plan, plan.metrics_skips, text)
