"""Which window the dashboards show, and which the trend: a clock that was ahead once hides nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from caption_dashboards import looked_at, recorded
from caption_ledgers import CLEAN, NOW, A, B, ask, checked, finish, new_run, plan_in
from caption_runs import GOOD, Place, place

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)
AHEAD = datetime(2062, 1, 1, tzinfo=UTC)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def test_a_run_shows_its_own_window(plan: Plan) -> None:
    """Also one that is long over, and one that is yet to come: the trend ends with that."""
    recorded(plan, "run-1", checked(A))
    future = recorded(plan, "run-2", checked(B), window=AHEAD)
    assert (future["window"], future["assets_total"]) == ("2062-01-01T00:00:00Z", 1)
    assert [one["window"] for one in future["trend"]] == ["2026-01-01T00:05:00Z", "2062-01-01T00:00:00Z"]
    assert looked_at(plan, "run-3")["window"] == "2026-01-01T00:05:00Z"


def test_a_run_without_records_shows_no_window_that_is_yet_to_come(plan: Plan) -> None:
    """The newest of those that have begun, and none of the others in the trend."""
    recorded(plan, "run-1", checked(A), window=AHEAD)
    recorded(plan, "run-2", checked(B))
    later = replace(plan, window=plan.window + LATER)
    found = looked_at(later, "run-3", NOW + LATER)
    assert (found["window"], [asset["asset_id"] for asset in found["assets"]]) == (
        "2026-01-01T00:05:00Z",
        ["b/%E9.scc"],
    )
    assert [one["window"] for one in found["trend"]] == ["2026-01-01T00:05:00Z"]


def test_a_window_that_is_yet_to_come_is_shown_where_there_is_no_other(plan: Plan) -> None:
    """Better than nothing; and it is in the trend then."""
    recorded(plan, "run-1", checked(A), window=AHEAD)
    found = looked_at(plan, "run-2")
    assert (found["window"], len(found["trend"])) == ("2062-01-01T00:00:00Z", 1)


def test_a_window_joins_the_trend_when_it_comes(plan: Plan) -> None:
    """No record changes by that: what is kept is made again."""
    recorded(plan, "run-1", checked(A), window=plan.window + LATER)
    recorded(plan, "run-2", checked(B))
    assert len(looked_at(plan, "run-3")["trend"]) == 1
    assert len(looked_at(plan, "run-4", NOW + LATER)["trend"]) == 2


def test_a_window_that_lost_its_records_to_a_redo_is_not_shown(plan: Plan) -> None:
    """They stand in the first of the windows that were done again."""
    later = replace(plan, window=plan.window + LATER)
    recorded(plan, "run-1", checked(A))
    recorded(later, "run-2", checked(A, report=replace(CLEAN, profile_sha256="f" * 64)))
    again = replace(later, redo=(plan.window, later.window))
    with new_run(again, "run-4") as ledger:
        finish(ledger, checked(A))
        assert ask(ledger, "SELECT DISTINCT window_start FROM records") == [(1767225900000000,)]
    found = looked_at(replace(later, window=later.window + LATER), "run-5", NOW + 2 * LATER)
    assert (found["window"], found["assets_total"]) == ("2026-01-01T00:05:00Z", 1)
    assert found["trend"][-1] | {"pass_rate": 0} == {
        "window": "2026-01-01T00:10:00Z",
        "assets": 0,
        "pass": 0,
        "warn": 0,
        "fail": 0,
        "error": 0,
        "pass_rate": 0,
    }
    assert found["trend"][-1]["pass_rate"] is None


def test_the_command_shows_what_is_now_after_a_clock_was_ahead(tmp_path: Path) -> None:
    """One run in 2062 by mistake, one in its time, one that finds nothing."""
    here: Place = place(tmp_path)
    for name, at in (("a", "2062-01-01T00:00Z"), ("b", "2026-01-01T00:00Z")):
        (here.queue / f"{name}.scc").write_bytes(GOOD)
        assert here.run("--at", at).returncode == 0
    assert here.run().returncode == 0
    text = (here.state / "dashboard.json").read_text()
    assert '"window": "2026-01-01T00:00:00Z"' in text
    assert "2062" not in text
