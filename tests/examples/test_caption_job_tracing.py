"""The run's span: its batches are linked to it, and it costs a run nothing that it could miss."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from caption_fires import plan_for
from caption_runs import Place, command, place
from otlp_collector import Collector, Seen, collecting, hanging

from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.lock import run_lock
from examples.recipes.caption_qc.job.tracing import Tracing

if TYPE_CHECKING:
    from pathlib import Path

ASSETS = 20
ERROR = 2
UNBOUNDED = 30
"""Seconds that the SDK's providers wait for their exporters, where nobody bounds it."""


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def sending_to(collector: Collector) -> list[str]:
    return ["env", f"OTEL_EXPORTER_OTLP_ENDPOINT={collector.endpoint}"]


def test_each_batch_of_a_run_is_linked_to_its_span(here: Place) -> None:
    """The run's trace is one span; each batch, of checks or of writes to the ledger, is a trace of its own."""
    here.fill(ASSETS)
    with collecting() as collector:
        done = here.run(prefix=sending_to(collector))
    assert done.returncode == 0, done.stderr
    assert "lost" not in done.stderr
    [run] = named(collector, "caption_qc run")
    checks, writes = named(collector, "batch checks"), named(collector, "batch ledger")
    assert (run.service, run.parent, run.links, run.status) == ("caption_qc", "", (), 0)
    assert run.attributes["process.exit.code"] == 0
    assert run.attributes["caption_qc.assets.checked"] == run.attributes["caption_qc.assets.found"] == ASSETS
    assert {span.links for span in checks} == {(run.place,)}
    assert sum(span.attributes["async_batcher.batch.size"] for span in checks) == ASSETS
    assert {link for span in writes for link in span.links} == {span.place for span in checks}
    assert {span.parent for span in (*checks, *writes)} == {""}
    assert {values["async_batcher.batch.span_id"] for _, values in run.events} == {
        span.place.span for span in checks
    }
    assert "xxx" not in repr(collector.spans())  # of the assets' names


def named(collector: Collector, name: str) -> list[Seen]:
    return [span for span in collector.spans() if span.name == name]


def test_a_run_that_fails_says_so_in_its_span_and_a_refused_one_has_none(here: Place) -> None:
    """By the exit code's name; who finds the lock held has done nothing, and sends nothing."""
    with collecting() as collector:
        here.state.mkdir()
        with run_lock(here.state / "run.lock", started=datetime.now(UTC)):
            assert here.run(prefix=sending_to(collector)).returncode == Exit.LOCK_HELD
        assert collector.headers == []
        here.queue.rmdir()
        assert here.run(prefix=sending_to(collector)).returncode == Exit.NO_QUEUE
    [run] = collector.spans()
    assert (run.name, run.status) == ("caption_qc run", ERROR)
    assert run.attributes["error.type"] == "NO_QUEUE"
    assert run.attributes["process.exit.code"] == Exit.NO_QUEUE
    assert run.events == ()


def test_a_collector_that_hangs_holds_a_run_for_a_part_of_the_drains_budget(here: Place) -> None:
    """With a budget of 5 s, for half a second; the run has ended well, and the next one is not refused."""
    with hanging() as silent:
        asked = ["env", f"OTEL_EXPORTER_OTLP_ENDPOINT={silent}", "OTEL_EXPORTER_OTLP_TIMEOUT=60"]
        since = time.monotonic()
        done = here.run("--drain-timeout", "5s", prefix=asked)
    assert time.monotonic() - since < UNBOUNDED - 5
    assert done.returncode == 0
    assert "telemetry that was not sent within 0.5 s of the end is lost" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "this run has no traces: OTEL_TRACES_EXPORTER is 'zipkin'"),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "collector",
            "this run has no traces: OTEL_EXPORTER_OTLP_ENDPOINT is",
        ),
        ("OTEL_METRICS_EXPORTER", "prometheus", ""),  # a job's metrics are in its file
        ("OTEL_SERVICE_NAME", "nightly", ""),
    ],
)
def test_what_a_variable_gets_wrong_is_a_warning(
    variable: str, value: str, said: str, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no part of the run; one that asks for no traces is not even looked at."""
    warnings: list[str] = []
    monkeypatch.setenv(variable, value)
    with Tracing(plan_for(here), warnings.append) as tracing:
        tracing.begin()
    assert [warning.startswith(said) for warning in warnings] == ([True] if said else [])


def test_what_is_not_installed_is_a_warning(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without its traces."""
    warnings: list[str] = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with Tracing(plan_for(here), warnings.append) as tracing:
        tracing.begin()
    [warning] = warnings
    assert warning.startswith("this run has no traces: import of opentelemetry.exporter.otlp")


def test_without_a_variable_nothing_of_opentelemetry_is_imported(here: Place) -> None:
    """A fire that finds nothing does not pay for it."""
    done = command(*here.arguments(), prefix=["env", "PYTHONPROFILEIMPORTTIME=1"])
    assert done.returncode == 0
    assert "examples.recipes.caption_qc.job.tracing" in done.stderr
    assert "opentelemetry" not in done.stderr
    assert "examples.recipes.otel_export" not in done.stderr
