"""What is kept of the dashboards shows nothing that has changed since, and is made again for nothing else."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from caption_dashboards import looked_at, recorded, shown, write
from caption_ledgers import (
    FAULTY,
    NOW,
    PROFILE,
    STAT,
    A,
    B,
    ask,
    checked,
    deliver,
    died,
    finish,
    new_run,
    plan_in,
    sha256,
)
from caption_runs import GOOD

from examples.recipes.caption_qc.check.profiles import Override
from examples.recipes.caption_qc.job import dashboard_kept, dashboard_state
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.errors import JobError
from examples.recipes.caption_qc.job.page import fragment_of
from examples.recipes.caption_qc.job.prune import prune
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What was summed up, each time that it was."""
    found: list[Mapping[str, Any]] = []

    def noted(summary: Mapping[str, Any]) -> str:
        found.append(summary)
        return fragment_of(summary)

    monkeypatch.setattr(dashboard_kept, "fragment_of", noted)
    return found


def page(plan: Plan) -> str:
    return (plan.state / "dashboard.html").read_text()


def test_a_run_that_records_nothing_copies_what_is_kept(plan: Plan, made: list[Any]) -> None:
    """Both dashboards say the same of the records, and what is new of the run."""
    before = recorded(plan, "run-1", checked(A, report=FAULTY))
    after = looked_at(plan, "run-2", NOW + LATER)
    assert len(made) == 1
    assert (after["run"]["id"], after["generated_at"]) == ("run-2", "2026-01-01T00:12:30Z")
    assert after | {name: before[name] for name in ("run", "generated_at")} == before
    for text in ("2026-01-01T00:12:30Z", "a.scc"):
        assert text in page(plan)


def test_an_empty_ledger_is_summed_up_once_too(plan: Plan, made: list[Any]) -> None:
    """A queue in which nothing was ever found costs no fire more than the first."""
    assert looked_at(plan, "run-1")["assets"] == looked_at(plan, "run-2")["assets"] == []
    assert len(made) == 1


def test_a_new_record_is_shown(plan: Plan) -> None:
    """Of another file, of other bytes, and one that takes the place of another."""
    assert recorded(plan, "run-1", checked(A))["totals"]["assets"] == 1
    assert recorded(plan, "run-2", checked(B))["totals"]["assets"] == 2
    assert recorded(plan, "run-3", checked(A, "2" * 64, FAULTY))["totals"]["fail"] == 1
    assert recorded(plan, "run-4", died(B))["totals"] == {
        "assets": 3,
        "pass": 1,
        "warn": 0,
        "fail": 1,
        "error": 1,
        "skipped": 0,
        "dead_letters": 1,
        "backlog": None,
    }


def test_a_window_that_is_done_again_is_shown_as_it_is_now(plan: Plan) -> None:
    """As many records as before, of the same status, and other findings."""
    assert recorded(plan, "run-1", checked(A, report=FAULTY))["assets"][0]["findings"] > 1
    less = replace(FAULTY, findings=FAULTY.findings[:1])
    again = replace(plan, run_id="run-2", window=plan.window + LATER, redo=(plan.window, plan.window))
    with new_run(again, "run-2") as ledger:
        finish(ledger, checked(A, report=less))
        found = write(again, ledger)
    assert (found["window"], found["totals"]["assets"]) == ("2026-01-01T00:05:00Z", 1)
    assert [asset["findings"] for asset in found["assets"]] == [1]
    assert [rule["rule"] for rule in found["rules"]] == [FAULTY.findings[0].rule]


def test_a_window_that_was_pruned_and_recorded_anew_is_shown_as_it_is_now(plan: Plan) -> None:
    """It begins to count its changes again, and may come to a count that it had."""
    recorded(plan, "run-1", checked(A))
    recorded(plan, "run-2", checked(B), window=plan.window + LATER)
    kept = looked_at(plan, "run-3")
    assert [asset["asset_id"] for asset in kept["assets"]] == ["a.scc"]
    with new_run(plan, "run-4") as ledger:
        prune(replace(plan, started=NOW + LATER), ledger, plan.window + LATER)
    other = checked(Asset(b"other.scc", STAT))
    with new_run(plan, "run-5") as ledger:
        finish(ledger, other)
        found = write(plan, ledger)
        assert ask(ledger, "SELECT DISTINCT changes FROM windows") == [(1,)]
    assert [asset["asset_id"] for asset in found["assets"]] == ["other.scc"]
    assert "other.scc" in page(plan)
    assert "a.scc" not in page(plan)


def test_a_pruned_window_leaves_the_trend(plan: Plan) -> None:
    """The one that is shown is as it was."""
    recorded(plan, "run-1", checked(A))
    later = replace(plan, started=NOW + LATER, window=plan.window + LATER)
    assert len(recorded(later, "run-2", checked(B))["trend"]) == 2
    with new_run(later, "run-3") as ledger:
        prune(later, ledger, later.window)
    found = looked_at(later, "run-4", NOW + LATER)
    assert [one["window"] for one in found["trend"]] == ["2026-01-01T00:10:00Z"]


def test_dead_letters_are_shown_where_they_are_now(plan: Plan) -> None:
    """In the queue, then moved, then put back: no record changes by that."""
    asset = deliver(plan, "x/dead.scc")
    with new_run(plan, "run-1") as ledger:
        finish(ledger, died(asset, sha256(GOOD)))
        (letter,) = write(plan, ledger)["dead_letters"]
        assert letter["place"] is None
        move_dead_letters(plan, ledger, pytest.fail)
        (letter,) = write(plan, ledger)["dead_letters"]
        assert letter["place"] == "x/dead.scc"
        assert "x/dead.scc" in page(plan)
        replay(plan, ledger, [])
        found = write(plan, ledger)
    assert (found["dead_letters"], found["totals"]["dead_letters"], found["totals"]["error"]) == ([], 0, 1)


def test_the_limit_is_that_of_the_runs_profile(plan: Plan) -> None:
    """Another profile of the same limit makes nothing again."""
    override = {"RATE_CPS": Override(threshold=17)}
    strict = replace(plan, profile=replace(PROFILE, name="strict", overrides=override))
    assert recorded(plan, "run-1", checked(A))["reading_speed"]["threshold"] == 20
    assert looked_at(strict, "run-2")["reading_speed"]["threshold"] == 17
    assert looked_at(plan, "run-3")["reading_speed"]["threshold"] == 20


@pytest.mark.parametrize("what", ["VERSION", "TOOL_VERSION", "find_spec", "_code"])
def test_another_program_makes_its_own(
    plan: Plan, made: list[Any], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A new version, changed code, a library that has come: each once."""
    recorded(plan, "run-1", checked(A))
    other: object = "1.1.99" if what.endswith("VERSION") else lambda *_: None
    monkeypatch.setattr(dashboard_state, what, (lambda: ["changed"]) if what == "_code" else other)
    looked_at(plan, "run-2")
    looked_at(plan, "run-3")
    assert len(made) == 2


def test_a_run_that_dies_while_it_sums_up_leaves_nothing_that_is_taken_for_whole(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are as they were, and the next run writes new ones."""
    before = recorded(plan, "run-1", checked(A))

    def dying(_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(dashboard_kept, "fragment_of", dying)
        with pytest.raises(KeyboardInterrupt):
            recorded(plan, "run-2", checked(B))
    assert shown(plan) == before
    found = looked_at(plan, "run-3")
    assert [asset["asset_id"] for asset in found["assets"]] == ["a.scc", "b/%E9.scc"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE summary_text SET content = replace(content, 'a.scc', 'b.scc')",
        "UPDATE summary SET fragment = replace(fragment, 'a.scc', 'b.scc')",
        "DELETE FROM summary_text WHERE part = 1",
    ],
)
def test_text_that_is_not_what_was_kept_is_not_written(plan: Plan, damage: str) -> None:
    """Nothing parses it, so it has a checksum: the dashboards stay whole, as they were."""
    before = recorded(plan, "run-1", checked(A, report=FAULTY))
    with contextlib.closing(sqlite3.connect(plan.ledger)) as connection, connection:
        assert connection.execute(damage).rowcount > 0
    with pytest.raises(JobError, match=r"is damaged .*what it keeps of the dashboard"):
        looked_at(plan, "run-2")
    assert shown(plan) == before
    assert not list(plan.state.glob(".dashboard*"))


def test_the_page_has_the_same_data(plan: Plan) -> None:
    """What its script reads is what the JSON says, totals of the window and all."""
    found = recorded(plan, "run-1", checked(A, report=FAULTY))
    text = page(plan).partition('<script type="application/json" id="summary">')[2].partition("</script>")[0]
    data = json.loads(text)
    statuses = data.pop("totals")
    assert data == {name: found[name] for name in data}
    assert statuses == {name: found["totals"][name] for name in statuses}
    assert {*found} - {*data} == {
        "schema_version",
        "generated_at",
        "queue",
        "window",
        "run",
        "profile",
        "profile_sha256",
        "totals",
        "superseded",
    }
