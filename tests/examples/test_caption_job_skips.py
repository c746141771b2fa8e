"""Refused runs: each is counted once, whatever crashes in between."""

from __future__ import annotations

import fcntl
import os
import resource
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_fires import FIRST, METRIC, OTHER, fold, ledger_of, metric, plan_for, refused
from caption_metrics import names_of
from caption_runs import WITHOUT_ROOTS_RIGHTS, Place, command, place

from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.ledger import Ledger
from examples.recipes.caption_qc.job.lock import Holder, run_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def plan(here: Place) -> Plan:
    here.state.mkdir()
    return plan_for(here)


# Counting


def test_a_skip_is_counted_once_however_often_it_is_folded(plan: Plan) -> None:
    """The total grows by what is new, and by nothing when nothing is."""
    holder = Holder.this_run(FIRST)
    totals = []
    for times in (0, 1, 0, 3, 0):
        for _ in range(times):
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
    monkeypatch.setattr(skips, "MOST_KEPT", 0)
    commit = Ledger.fold_skips

    def late(ledger: Ledger, total: int, folded: str) -> None:
        skips.note(plan, OTHER)
        commit(ledger, total, folded)
        skips.note(plan, OTHER)

    skips.note(plan, OTHER)
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
    monkeypatch.setattr(skips, "MOST_KEPT", 0)
    for _ in range(3):
        skips.note(plan, OTHER)
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
        skips.note(plan, OTHER)
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
            skips.note(plan, OTHER)
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
