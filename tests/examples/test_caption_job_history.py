"""What the ledger knows of the past, as `status` reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from caption_ledgers import NOW, A, B, checked, died, ended, finish, new_run, plan_in, reports_of

from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.history import History, read_history
from examples.recipes.caption_qc.job.projections import write_projections

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def everything(history: History) -> tuple[Any, ...]:
    return (
        [run.run_id for run in history.runs(9)],
        [
            (letter.asset_id, letter.reason, letter.attempts, letter.place)
            for letter in history.dead_letters(9)
        ],
        history.dead_letter_count(),
        history.kept(),
        history.skips_total(),
        history.queue(),
    )


def test_the_past_is_read_and_nothing_is_left_beside_the_ledger(plan: Plan) -> None:
    """Runs and dead letters, what is kept, and whose it is."""
    assert read_history(plan, everything) is None
    with new_run(plan) as ledger:
        finish(ledger, checked(A), died(B))
        ledger.fold_skips(3, "")
        write_projections(plan, ledger, ended())
        ledger.end_run(ended())
    with new_run(replace(plan, started=NOW + timedelta(hours=1)), "run-2"):
        pass
    before = names_in(plan.state)
    found = read_history(plan, everything)
    assert names_in(plan.state) == before
    assert found is not None
    runs, letters, count, kept, skips, queue = found
    assert runs == ["run-2", "run-1"]
    assert letters == [("b/%E9.scc", "hung", 3, None)]
    assert (count, skips, queue) == (1, 3, plan.queue.name)
    files = [plan.ledger, *(reports_of(plan) / "telemetry").rglob("*.parquet")]
    assert kept.bytes == sum(path.stat().st_size for path in files)
    assert (kept.windows, kept.records, kept.oldest, kept.newest) == (1, 2, plan.window, plan.window)
    run = read_history(plan, lambda history: history.runs(9)[1])
    assert run is not None
    assert (run.started, run.finished, run.exit_code, run.drained) == (NOW, NOW, 0, False)
    assert run.totals["checked"] == 0
    unfinished = read_history(plan, lambda history: history.runs(1)[0])
    assert unfinished is not None
    assert (unfinished.finished, unfinished.exit_code, unfinished.totals) == (None, None, {})


def test_it_is_read_beside_a_run_that_has_it_open(plan: Plan) -> None:
    """With what that has committed; one that begins while it is read makes it be read once more."""
    with new_run(plan):
        pass
    names: list[list[str]] = []

    def read(history: History) -> list[str]:
        names.append([run.run_id for run in history.runs(9)])
        if len(names) == 1:
            run.__enter__()  # A run begins here, and goes on.
        return names[-1]

    run = new_run(replace(plan, started=NOW + timedelta(hours=1)), "run-2")
    assert read_history(plan, read) == ["run-2", "run-1"]
    assert names[0] == ["run-1"]
    assert read_history(plan, read) == ["run-2", "run-1"]
    run.__exit__(None, None, None)


@pytest.mark.parametrize("found", [b"", b"no database" * 999])
def test_a_ledger_that_cannot_be_read_is_one_line(plan: Plan, found: bytes) -> None:
    """It is not mended, nor made."""
    plan.ledger.write_bytes(found)
    with pytest.raises(JobError) as error:
        read_history(plan, everything)
    assert error.value.code in {Exit.IO_ERROR, Exit.BAD_CONFIG}
    assert plan.ledger.read_bytes() == found
    assert names_in(plan.state) == [plan.ledger.name]
