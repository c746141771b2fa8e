"""Real runs of the caption job: a queue, its state folder and the command, as the tests use them.

A held run is one whose standard error nobody reads: after its first line it goes on until the small pipe is
full, then it waits in the middle of its work, for as long as the test likes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "examples" / "recipes" / "caption_qc" / "samples"
CORPUS = ROOT.parent / "shared" / "corpus" / "scc"
GOOD = (SAMPLES / "popon_clean.scc").read_bytes()
COMMAND = [sys.executable, "-W", "error", "-m", "examples.recipes.caption_qc"]
_RIGHTS = "-dac_override,-dac_read_search"
# Who is not root has none of these rights, and none to give any up.
WITHOUT_ROOTS_RIGHTS = (
    ["setpriv", f"--bounding-set={_RIGHTS}", f"--inh-caps={_RIGHTS}"] if os.geteuid() == 0 else []
)
# Every run compiles its imports once more where no bytecode may be written: it has a place of its own here.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("CAPTION_QC_") and name != "PYTHONDONTWRITEBYTECODE"
} | {"PYTHONPYCACHEPREFIX": str(ROOT / ".pytest_cache" / "bytecode")}
_PIPE = 4096


@dataclass(frozen=True)
class Place:
    """A queue and its state folder."""

    queue: Path
    state: Path

    def arguments(self, *more: str) -> list[str]:
        return ["run", str(self.queue), "--settle", "0", "--state", str(self.state), *more]

    def run(self, *more: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Do one run in a process of its own."""
        return command(*self.arguments(*more), prefix=prefix, cwd=self.queue.parent)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the ledger."""
        with contextlib.closing(sqlite3.connect(self.state / "ledger.sqlite")) as ledger:
            return ledger.execute(query).fetchall()

    @property
    def statuses(self) -> dict[str, str]:
        """The status of each asset that has exactly one record."""
        rows = self.ask("SELECT asset_id, status FROM records")
        assert len(rows) == len({name for name, _ in rows})
        return dict(rows)

    def fill(self, count: int) -> None:
        """Deliver `count` assets of different content; their names are long, to fill a held run's pipe."""
        for number in range(count):
            (self.queue / f"{number:03d}-{'x' * 200}.scc").write_bytes(GOOD + b"\n" * number)

    @contextlib.contextmanager
    def held_run(self, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """Start a run in a session of its own, and let it wait in the middle of its work."""
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE)
        with (
            os.fdopen(reader, "rb") as lines,
            subprocess.Popen(
                [*COMMAND, *self.arguments(*more)],
                stdout=subprocess.PIPE,
                stderr=writer,
                cwd=ROOT,
                env=ENVIRONMENT,
                start_new_session=True,
            ) as process,
        ):
            os.close(writer)
            try:
                assert lines.readline().startswith(b"pass")
                yield process, lines
            finally:
                process.kill()


def run_program(program: str, *, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Python program in the checkout, as `Place.run` runs the command; `timeout` in seconds."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
        timeout=timeout,
    )


def place(folder: Path) -> Place:
    """Make an empty queue beside a state folder that does not exist yet."""
    found = Place(folder / "queue", folder / "state")
    found.queue.mkdir()
    return found


def command(
    *arguments: str, prefix: Sequence[str] = (), cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*prefix, *COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, check=False
    )
