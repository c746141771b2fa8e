"""Who listens to OpenTelemetry for one block of a test: the real SDK, in memory.

    with listening() as heard:
        ...                      # batchers that are built in here, or before
    assert heard.unended == []

The API lets providers be set once a process. So that each test has its own, this puts the API's own state, and the
library's, back to what they are when a process starts, and afterwards to what they were.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Span, SpanContext
from opentelemetry.util._once import Once

from async_batcher import BatcherStats, _telemetry

OUTCOMES = ("succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped")


class Heard(SpanProcessor):
    """What was heard: every span that began and that ended, and the instruments."""

    def __init__(self) -> None:
        self.began: list[Span] = []
        self.ended: list[ReadableSpan] = []
        self.reader = InMemoryMetricReader()

    def on_start(self, span: Any, parent_context: Context | None = None) -> None:
        self.began.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    @property
    def unended(self) -> list[str]:
        """The names of the spans that began and never ended."""
        ended = {address(span) for span in self.ended}
        return [str(getattr(span, "name", span)) for span in self.began if address(span) not in ended]

    @property
    def batches(self) -> list[ReadableSpan]:
        return [span for span in self.ended if ours(span) and not span.name.startswith("batch part")]

    @property
    def parts(self) -> list[ReadableSpan]:
        return [span for span in self.ended if ours(span) and span.name.startswith("batch part")]

    def named(self, name: str) -> ReadableSpan:
        """Return the one ended span of this name."""
        (found,) = (span for span in self.ended if span.name == name)
        return found

    def points(self, instrument: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """Collect, and return the points of one instrument by their attributes."""
        return self.collected().get(instrument, {})

    def collected(self) -> dict[str, dict[tuple[tuple[str, Any], ...], Any]]:
        """Collect, and return the points of each instrument by their attributes."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: {
                tuple(sorted((point.attributes or {}).items())): point for point in metric.data.data_points
            }
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            if scope.scope.name == "async_batcher"
            for metric in scope.metrics
        }

    def total(self, instrument: str, **attributes: Any) -> float:
        """Sum the points of a counter which have these attributes."""
        wanted = {(f"async_batcher.{name}", value) for name, value in attributes.items()}
        points = self.points(f"async_batcher.{instrument}")
        return float(sum(point.value for of, point in points.items() if wanted <= set(of)))

    def text(self) -> str:
        """Everything that would leave the process, as text."""
        spans = [span.to_json() for span in self.ended]
        return json.dumps(spans) + str(self.reader.get_metrics_data())


def ours(span: ReadableSpan) -> bool:
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == "async_batcher"


def address(span: Any) -> tuple[int, int]:
    """Say where a span, a span context or the span that an event tells of is found."""
    context = span if isinstance(span, SpanContext) else span.get_span_context()
    return context.trace_id, context.span_id


def told_of(span: ReadableSpan) -> list[tuple[int, int]]:
    """List the batches that a caller's span tells of."""
    return [
        (
            int(str((event.attributes or {})["async_batcher.batch.trace_id"]), 16),
            int(str((event.attributes or {})["async_batcher.batch.span_id"]), 16),
        )
        for event in span.events
        if event.name == "async_batcher.batch"
    ]


def linked(batch: ReadableSpan) -> list[tuple[int, int]]:
    """List the spans that a batch's span links to."""
    return [address(link.context) for link in batch.links]


@contextlib.contextmanager
def fresh() -> Iterator[pytest.MonkeyPatch]:
    """Be as when a process starts: no provider is set, and the library has counted nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for ask, kind in ((trace.get_tracer_provider, "TRACER"), (metrics.get_meter_provider, "METER")):
            state: dict[str, Any] = ask.__globals__
            patch.setitem(state, f"_{kind}_PROVIDER", None)
            patch.setitem(state, f"_{kind}_PROVIDER_SET_ONCE", Once())
        patch.setattr(_telemetry, "_hub", type(_telemetry._hub)())
        yield patch


def unset() -> None:
    """Take the providers away within `fresh`, as test suites do between two tests."""
    for ask, kind in ((trace.get_tracer_provider, "TRACER"), (metrics.get_meter_provider, "METER")):
        state: dict[str, Any] = ask.__globals__
        state[f"_{kind}_PROVIDER"] = None
        state[f"_{kind}_PROVIDER_SET_ONCE"] = Once()


@contextlib.contextmanager
def listening(
    *processors: SpanProcessor,
    sampler: Sampler | None = None,
    traces: bool = True,
    counts: bool = True,
    limits: SpanLimits | None = None,
) -> Iterator[Heard]:
    """Set providers up for this block."""
    with fresh():
        heard = Heard()
        set_up(heard, *processors, sampler=sampler, traces=traces, counts=counts, limits=limits)
        yield heard


def set_up(
    heard: Heard,
    *processors: SpanProcessor,
    sampler: Sampler | None = None,
    traces: bool = True,
    counts: bool = True,
    limits: SpanLimits | None = None,
) -> None:
    """Set providers up as a program does when it starts."""
    if traces:
        provider = TracerProvider(sampler=sampler, span_limits=limits, shutdown_on_exit=False)
        for processor in (heard, *processors):
            provider.add_span_processor(processor)
        trace.set_tracer_provider(provider)
    if counts:
        metrics.set_meter_provider(MeterProvider([heard.reader], shutdown_on_exit=False))


@contextlib.contextmanager
def request(name: str) -> Iterator[Span]:
    """Be inside a request's span; its errors are its own affair."""
    with trace.get_tracer("requests").start_as_current_span(
        name, record_exception=False, set_status_on_exception=False
    ) as span:
        yield span


def in_request(call: Callable[..., Any], item: Any) -> Callable[[], Any]:
    """Make a caller of one item, each in a request of its own."""

    async def caller() -> Any:
        with request(f"request {item}"):
            return await call(item)

    return caller


def assert_agrees(heard: Heard, stats: BatcherStats, sizes: Sequence[int]) -> None:
    """Check that the instruments say what `stats` says, to the item, and what the processor saw."""
    told = {outcome: heard.total("items", outcome=outcome) for outcome in OUTCOMES}
    assert told == {outcome: getattr(stats, outcome) for outcome in OUTCOMES}
    assert heard.total("rejections") == stats.rejected
    for field in ("waiting", "running", "in_line"):
        assert heard.total(f"item.{field}") == getattr(stats, field)
    points = heard.collected()
    for name in ("batch.size", "queue.oldest_duration", "queue.mean_duration", "processing.duration"):
        found = points.get(f"async_batcher.{name}", {}).values()
        assert sum(point.count for point in found) == stats.batches, name
    assert sum(point.sum for point in points.get("async_batcher.batch.size", {}).values()) == sum(sizes)
