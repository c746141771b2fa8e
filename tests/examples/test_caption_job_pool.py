"""The pool of workers, with real processes."""

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD, place
from caption_storm import environment

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import pool as pool_module
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.errors import JobError
from examples.recipes.caption_qc.job.outcomes import Checked, Left
from examples.recipes.caption_qc.job.pool import CheckDiedError, Pool, PoolClosedError
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
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
    orders = Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=30.0)
    good = asset(tmp_path, "good.scc")
    changed = replace(good, stat=good.stat._replace(size=good.stat.size + 1))
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


@pytest.fixture
def bad_checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the checks of bad files do their worst in the workers that the test starts."""
    for name, value in environment("", CAPTION_BAD_FILES="1").items():
        monkeypatch.setenv(name, value)
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
@pytest.mark.parametrize(
    ("worst", "reason"),
    [
        ("kill", "died: SIGKILL, as the system does where memory runs out"),
        ("leave", "died: exit code 0"),
        ("spin", "hung: over 0.5 s"),
        ("sleep", "hung: over 0.5 s"),
        ("eat", "out of memory: over 1024 MiB"),
        ("raise", "the check failed: RuntimeError: a fault in the check"),
    ],
)
@pytest.mark.usefixtures("bad_checks")
async def test_a_death_says_what_it_was_and_the_pool_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worst: str, reason: str
) -> None:
    """Died, hung or out of memory: what the system says of the worker, or what its check raised."""
    patient = Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=60.0)
    pool = Pool(1, replace(patient, asset_timeout=0.5) if reason.startswith("hung") else patient)
    good, bad = asset(tmp_path, "good.scc"), asset(tmp_path, "bad.scc", bad_file(GOOD, worst))
    try:
        with pytest.raises(CheckDiedError) as death:
            await pool.check([good, bad])
        assert str(death.value) == reason
        monkeypatch.setattr(pool._workers[0], "_orders", patient)
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
    finally:
        pool.kill()
        join_children()


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
@pytest.mark.usefixtures("bad_checks")
async def test_a_death_takes_its_own_chunk_and_nobody_elses(tmp_path: Path) -> None:
    """The other worker goes on with what it has; cancelling that ends the worker, since nobody waits for it."""
    pool = Pool(2, Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=60.0))
    good = asset(tmp_path, "good.scc")
    try:
        await pool.check([good])
        endless = asyncio.ensure_future(pool.check([asset(tmp_path, "endless.scc", bad_file(GOOD, "sleep"))]))
        with pytest.raises(CheckDiedError):
            await pool.check([asset(tmp_path, "deadly.scc", bad_file(GOOD, "kill"))])
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
        assert not endless.done()
        sentinels = [child.sentinel for child in multiprocessing.active_children()]
        assert len(sentinels) == 2

        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        assert len(multiprocessing.connection.wait(sentinels, timeout=20)) == 1
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
    finally:
        pool.kill()
        join_children()


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_a_small_job_starts_one_worker_and_a_closed_pool_gives_none_a_chunk(tmp_path: Path) -> None:
    """Workers start as they are needed; after `close` what runs goes on, and what waits is given to nobody."""
    pool = Pool(4, Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=60.0))
    good = asset(tmp_path, "good.scc")
    try:
        for _ in range(3):
            await pool.check([good])
        assert len(multiprocessing.active_children()) == 1

        running = asyncio.ensure_future(pool.check([good]))
        await asyncio.sleep(0)
        pool.close()
        with pytest.raises(PoolClosedError):
            await pool.check([good])
        assert [type(outcome) for outcome in await running] == [Checked]
        assert len(multiprocessing.active_children()) == 1
    finally:
        pool.kill()
        join_children()


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_a_worker_that_is_killed_with_nothing_to_do_is_nobodys_death(tmp_path: Path) -> None:
    """The next chunk, which it never had, is checked by another."""
    pool = Pool(1, Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=60.0))
    good = asset(tmp_path, "good.scc")
    try:
        await pool.check([good])
        (worker,) = multiprocessing.active_children()
        worker.kill()
        multiprocessing.connection.wait([worker.sentinel])
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
    finally:
        pool.kill()
        join_children()


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("deaths", [1, 2])
async def test_one_death_at_the_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    """The system may have been short of memory; of two in a row it is the installation, and no asset's fault."""
    start, left = pool_module._start, [BrokenProcessPool("killed")] * deaths

    async def dying() -> object:
        if left:
            raise left.pop()
        return await start()

    monkeypatch.setattr(pool_module, "_start", dying)
    pool = Pool(1, Orders(queue=FolderQueue(tmp_path), profile=PROFILE, asset_timeout=60.0))
    good = asset(tmp_path, "good.scc")
    try:
        if deaths > 1:
            with pytest.raises(JobError, match="no worker process starts"):
                await pool.check([good])
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
    finally:
        pool.kill()
        join_children()


def join_children() -> None:
    """Wait for the end of workers that were killed."""
    for child in multiprocessing.active_children():
        child.join()


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


def test_a_worker_whose_parent_is_gone_before_it_can_watch_ends() -> None:
    """The pipe has closed already: no signal will come of it, so the worker looks once."""
    program = """
import os, signal
from types import SimpleNamespace
from examples.recipes.caption_qc.job import worker
reader, writer = os.pipe()
os.close(writer)
worker.parent_process = lambda: SimpleNamespace(sentinel=reader)
worker.start_worker()
signal.pause()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    "busy",
    ["__import__('re').match('(a+)+b', 'a' * 50)", "signal.pause()", "signal.raise_signal(signal.SIGSTOP)"],
    ids=["in C", "idle", "stopped"],
)
def test_a_worker_ends_with_its_parent_whatever_it_does(busy: str) -> None:
    """The kernel ends it, also where it is stopped, or in a call into C that never lets go of the interpreter."""
    worker = f"""
import signal
from examples.recipes.caption_qc.job.worker import start_worker
start_worker()
print("ready", flush=True)
{busy}
"""
    program = f"""
import multiprocessing, signal
process = multiprocessing.get_context("spawn").Process(target=exec, args=({worker!r}, {{}}))
process.start()
print(process.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        descriptor = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert parent.stdout.readline() == "ready\n"
            parent.kill()
            assert select.select([descriptor], [], [], 20)[0], "it outlived its parent"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


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
