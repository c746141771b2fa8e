"""What `dashboard.json` says of what needs somebody: nothing that was mended, nothing that is not known to be wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from caption_dashboards import looked_at, recorded, reported, shown
from caption_ledgers import CLEAN, FAULTY, STAT, A, checked, died, ended, finish, new_run, plan_in

from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.exits import Exit
from examples.recipes.caption_qc.job.outcomes import Left
from examples.recipes.caption_qc.job.projections import write_dashboard
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.screen import notes_of
from examples.recipes.caption_qc.job.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)
NOBODY = {"pass": 0, "warn": 0, "fail": 0, "error": 0}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def superseded(found: dict[str, Any]) -> dict[str, bool]:
    """Say of each status whether its record was superseded."""
    return {asset["status"]: asset["superseded"] for asset in found["assets"]}


def test_a_file_that_was_mended_needs_nobody(plan: Plan) -> None:
    """Both records count, and the older one says that newer bytes were checked; the same bytes again mark none."""
    found = recorded(plan, "run-1", checked(A, "1" * 64, FAULTY))
    assert (superseded(found), found["superseded"]) == ({"fail": False}, NOBODY)
    found = recorded(plan, "run-2", checked(A, "2" * 64, CLEAN))
    assert superseded(found) == {"fail": True, "pass": False}
    assert found["superseded"] == NOBODY | {"fail": 1}
    assert found["totals"]["fail"] == 1


def test_a_file_that_was_mended_in_a_later_window_needs_nobody(plan: Plan) -> None:
    """A run that shows the older window knows it, though nothing of that window has changed."""
    later = plan.window + LATER
    recorded(plan, "run-1", checked(A, "1" * 64, FAULTY))
    looked_at(plan, "run-2")
    with new_run(plan, "run-3", later) as ledger:
        finish(ledger, checked(A, "2" * 64, CLEAN))  # and is killed before it writes a dashboard
    found = looked_at(plan, "run-4")
    assert found["window"] == "2026-01-01T00:05:00Z"
    assert superseded(found) == {"fail": True}


def test_bytes_that_came_back_are_what_counts(plan: Plan) -> None:
    """Faulty, mended, and the faulty ones again: they need somebody again, whatever the clock said."""
    faulty, clean = checked(A, "1" * 64, FAULTY), checked(A, "2" * 64, CLEAN)
    recorded(plan, "run-1", faulty)
    recorded(plan, "run-2", clean)
    found = recorded(plan, "run-3", faulty)
    assert superseded(found) == {"fail": False, "pass": True}


def test_two_profiles_of_the_same_bytes_are_both_true(plan: Plan) -> None:
    """Neither took the other's place."""
    strict = replace(FAULTY, profile="strict", profile_sha256="f" * 64)
    found = recorded(plan, "run-1", checked(A, "1" * 64, CLEAN), checked(A, "1" * 64, strict))
    assert superseded(found) == {"fail": False, "pass": False}


def test_a_file_says_whose_queue_it_is_of(plan: Plan) -> None:
    """One state folder that was used for two queues shows both, and which is which."""
    found = recorded(plan, "run-1", checked(A))
    assert found["assets"][0]["queue"] == found["queue"]
    other = plan_in_queue(plan)
    found = looked_at(other, "run-2")
    assert found["assets"][0]["queue"] != found["queue"]
    assert found["queue"].endswith("/other")


def plan_in_queue(plan: Plan) -> Plan:
    """Plan a run over another queue, with the same state folder."""
    folder = plan.state.parent / "other"
    folder.mkdir()
    return replace(plan, queue=type(plan.queue)(folder))  # type: ignore[call-arg]


def test_what_is_too_fast_is_counted_by_the_rule(plan: Plan) -> None:
    """Over the limit, not at it; by the true speeds, not by bins; an unknown speed is not over."""

    def at(name: bytes, speed: float | None, share: float | None) -> Any:
        figures = replace(FAULTY.figures, p95_cps=speed, share_over_cps=share)
        return checked(Asset(name, STAT), report=replace(FAULTY, figures=figures))

    found = recorded(plan, "run-1", at(b"a", 20.0, 0.0), at(b"b", 20.001, 1 / 2500), at(b"c", None, None))
    assert found["reading_speed"]["over"] == 1
    assert sorted(asset["share_over_cps"] or 0 for asset in found["assets"]) == [0, 0, 0.0004]


def test_a_pass_rate_is_never_rounded_up(plan: Plan) -> None:
    """One of many that failed keeps it from 1."""
    endings = [reported(f"{number}.scc", "pass") for number in range(30)]
    found = recorded(plan, "run-1", *endings, reported("bad.scc", "fail", ("X", "error")))
    assert found["trend"][-1]["pass_rate"] == 0.967741
    with new_run(plan, "run-2") as ledger:
        with ledger.transaction() as cursor:
            cursor.execute("""UPDATE windows SET counts = '{"pass": 25000, "fail": 1}'""")
        write_dashboard(plan, ledger, ended())
    assert shown(plan)["trend"][-1]["pass_rate"] < 1


def test_a_file_that_could_not_be_checked_has_no_count_of_captions(plan: Plan) -> None:
    """None is known of it."""
    found = recorded(plan, "run-1", died(A))
    assert [(asset["status"], asset["cues"]) for asset in found["assets"]] == [("error", None)]


@pytest.mark.parametrize(
    ("code", "drained", "status"),
    [
        (Exit.OK, False, "complete"),
        (Exit.IO_ERROR, False, "failed"),
        (Exit.OK, True, "drained"),
    ],
)
def test_a_run_that_something_kept_from_its_work_has_failed(
    plan: Plan, code: Exit, drained: bool, status: str
) -> None:
    """As the exit code says; one that was asked to end was drained."""
    with new_run(plan, "run-1") as ledger:
        finish(ledger, checked(A))
        write_dashboard(plan, ledger, replace(ended(), code=code, drained=drained))
    assert shown(plan)["run"]["status"] == status


def test_a_redo_says_that_it_is_one(plan: Plan) -> None:
    """It looks at no new files, so that its unknown backlog is no scan that was cut short."""
    assert recorded(plan, "run-1", checked(A))["run"]["redo"] is False
    again = looked_at(replace(plan, redo=(plan.window, plan.window)), "run-2")
    assert (again["run"]["redo"], again["totals"]["backlog"]) == (True, None)


def test_files_that_are_gone_wait_for_nobody() -> None:
    """A run that was killed left them running, and then they were taken away: they are named as what they are."""
    totals = Totals(seen=Seen(), found=2, whole_queue=True)
    for name in (b"a.scc", b"b.scc"):
        totals.count(Left(asset=Asset(name, STAT), why="gone", detail="it is not there any more"), new=False)
    assert (totals.skipped, totals.backlog, totals.waiting) == (0, 0, 0)
    assert notes_of(replace(ended(), totals=totals)) == ["2 gone before they were checked"]
