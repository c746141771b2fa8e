"""A profile that can't be read: the run fails as any other does, in ledger, dashboard, metrics and ping."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest
from caption_ledgers import ask, new_run, plan_in, write_two
from caption_runs import GOOD, ROOT, command, place
from ping_server import pinged

from examples.recipes.caption_qc.check import ProfileError
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.lock import run_lock
from examples.recipes.caption_qc.job.run import tell_failure
from examples.recipes.caption_qc.job.screen import LogScreen

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

SCHEMA = ROOT / "examples" / "recipes" / "caption_qc" / "job" / "dashboard.schema.json"
ROWS = "SELECT profile, exit_code FROM runs ORDER BY number"


def fail(plan: Plan) -> None:
    tell_failure(plan, LogScreen(), Drain(), ProfileError("it can't be read"))


def code_in_metrics(plan: Plan) -> str | None:
    lines = plan.metrics_file.read_text().splitlines() if plan.metrics_file.exists() else []
    name = "caption_qc_run_exit_code "
    return next((line.removeprefix(name) for line in lines if line.startswith(name)), None)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A state folder that runs have used."""
    return write_two(plan_in(tmp_path))


def test_status_dashboard_metrics_and_ping_say_the_same(tmp_path: Path) -> None:
    """78, under the name that was given; nothing is checked, and the last success stays what it was."""
    here = place(tmp_path)
    (here.queue / "a.scc").write_bytes(GOOD)
    assert here.run().returncode == 0
    success = metric(here.state, "last_success_timestamp_seconds")
    (here.queue / "b.scc").write_bytes(GOOD + b"\n")
    with pinged() as server:
        failed = here.run("--profile", "nix", "--ping-url", server.url)
        assert server.news == ["/78"]
    assert (failed.returncode, failed.stderr.count("\n")) == (Exit.BAD_CONFIG, 1)
    status = json.loads(command("status", "--state", str(here.state), "--json").stdout)
    assert [(run["profile"], run["exit_code"]) for run in status["runs"]] == [("nix", 78), ("house", 0)]
    dashboard = json.loads((here.state / "dashboard.json").read_text())
    jsonschema.validate(dashboard, json.loads(SCHEMA.read_text()))
    assert dashboard["run"]["exit_code"] == Exit.BAD_CONFIG
    assert metric(here.state, "run_exit_code") == "78"
    assert metric(here.state, "last_success_timestamp_seconds") == success
    assert here.ask("SELECT asset_id FROM assets") == [("a.scc",)]


def metric(state: Path, name: str) -> str:
    lines = (state / "metrics.prom").read_text().splitlines()
    (value,) = (line.split(" ")[1] for line in lines if line.startswith(f"caption_qc_{name} "))
    return value


def test_where_no_run_has_been_nothing_is_made(tmp_path: Path) -> None:
    """A mistake in the first command leaves no state behind."""
    plan = plan_in(tmp_path)
    fail(plan)
    assert list(plan.state.iterdir()) == []


def test_beside_a_run_nothing_is_written(plan: Plan) -> None:
    """What is written of a run is written by the holder of the lock alone."""
    with run_lock(plan.lock, started=plan.started):
        fail(plan)
    assert code_in_metrics(plan) is None
    with new_run(plan, "asking") as ledger:
        assert ask(ledger, ROWS) == [("house", None), ("house", None)]


def test_a_lost_ledger_is_left_to_a_run_that_can_mend_it(plan: Plan) -> None:
    """The metrics say the code all the same."""
    plan.ledger.write_bytes(b"no ledger" * 1000)
    before = plan.ledger.read_bytes()
    fail(plan)
    assert plan.ledger.read_bytes() == before
    assert code_in_metrics(plan) == "78"
