"""A drain while reports are written: many windows may be behind, and it does not wait for all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import A, ask, checked, ended, finish, new_run, plan_in, reports_of, window_paths
from caption_runs import ENVIRONMENT, GOOD, ROOT, Place, place

from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.projections import write_dashboard, write_windows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def behind(plan: Plan, count: int) -> None:
    """Leave so many windows of records that no file shows yet."""
    for number in range(count):
        with new_run(plan, f"run-{number}", plan.window + number * LATER) as ledger:
            finish(ledger, checked(A, f"{number:064}"))


def shown(plan: Plan, count: int) -> list[bool]:
    return [window_paths(plan, plan.window + number * LATER)[1].exists() for number in range(count)]


def test_a_drain_leaves_older_windows_to_the_next_run(plan: Plan) -> None:
    """The newest is written, which the dashboard shows; the rest is known to be behind, and follows."""
    behind(plan, 4)
    late = replace(plan, window=plan.window + 9 * LATER)
    with new_run(plan, "drained") as ledger:
        assert write_windows(late, ledger, lambda: True)
        write_dashboard(late, ledger, ended())
    assert shown(plan, 4) == [False, False, False, True]
    answers = iter((False, True))
    with new_run(plan, "again") as ledger:
        assert write_windows(late, ledger, lambda: next(answers))
    assert shown(plan, 4) == [False, True, True, True]
    with new_run(plan, "whole") as ledger:
        assert write_windows(plan, ledger)
        assert not write_windows(plan, ledger)
        assert ask(ledger, "SELECT COUNT(*) FROM windows WHERE projected != changes") == [(0,)]
    assert shown(plan, 4) == [True] * 4


def test_a_drain_writes_the_runs_own_window_before_newer_ones(plan: Plan) -> None:
    """The dashboard shows it, and counts what is in it."""
    behind(plan, 3)
    with new_run(plan, "drained") as ledger:
        write_windows(plan, ledger, lambda: True)
        write_dashboard(plan, ledger, ended())
    assert shown(plan, 3) == [True, False, False]
    dashboard = json.loads((reports_of(plan) / "dashboard.json").read_text())
    assert (dashboard["window"], dashboard["totals"]["assets"]) == ("2026-01-01T00:05:00Z", 1)
    assert len(dashboard["trend"]) == 1


def test_what_a_drain_may_take_counts_from_the_signal_or_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is later; without a signal it is never over."""
    now = [10.0]
    handlers: dict[int, Callable[[int, None], None]] = {}
    monkeypatch.setattr("signal.signal", lambda number, handler: handlers.update({number: handler}))
    drain = Drain(lambda: now[0])
    drain.install()
    assert not drain.over(0.0, since=0.0)
    next(iter(handlers.values()))(15, None)
    assert (drain.over(2.0, since=0.0), drain.over(0.0, since=0.0)) == (False, True)
    now[0] = 12.0
    assert (drain.over(2.0, since=0.0), drain.over(2.0, since=11.0)) == (True, False)


_PROGRAM = """
import os, signal, sys
from examples.recipes.caption_qc.job.drain import Drain
drain = Drain()
drain.install()
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import projections, run
run.WINDOWS_SHARE = 0
real = projections._write_window
def strike(plan, ledger, window, stopped):
    real(plan, ledger, window, stopped)
    if not drain.requested:
        os.kill(os.getpid(), signal.SIGTERM)
projections._write_window = strike
sys.exit(main({arguments}, drain))
"""


# The run's own clock, on which each window takes so long.
_SLOW_WINDOWS = """
import sys
from time import monotonic
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import projections, run
from examples.recipes.caption_qc.job.drain import Drain
written = []
real = projections._write_window
def write(*args):
    real(*args)
    written.append(args)
run.monotonic = lambda: monotonic() + {seconds} * len(written)
projections._write_window = write
sys.exit(main({arguments}, Drain()))
"""
WINDOW_SECONDS = 1000


@pytest.fixture
def many(tmp_path: Path) -> Place:
    """A ledger with a record in each of three windows, whose files are gone."""
    here = place(tmp_path)
    for number in range(3):
        (here.queue / f"{number}.scc").write_bytes(GOOD + b"\n" * number)
        assert here.run("--at", f"2026-01-01T00:{number * 10:02}Z").returncode == 0
    for path in here.state.rglob("*.parquet"):
        path.unlink()
    return here


def test_a_signal_while_windows_are_written_ends_the_run_in_good_order(many: Place) -> None:
    """0, drained in ledger, dashboard and summary; its time has the reports in it; the next run does the rest."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(arguments=many.arguments())],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "drained before the end" in done.stderr.splitlines()[-1]
    assert '"drained": true' in (many.state / "dashboard.json").read_text()
    (written,) = many.state.rglob("assets.parquet")
    assert written.parent.name == "window=2026-01-01T0020Z"
    ((drained, finished),) = many.ask(
        "SELECT drained, finished_at FROM runs ORDER BY started_at DESC LIMIT 1"
    )
    assert (drained, finished * 1000 >= written.stat().st_mtime_ns) == (1, True)
    assert many.run().returncode == 0
    assert len(list(many.state.rglob("assets.parquet"))) == 3


def test_the_time_of_a_run_has_its_reports_in_it(many: Place) -> None:
    """In ledger, summary and metrics, also of one with nothing to check; a success is the run's own end."""
    program = _SLOW_WINDOWS.format(arguments=many.arguments(), seconds=WINDOW_SECONDS)
    subprocess.run(
        [sys.executable, "-c", program], capture_output=True, cwd=ROOT, env=ENVIRONMENT, check=True
    )
    newest = max(path.stat().st_mtime_ns for path in many.state.rglob("*.parquet"))
    ((finished,),) = many.ask("SELECT finished_at FROM runs ORDER BY started_at DESC LIMIT 1")
    values = dict(
        line.split() for line in (many.state / "metrics.prom").read_text().splitlines() if line[0] != "#"
    )
    assert finished * 1000 >= newest
    took = float(values["caption_qc_run_duration_seconds"])
    assert 3 * WINDOW_SECONDS <= took < 4 * WINDOW_SECONDS
    assert microseconds_of(values["caption_qc_last_success_timestamp_seconds"]) == finished


def microseconds_of(seconds: str) -> int:
    return round(float(seconds) * 1_000_000)
