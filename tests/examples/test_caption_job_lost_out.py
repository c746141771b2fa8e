"""Reports that lie elsewhere: a ledger that is lost is not replaced by an empty one beside them without a word."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import A, B, checked, ended, finish, new_run, plan_in
from caption_runs import command

from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.projections import unknown_windows, write_projections
from examples.recipes.caption_qc.job.reports_folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Runs with an `--out`, which have recorded something."""
    plan = plan_in(tmp_path)
    plan = replace(plan, out=Folder(tmp_path / "out"))
    with new_run(plan) as ledger:
        finish(ledger, checked(A))
        write_projections(plan, ledger, ended())
    return plan


def test_a_damaged_ledger_is_made_again_from_where_the_reports_are(plan: Plan) -> None:
    """Without that `--out` it is refused and stays as it is; with it no record is lost or had twice."""
    plan.ledger.write_bytes(b"no ledger" * 1000)
    before = sorted(path.name for path in plan.state.iterdir())
    with (
        pytest.raises(
            JobError, match=r"no run has left its reports in .*; give the --out that runs"
        ) as refused,
        new_run(replace(plan, out=Folder(plan.state))),
    ):
        pytest.fail("opened an empty ledger")
    assert refused.value.code == Exit.IO_ERROR
    assert sorted(path.name for path in plan.state.iterdir()) == before
    said: list[str] = []
    with new_run(plan, "again", warn=said.append) as ledger:
        assert finish(ledger, checked(A)) == (False,)
    assert "with 1 record of 1 window" in said[0]


def test_records_that_a_new_ledger_does_not_know_are_a_warning(plan: Plan) -> None:
    """Its first run without the `--out` has nothing to meet; the first one with it says so, not a day later."""
    plan.ledger.unlink()
    elsewhere = replace(plan, out=Folder(plan.state), window=plan.window + LATER)
    with new_run(elsewhere, "new", plan.window + LATER) as ledger:
        finish(ledger, checked(B))
        assert unknown_windows(elsewhere, ledger) is None
        write_projections(elsewhere, ledger, ended())
    with new_run(plan, "back") as ledger:
        assert not ledger.read_through
        assert "has records that the ledger does not know" in str(unknown_windows(plan, ledger))


def test_status_says_of_an_empty_ledger_what_a_run_does_with_it(plan: Plan) -> None:
    """Not that it has a version."""
    plan.ledger.write_bytes(b"")
    asked = command("status", "--state", str(plan.state))
    assert asked.returncode == Exit.IO_ERROR
    assert "ledger.sqlite is empty; do a run first, which makes it again" in asked.stderr


def test_status_names_a_lock_that_is_no_file(plan: Plan) -> None:
    """A FIFO: as a run does, and nothing hangs."""
    os.mkfifo(plan.lock)
    asked = command("status", "--state", str(plan.state))
    assert asked.returncode == Exit.CANNOT_CREATE
    assert "run.lock is not a regular file" in asked.stderr
