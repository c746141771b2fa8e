"""What `caption_dask.py` runs: the caption job as a command, what its driver took, and the records that it left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.dataset as ds
from caption_job_sides import ENVIRONMENT, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

# What differs from one run of the same files to the next.
VARYING: Final = frozenset({"run_id", "window_start", "window", "attempt", "checked_at", "check_seconds"})
_CLOCK: Final = os.sysconf("SC_CLK_TCK")


class Driver(NamedTuple):
    """What a run took: the command's own process, without its workers."""

    seconds: float
    cpu: float
    """CPU-seconds of the driver, with a scheduler that runs in it."""
    peak_mb: float
    killed: int


@dataclass
class Blows:
    """Workers to kill, each once so many lines have been said. Mutable state: `at`, `killed` and the dice."""

    at: list[int] = field(default_factory=list)
    """How many lines, the last first."""
    dice: random.Random = field(default_factory=random.Random)
    killed: int = 0

    def strike(self, said: int, driver: int) -> None:
        """Kill one worker of the driver's, if it is time; while none is there it stays to be done."""
        if not self.at or said < self.at[-1]:
            return
        workers = workers_of(driver)
        if workers:
            os.kill(self.dice.choice(workers), signal.SIGKILL)
            self.at.pop()
            self.killed += 1


def drawn(number: int, files: int, seed: int) -> Blows:
    """Draw when to kill so many workers: not at the very beginning, and not at the end."""
    dice = random.Random(seed)  # noqa: S311 - the same moments each time
    return Blows(sorted(dice.sample(range(files // 10, files * 9 // 10), number), reverse=True), dice)


def drive(queue: Path, state: Path, *options: str, blows: Blows | None = None) -> Driver:
    """Do one run to its end.

    Raises:
        RuntimeError: It did not end with 0; the message has what it said last.
    """
    command = [sys.executable, "-m", "examples.recipes.caption_qc", "run", str(queue), "--state", str(state)]
    blows = blows or Blows()
    said, last, used = 0, b"", (0.0, 0.0)
    began = perf_counter()
    with subprocess.Popen(
        [*command, "--settle", "0", *options], cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as process:
        for chunk in _chunks(process):
            said += chunk.count(b"\n")
            last = chunk[-500:]
            used = _used(process.pid) or used
            blows.strike(said, process.pid)
        code = process.wait()
    if code:
        raise RuntimeError(f"the job ended with {code}: {last.decode(errors='replace')}")
    return Driver(perf_counter() - began, *used, blows.killed)


def _chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    if process.stderr is None:
        raise RuntimeError("the job has no standard error")
    while chunk := os.read(process.stderr.fileno(), 1 << 12):
        yield chunk


def _used(pid: int) -> tuple[float, float] | None:
    """Read the CPU-seconds and the peak in MB of one process; `None` of one that has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return cpu_of(pid), int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return None


def cpu_of(pid: int) -> float:
    """Read the CPU-seconds of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK


def workers_of(pid: int) -> list[int]:
    """Find the processes that a run has spawned: those of its pool, or the workers of its Dask cluster."""
    children = _children(pid)
    hosts = [child for child in children if b"cluster_host" in _command(child)]
    children += [child for host in hosts for child in _children(host)]
    return [child for child in children if b"spawn_main" in _command(child)]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, tasks.read_text().split())
    return found


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@dataclass(frozen=True)
class Records:
    """The two tables of a run, without what depends on the run, in one order."""

    assets: pa.Table
    findings: pa.Table
    done: int
    """Assets that the ledger knows as done."""

    @classmethod
    def of(cls, state: Path) -> Records:
        """Read what a run has left in its state folder."""
        with contextlib.closing(sqlite3.connect(state / "ledger.sqlite")) as ledger:
            (done,) = ledger.execute("SELECT count(*) FROM assets WHERE state = 'done'").fetchone()
        return cls(_table(state, "assets"), _table(state, "findings"), done)

    def each_once(self, files: int) -> bool:
        """Say whether every file has a record, and none has two."""
        names = len(self.assets["asset_id"].unique())
        return files == self.done == names == self.assets.num_rows

    def __eq__(self, other: object) -> bool:
        """Compare both tables, row by row."""
        if not isinstance(other, Records):
            return NotImplemented
        return bool(self.assets.equals(other.assets) and self.findings.equals(other.findings))

    __hash__ = None  # type: ignore[assignment]


def _table(state: Path, name: str) -> pa.Table:
    table: pa.Table = ds.dataset(state / "telemetry" / name, partitioning="hive").to_table()
    kept = [column for column in table.column_names if column not in VARYING]
    return table.select(kept).sort_by([(column, "ascending") for column in kept])
