"""What `caption_job.py` compares: runs of the job, one process that checks, `find`, and who opened a file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CAPTION_QC_")}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # A second fire of a cron job finds its imports compiled.
_IN_OPEN = 0x20
_ALONE = """
import sys
from pathlib import Path
from time import perf_counter, process_time
from examples.recipes.caption_qc.check import check, load
profile = load("house")
files = sorted(Path(sys.argv[1]).rglob("*.scc"))[int(sys.argv[2]) :: 2]
began, worked = perf_counter(), process_time()
for file in files:
    check(file.read_bytes(), profile)
print(perf_counter() - began, process_time() - worked)
"""


class Ran(NamedTuple):
    """What one run took."""

    seconds: float
    first_line: float
    """Seconds from the start to the first line that it said."""
    peak_mb: float
    """The largest of its processes, which is the parent: it writes the projections."""
    cpu: float
    """CPU-seconds of all its processes."""


class Job:
    """A queue and its state folder."""

    def __init__(self, folder: Path) -> None:
        self.queue = folder / "queue"
        self._state = folder / "state"

    def run(self, *, fresh: bool = False) -> Ran:
        """Do one run with two workers, to its end; a fresh one has done nothing before."""
        if fresh:
            shutil.rmtree(self._state, ignore_errors=True)
        command = [sys.executable, "-m", "examples.recipes.caption_qc", "run", str(self.queue)]
        options = ["--state", str(self._state), "--settle", "0", "--workers", "2"]
        began = perf_counter()
        process = subprocess.Popen([*command, *options], cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE)
        if process.stderr is None:
            raise RuntimeError("the job has no standard error")
        with process.stderr as said:
            said.readline()
            first_line = perf_counter() - began
            while said.read(1 << 16):
                pass
        _, status, used = os.wait4(process.pid, 0)
        seconds = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the job ended with {process.returncode}")
        return Ran(seconds, first_line, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)


def single_process(queue: Path, half: int) -> tuple[float, float]:
    """Check every second file in one process, with nothing beside it; give seconds and CPU-seconds."""
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, str(queue), str(half)],
        cwd=ROOT,
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.PIPE,
    )
    seconds, cpu = map(float, done.stdout.split())
    return seconds, cpu


def found_by_find(queue: Path) -> float:
    """Let `find` look at each file, and say how long it took."""
    began = perf_counter()
    subprocess.run(
        ["find", queue, "-printf", "%p %s %T@\n"],  # noqa: S607
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return perf_counter() - began


@contextlib.contextmanager
def opened_during(queue: Path) -> Iterator[Callable[[], int]]:
    """Count the files below `queue` that any process opens in the block; ask after it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    for folder in (queue, *(path for path in queue.iterdir() if path.is_dir())):
        if libc.inotify_add_watch(watch, bytes(folder), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "cannot watch", str(folder))
    names: list[bytes] = []
    reader = Thread(target=_read_events, args=(watch, names))
    reader.start()
    try:
        yield lambda: sum(name.endswith(b".scc") for name in names)
    finally:
        (queue / "end-of-watch").touch()
        reader.join()
        (queue / "end-of-watch").unlink()
        os.close(watch)


def _read_events(watch: int, names: list[bytes]) -> None:
    while b"end-of-watch" not in names:
        data = os.read(watch, 1 << 16)
        while data:
            length = int.from_bytes(data[12:16], sys.byteorder)
            names.append(data[16 : 16 + length].rstrip(b"\0"))
            data = data[16 + length :]
