"""Storms: real runs of the caption job that are struck at chosen moments, and what has to hold afterwards.

The moments are drawn from dice with a seed, `CAPTION_STORM_SEED`, so that a run of the tests is like the one
before; a failure names the moment. What happens between two moments is real time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import shutil
import signal
import subprocess
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from caption_bad_files import bad_file
from caption_runs import COMMAND, ENVIRONMENT, GOOD, ROOT, SAMPLES, Place, place
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SEED = int(os.environ.get("CAPTION_STORM_SEED", "6"))
VARYING = {"run_id", "window_start", "attempt", "checked_at", "check_seconds"}
"""What may differ from an undisturbed run's rows."""
ENDS_ITS_WORKER = bad_file(GOOD, "kill")
"""What `give_up` delivers; a file like any other where nothing is put into the workers."""
AT_ONCE = 20
"""Seconds in which the system has done what it does at once: a lock of the dead is free, an orphan is gone.

What holds for longer holds for ever, as long as a check lasts; a machine that stands still for a while is no fault.
"""
_FLOCK = ["flock", "--wait", str(AT_ONCE)]
_HERE = Path(__file__).resolve().parent
CONTENTS = [path.read_bytes() for path in sorted(SAMPLES.rglob("*.scc"))]
_KEPT = {
    "run.lock",
    "skips.log",
    "ledger.sqlite",
    "ledger.checked",
    "dashboard.json",
    "dashboard.html",
    "metrics.prom",
}
_KEPT |= {"metrics-skips.prom", "assets.parquet", "findings.parquet"}


@dataclass(frozen=True)
class Moment:
    """When a blow falls: so many seconds after the start or the lock, after a line of the log, at a step."""

    kind: Literal["start", "lock", "line", "step"]
    at: float

    def __str__(self) -> str:
        return f"{self.kind} {self.at:.3f}"


class Blow(NamedTuple):
    """A signal to the command alone or to its whole group."""

    signal: signal.Signals
    group: bool = False

    def __str__(self) -> str:
        return f"{self.signal.name} to the {'group' if self.group else 'process'}"


@dataclass(frozen=True)
class Struck:
    """What became of a run."""

    code: int
    said: str
    struck: float | None
    """When the blow fell; `None` if the run was over before."""
    ended: float
    steps: int
    """From the lock on."""


def environment(marker: str, **more: str) -> dict[str, str]:
    """Make a run's environment; names in `more` are what `caption_site/sitecustomize.py` looks for."""
    path = os.pathsep.join(map(str, (_HERE / "caption_site", _HERE, ROOT, ROOT / "src")))
    return ENVIRONMENT | {"CAPTION_STORM": marker, "PYTHONPATH": path} | more


def whole_run(here: Place, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Do one run that nothing strikes; `more` is for its environment."""
    scratch(here).mkdir(exist_ok=True)
    return command_with(*here.arguments(*options), TMPDIR=str(scratch(here)), **more)


def command_with(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; `more` is for its environment."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment("", **more),
        check=False,
    )


def give_up(here: Place, *names: str) -> None:
    """Do a run that gives files of these names up: at their first attempt, since they end their worker."""
    for name in names:
        (here.queue / name).write_bytes(ENDS_ITS_WORKER)
    done = command_with(*here.arguments("--max-attempts", "1"), CAPTION_BAD_FILES="1")
    assert done.returncode == 0, done.stderr


def started(here: Place, *options: str) -> subprocess.Popen[bytes]:
    """Start a run that goes on by itself; what it says is for the caller to read."""
    scratch(here).mkdir(exist_ok=True)
    return subprocess.Popen(
        [*COMMAND, *here.arguments(*options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment("", TMPDIR=str(scratch(here))),
    )


def strike(here: Place, moment: Moment, blow: Blow, *options: str, then: Blow | None = None) -> Struck:
    """Do one run, strike it, and wait for its end and that of its workers."""
    marker = secrets.token_hex(8)
    with _started(here, marker, moment, blow, options) as (process, steps):
        assert process.stderr is not None
        struck, lines = None, []
        if moment.kind != "step":
            lines = _wait(process, steps, moment)
            struck = _hit(process, blow)
        if then is not None:
            _hit(process, then)
        code = process.wait()
        ended = monotonic()
        heard = steps.read()
        assert_ended(here, marker)
        said = b"".join([*lines, process.stderr.read()]).decode()
    if b"struck" in heard:
        struck = float(heard.split()[heard.split().index(b"struck") + 1])
    return Struck(code, said, struck, ended, heard.count(b"."))


@contextlib.contextmanager
def _started(
    here: Place, marker: str, moment: Moment, blow: Blow, options: Sequence[str]
) -> Iterator[tuple[subprocess.Popen[bytes], FileIO]]:
    reader, writer = os.pipe()
    step = int(moment.at) if moment.kind == "step" else 0
    orders = f"{writer} {step} {int(blow.signal)} {int(blow.group)} {here.state.parent}"
    scratch(here).mkdir(exist_ok=True)
    with (
        FileIO(reader) as steps,
        subprocess.Popen(
            [*COMMAND, *here.arguments(*options)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(marker, CAPTION_STEPS=orders, TMPDIR=str(scratch(here))),
            pass_fds=[writer],
            start_new_session=True,
        ) as process,
    ):
        os.close(writer)
        try:
            yield process, steps
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], steps: FileIO, moment: Moment) -> list[bytes]:
    """Wait for the moment, or for the end of the run if that comes first; return the lines that were read."""
    assert process.stderr is not None
    if moment.kind == "line":
        return [process.stderr.readline() for _ in range(int(moment.at))]
    if moment.kind == "lock":
        steps.read(1)
    ends_within(process.pid, moment.at)
    return []


def _hit(process: subprocess.Popen[bytes], blow: Blow) -> float | None:
    """Strike, and say when; not a run that is over, whose number may be another's by now."""
    now = monotonic()
    if process.poll() is not None:
        return None
    (os.killpg if blow.group else os.kill)(process.pid, blow.signal)
    return now


def ends_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a process, for so long at most, and say whether it came."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))
    finally:
        os.close(descriptor)


def assert_ended(here: Place, marker: str) -> None:
    """See the lock free and all workers gone with the run's end."""
    until = monotonic() + AT_ONCE
    assert _lock_is_free(here.state / "run.lock"), "the lock was held after the end"
    while workers := living(marker):
        assert monotonic() < until, f"workers outlived the run: {workers}"
        ends_within(workers[0], until - monotonic())


def living(marker: str) -> list[int]:
    """List the processes that have the marker in their environment; one that has ended has none."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _holds(path, marker)]


def _holds(path: Path, marker: str) -> bool:
    try:
        return f"CAPTION_STORM={marker}".encode() in path.read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _lock_is_free(lock: Path) -> bool:
    if not lock.exists():
        return True
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            return True
    return subprocess.run([*_FLOCK, lock, "true"], check=False).returncode == 0


def scratch(here: Place) -> Path:
    """Say where the run's own temporary folder is."""
    return here.state.parent / "tmp"


def deliver(queue: Path, numbers: Iterable[int]) -> None:
    """Put assets of different content into the queue: good and faulty ones, with odd names, in two folders.

    Their times are their number's, so that two queues of the same assets give the same rows.
    """
    (queue / "sub").mkdir(exist_ok=True)
    for number in numbers:
        name = b"%03d \xe9%%.scc" % (number - number % 2)
        path = bytes(queue) + (b"/sub/" if number % 2 else b"/") + name
        temporary = path + b".part"
        with open(temporary, "wb") as file:  # noqa: PTH123 - the name is bytes
            file.write(CONTENTS[number % len(CONTENTS)] + b"\n" * number)
        os.utime(temporary, (1_767_225_600 + number,) * 2)
        os.rename(temporary, path)  # noqa: PTH104 - the name is bytes


class Rows(NamedTuple):
    """All rows of both tables, without what depends on the run."""

    assets: list[dict[str, Any]]
    findings: list[dict[str, Any]]


def ledger_rows(here: Place) -> Rows:
    """Read the rows of the ledger."""
    return Rows(*(_sorted(_of_ledger(here, table)) for table in ("records", "findings")))


def parquet_rows(here: Place) -> Rows:
    """Read the rows of all Parquet files."""
    return Rows(*(_sorted(_of_parquet(here, table)) for table in ("assets", "findings")))


def _of_ledger(here: Place, table: str) -> list[dict[str, Any]]:
    columns = [name for _, name, *_ in here.ask(f"PRAGMA table_info({table})")]
    rows = here.ask(f"SELECT * FROM {table}")  # noqa: S608 - our own names
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _of_parquet(here: Place, table: str) -> list[dict[str, Any]]:
    files = (here.state / "telemetry" / table).glob(f"*/{table}.parquet")
    return [row for path in files for row in parquet.ParquetFile(path).read().to_pylist()]


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left_out = {*VARYING, "queue", "schema_version", "place", "tally"}
    return sorted(({name: row[name] for name in row if name not in left_out} for row in rows), key=repr)


def assert_whole(here: Place, undisturbed: Rows) -> None:
    """See that nothing is lost, double, half done or left over after a run to the end."""
    assert here.ask("SELECT DISTINCT state, attempts FROM assets") == [("done", 0)]
    assert ledger_rows(here) == undisturbed
    assert parquet_rows(here) == undisturbed
    twice = "SELECT asset_id FROM records GROUP BY queue, asset_id, content_sha256 HAVING COUNT(*) > 1"
    assert here.ask(twice) == []
    assert left_over(here) == []


def left_over(here: Place) -> list[Path]:
    """List what lies in the state folder, or in the temporary one, and is none of what is kept."""
    found = (path for path in here.state.rglob("*") if not path.is_dir() and path.name not in _KEPT)
    return [*found, *scratch(here).rglob("*")]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing struck: what it found, how long it took, how many steps it made."""

    rows: Rows
    seconds: float
    steps: int


def undisturbed_run(folder: Path, assets: int) -> Undisturbed:
    """Check the assets that a storm delivers, in one go, and no import compiled on the way."""
    here = place(folder)
    deliver(here.queue, range(assets))
    first = whole_run(here)
    assert first.returncode == 0, first.stderr
    shutil.rmtree(here.state)
    began = monotonic()
    run = strike(here, Moment("step", 0), Blow(signal.SIGKILL))
    assert run.code == 0, run.said
    rows = ledger_rows(here)
    assert parquet_rows(here) == rows
    assert len(rows.assets) == assets
    return Undisturbed(rows, run.ended - began, run.steps)
