"""A store of reports that is away, refuses or hangs: the ledger has everything, and the next run writes the rest."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blocking import PATIENCE
from caption_ledgers import new_run, plan_in
from caption_runs import Place
from caption_store_reports import begun, dashboard, empty, fire, real_run, record, recorded, tables, written
from caption_stores import asked_here
from object_server import object_server

from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.files import BrokenOffError
from examples.recipes.caption_qc.job.hurry import Hurry
from examples.recipes.caption_qc.job.object_store import Bucket
from examples.recipes.caption_qc.job.projections import write_windows
from examples.recipes.caption_qc.job.reports_store import InBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.plan import Plan

WINDOW = "2026-01-01T0005Z"
AT = ("--at", "2026-01-01T00:05Z")
FINDINGS, ASSETS = tables(WINDOW)
DASHBOARDS = ["dashboard.json", "dashboard.html"]
BUSY = "503 Slow Down"


@pytest.fixture(scope="module")
def served() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def server(served: ObjectServer) -> ObjectServer:
    """The store, with nothing in it."""
    empty(served)
    return served


@pytest.fixture
def plan(tmp_path: Path, server: ObjectServer) -> Plan:
    """Runs whose one record is in the ledger and not yet in the bucket."""
    plan = replace(plan_in(tmp_path), out=InBucket(Bucket("captions", "reports/")))
    record(plan, 0)
    for name in (FINDINGS, ASSETS, *DASHBOARDS):
        server.delete(f"reports/{name}")
    server.forget()
    return plan


@pytest.fixture
def here(plan: Plan) -> Place:
    """Their queue and state, for the command."""
    return Place(plan.state.with_name("queue"), plan.state)


def test_a_store_that_is_away_is_said_before_the_work(here: Place, server: ObjectServer) -> None:
    """69, its address, and what to look at; nothing is checked that can't be told of."""
    here.fill(1)
    server.rule("GET", "owner.txt", "drop")

    away = fire(here, *AT)

    assert (away.code, away.out) == (69, "")
    assert "cannot reach s3://captions/reports/owner.txt" in away.errors[-1]
    assert away.errors[-1].endswith("then run again: nothing recorded is lost")
    assert here.ask("SELECT COUNT(*) FROM records") == [(1,)]
    assert (here.state / "metrics.prom").is_file()


@pytest.mark.parametrize("lost", [FINDINGS, ASSETS, "dashboard.json", "dashboard.html"])
def test_what_a_store_does_not_take_the_next_run_writes(lost: str, here: Place, server: ObjectServer) -> None:
    """69, and no second wait for it; the ledger knows how the run ended. Where the assets are, so are findings."""
    server.rule("PUT", lost, BUSY)
    order = [FINDINGS, ASSETS, *DASHBOARDS]

    away = fire(here, *AT)

    assert away.code == 69
    assert written(server) == order[: order.index(lost) + 1]
    assert here.ask("SELECT exit_code FROM runs ORDER BY number DESC LIMIT 1") == [(69,)]
    server.forget()
    assert fire(here, *AT).code == 0
    missing = order[2:] if lost in DASHBOARDS else order
    assert written(server) == missing
    assert (recorded(server), dashboard(server)["run"]["exit_code"]) == (["0.scc"], 0)


def test_a_store_that_goes_away_during_the_checks_costs_no_check(here: Place, server: ObjectServer) -> None:
    """The records are in the ledger; the next run checks none of them again."""
    here.fill(2)
    server.rule("PUT", ".parquet", BUSY)

    away = real_run(here, server, *AT)
    server.forget()
    back = fire(here, *AT)

    assert (away.code, sum(line.startswith("pass ") for line in away.errors)) == (69, 2)
    assert (back.code, "nothing to do: 2 assets seen" in back.errors[-1]) == (0, True)
    assert len(recorded(server)) == 3


def test_an_answer_that_is_lost_changes_nothing(here: Place, server: ObjectServer) -> None:
    """The report is written once more by the same run, and is the same."""
    server.rule("PUT", ASSETS, "lose", times=1)

    done = real_run(here, server, *AT)

    assert (done.code, written(server)) == (0, [FINDINGS, ASSETS, ASSETS, *DASHBOARDS])
    server.forget()
    assert fire(here, *AT).code == 0
    assert (written(server), recorded(server)) == (DASHBOARDS, ["0.scc"])


def test_who_may_not_write_is_told_so_before_the_work(here: Place, server: ObjectServer) -> None:
    """77 at the owner's note, which is the first report of all; 77 later too, with all in the ledger."""
    server.rule("PUT", "dashboard.json", "403 AccessDenied")
    late = fire(here, *AT)
    server.delete("reports/owner.txt")
    server.rule("PUT", "owner.txt", "403 AccessDenied")
    here.fill(1)
    early = fire(here, *AT)

    for said, name in ((late, "dashboard.json"), (early, "owner.txt")):
        assert (said.code, f"no permission for s3://captions/reports/{name}" in said.errors[-1]) == (77, True)
    assert here.ask("SELECT COUNT(*) FROM records") == [(1,)]


def test_a_bucket_that_is_not_there_is_no_place_for_reports(here: Place) -> None:
    """73, as for a folder that can't be made: 66 would be the queue's."""
    said = fire(here, out="s3://nobody-made-this/reports")
    assert (said.code, "no bucket at s3://nobody-made-this/reports" in said.errors[-1]) == (73, True)


@pytest.mark.parametrize(
    ("out", "found"),
    [
        ("gs://captions/reports", "is no place that reports can be written to; write s3://bucket/prefix"),
        ("s3:///reports", "names no bucket; write it like s3://bucket or s3://bucket/prefix"),
    ],
)
def test_an_address_that_can_be_none_is_wrong_usage(out: str, found: str, here: Place) -> None:
    """No folder of that name is made."""
    before = sorted(Path.cwd().iterdir())
    said = fire(here, out=out)
    assert (said.code, found in said.errors[-1]) == (64, True)
    assert sorted(Path.cwd().iterdir()) == before


def test_without_boto3_the_option_names_what_installs_it(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64, before anything is made."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    said = fire(here)
    assert (said.code, "python -m uv sync --group s3" in said.errors[-1]) == (64, True)


@pytest.mark.parametrize("held", [("GET", "owner.txt"), ("PUT", FINDINGS), ("PUT", "dashboard.json")])
def test_a_drain_waits_for_no_store_beyond_its_time(
    held: tuple[str, str], here: Place, server: ObjectServer
) -> None:
    """A request that hangs is left behind, tried once; of older windows alone that is no failure."""
    method, name = held
    server.rule(method, name, "hold")
    with begun(here, server, *AT, "--drain-timeout", "2") as process:
        server.held()
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate()

    in_time = name == FINDINGS and written(server)[-1] == "dashboard.html"
    assert (process.returncode, out) == (0 if in_time else 69, "")
    assert ("was not answered for in the time that a drain has" in errors) != in_time
    assert len([path for path in server.calls(method) if name in path]) == 1
    server.go_on()
    server.forget()
    assert fire(here, *AT).code == 0
    assert recorded(server) == ["0.scc"]


def test_windows_that_a_drain_has_no_time_for_are_left_to_the_next_run(
    plan: Plan, server: ObjectServer
) -> None:
    """The store is not asked, and it is no failure."""
    drain, before = Drain(), signal.getsignal(signal.SIGTERM)
    plan = replace(plan, out=plan.out.hurried(Hurry(drain, 0.0)))
    try:
        drain.install()
        os.kill(os.getpid(), signal.SIGTERM)
        with new_run(plan, "drained") as ledger:
            assert write_windows(plan, ledger)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert not [*server.calls("PUT"), *server.calls("GET"), *server.calls("HEAD")]


def test_a_call_is_waited_for_until_the_time_is_over() -> None:
    """However long, without a signal; after one, no longer than that: the call is left behind."""
    drain, gate, begun_by = Drain(), threading.Event(), signal.getsignal(signal.SIGTERM)

    def signalled() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        gate.wait()

    try:
        drain.install()
        hurry = Hurry(drain, 0.05)
        assert hurry.wait_for(lambda: 1) == 1
        with pytest.raises(ZeroDivisionError):
            hurry.wait_for(lambda: 1 // 0)
        with pytest.raises(BrokenOffError):
            hurry.wait_for(signalled)
        with pytest.raises(BrokenOffError):
            hurry.wait_for(pytest.fail)  # Its time is over: it is not called.
    finally:
        gate.set()
        signal.signal(signal.SIGTERM, begun_by)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_ends_the_wait_of_another_thread_too() -> None:
    """As of the one that lists the queue while the main one sees to the checks."""
    drain, asked, gate = Drain(), threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGTERM)

    def call() -> None:
        asked.set()
        gate.wait()

    try:
        drain.install()
        with ThreadPoolExecutor(1) as threads:
            waits = threads.submit(Hurry(drain, 60.0).at_once().wait_for, call)
            assert asked.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(BrokenOffError):
                waits.result(PATIENCE)
    finally:
        gate.set()
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_answer_in_a_drain_is_taken_while_there_is_time() -> None:
    """A signal ends no call by itself."""
    drain, before = Drain(), signal.getsignal(signal.SIGTERM)

    def signalled() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "answer"

    try:
        drain.install()
        assert Hurry(drain, 60.0).wait_for(signalled) == "answer"
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
