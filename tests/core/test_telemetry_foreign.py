"""Somebody's own meter, span, context or logging: what it does with what it is given is nobody else's affair."""

import contextvars
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from listening import Heard, address, fresh, in_request, listening, request, told_of
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from recording import RecordingProcessor, raises
from scenes import open_scene

from async_batcher import AsyncBatcher, _telemetry
from async_batcher._events import Refused

pytestmark = pytest.mark.anyio

SAMPLED = TraceFlags(TraceFlags.SAMPLED)
HISTOGRAMS = ("queue.oldest_duration", "queue.mean_duration", "processing.duration", "batch.size")
COUNTERS = ("items", "rejections", "admission.waits", "admission.time")
PRESENT = ("item.waiting", "item.running", "item.in_line")


class Passing:
    """Stands before something of the SDK's."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


class Picky(Passing):
    """A meter that refuses some instruments."""

    refused: tuple[str, ...] = ()

    def _create(self, how: str, name: str, *given: Any, **named: Any) -> Any:
        if name.removeprefix("async_batcher.") in self.refused:
            raise TypeError(name)
        return getattr(self._behind, how)(name, *given, **named)

    def create_histogram(self, name: str, *given: Any, **named: Any) -> Any:
        return self._create("create_histogram", name, *given, **named)

    def create_observable_counter(self, name: str, *given: Any, **named: Any) -> Any:
        return self._create("create_observable_counter", name, *given, **named)

    def create_observable_up_down_counter(self, name: str, *given: Any, **named: Any) -> Any:
        return self._create("create_observable_up_down_counter", name, *given, **named)


def set_meter(heard: Heard, wrap: Callable[[Any], Any]) -> None:
    """Set a meter provider up whose meter stands before the SDK's."""

    class Provider(MeterProvider):
        def get_meter(self, *asked: Any, **named: Any) -> Any:
            return wrap(super().get_meter(*asked, **named))

    metrics.set_meter_provider(Provider([heard.reader], shutdown_on_exit=False))


@pytest.mark.parametrize("refused", [*((name,) for name in HISTOGRAMS + COUNTERS + PRESENT), HISTOGRAMS])
async def test_instrument_that_can_not_be_made_takes_no_other_along(
    refused: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """A meter may know no advice for buckets, or refuse a name: the others are there, and say what there was."""

    class Meter(Picky):
        pass

    Meter.refused = refused
    with fresh():
        heard = Heard()
        set_meter(heard, Meter)
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            callers = await scene.process(1, 2)
            assert [caller.result for caller in callers] == [10, 20]
        found = {name.removeprefix("async_batcher.") for name in heard.collected()}
        assert found == {*HISTOGRAMS, "batch.fill_ratio", *COUNTERS, *PRESENT} - {*refused}
        sizes = heard.points("async_batcher.batch.fill_ratio").values()
        assert sum(point.count for point in sizes) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "a part of OpenTelemetry can't be used; batchers go on without it"
    ] * len(refused)


async def test_instrument_that_changes_its_attributes_changes_nobody_elses() -> None:
    """Neither those of another instrument, nor those of the next batch or its span."""

    class Vandal(Passing):
        def record(self, number: float, attributes: Any, context: Any) -> None:
            self._behind.record(number, attributes, context)
            attributes.update({"async_batcher.name": "hacked", "payload": number})

    class Meter(Passing):
        def create_histogram(self, *given: Any, **named: Any) -> Any:
            return Vandal(self._behind.create_histogram(*given, **named))

    with listening(counts=False) as heard:
        set_meter(heard, Meter)
        async with open_scene(RecordingProcessor(), max_batch_size=1, name="n") as scene:
            callers = [scene.start(in_request(scene.batcher.process, item)) for item in (1, 2)]
            await scene.end_of(*callers)
        of = {frozenset(point) for name in HISTOGRAMS for point in heard.points(f"async_batcher.{name}")}
    assert of == {frozenset({("async_batcher.name", "n"), ("async_batcher.batch.reason", "full")})}
    assert {(batch.attributes or {})["async_batcher.name"] for batch in heard.batches} == {"n"}


async def test_caller_whose_span_changes_what_it_is_told_changes_nobody_elses() -> None:
    """Its siblings are told where their batch is."""

    class Vandal(NonRecordingSpan):
        def is_recording(self) -> bool:
            return True

        def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
            attributes.clear()

    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_batch_size=2) as scene:

            async def odd() -> Any:
                with trace.use_span(Vandal(SpanContext(7, 7, is_remote=False, trace_flags=SAMPLED))):
                    return await scene.batcher.process(1)

            callers = [scene.start(odd), scene.start(in_request(scene.batcher.process, 2))]
            await scene.end_of(*callers)
            again = [scene.start(in_request(scene.batcher.process, 3)), scene.start(odd)]
            await scene.end_of(*again)
    told = [told_of(heard.named(f"request {item}")) for item in (2, 3)]
    assert told == [[address(batch)] for batch in heard.batches]


@pytest.fixture
def refusing() -> Iterator[None]:
    """Have a filter of the user's raise, which `logging` does not guard."""

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError(record.getMessage())

    logger = logging.getLogger("async_batcher")
    logger.addFilter(refuse)
    yield
    logger.removeFilter(refuse)


@pytest.mark.usefixtures("refusing")
async def test_logging_that_raises_keeps_no_batcher_from_being_built() -> None:
    """Where a provider can't be used."""

    class NoTracers(TracerProvider):
        def get_tracer(self, *given: Any, **named: Any) -> trace.Tracer:
            raise LookupError

    with fresh():
        trace.set_tracer_provider(NoTracers(shutdown_on_exit=False))
        async with AsyncBatcher.from_callable(RecordingProcessor(), max_batch_size=1) as batcher:
            assert await batcher.process(1) == 10


def fail(*_: object) -> Any:
    """Stand for anything that is called, and raise."""
    raise LookupError


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("by", ["on_batch", "split_on", "began"])
async def test_logging_that_raises_is_no_outcome_of_a_batch(by: str) -> None:
    """An observer or a predicate that raises is logged: callers get what their processor says."""
    fn = RecordingProcessor(raises(ValueError()))
    options: dict[str, Any] = {} if by == "began" else {by: fail}
    with fresh():
        async with open_scene(fn, max_batch_size=2, **options) as scene:
            witness = SimpleNamespace(awake=True, listens=lambda: False, note=fail, began=fail)
            scene.batcher._runner.watch(witness if by == "began" else None)
            callers = await scene.process(1, 2)
            await scene.end_of(*callers)
            for caller in callers:
                caller.failed(ValueError)
    assert fn.batches == [[1, 2]]


@pytest.mark.parametrize("broken", ["attach", "set_span_in_context"])
async def test_span_that_can_not_be_made_current_is_ended(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A context of somebody's own kind is no reason for which a batch fails, or its span stays open."""
    of = {"attach": otel_context, "set_span_in_context": trace}[broken]
    stand_in = Passing(of)
    setattr(stand_in, broken, fail)
    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            monkeypatch.setattr(_telemetry, "otel_context" if broken == "attach" else "trace", stand_in)
            caller = scene.start(in_request(scene.batcher.process, 1))
            await caller.end()
            assert caller.result == 10
        sizes = heard.points("async_batcher.batch.size").values()
        assert [point.count for point in sizes] == [1]
    assert (heard.unended, len(heard.batches)) == ([], 1)
    assert len(caplog.records) == 1


@pytest.mark.backends("asyncio")
async def test_interrupt_while_callers_are_told_ends_the_span_that_began() -> None:
    """Ctrl-C goes on, and nobody is left who could end it."""

    class Interrupted(NonRecordingSpan):
        def is_recording(self) -> bool:
            raise KeyboardInterrupt

    def begin() -> None:
        with pytest.raises(KeyboardInterrupt):
            told.began("full", 1, 1, [(Interrupted(context), context, (7, 7))])

    context, counted = SpanContext(7, 7, is_remote=False, trace_flags=SAMPLED), Refused()
    with listening() as heard:
        told = _telemetry.Telemetry("n", 1, None, counted)
        with request("caller"):
            contextvars.copy_context().run(begin)
    (batch,) = heard.batches
    assert (batch.attributes or {})["error.type"] == "KeyboardInterrupt"
    assert heard.unended == []
