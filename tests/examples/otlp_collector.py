"""Collectors on loopback, for the tests of telemetry: one that takes OTLP/HTTP, one that hangs, one that is down."""

import contextlib
import gzip
import http.server
import socket
import threading
from collections.abc import Generator, Iterator
from typing import Any

import attrs
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@attrs.frozen
class Place:
    """What names a span: in links, in events, in a `traceparent`."""

    trace: str
    span: str


@attrs.frozen
class Seen:
    """One span that came, in plain values."""

    service: str
    scope: str
    name: str
    kind: int
    place: Place
    parent: str
    links: tuple[Place, ...]
    events: tuple[tuple[str, dict[str, Any]], ...]
    attributes: dict[str, Any]
    status: int


@attrs.define
class Collector:
    """What a collector took, and where to send it."""

    endpoint: str
    traces: list[ExportTraceServiceRequest] = attrs.Factory(list)
    metrics: list[ExportMetricsServiceRequest] = attrs.Factory(list)
    headers: list[dict[str, str]] = attrs.Factory(list)

    def spans(self, scope: str = "") -> list[Seen]:
        """Give all spans, or those that one library made."""
        return [span for request in self.traces for span in _spans(request) if span.scope.startswith(scope)]

    def metric_names(self) -> set[str]:
        return {
            metric.name
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextlib.contextmanager
def collecting() -> Generator[Collector]:
    """Take what comes, on a free port; all that was taken is there once its sender has its answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.path == "/v1/traces":
                collector.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                collector.metrics.append(ExportMetricsServiceRequest.FromString(body))
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield collector
        finally:
            server.shutdown()
            serving.join()


@contextlib.contextmanager
def hanging() -> Generator[str]:
    """Give the address of one that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def refusing() -> Generator[str]:
    """Give an address that nobody listens on, nor can while it is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def _spans(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    for resource in request.resource_spans:
        service = _values(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield _seen(service, scope.scope.name, span)


def _seen(service: str, scope: str, span: Span) -> Seen:
    return Seen(
        service=service,
        scope=scope,
        name=span.name,
        kind=span.kind,
        place=Place(span.trace_id.hex(), span.span_id.hex()),
        parent=span.parent_span_id.hex(),
        links=tuple(Place(link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        events=tuple((event.name, _values(event.attributes)) for event in span.events),
        attributes=_values(span.attributes),
        status=span.status.code,
    )


def _values(attributes: Any) -> dict[str, Any]:
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)
