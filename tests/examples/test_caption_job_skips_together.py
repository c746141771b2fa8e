"""Runs that are refused at the same moment, or while one hangs: each is counted, and the metric says so at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import subprocess
import sys
from threading import Event, Thread
from typing import IO, TYPE_CHECKING

import pytest
from caption_fires import FIRST, OTHER, fold, holder_of, metric, plan_for, refused
from caption_runs import COMMAND, ENVIRONMENT, ROOT, Place, place

from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.lock import run_lock

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def plan(here: Place) -> Plan:
    here.state.mkdir()
    return plan_for(here)


def test_fifty_times_one_runs_one_is_refused_and_each_skip_is_counted(plan: Plan) -> None:
    """Two processes reach for the lock at once; who is refused notes it; the fold has all fifty."""
    program = """
import sys
from datetime import UTC, datetime
from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.lock import LockHeldError, run_lock
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of
plan = plan_of(build_parser({}).parse_args(sys.argv[1:]), load("house"), datetime.now(UTC))
print("ready", flush=True)
while sys.stdin.read(1):
    try:
        with run_lock(plan.lock, started=datetime.now(UTC)):
            print("runs", flush=True)
            sys.stdin.read(1)
    except LockHeldError as error:
        skips.note(plan, error.holder)
        print("refused", flush=True)
        sys.stdin.read(1)
    print("over", flush=True)
"""
    arguments = [sys.executable, "-c", program, "run", plan.queue.name, "--state", str(plan.state)]
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(
                subprocess.Popen(
                    arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=ENVIRONMENT,
                    cwd=ROOT,
                    bufsize=0,
                )
            )
            for _ in range(2)
        ]
        assert [line(process) for process in both] == ["ready", "ready"]
        for _ in range(50):
            for process in both:
                tell(process)
            assert sorted(line(process) for process in both) == ["refused", "runs"]
            for process in both:
                tell(process)
            assert [line(process) for process in both] == ["over", "over"]
        for process in both:
            assert process.stdin is not None
            process.stdin.close()
    assert fold(plan) == 50


def tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"x")


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def test_of_runs_refused_at_once_each_is_counted_and_the_metric_never_goes_back(
    here: Place, plan: Plan
) -> None:
    """Five commands at once while one holds the lock: five lines, and each value of the metric is over the last."""
    with run_lock(plan.lock, started=plan.started):
        fold(plan)
        seen = [metric(plan)]
        runs = [
            subprocess.Popen(
                [*COMMAND, *here.arguments()], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT
            )
            for _ in range(5)
        ]
        for run in runs:
            said, _ = run.communicate()
            seen.append(metric(plan))
            assert run.returncode == Exit.LOCK_HELD
            assert said.startswith(
                f"previous run still active: pid {os.getpid()} since {FIRST:%Y-%m-%dT%H:%M}"
            )
    assert seen == sorted(seen)
    assert seen[-1] == 5

    after = here.run()

    assert after.returncode == 0
    assert metric(plan) == 0
    assert "caption_qc_lock_conflicts_total 5\n" in plan.metrics_file.read_text()


def test_a_refusal_waits_for_the_one_before_it(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no metric of an older refusal comes after a newer one's, and nothing is appended to what is being cut."""
    skips.note(plan, OTHER)
    before = plan.skips.read_bytes()
    asked = Event()
    lock = fcntl.flock

    def ask_then_lock(log: IO[bytes], operation: int) -> None:
        asked.set()
        lock(log, operation)

    monkeypatch.setattr(fcntl, "flock", ask_then_lock)
    waits = Thread(target=skips.note, args=(plan, OTHER))
    with plan.skips.open("ab") as noting:
        lock(noting, fcntl.LOCK_EX)
        waits.start()
        assert asked.wait(20)
        assert (plan.skips.read_bytes(), metric(plan)) == (before, 1)
    waits.join()
    assert metric(plan) == len(plan.skips.read_text().splitlines()) == 2


def test_a_run_waits_for_no_refusal(plan: Plan) -> None:
    """While somebody notes one, it counts all the same, and leaves the metric and the cut to others."""
    skips.note(plan, OTHER)
    with plan.skips.open("ab") as noting:
        fcntl.flock(noting, fcntl.LOCK_EX)
        assert fold(plan) == 1
        assert metric(plan) == 1
    fold(plan)
    assert metric(plan) == 0


def test_a_refused_run_asks_no_ledger(here: Place, plan: Plan) -> None:
    """It is refused and counted also where the ledger would hang or fail whoever opens it."""
    os.mkfifo(plan.ledger)
    with run_lock(plan.lock, started=plan.started):
        done = here.run()
    assert (done.returncode, done.stderr) == (Exit.LOCK_HELD, "")
    assert metric(plan) == 1
    assert stat.S_ISFIFO(plan.ledger.stat().st_mode)


def test_a_run_that_hangs_for_an_hour_raises_the_metric(here: Place) -> None:
    """The fires meet a run that is stopped in its work: twelve of them, and the last that is seen is twelve."""
    here.fill(60)
    with here.held_run() as (run, _):
        os.killpg(run.pid, signal.SIGSTOP)
        try:
            plan = plan_for(here, FIRST)
            for _ in range(11):
                refused(plan)
            assert holder_of(plan).pid == str(run.pid)
            last = here.run()
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # What is stopped doesn't see that its parent has ended.
    assert last.returncode == Exit.LOCK_HELD
    assert metric(plan) == 12
