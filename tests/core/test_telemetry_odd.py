"""Odd parts around OpenTelemetry: spans and contexts that only look like ones, logging that raises, odd types."""

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from listening import fresh, in_request, listening, told_of
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from recording import RecordingProcessor, raises
from scenes import open_scene

from async_batcher import AsyncBatcher, BatchCancelled, BatchEvent, _telemetry

pytestmark = pytest.mark.anyio

SAMPLED = TraceFlags(TraceFlags.SAMPLED)


async def same(batch: list[Any]) -> list[Any]:
    return batch


class Speechless:
    """A span with the SDK's behind it, of which one call raises."""

    def __init__(self, span: trace.Span, broken: str) -> None:
        self._span, self._broken = span, broken

    def __getattr__(self, name: str) -> Any:
        if name == self._broken:
            raise LookupError(name)
        return getattr(self._span, name)


@pytest.mark.parametrize("broken", ["get_span_context", "is_recording", "set_attributes", "set_attribute"])
async def test_span_that_a_tracer_began_is_ended_whatever_else_of_it_raises(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the batch is recorded."""

    class Tracer:
        def start_span(self, *asked: Any, **named: Any) -> Any:
            return Speechless(trace.get_tracer("behind").start_span(*asked, **named), broken)

    class Provider(TracerProvider):
        def get_tracer(self, *asked: Any, **named: Any) -> Any:
            return Tracer() if asked[0] == "async_batcher" else super().get_tracer(*asked, **named)

    with listening(traces=False) as heard:
        provider = Provider(shutdown_on_exit=False)
        provider.add_span_processor(heard)
        trace.set_tracer_provider(provider)
        async with open_scene(RecordingProcessor(raises(ValueError())), max_batch_size=1) as scene:
            caller = scene.start(in_request(scene.batcher.process, 1))
            await caller.end()
            assert isinstance(caller.error, ValueError)
        assert sorted(span.name for span in heard.ended) == ["batch", "request 1"]
        assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 1
    assert len(caplog.records) == 1


class Duck:
    """Looks like a span context, and is none."""

    trace_id, span_id, trace_flags = "7", "7", SAMPLED


@pytest.mark.parametrize("lookalike", [Duck(), (7, 7), None], ids=["duck", "tuple", "none"])
async def test_span_whose_context_only_looks_like_one_costs_the_others_nothing(lookalike: Any) -> None:
    """Its own caller is not linked; the batch has its span, its siblings their link and their event."""

    class Odd(NonRecordingSpan):
        def get_span_context(self) -> Any:
            return lookalike

    with listening() as heard:
        async with open_scene(same, max_batch_size=2) as scene:

            async def odd() -> Any:
                with trace.use_span(Odd(trace.INVALID_SPAN_CONTEXT)):
                    return await scene.batcher.process(1)

            callers = [scene.start(odd), scene.start(in_request(scene.batcher.process, 2))]
            await scene.end_of(*callers)
            assert [caller.result for caller in callers] == [1, 2]
    assert [len(batch.links) for batch in heard.batches] == [1]
    assert len(told_of(heard.named("request 2"))) == 1


async def test_logging_that_raises_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter of the user's, which `logging` does not guard."""

    class Broken(NonRecordingSpan):
        def get_span_context(self) -> SpanContext:
            raise LookupError

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError(record.getMessage())

    logger = logging.getLogger("async_batcher")
    with listening() as heard:
        logger.addFilter(refuse)
        try:
            async with open_scene(same, max_batch_size=1) as scene:
                with trace.use_span(Broken(trace.INVALID_SPAN_CONTEXT)):
                    assert await scene.batcher.process(1) == 1
        finally:
            logger.removeFilter(refuse)
    assert len(heard.batches) == 1


@pytest.mark.parametrize("weigh", [len, lambda item: len(item) / 2])
async def test_weight_is_a_double_whatever_weigh_returns(weigh: Callable[[str], float]) -> None:
    """A field that is an int here and a double there is split or refused by those who store it."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(
            same, max_batch_size=1, weigh=weigh, max_batch_weight=9
        ) as batcher:
            await batcher.process("abcd")
    weight = (heard.batches[0].attributes or {})["async_batcher.batch.weight"]
    assert (type(weight), weight) == (float, weigh("abcd"))


async def test_counts_stay_ints_when_a_batcher_has_gone() -> None:
    """A series that turns from int to double is two series to some."""
    with listening() as heard:
        AsyncBatcher.from_callable(same, name="gone")
        gc.collect()
        batcher = AsyncBatcher.from_callable(same, name="alive")
        for field in ("items", "rejections", "item.waiting", "item.running", "item.in_line"):
            points = heard.points(f"async_batcher.{field}")
            assert {type(point.value) for point in points.values()} == {int}, field
        assert batcher.stats().accepted == 0


async def test_error_of_the_librarys_own_is_told_by_its_public_name() -> None:
    """As one imports it: in the batch's event, in its span and in its metric."""
    events: list[BatchEvent] = []
    with listening() as heard:
        async with open_scene(
            RecordingProcessor(raises(BatchCancelled())), max_batch_size=1, on_batch=events.append
        ) as scene:
            await scene.process(1)
        (point,) = heard.points("async_batcher.processing.duration")
    told = [
        events[0].error_type,
        (heard.batches[0].attributes or {})["error.type"],
        dict(point)["error.type"],
    ]
    assert told == ["async_batcher.BatchCancelled"] * 3


@pytest.mark.backends("asyncio")
async def test_names_of_those_that_have_gone_push_no_living_one_out() -> None:
    """The SDK keeps 2,000 series of an instrument: those that live are counted by their names."""
    with listening() as heard:
        for number in range(2001):
            AsyncBatcher.from_callable(same, name=f"gone {number}")
        gc.collect()
        async with AsyncBatcher.from_callable(same, name="alive", max_batch_size=1) as batcher:
            await batcher.process_many(range(7))
            for field in ("items", "rejections", "item.waiting"):
                points = heard.points(f"async_batcher.{field}")
                assert any(dict(of).get("async_batcher.name") == "alive" for of in points), field
            assert heard.total("items", name="alive") == 7


@pytest.mark.backends("asyncio")
async def test_thread_that_looks_while_another_makes_the_instruments_waits_for_them() -> None:
    """Else the first batches of loops in other threads were told to nobody."""
    making, go_on = threading.Event(), threading.Event()

    class Slow(MeterProvider):
        def get_meter(self, *asked: Any, **named: Any) -> Any:
            making.set()
            go_on.wait()
            return super().get_meter(*asked, **named)

    def work() -> None:
        looked.append(hub.look())
        found.append(hub.instruments)

    with fresh():
        hub, looked, found = _telemetry._hub, list[bool](), list[object]()
        metrics.set_meter_provider(Slow(shutdown_on_exit=False))
        first, second = threading.Thread(target=work), threading.Thread(target=work)
        first.start()
        making.wait()
        second.start()
        second.join(0.05)
        go_on.set()
        first.join()
        second.join()
    assert len(found) == 2
    assert found[0] is found[1] is not None
