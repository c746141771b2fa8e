"""A file that was checked once and dies later: the ledger, the Parquet and the dead letter say the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import (
    CLEAN,
    FAULTY,
    A,
    B,
    ask,
    checked,
    died,
    ended,
    finish,
    new_run,
    plan_in,
    window_paths,
)
from pyarrow import parquet

from examples.recipes.caption_qc.job.projections import write_projections

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)
OTHER = "f" * 64
RECORDS = "SELECT asset_id, status, profile_sha256, run_id FROM records ORDER BY 1, 2"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two files that were checked, in the first window, with its files written."""
    plan = plan_in(tmp_path)
    with new_run(plan) as ledger:
        finish(ledger, checked(A, report=FAULTY), checked(B))
        write_projections(plan, ledger, ended())
    return plan


def in_parquet(plan: Plan, window: int) -> list[tuple[str, str]]:
    path = window_paths(plan, plan.window + window * LATER)[1]
    rows = parquet.read_table(path, columns=["asset_id", "status"]).to_pylist()
    return [(row["asset_id"], row["status"]) for row in rows]


def test_its_error_takes_the_place_of_the_record(plan: Plan) -> None:
    """One record a key, in the window of the run, with the one finding; its old window is written again without it."""
    house = CLEAN.profile_sha256
    with new_run(plan, "later", plan.window + LATER) as ledger:
        assert finish(ledger, died(A)) == (True,)
        write_projections(plan, ledger, ended())
        assert ask(ledger, RECORDS) == [
            ("a.scc", "error", house, "later"),
            ("b/%E9.scc", "pass", house, "run-1"),
        ]
        assert ask(ledger, "SELECT rule FROM findings WHERE asset_id = 'a.scc'") == [("JOB_DEAD_LETTER",)]
        assert ledger.dead_letters() == 1
    assert (in_parquet(plan, 0), in_parquet(plan, 1)) == ([("b/%E9.scc", "pass")], [("a.scc", "error")])


def test_what_another_profile_said_stays_and_so_does_an_error_that_is_there(plan: Plan) -> None:
    """Neither was tried this time, or is any news."""
    with new_run(plan, "strict", plan.window + LATER) as ledger:
        finish(ledger, checked(A, report=replace(CLEAN, profile_sha256=OTHER)))
    with new_run(plan, "later", plan.window + 2 * LATER) as ledger:
        assert finish(ledger, died(A)) == (True,)
        assert finish(ledger, died(A)) == (False,)
        assert [row[1:3] for row in ask(ledger, RECORDS)[:2]] == [
            ("error", CLEAN.profile_sha256),
            ("pass", OTHER),
        ]


def test_a_check_that_ends_well_takes_its_place_again(plan: Plan) -> None:
    """After a replay: no dead letter, no error, one record."""
    with new_run(plan, "later", plan.window + LATER) as ledger:
        finish(ledger, died(A))
        assert finish(ledger, checked(A)) == (True,)
        assert ask(ledger, RECORDS)[0][:2] == ("a.scc", "pass")
        assert ask(ledger, "SELECT COUNT(*) FROM records WHERE asset_id = 'a.scc'") == [(1,)]
        assert ledger.dead_letters() == 0
