"""What operators and their machines do to the job at night."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from caption_bad_files import bad_file
from caption_runs import COMMAND, GOOD, ROOT, Place, place
from caption_storm import (
    Undisturbed,
    assert_whole,
    deliver,
    environment,
    ledger_rows,
    parquet_rows,
    undisturbed_run,
    whole_run,
)

ASSETS = 12
POOR = {
    "LC_ALL": "C",
    "TZ": "America/St_Johns",
    "PYTHONOPTIMIZE": "2",
    "TMPDIR": "/nonexistent",
    "COLUMNS": "0",
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"), ASSETS)


def test_a_run_needs_little_of_whoever_starts_it(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """No home, no streams, umask 077, 64 descriptors, locale C, another zone, no temporary folder, last in line."""
    here = place(tmp_path)
    deliver(here.queue, range(ASSETS))
    poor = environment("", **POOR)
    for name in ("HOME", "PATH", "USER", "LANG"):
        poor.pop(name, None)

    run = subprocess.run(
        ["/bin/sh", "-c", _LITTLE, "sh", *COMMAND, *here.arguments()], cwd="/", env=poor, check=False
    )

    assert run.returncode == 0
    assert_whole(here, undisturbed.rows)
    assert not [path for path in here.state.rglob("*") if path.stat().st_mode & 0o077]


# Behind all others, but not so far that a busy machine starves it: 19 took a minute and a half there.
_LITTLE = 'umask 077; ulimit -n 64; exec /usr/bin/nice -n 5 "$@" <&- >&- 2>&-'


def test_a_read_only_system_without_proc_is_enough(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """As in a container: only the state folder can be written to."""
    here = place(tmp_path)
    deliver(here.queue, range(ASSETS))
    here.state.mkdir()
    closed = f"mount --bind '{here.state}' '{here.state}' && mount -o remount,bind,ro / && umount -l /proc"
    namespace = ["unshare", "--mount", "sh", "-c", f'{closed} && exec "$@"', "sh"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here: it takes root")

    run = subprocess.run(
        [*namespace, *COMMAND, *here.arguments()],
        cwd=ROOT,
        env=environment("", PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert_whole(here, undisturbed.rows)


def test_a_copy_of_the_state_that_was_taken_during_a_run_goes_on(tmp_path: Path) -> None:
    """A backup of a moment: what it has not seen is checked, and nothing is there twice."""
    here = place(tmp_path)
    here.fill(40)
    copy = Place(here.queue, tmp_path / "copy")
    with here.held_run("--workers", "2") as (run, lines):
        shutil.copytree(here.state, copy.state)
        lines.read()
        assert run.wait() == 0

    assert whole_run(copy).returncode == 0
    assert_whole(copy, ledger_rows(here))


def test_a_ledger_that_is_taken_away_during_a_run_is_made_again(tmp_path: Path) -> None:
    """Moved by whoever tidies up: the next run has every record once, in the ledger and in Parquet."""
    here = place(tmp_path)
    here.fill(40)
    with here.held_run("--workers", "2") as (run, lines):
        (here.state / "ledger.sqlite").rename(tmp_path / "tidied")
        lines.read()
        run.wait()

    assert whole_run(here).returncode == 0
    assert whole_run(here).returncode == 0
    assert here.statuses == {path.name: "pass" for path in here.queue.iterdir()}
    assert parquet_rows(here) == ledger_rows(here)


def test_workers_that_the_system_kills_cost_no_asset_an_attempt(tmp_path: Path) -> None:
    """As where memory runs out: at work, idle or just starting; what they had is checked again, alone."""
    here = place(tmp_path)
    here.fill(40)
    with here.held_run("--workers", "2") as (run, lines):
        for worker in _workers(run.pid):
            os.kill(worker, signal.SIGKILL)
        said = lines.read().decode()
        assert run.wait() == 0, said

    assert here.statuses == {path.name: "pass" for path in here.queue.iterdir()}
    assert here.ask("SELECT DISTINCT state, attempts FROM assets") == [("done", 0)]
    assert here.ask("SELECT DISTINCT attempt FROM records") == [(1,)]


def _workers(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if b"fork" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_queue_that_is_its_own_state_folder_keeps_its_dead_letters_out(tmp_path: Path) -> None:
    """A dead letter is moved once, and is no asset of the next run."""
    here = Place(tmp_path / "queue", tmp_path / "queue")
    here.queue.mkdir()
    (here.queue / "bad.scc").write_bytes(bad_file(GOOD, "kill"))
    for _ in range(2):
        assert whole_run(here, "--max-attempts", "1", CAPTION_BAD_FILES="1").returncode == 0

    assert [path.relative_to(here.queue) for path in here.queue.rglob("*.scc")] == [
        Path("dead-letter/bad.scc")
    ]
    assert here.statuses == {"bad.scc": "error"}
