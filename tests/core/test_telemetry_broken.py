"""Whatever OpenTelemetry's parts do, a batch and its callers go on, and it is logged once."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from listening import Heard, fresh, in_request, listening, request, set_up
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from recording import RecordingProcessor
from scenes import open_scene

from async_batcher import AsyncBatcher, _telemetry

pytestmark = pytest.mark.anyio


class BrokenError(Exception):
    """What OpenTelemetry's parts raise here."""


class OddError(BaseException):
    """What goes past `except Exception`."""


errors = pytest.mark.parametrize("error", [BrokenError, OddError])


class Breaking(SpanProcessor):
    """Raises when one of the batcher's spans begins or ends."""

    def __init__(self, error: type[BaseException], *, at_start: bool) -> None:
        self._error, self._at_start = error, at_start

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._at_start and span.name.startswith("batch"):
            raise self._error("broken")

    def on_end(self, span: Any) -> None:
        if not self._at_start and span.name.startswith("batch"):
            raise self._error("broken")


class BreakingSampler(ParentBased):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__(ALWAYS_ON)
        self._error = error

    def should_sample(self, *asked: Any, **named: Any) -> Any:
        if asked[2].startswith("batch"):
            raise self._error("broken")
        return ALWAYS_ON.should_sample(*asked, **named)


class BrokenSpan(trace.NonRecordingSpan):
    """Somebody's own span, every method of which raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self._error = error

    def get_span_context(self) -> trace.SpanContext:
        raise self._error("broken")

    is_recording = get_span_context  # type: ignore[assignment]
    add_event = get_span_context  # type: ignore[assignment]


class Refusing(trace.NonRecordingSpan):
    """Somebody's own span, which is sampled and raises when it is told of something."""

    def __init__(self) -> None:
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        super().__init__(trace.SpanContext(7, 7, is_remote=False, trace_flags=flags))

    def is_recording(self) -> bool:
        raise BrokenError


async def all_is_well(caplog: pytest.LogCaptureFixture, logged: int = 1) -> None:
    """Process two batches, one of which is split, and check that nobody notices."""

    async def picky(batch: list[int]) -> list[int]:
        if 3 in batch:
            raise ValueError(batch)
        return batch

    async with open_scene(picky, max_batch_size=2, max_queue_time=1, split_on=ValueError, name="b") as scene:
        callers = [scene.start(in_request(scene.batcher.process, item)) for item in (1, 2, 3, 4)]
        await scene.end_of(*callers)
        assert sorted(caller.result for caller in callers if caller.error is None) == [1, 2, 4]
        assert [type(caller.error) for caller in callers if caller.error is not None] == [ValueError]
    ours = [record for record in caplog.records if record.name == "async_batcher"]
    assert len(ours) == logged
    for record in ours:
        assert "telemetry of batcher 'b' raised" in record.getMessage()
        assert record.exc_info is not None


@errors
@pytest.mark.parametrize("at_start", [True, False])
async def test_span_processor_that_raises_is_contained(
    error: type[BaseException], at_start: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """When a span begins, and when it ends: the instruments say all the same what there was."""
    with listening(Breaking(error, at_start=at_start)) as heard:
        await all_is_well(caplog)
        assert heard.total("items", outcome="succeeded") == 3
        assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 2


@errors
async def test_sampler_that_raises_is_contained(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Its batches have no span; the backend's is in no caller's trace even so."""
    inside: list[trace.Span] = []

    async def look(batch: list[int]) -> list[int]:
        inside.append(trace.get_current_span())
        return batch

    with listening(sampler=BreakingSampler(error)) as heard:
        await all_is_well(caplog)
        assert heard.batches == []
        with request("builds"):
            batcher = AsyncBatcher.from_callable(look)
        async with batcher:
            await batcher.process(1)
    assert [span.get_span_context().is_valid for span in inside] == [False]


@errors
async def test_caller_whose_span_is_broken_is_not_linked(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """It gets its result, and the others are linked."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=2) as scene:

            async def broken() -> int:
                with trace.use_span(BrokenSpan(error), record_exception=False, set_status_on_exception=False):
                    result: int = await scene.batcher.process(1)
                    return result

            callers = [scene.start(broken), scene.start(in_request(scene.batcher.process, 2))]
            await scene.end_of(*callers)
            assert [caller.result for caller in callers] == [10, 20]
    assert [len(batch.links) for batch in heard.batches] == [1]
    assert len(caplog.records) == 1


async def test_caller_whose_span_takes_no_event_is_linked_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One caller's span is not the others' affair."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=2) as scene:

            async def refusing() -> int:
                with trace.use_span(Refusing(), record_exception=False, set_status_on_exception=False):
                    result: int = await scene.batcher.process(1)
                    return result

            first = scene.start(refusing)
            await anyio.sleep(0.001)
            callers = [first, scene.start(in_request(scene.batcher.process, 2))]
            await scene.end_of(*callers)
    assert [len(batch.links) for batch in heard.batches] == [2]
    assert [event.name for event in heard.named("request 2").events] == ["async_batcher.batch"]
    assert len(caplog.records) == 1


@errors
async def test_instrument_that_raises_is_contained(
    error: type[BaseException], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are recorded, and the span ends."""

    def fail(*_: object, **__: object) -> None:
        raise error("broken")

    with listening() as heard:
        AsyncBatcher.from_callable(RecordingProcessor())
        instruments = _telemetry._hub.instruments
        assert instruments is not None
        monkeypatch.setattr(instruments.histograms["queue.oldest_duration"], "record", fail)
        await all_is_well(caplog)
        assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 2
        assert heard.unended == []


@errors
@pytest.mark.parametrize("what", ["get_tracer", "get_meter"])
async def test_provider_that_gives_nothing_is_done_without(
    error: type[BaseException], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked once, when it is first seen."""
    asked: list[str] = []

    class NoTracers(TracerProvider):
        def get_tracer(self, *given: Any, **named: Any) -> trace.Tracer:
            if given[0] == "async_batcher":
                asked.append("get_tracer")
                raise error("broken")
            return super().get_tracer(*given, **named)

    class NoMeters(MeterProvider):
        def get_meter(self, *given: Any, **named: Any) -> metrics.Meter:
            asked.append("get_meter")
            raise error("broken")

    with fresh():
        if what == "get_tracer":
            trace.set_tracer_provider(NoTracers(shutdown_on_exit=False))
        else:
            metrics.set_meter_provider(NoMeters(shutdown_on_exit=False))
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            callers = await scene.process(1, 2)
            assert [caller.result for caller in callers] == [10, 20]
    assert asked == [what]
    assert [record.getMessage() for record in caplog.records] == [
        "a part of OpenTelemetry can't be used; batchers go on without it"
    ]


@pytest.mark.parametrize("variable", ["OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER"])
async def test_provider_that_the_environment_names_wrongly_is_done_without(
    variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Building a batcher is no place to fail for it."""
    monkeypatch.setenv(variable, "no_such_provider")
    with fresh():
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            callers = await scene.process(1)
            assert callers[0].result == 10
    assert "a part of OpenTelemetry can't be used" in caplog.text


async def test_disabled_sdk_costs_what_none_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_SDK_DISABLED=true`: nobody is asked anything."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            await scene.process(1)
            assert not _telemetry._hub.look()
            assert _telemetry._hub.instruments is None
            assert type(scene.batcher._collector).__name__ == "Collector"
    assert heard.began == []


class HangingSpans(SpanExporter):
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.reached.set()
        self.gate.wait()
        return SpanExportResult.SUCCESS


class HangingMetrics(MetricExporter):
    """Hangs until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.gate = threading.Event(), threading.Event()

    def export(self, metrics_data: Any, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
        self.reached.set()
        self.gate.wait()
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        """Have nothing to close."""


@pytest.mark.real_time
async def test_exporters_that_hang_delay_nobody() -> None:
    """More batches than the exporter's queue holds, while both of them hang."""
    spans, numbers = HangingSpans(), HangingMetrics()
    with fresh():
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(
            BatchSpanProcessor(spans, max_queue_size=8, max_export_batch_size=4, schedule_delay_millis=1)
        )
        reader = PeriodicExportingMetricReader(numbers, export_interval_millis=1)
        meters = MeterProvider([reader], shutdown_on_exit=False)
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
        try:
            async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
                assert (await scene.process(0))[0].result == 0
                await anyio.to_thread.run_sync(spans.reached.wait)
                await anyio.to_thread.run_sync(numbers.reached.wait)
                callers = [scene.start(in_request(scene.batcher.process, item)) for item in range(1, 41)]
                await scene.end_of(*callers)
                assert [caller.result for caller in callers] == [item * 10 for item in range(1, 41)]
        finally:
            spans.gate.set()
            numbers.gate.set()
            tracers.shutdown()
            meters.shutdown()


@pytest.mark.parametrize("make", [SimpleSpanProcessor, BatchSpanProcessor])
async def test_exporter_that_raises_fails_nobody(
    make: Callable[[SpanExporter], SpanProcessor], caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK logs it; the batcher has nothing to say."""

    class Raising(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            raise BrokenError

    processor = make(Raising())
    with fresh():
        heard = Heard()
        set_up(heard, processor)
        await all_is_well(caplog, logged=0)
        processor.shutdown()
    assert heard.unended == []
