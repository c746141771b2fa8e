"""A clock that was wrong once: what was written last is the newest, whatever time it bears."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import AS_VERSION_3, A, ask, checked, ended, finish, new_run, plan_in
from caption_ledgers import NOW as BEFORE

from examples.recipes.caption_qc.job.history import read_history
from examples.recipes.caption_qc.job.prune import prune

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

DAY = timedelta(days=1)
NOW = BEFORE + 30 * DAY
RUNS = "SELECT run_id FROM runs ORDER BY number"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return replace(plan_in(tmp_path), started=NOW)


def one_run(plan: Plan, name: str, started: datetime, content: str | None = None) -> None:
    """Do a run by a clock that says so, with a record of its own window where there is some content."""
    window = started.replace(minute=5, second=0)
    with new_run(replace(plan, started=started), name, window) as ledger:
        if content is not None:
            finish(ledger, checked(A, content * 64))
        ledger.end_run(replace(ended(), at=started))


def names(plan: Plan) -> list[str] | None:
    """List the runs as `status` does."""
    return read_history(plan, lambda history: [run.run_id for run in history.runs(9)])


def test_status_lists_runs_as_they_were_written(plan: Plan) -> None:
    """One of a clock that was ahead is not the last for years, nor one of a clock that was behind the first."""
    one_run(plan, "first", BEFORE)
    one_run(plan, "ahead", NOW + 1000 * DAY)
    one_run(plan, "behind", BEFORE - 9000 * DAY)
    one_run(plan, "last", NOW)
    assert names(plan) == ["last", "behind", "ahead", "first"]


def test_prune_keeps_the_newest_window_beside_one_that_is_yet_to_come(plan: Plan) -> None:
    """Else the newest there is would go, for one that no run will meet for years."""
    for number in range(3):
        one_run(plan, f"run-{number}", BEFORE + number * DAY, str(number))
    one_run(plan, "ahead", NOW + 1000 * DAY, "9")
    with new_run(plan, "prune") as ledger:
        assert prune(plan, ledger, NOW - DAY).windows == 2
        assert ask(ledger, "SELECT content_sha256 FROM records ORDER BY 1") == [("2" * 64,), ("9" * 64,)]


def test_prune_keeps_the_run_that_was_written_last_and_the_last_success_that_is_over(plan: Plan) -> None:
    """Though another one's clock was ahead, or its own behind."""
    one_run(plan, "old", BEFORE)
    one_run(plan, "good", BEFORE + DAY)
    one_run(plan, "ahead", NOW + 1000 * DAY)
    behind = replace(plan, started=BEFORE - 9000 * DAY)
    with new_run(behind, "behind") as ledger:
        assert ledger.last_success(NOW) == BEFORE + DAY
        prune(plan, ledger, NOW - DAY)
        assert ask(ledger, RUNS) == [("good",), ("ahead",), ("behind",)]
        assert ledger.last_success(NOW) == BEFORE + DAY


def test_a_ledger_that_did_not_number_its_runs_is_brought_up(plan: Plan) -> None:
    """In the order of their clocks, but for those of one that is still ahead: they come first; nothing is lost."""
    one_run(plan, "2-ahead", NOW + 40_000 * DAY)
    one_run(plan, "1-late", BEFORE + DAY)
    one_run(plan, "3-early", BEFORE)
    with contextlib.closing(sqlite3.connect(plan.ledger)) as old:
        before = old.execute("SELECT run_id, totals, finished_at FROM runs ORDER BY 1").fetchall()
        old.executescript(AS_VERSION_3)
    one_run(plan, "4-now", BEFORE - DAY)
    with new_run(plan, "asking") as ledger:
        assert ask(ledger, RUNS) == [("2-ahead",), ("3-early",), ("1-late",), ("4-now",), ("asking",)]
        assert ask(ledger, "SELECT run_id, totals, finished_at FROM runs ORDER BY 1")[:3] == sorted(before)
