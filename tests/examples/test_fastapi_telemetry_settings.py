"""What the standard `OTEL_*` variables ask for, and what the command says where it can't be done."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from app_serving import total
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from service_process import ENVIRONMENT

from examples.recipes.app_telemetry import trace_requests
from examples.recipes.fastapi_app import create_app
from examples.recipes.otel_export import shut_down
from examples.recipes.otel_settings import PROMETHEUS, Settings, TelemetryMisconfigured

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def asked(variables: dict[str, str]) -> tuple[list[str], list[str]]:
    settings = Settings.of(variables, metrics_served=[PROMETHEUS])
    return sorted(settings.traces), sorted(settings.metrics)


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, [], ["prometheus"]),
        (ENDPOINT, ["otlp"], ["otlp", "prometheus"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, [], ["prometheus"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://a/v1/traces"}, ["otlp"], ["prometheus"]),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://[::1]:4318/x"}, [], ["otlp", "prometheus"]),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, [], ["otlp", "prometheus"]),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "none"}, ["otlp"], []),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "prometheus"}, ["otlp"], ["prometheus"]),
        ({"OTEL_TRACES_EXPORTER": "Console, otlp"}, ["console", "otlp"], ["prometheus"]),
        ({"OTEL_METRICS_EXPORTER": "console"}, [], ["console"]),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ["otlp"], ["otlp", "prometheus"]),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, [], []),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "1"}, ["otlp"], ["otlp", "prometheus"]),
    ],
)
def test_nothing_is_sent_that_no_variable_asks_for(
    variables: dict[str, str], traces: list[str], metrics: list[str]
) -> None:
    """An endpoint asks for OTLP, a name for what it says, `none` and `OTEL_SDK_DISABLED` for nothing."""
    assert asked(variables) == (traces, metrics)
    assert bool(Settings.of(variables, metrics_served=[PROMETHEUS])) is bool(traces or metrics)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "jaeger,otlp"},
            "OTEL_TRACES_EXPORTER is 'jaeger,otlp': there is no 'jaeger' here; write one or more of console, otlp",
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp,"}, "there is no '' here"),
        ({"OTEL_TRACES_EXPORTER": "otlp,none"}, "there is no 'none' here"),  # it can't be both
        ({"OTEL_TRACES_EXPORTER": "prometheus"}, "there is no 'prometheus' here"),
        (
            {"OTEL_METRICS_EXPORTER": "statsd"},
            "write one or more of console, otlp, prometheus, or none alone",
        ),
        (
            ENDPOINT | {"OTEL_TRACES_SAMPLER": "parentbased_traceidratoi"},
            "OTEL_TRACES_SAMPLER is 'parentbased_traceidratoi': there is no such sampler; write one of always_on",
        ),
        (
            ENDPOINT | {"OTEL_TRACES_SAMPLER": "Parentbased_TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG": "10 %"},
            "OTEL_TRACES_SAMPLER_ARG is '10 %': write which share of traces to keep, from 0 to 1",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
            "is 'collector:4318', which is no address of a collector: write one like http://localhost:4318",
        ),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://"},
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:b"}, "no address"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "me:secret@a:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is '...@a:4318'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"}, "no address"),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': only 'http/protobuf' is spoken here",
        ),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(variables: dict[str, str], said: str) -> None:
    """With the variable, what was found, and what to write."""
    with pytest.raises(TelemetryMisconfigured) as refused:
        asked(variables)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_signal_that_is_off_is_not_checked() -> None:
    """Whoever has a gRPC collector for other services can still have the page for Prometheus."""
    variables = ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "none"}
    assert asked(variables | {"OTEL_METRICS_EXPORTER": "prometheus"}) == ([], ["prometheus"])


START = """
import os, sys, threading
from examples.recipes.fastapi_app import main
assert not [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
for variables in ({"OTEL_TRACES_EXPORTER": "zipkin"},
                  {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_BSP_MAX_QUEUE_SIZE": "1"}):
    os.environ.update(variables)
    try:
        main(["--database", "/nowhere/events"])
    except SystemExit as ended:
        print(ended)
    for name in variables:
        del os.environ[name]
"""


def test_the_command_does_not_start_with_variables_that_say_nonsense() -> None:
    """One line each, also where it is the SDK that refuses; and the app alone imports no SDK."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    unknown, refused = done.stdout.splitlines()
    assert unknown.startswith(
        "the service can't start: OTEL_TRACES_EXPORTER is 'zipkin': there is no 'zipkin'"
    )
    assert refused.startswith(
        "the service can't start: OpenTelemetry refuses what an OTEL_ variable says: max_"
    )
    assert done.stderr == ""


def test_pattern_of_addresses_that_is_none_is_refused_in_one_line() -> None:
    """The instrumentation reads it as it is loaded."""
    command = [sys.executable, "-m", "examples.recipes.fastapi_app", "--port", "0"]
    environment = ENVIRONMENT | {"OTEL_PYTHON_FASTAPI_EXCLUDED_URLS": "["}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("an OTEL_ variable says: unterminated character set at position 0")


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("traces", [["otlp"], []])
def test_without_the_instrumentation_the_service_goes_on(
    traces: list[str],
    own: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says that requests have no spans, to whoever wants spans and whose FastAPI makes none of its own."""
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.fastapi", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object() if own else None)
    app = create_app(tmp_path / "events", prediction_processor=total)
    trace_requests(app, Settings(traces=frozenset(traces), metrics=frozenset({PROMETHEUS})))
    assert ("requests have no spans" in caplog.text) is bool(traces and not own)


def test_what_fails_at_the_end_is_logged_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """The process goes on to its end."""

    class Failing(SpanProcessor):
        def shutdown(self) -> None:
            raise OSError("the disk is full")

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Failing())
    shut_down([provider], timeout=50)
    assert "telemetry could not be shut down" in caplog.text
    assert "the disk is full" in caplog.text
    assert "is lost" not in caplog.text
