"""No worker is waited for without a bound: threads that can't be started, workers that do not answer."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from caption_runs import GOOD, Place, place, run_program

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import pool as pool_module
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.outcomes import Checked
from examples.recipes.caption_qc.job.pool import CheckDiedError, Pool
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.waking import woken_by_signals
from examples.recipes.caption_qc.job.worker import Orders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


# A program that is the command where some thread of an executor can't be started.
_PROGRAM = """
import sys, threading
from concurrent.futures import process
from multiprocessing import queues
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import pool
from examples.recipes.caption_qc.job.drain import Drain
def refused(*args):
    raise RuntimeError("can't start new thread")
{lacks}
sys.exit(main({arguments}, Drain()))
"""
_ANY = "pool.threading.Thread.start = refused"
_MANAGER = "process._ExecutorManagerThread.start = refused"
_FEEDER = "queues.Queue._start_thread = refused"


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        (_MANAGER, "can't start new thread"),
        (_FEEDER, "can't start new thread"),
        (_ANY, "can't start new thread"),
    ],
    ids=["manager", "feeder", "any"],
)
def test_where_no_thread_can_be_started_the_run_ends_with_one_line(here: Place, lacks: str, why: str) -> None:
    """74, in time, no worker left and nothing recorded of any asset: an executor says nothing of it itself."""
    here.fill(40)
    program = _PROGRAM.format(lacks=lacks, arguments=here.arguments("--workers", "2"))
    done = run_program(program, timeout=120)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, "Traceback" in done.stderr) == (74, False), done.stderr
    assert why in last
    assert here.run().returncode == 0
    assert set(here.statuses.values()) == {"pass"}
    assert here.ask("SELECT DISTINCT attempt FROM records") == [(1,)]


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_a_worker_that_does_not_answer_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped hears no timer of its own; the chunk is suspect, and the pool goes on with another."""
    monkeypatch.setattr(pool_module, "TRIP_SECONDS", 0.1)
    (tmp_path / "a.scc").write_bytes(GOOD)
    good = Asset(b"a.scc", stat_of((tmp_path / "a.scc").stat()))
    patient = Orders(queue=FolderQueue(tmp_path), profile=load("house"), asset_timeout=60.0)
    pool = Pool(1, patient)
    try:
        await pool.check([good])
        (worker,) = multiprocessing.active_children()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        monkeypatch.setattr(pool._workers[0], "_orders", replace(patient, asset_timeout=0.2))
        with pytest.raises(CheckDiedError, match=r"hung: no answer within 0.5 s"):
            await pool.check([good, good])
        worker.join()
        assert worker.exitcode == -signal.SIGKILL
        monkeypatch.setattr(pool_module, "TRIP_SECONDS", 60.0)
        monkeypatch.setattr(pool._workers[0], "_orders", patient)
        assert [type(outcome) for outcome in await pool.check([good])] == [Checked]
    finally:
        pool.kill()
        for child in multiprocessing.active_children():
            child.join()


def test_a_signal_that_interrupts_nothing_is_heard_at_once() -> None:
    """Another thread takes it, as the system may choose: the loop sleeps on, and the handler is the main thread's."""
    heard = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        with woken_by_signals(loop):
            asleep = threading.Event()
            threads = [
                threading.Thread(target=strike, args=(asleep,)),
                threading.Thread(target=tell, args=(loop, done)),
            ]
            for thread in threads:
                thread.start()
            loop.call_soon(asleep.set)
            await asyncio.wait_for(done.wait(), 50)
            for thread in threads:
                thread.join()

    def strike(asleep: threading.Event) -> None:
        asleep.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    def tell(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
        if heard.wait(40):
            loop.call_soon_threadsafe(done.set)

    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert signal.set_wakeup_fd(-1) == -1, "given back"
