"""Workers that can't use the store as the run can, a store that gives nothing, and one that gives slowly."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import plan_in
from caption_runs import GOOD
from caption_stores import StorePlace, asked_as, asked_here, store_place
from dask_cluster import cluster
from object_server import object_server

from examples.recipes.caption_qc.job import object_store, queue_store
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.outcomes import Checked, Left
from examples.recipes.caption_qc.job.queue_store import StoreQueue
from examples.recipes.caption_qc.job.reach import blame
from examples.recipes.caption_qc.job.reports_store import InBucket
from examples.recipes.caption_qc.job.scan import Seen, Terms
from examples.recipes.caption_qc.job.worker import Orders, check_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.assets import Asset
    from examples.recipes.caption_qc.job.outcomes import Outcome
    from examples.recipes.caption_qc.job.plan import Plan

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def here(server: ObjectServer, tmp_path: Path) -> StorePlace:
    return store_place(server, tmp_path)


@pytest.fixture
def plan(here: StorePlace) -> Plan:
    return replace(plan_in(here.queue.parent), queue=StoreQueue(here.bucket))


def listed(plan: Plan) -> list[Asset]:
    terms = Terms(settle=0.0, now=plan.started.replace(year=2100))
    return [asset for page in plan.queue.scan(plan, terms, Seen()) for asset in page]


def orders(plan: Plan, seconds: float = 30.0) -> Orders:
    return Orders(queue=plan.queue, profile=plan.profile, asset_timeout=seconds)


def worked(plan: Plan, seconds: float = 30.0) -> Sequence[Outcome]:
    """Check the queue as a worker would."""
    return check_chunk(orders(plan, seconds), listed(plan))


def code_of(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Exit, str]:
    with pytest.raises(JobError) as raised:
        blame(plan.queue, outcomes)
    return raised.value.code, str(raised.value)


LACKING = [
    ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, Exit.NO_PERMISSION, "no good credentials for"),
    ({"AWS_PROFILE": "nobody"}, Exit.BAD_CONFIG, "(nobody) could not be found"),
    ({"AWS_ENDPOINT_URL": NOBODY}, Exit.UNREACHABLE, "cannot reach s3://"),
    ({}, Exit.BAD_CONFIG, "a store needs boto3"),
]


def test_a_worker_that_can_not_use_the_store_ends_the_run(
    here: StorePlace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its reason and where it is; nothing is known of any asset of its chunk."""
    here.put("a.scc", GOOD)
    here.put("b.scc", GOOD)
    chunk = listed(plan)
    for lacks, code, says in LACKING:
        with asked_as(**lacks), monkeypatch.context() as patched:
            if not lacks:
                patched.setitem(sys.modules, "boto3", None)
            outcomes = check_chunk(orders(plan), chunk)
        assert [isinstance(outcome, Left) and outcome.away for outcome in outcomes] == [code, code]
        found, line = code_of(plan, outcomes)
        assert (found, says in line, line.startswith("the worker on ")) == (code, True, True), line


def test_who_may_not_read_what_the_run_may_ends_it(here: StorePlace, plan: Plan) -> None:
    """77; an object that the run may not read either is left, and is its own trouble."""
    here.put("a.scc", GOOD)
    here.rule("GET", "a.scc", "403 Access Denied")
    outcomes = worked(plan)
    blame(plan.queue, outcomes)
    here.server.forget()
    code, line = code_of(plan, outcomes)
    assert (code, "a worker may not read what the run itself may: no permission for" in line) == (77, True)


def test_a_store_that_gives_nothing_while_it_lists_ends_the_run(here: StorePlace, plan: Plan) -> None:
    """69; one object that it can't give is left alone, and those of its chunk are checked."""
    for name in ("a", "b", "c"):
        here.put(f"{name}.scc", GOOD)
    here.rule("GET", "a.scc", "500 Internal Error")
    outcomes = worked(plan)
    assert [isinstance(outcome, Checked) for outcome in outcomes] == [False, True, True]
    blame(plan.queue, outcomes)
    here.server.rule("GET", ".scc", "503 Service Unavailable")
    code, line = code_of(plan, outcomes)
    assert (code, "cannot reach s3://" in line) == (69, True)


def test_an_object_that_trickles_is_left_in_bounded_time(
    here: StorePlace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then is an answer for ever: the worker leaves it behind, and nothing is held against the asset."""
    monkeypatch.setattr(queue_store, "SLOWEST_SECONDS", 0.2)
    here.put("a.scc", GOOD)
    here.rule("GET", "a.scc", "trickle", times=1)
    (left,) = worked(plan, 0.2)
    here.server.go_on()
    assert isinstance(left, Left)
    assert (left.why, left.detail) == ("unreadable", "it could not be read in time")


def test_a_listing_that_trickles_ends_the_run(
    here: StorePlace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """69, after a time in which any page would have come."""
    monkeypatch.setattr(queue_store, "_LISTING_SECONDS", 0.2)
    here.server.rule("GET", here.server.bucket, "trickle", times=2)
    for ask in (plan.queue.require, lambda: worked(plan)):
        with pytest.raises(JobError, match=r"no answer within 0\.2 s") as raised:
            ask()
        assert raised.value.code == Exit.UNREACHABLE
    here.server.go_on()


def test_reports_in_the_queue_are_no_sign_that_it_is_there(here: StorePlace, plan: Plan) -> None:
    """They are the job's own: with nothing beside them the queue is empty, and `prune` forgets nothing."""
    plan = replace(plan, out=InBucket(here.bucket))
    for name in ("owner.txt", "dashboard.json", "telemetry/assets/x.scc"):
        here.put(name, b"x")
    assert plan.queue.is_empty(plan)
    here.put("a.scc", GOOD)
    assert not plan.queue.is_empty(plan)


def test_a_cluster_s_worker_without_credentials_ends_the_run(here: StorePlace, tmp_path: Path) -> None:
    """77 and one line; nothing is done, no attempt is counted, and the next run does it all."""
    for number in range(3):
        here.put(f"{number}.scc", GOOD + b"\n" * number)
    lacks = here.server.environment | {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    with cluster(tmp_path) as dask:
        dask.worker(lacks)
        done = here.command(*here.arguments(*dask.option))
    assert (done.returncode, done.stdout) == (77, ""), done
    assert "caption_qc: the worker on " in done.stderr
    assert here.ask("SELECT COUNT(*), SUM(attempts) FROM assets WHERE state = 'done' OR attempts") == [
        (0, None)
    ]
    here.fire()
    assert here.statuses == {f"{number}.scc": "pass" for number in range(3)}


def test_a_local_cluster_checks_the_queue_of_a_store(here: StorePlace) -> None:
    """Its workers open the objects themselves."""
    here.put("a.scc", GOOD)
    done = here.command(*here.arguments("--scheduler", "local"))
    assert (done.returncode, done.stdout) == (0, ""), done
    assert here.statuses == {"a.scc": "pass"}


@pytest.mark.parametrize("hangs", ["hold", "trickle"])
def test_a_drain_waits_for_no_listing(hangs: str, here: StorePlace) -> None:
    """SIGTERM while a page is asked for: the run ends at once, drained, and knows of no backlog."""
    here.put("a.scc", GOOD)
    here.server.rule("GET", here.server.bucket, "pass", times=2)
    here.server.rule("GET", here.server.bucket, hangs)
    with here.started(*here.arguments("--drain-timeout", "600s")) as run:
        here.server.held()
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=object_store.READ_SECONDS - 1 if hangs == "hold" else 60)
    here.server.go_on()
    assert run.returncode == 0, said
    assert here.ask("SELECT drained FROM runs") == [(1,)]


def test_a_drain_waits_for_no_redo(here: StorePlace) -> None:
    """SIGTERM while recorded objects are asked for, of which one hangs: the requests are left behind."""
    for number in range(30):
        here.put(f"{number:02}.scc", GOOD + b"\n" * number)
    here.fire("--at", "2026-01-01T00:05Z")
    here.rule("HEAD", "07.scc", "hold")
    with here.started(*here.arguments("--redo", "2026-01-01T0005Z", "--drain-timeout", "600s")) as run:
        here.server.held()
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=object_store.READ_SECONDS - 1)
    here.server.go_on()
    assert run.returncode == 0, said
    assert len(here.statuses) == 30
