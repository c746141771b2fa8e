"""Refused runs: each is counted once, whatever crashes in between and whatever is refused at the same moment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import IO, TYPE_CHECKING

import pytest
from caption_metrics import names_of
from caption_runs import COMMAND, ENVIRONMENT, ROOT, WITHOUT_ROOTS_RIGHTS, Place, command, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.ledger import Ledger, open_ledger
from examples.recipes.caption_qc.job.lock import Holder, LockHeldError, run_lock
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
METRIC = "caption_qc_lock_conflicts_in_a_row"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def plan(here: Place) -> Plan:
    here.state.mkdir()
    return plan_for(here, FIRST)


def plan_for(here: Place, started: datetime, *more: str) -> Plan:
    return plan_of(build_parser({}).parse_args(here.arguments(*more)), load("house"), started)


@contextlib.contextmanager
def ledger_of(plan: Plan) -> Iterator[Ledger]:
    with open_ledger(plan, pytest.fail) as ledger:
        yield ledger


def metric(plan: Plan) -> int:
    name, number = plan.metrics_skips.read_text().splitlines()[-1].split()
    assert name == METRIC
    return int(number)


def fold(plan: Plan) -> int:
    """Fold as a run does that has the lock, and return the total."""
    with ledger_of(plan) as ledger:
        skips.fold(plan, ledger)
        return ledger.folded_skips()[0]


# Counting


def test_a_skip_is_counted_once_however_often_it_is_folded(plan: Plan) -> None:
    """The total grows by what is new, and by nothing when nothing is."""
    holder = Holder.this_run(FIRST)
    totals = []
    for refused in (0, 1, 0, 3, 0):
        for _ in range(refused):
            skips.note(plan, holder)
        totals.append(fold(plan))
    assert totals == [0, 1, 1, 4, 4]
    assert len(plan.skips.read_text().splitlines()) == 4


def test_in_a_row_are_those_since_the_last_run_that_got_the_lock(here: Place, plan: Plan) -> None:
    """It grows with each refusal by one holder, stays when that one has ended, and is 0 once the next has the lock."""
    with run_lock(plan.lock, started=plan.started):
        fold(plan)
        seen = [metric(plan)]
        for _ in range(3):
            refused(plan)
            seen.append(metric(plan))
    assert skips.in_a_row(plan) == 3

    second = plan_for(here, FIRST + timedelta(hours=1))
    with run_lock(second.lock, started=second.started):
        assert fold(second) == 3
        seen.append(metric(plan))
        assert skips.in_a_row(plan) == 0
        refused(plan)
        seen.append(metric(plan))

    assert seen == [0, 1, 2, 3, 0, 1]


def refused(plan: Plan) -> None:
    with pytest.raises(LockHeldError) as error:
        run_lock(plan.lock, started=plan.started).__enter__()
    skips.note(plan, error.value.holder)


def test_a_run_refused_before_the_fold_is_in_the_row_of_the_run_that_refused_it(plan: Plan) -> None:
    """It met this holder, so the metric says 1 after the fold, not 0."""
    with run_lock(plan.lock, started=plan.started):
        refused(plan)
        assert fold(plan) == 1
        assert metric(plan) == 1


def test_what_is_appended_while_it_is_folded_is_counted_by_the_next(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the counting and the commit, and between the commit and the cut: nothing is lost or cut."""
    other = Holder("7", "elsewhere", "then")
    monkeypatch.setattr(skips, "MOST_KEPT", 0)
    commit = Ledger.fold_skips

    def late(ledger: Ledger, total: int, folded: str) -> None:
        skips.note(plan, other)
        commit(ledger, total, folded)
        skips.note(plan, other)

    skips.note(plan, other)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "fold_skips", late)
        assert fold(plan) == 1
    assert fold(plan) == 3
    assert plan.skips.read_bytes() == b""


@pytest.mark.parametrize("moment", ["flock", "ftruncate"])
def test_a_crash_after_the_commit_counts_nothing_twice(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before the cut the log still has what is counted, after it the position is that of another log."""
    other = Holder("7", "elsewhere", "then")
    monkeypatch.setattr(skips, "MOST_KEPT", 0)
    for _ in range(3):
        skips.note(plan, other)
    where = fcntl if moment == "flock" else os
    call: Callable[..., None] = getattr(where, moment)

    def crash(*arguments: object) -> None:
        call(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(where, moment, crash)
        with pytest.raises(KeyboardInterrupt):
            fold(plan)

    for _ in range(4):  # More than there were, so that the log is longer than the old position.
        skips.note(plan, other)
    assert fold(plan) == 7


def test_a_crash_before_the_commit_loses_nothing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is as it was."""
    skips.note(plan, Holder.this_run(FIRST))

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "fold_skips", crash)
        with pytest.raises(KeyboardInterrupt):
            fold(plan)
    assert fold(plan) == 1


def test_a_log_that_others_emptied_or_replaced_is_counted_from_its_beginning(plan: Plan) -> None:
    """By hand or by logrotate: shorter than the position, as long, or longer."""
    holder = Holder.this_run(FIRST)
    total = 0
    for replaced in (1, 2, 3):
        for _ in range(2):
            skips.note(plan, holder)
        total += 2
        assert fold(plan) == total
        plan.skips.unlink()
        for _ in range(replaced):
            skips.note(plan, holder)
        total += replaced
        assert fold(plan) == total
        plan.skips.unlink()


def test_the_log_is_bounded_and_the_total_is_not(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is emptied once it is long and counted, never while it names the run that holds the lock."""
    monkeypatch.setattr(skips, "MOST_KEPT", 1000)
    sizes = []
    with ledger_of(plan) as ledger:
        for fires in range(1, 31):
            skips.note(plan, Holder("7", "elsewhere", "then"))
            skips.fold(plan, ledger)
            assert ledger.folded_skips()[0] == fires
            sizes.append(plan.skips.stat().st_size)
        assert sizes.count(0) >= 2
        assert max(sizes) < 1200

        for _ in range(20):
            skips.note(plan, Holder.this_run(FIRST))
        skips.fold(plan, ledger)
    assert metric(plan) == 20
    assert plan.skips.stat().st_size > 1000


def test_half_a_line_is_counted_when_it_is_whole(plan: Plan) -> None:
    """A line that is being written is left for the next fold; what is no line of ours does no harm."""
    skips.note(plan, Holder.this_run(FIRST))
    with plan.skips.open("ab", buffering=0) as log:
        log.write(b"half a line")
        assert fold(plan) == 1
        log.write(b", now whole\n" + b"\xff" * 10_000 + b"\n")
    assert fold(plan) == 3
    assert fold(plan) == 3


# At the same moment


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
    arguments = [sys.executable, "-c", program, "run", str(plan.queue), "--state", str(plan.state)]
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
    holder = Holder("7", "elsewhere", "then")
    skips.note(plan, holder)
    before = plan.skips.read_bytes()
    asked = Event()
    lock = fcntl.flock

    def ask_then_lock(log: IO[bytes], operation: int) -> None:
        asked.set()
        lock(log, operation)

    monkeypatch.setattr(fcntl, "flock", ask_then_lock)
    waits = Thread(target=skips.note, args=(plan, holder))
    with plan.skips.open("ab") as noting:
        lock(noting, fcntl.LOCK_EX)
        waits.start()
        assert asked.wait(20)
        assert (plan.skips.read_bytes(), metric(plan)) == (before, 1)
    waits.join()
    assert metric(plan) == len(plan.skips.read_text().splitlines()) == 2


def test_a_run_waits_for_no_refusal(plan: Plan) -> None:
    """While somebody notes one, it counts all the same, and leaves the metric and the cut to others."""
    skips.note(plan, Holder("7", "elsewhere", "then"))
    with plan.skips.open("ab") as noting:
        fcntl.flock(noting, fcntl.LOCK_EX)
        assert fold(plan) == 1
        assert metric(plan) == 1
    fold(plan)
    assert metric(plan) == 0


def test_a_run_that_hangs_for_an_hour_raises_the_metric(here: Place) -> None:
    """The fires meet a run that is stopped in its work: twelve of them, and the last that is seen is twelve."""
    here.fill(60)
    with here.held_run() as (run, _):
        os.killpg(run.pid, signal.SIGSTOP)
        try:
            plan = plan_for(here, FIRST)
            for _ in range(11):
                skips.note(plan, _holder_as_read(plan, run.pid))
            last = here.run()
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # What is stopped doesn't see that its parent has ended.
    assert last.returncode == Exit.LOCK_HELD
    assert metric(plan) == 12


def _holder_as_read(plan: Plan, pid: int) -> Holder:
    with pytest.raises(LockHeldError) as error:
        run_lock(plan.lock, started=FIRST).__enter__()
    assert error.value.holder.pid == str(pid)
    return error.value.holder


# Where it can't be written


def test_what_is_no_file_is_refused_and_hangs_nothing(plan: Plan) -> None:
    """A FIFO or a folder in the place of the log: one line that says so, for the refused run and the next."""
    os.mkfifo(plan.skips)
    for call in (
        lambda: skips.note(plan, Holder.this_run(FIRST)),
        lambda: skips.in_a_row(plan),
        lambda: fold(plan),
    ):
        with pytest.raises(JobError, match="not a regular file"):
            call()


def test_half_a_line_is_taken_back_when_the_disk_is_full(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit in the middle of the line: the log is as it was, exit code 74."""
    skips.note(plan, Holder.this_run(FIRST))
    before = plan.skips.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(JobError) as error:
            skips.note(plan, Holder.this_run(FIRST))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.code == Exit.IO_ERROR
    assert plan.skips.read_bytes() == before


def test_a_refused_run_that_may_not_write_is_refused_all_the_same(here: Place, plan: Plan) -> None:
    """Exit 75 and its line; that it could not be noted is a warning."""
    skips.note(plan, Holder.this_run(FIRST))
    plan.skips.chmod(0)
    with run_lock(plan.lock, started=plan.started):
        done = here.run(prefix=WITHOUT_ROOTS_RIGHTS)
    assert done.returncode == Exit.LOCK_HELD
    assert done.stdout.startswith("previous run still active: ")
    assert done.stderr.startswith("warning: cannot write ")
    assert "Permission denied" in done.stderr


def test_nothing_is_in_a_row_where_nothing_ran(here: Place) -> None:
    """No state folder, no log, no lock: 0, and nothing is made."""
    assert skips.in_a_row(plan_for(here, FIRST)) == 0
    assert not here.state.exists()


def test_the_metric_lies_beside_the_metrics_and_is_named_after_them(here: Place, tmp_path: Path) -> None:
    """With --metrics-file elsewhere: `x-skips.prom` beside `x.prom`, nothing in the state folder, no name in both."""
    elsewhere = tmp_path / "textfile"
    assert command(*here.arguments("--metrics-file", str(elsewhere / "qc.prom"))).returncode == 0
    assert sorted(path.name for path in elsewhere.iterdir()) == ["qc-skips.prom", "qc.prom"]
    assert not list(here.state.glob("*.prom"))
    families = [names_of(path.read_text()) for path in sorted(elsewhere.iterdir())]
    assert families[0] == {METRIC}
    assert METRIC not in families[1]
