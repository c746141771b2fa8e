"""The pool of workers, with real processes."""

import multiprocessing
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from caption_runs import GOOD, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.outcomes import Checked, Left
from examples.recipes.caption_qc.job.pool import CheckDiedError, Pool
from examples.recipes.caption_qc.job.worker import Orders

PROFILE = load("house")


def asset(queue: Path, name: str, content: bytes = GOOD) -> Asset:
    (queue / name).write_bytes(content)
    return Asset(name.encode(), stat_of((queue / name).stat()))


def blocked_signals(pid: int | None) -> set[int]:
    """Read which signals a process has blocked since before it ran a line of ours."""
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mask = int(fields["SigBlk"], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_a_chunk_has_an_outcome_for_each_asset_or_none_at_all(tmp_path: Path) -> None:
    """Checked, changed, gone: values in order. A check that raises is a death like any other, and the pool goes on."""
    orders = Orders(queue=bytes(tmp_path), profile=PROFILE, asset_timeout=30.0)
    good = asset(tmp_path, "good.scc")
    changed = replace(good, stat=replace(good.stat, size=good.stat.size + 1))
    gone = replace(good, name=b"gone.scc")
    pool = Pool(1, orders)
    try:
        outcomes = await pool.check([good, changed, gone])
        assert [type(outcome) for outcome in outcomes] == [Checked, Left, Left]
        (worker,) = multiprocessing.active_children()
        assert blocked_signals(worker.pid) >= {signal.SIGTERM, signal.SIGINT}
        assert [outcome.why for outcome in outcomes if isinstance(outcome, Left)] == ["changed", "gone"]
    finally:
        pool.kill()

    pool = Pool(1, replace(orders, profile=None))  # type: ignore[arg-type]
    try:
        with pytest.raises(CheckDiedError, match="the check failed: "):
            await pool.check([good])
    finally:
        pool.kill()


def test_a_worker_takes_no_signal_and_no_more_memory_than_its_limit() -> None:
    """SIGTERM and SIGINT are the parent's; a runaway gets a MemoryError, not the machine's last page."""
    program = """
import os, signal
from examples.recipes.caption_qc.job.worker import start_worker
start_worker()
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGINT)
try:
    bytearray(2 << 30)
except MemoryError:
    print("limited")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("limited\n", "")


def test_a_worker_that_can_no_longer_watch_its_parent_ends() -> None:
    """Without the watch it would outlive the run, and go on for nothing."""
    program = """
import signal
from types import SimpleNamespace
from examples.recipes.caption_qc.job import worker
def join():
    raise MemoryError
worker.parent_process = lambda: SimpleNamespace(join=join)
worker.start_worker()
signal.pause()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=20)
    assert done.returncode == 1


def test_a_worker_imports_the_checker_and_little_else() -> None:
    """It starts quickly: no batcher, no event loop, no database, no tables."""
    heavy = ["anyio", "asyncio", "async_batcher", "pyarrow", "rich", "sqlite3"]
    program = f"""
import sys
import examples.recipes.caption_qc.job.worker
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_workers_that_do_not_start_are_no_assets_fault(tmp_path: Path) -> None:
    """A broken installation ends the run with one line; no asset has an attempt, and none is lost."""
    here = place(tmp_path)
    here.fill(3)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *resource_tracker*) exec {sys.executable} "$@";; esac\nexit 1\n'
    )
    python.chmod(0o755)
    program = f"""
import multiprocessing, sys
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
multiprocessing.set_executable({str(python)!r})
sys.exit(main({here.arguments()}, Drain()))
"""
    broken = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    (line,) = broken.stderr.splitlines()
    assert (broken.returncode, broken.stdout) == (74, "")
    assert line.startswith("caption_qc: no worker process starts")
    assert here.ask("SELECT DISTINCT state, attempts FROM assets") == [("running", 0)]
