"""The HTTP service's telemetry: providers by the environment, and a span a request: `with telemetry(app)`.

It is the command's, and no part of `create_app`: an app in a process of yours uses whatever providers that process
has, `GET /metrics` shows what is in prometheus_client's registry, and importing the app sets nothing up.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python -m examples.recipes.fastapi_app

sends spans and metrics to a collector (`otel_settings.py` has the variables, `otel_export.py` what is built). For
Prometheus the metrics are on `/metrics` by default; where `OTEL_METRICS_EXPORTER` says otherwise, that page has the
process's own numbers alone.

Spans and metrics of requests come from `opentelemetry-instrumentation-fastapi`, where it is installed. Without it a
FastAPI that has telemetry of its own makes them, of probes too and with spans of its inner steps; with an older one
there are the batchers' alone, and a batch's span links to nobody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from typing import TYPE_CHECKING

from examples.recipes.otel_export import exporting
from examples.recipes.otel_settings import PROMETHEUS, Settings, TelemetryMisconfigured

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastapi import FastAPI

_log = logging.getLogger(__name__)

SERVICE_NAME = "predictions-and-events"
"""Where neither OTEL_SERVICE_NAME nor OTEL_RESOURCE_ATTRIBUTES says one."""
UNTRACED = "/livez$,/readyz$,/metrics$"
"""What is asked every few seconds and tells nothing, unless OTEL_PYTHON_FASTAPI_EXCLUDED_URLS says other patterns."""


@contextlib.contextmanager
def telemetry(app: FastAPI) -> Generator[None]:
    """Set up by the environment before the app starts; at the end send what is left, within `FLUSH_TIMEOUT`.

    Raises:
        TelemetryMisconfigured: A variable asks for what is not there.
    """
    settings = Settings.of(os.environ, metrics_served=[PROMETHEUS])
    if not settings:
        yield
        return
    with exporting(settings, service_name=SERVICE_NAME) as ours:
        if ours:  # else whoever has set OpenTelemetry up says what is traced
            trace_requests(app, settings)
        yield


def trace_requests(app: FastAPI, settings: Settings) -> None:
    """Have the instrumentation make a span a request, where it is installed.

    Raises:
        TelemetryMisconfigured: It refuses one of its variables.
    """
    try:
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor  # noqa: PLC0415  (it may be missing)
    except ImportError:
        if settings.traces and importlib.util.find_spec("fastapi.telemetry") is None:
            _log.warning("requests have no spans: opentelemetry-instrumentation-fastapi is not installed")
        return
    except Exception as error:  # it reads variables of its own as it is loaded
        raise TelemetryMisconfigured(f"OpenTelemetry refuses what an OTEL_ variable says: {error}") from error
    # The names from before 2023, which it uses if not told, label metrics with the Host header: any client's choice.
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    own = any(map(os.environ.get, ("OTEL_PYTHON_FASTAPI_EXCLUDED_URLS", "OTEL_PYTHON_EXCLUDED_URLS")))
    # Without a span for each ASGI message, which would bury the request's.
    FastAPIInstrumentor.instrument_app(
        app, excluded_urls=None if own else UNTRACED, exclude_spans=["receive", "send"]
    )
