"""OpenTelemetry for one process, from its start to its end: `with exporting(settings, service_name=...)`.

The problem. The SDK's own way to set up by the environment is private, or a command around yours; its providers
shut down at the interpreter's exit, where an exporter whose collector hangs holds the process for half a minute.

The promise. What `otel_settings.py` reads is built from the SDK's public parts, and they read the rest of the
standard variables. At the block's end what was recorded is sent, all exporters at the same time, within
`flush_timeout` in all: what a collector has not taken by then is lost and said to be, and the process goes on to
its end. Nothing of it is raised. Where the process has providers already (`opentelemetry-instrument`, a host's own
set-up), they stay, and their owner shuts them down.

What it does not promise. No delivery: spans wait in memory, are dropped where a collector is slow, and a process
that is killed takes them along. No logs are exported.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from examples.recipes.otel_settings import CONSOLE, OTLP, PROMETHEUS, TelemetryMisconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from examples.recipes.otel_settings import Settings

_log = logging.getLogger(__name__)

FLUSH_TIMEOUT = 2.0
"""Seconds at the process's end for what is still to be sent."""


@contextlib.contextmanager
def exporting(
    settings: Settings, *, service_name: str, flush_timeout: float = FLUSH_TIMEOUT
) -> Generator[bool]:
    """Set the providers up, and send what is left at the end; once a process, as OpenTelemetry's providers are.

    Gives whether it has set them up: false where there were some.

    Args:
        settings: Which exporters.
        service_name: What the service is called where no variable names it.
        flush_timeout: Seconds for all exporters together, at the end.

    Raises:
        TelemetryMisconfigured: The SDK refuses one of its variables.
    """
    providers: list[TracerProvider | MeterProvider] = []
    try:
        if not (theirs := _set_up_already()):
            _set_up(settings, service_name, providers)
        yield not theirs
    finally:
        shut_down(providers, flush_timeout)


def _set_up_already() -> bool:
    return isinstance(trace.get_tracer_provider(), TracerProvider) or isinstance(
        metrics.get_meter_provider(), MeterProvider
    )


def _set_up(settings: Settings, service_name: str, providers: list[TracerProvider | MeterProvider]) -> None:
    """Build and install; what has been built is in `providers`, also where the next one fails.

    Without an exporter there is no provider: spans for nobody would cost the same.
    """
    resource = _resource(service_name)
    try:
        if settings.metrics:
            readers = [_METRIC_READERS[name]() for name in sorted(settings.metrics)]
            providers.append(meters := MeterProvider(readers, resource, shutdown_on_exit=False))
            metrics.set_meter_provider(meters)
        if settings.traces:
            providers.append(tracers := TracerProvider(resource=resource, shutdown_on_exit=False))
            for name in sorted(settings.traces):
                tracers.add_span_processor(BatchSpanProcessor(_SPAN_EXPORTERS[name]()))
            trace.set_tracer_provider(tracers)
    except ImportError:  # it says what is not installed
        raise
    except Exception as error:
        raise TelemetryMisconfigured(f"OpenTelemetry refuses what an OTEL_ variable says: {error}") from error


def _otlp_spans() -> SpanExporter:
    # Each exporter where it is asked for: it may not be installed, and loads an HTTP client of its own.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter()


def _otlp_metrics() -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    return PeriodicExportingMetricReader(OTLPMetricExporter())


def _console_metrics() -> MetricReader:
    return PeriodicExportingMetricReader(ConsoleMetricExporter())


def _prometheus() -> MetricReader:
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415

    return PrometheusMetricReader()  # in prometheus_client's registry


_SPAN_EXPORTERS: Final[Mapping[str, Callable[[], SpanExporter]]] = {
    OTLP: _otlp_spans,
    CONSOLE: ConsoleSpanExporter,
}
_METRIC_READERS: Final[Mapping[str, Callable[[], MetricReader]]] = {
    OTLP: _otlp_metrics,
    CONSOLE: _console_metrics,
    PROMETHEUS: _prometheus,
}


def _resource(service_name: str) -> Resource:
    """Describe the process by the environment; its name is ours where the environment has none."""
    found = Resource.create()
    if str(found.attributes[SERVICE_NAME]).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: service_name}))
    return found


def shut_down(providers: list[TracerProvider | MeterProvider], timeout: float) -> None:
    """Shut all down at the same time, in threads that the process's end does not wait for."""
    deadline = time.monotonic() + timeout
    ends = [threading.Thread(target=_end, args=(provider,), daemon=True) for provider in providers]
    for end in ends:
        end.start()
    for end in ends:
        end.join(max(0.0, deadline - time.monotonic()))
    if any(end.is_alive() for end in ends):
        _log.warning("telemetry that was not sent within %s s of the end is lost", timeout)


def _end(provider: TracerProvider | MeterProvider) -> None:
    try:
        provider.shutdown()
    except Exception:  # noqa: BLE001  (the process's end is not the place to fail)
        _log.exception("telemetry could not be shut down")
