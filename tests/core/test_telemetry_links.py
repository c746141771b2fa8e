"""Limits of what spans keep, and who counts as one span: links to callers, and events that tell them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from listening import Heard, address, fresh, in_request, linked, listening, request, told_of
from opentelemetry import context, trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from async_batcher import AsyncBatcher

pytestmark = pytest.mark.anyio

LINKS, EVENTS = "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT"


async def same(batch: list[Any]) -> list[Any]:
    return batch


async def process(batcher: AsyncBatcher[Any, Any], *items: Any) -> None:
    """Process these, each in a request of its own."""
    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(in_request(batcher.process, item))


def remote(number: int) -> NonRecordingSpan:
    """Make what is extracted from a message: an object of its own, of a span of elsewhere."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return NonRecordingSpan(SpanContext(number, number, is_remote=True, trace_flags=flags))


class Foreign:
    """A tracer that shows no limits, with the SDK behind it."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, *asked: Any, **named: Any) -> trace.Span:
        return self._tracer.start_span(*asked, **named)


@contextmanager
def foreign(limits: SpanLimits) -> Iterator[Heard]:
    """Be traced by tracers that show no limits."""

    class Provider(TracerProvider):
        def get_tracer(self, *asked: Any, **named: Any) -> Any:
            tracer = super().get_tracer(*asked, **named)
            return Foreign(tracer) if asked[0] == "async_batcher" else tracer

    with fresh():
        heard = Heard()
        provider = Provider(span_limits=limits, shutdown_on_exit=False)
        provider.add_span_processor(heard)
        trace.set_tracer_provider(provider)
        yield heard


@pytest.mark.parametrize(
    ("variable", "in_code", "links"),
    [
        (None, None, 128),
        ("5", None, 5),
        ("5", 8, 8),
        (None, 129, 129),
        ("5", SpanLimits.UNSET, 130),
        ("", None, 130),
    ],
)
async def test_links_over_the_limit_are_counted(
    variable: str | None, in_code: int | None, links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's limit, by the standard variable or in code, or none; every caller is told all the same."""
    if variable is not None:
        monkeypatch.setenv(LINKS, variable)
    with listening(limits=SpanLimits(max_links=in_code)) as heard:
        async with AsyncBatcher.from_callable(same, max_batch_size=130) as batcher:
            await process(batcher, *range(130))
    (batch,) = heard.batches
    assert (len(batch.links), batch.dropped_links) == (links, 0)
    assert (batch.attributes or {}).get("async_batcher.batch.unlinked", 0) == 130 - links
    assert all(told_of(heard.named(f"request {item}")) == [address(batch)] for item in range(130))


@pytest.mark.parametrize(("variable", "links"), [(None, 128), ("5", 5), ("all", 128)])
async def test_tracer_that_shows_no_limit_is_taken_to_have_the_environments(
    variable: str | None, links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 where that says none, or what is no number."""
    limits = SpanLimits(max_links=1000)
    if variable is not None:
        monkeypatch.setenv(LINKS, variable)
    with foreign(limits) as heard:
        async with AsyncBatcher.from_callable(same, max_batch_size=130) as batcher:
            await process(batcher, *range(130))
    (batch,) = heard.batches
    assert len(batch.links) == links
    assert (batch.attributes or {})["async_batcher.batch.unlinked"] == 130 - links


async def test_span_of_elsewhere_is_one_however_many_objects_stand_for_it() -> None:
    """150 messages of one trace are one link, and take no other caller's."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(same, max_batch_size=160) as batcher:

            async def message() -> None:
                with trace.use_span(remote(7)):
                    await batcher.process("message")

            async with anyio.create_task_group() as group:
                for _ in range(150):
                    group.start_soon(message)
                for item in range(10):
                    group.start_soon(in_request(batcher.process, item))
    (batch,) = heard.batches
    requests = [address(heard.named(f"request {item}")) for item in range(10)]
    assert sorted(linked(batch)) == sorted([(7, 7), *requests])
    assert "async_batcher.batch.unlinked" not in (batch.attributes or {})


@pytest.mark.parametrize("recording_first", [True, False])
async def test_span_that_records_is_told_once_whatever_else_stands_for_it(recording_first: bool) -> None:
    """A request, and what was extracted from a message that it sent to itself."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(same, max_batch_size=4) as batcher:
            with request("both") as span:
                extracted = NonRecordingSpan(span.get_span_context())
                stand_ins = [span, span, extracted, extracted]
                submissions = []
                for stand_in in stand_ins if recording_first else reversed(stand_ins):
                    with trace.use_span(stand_in):
                        submissions.append(await batcher.submit(stand_in))
                for submission in submissions:
                    await submission
    (batch,), both = heard.batches, heard.named("both")
    assert linked(batch) == [address(both)]
    assert told_of(both) == [address(batch)]


@pytest.mark.parametrize(("limit", "told"), [(None, 64), (10, 5), (SpanLimits.UNSET, 200), (1, 0)])
async def test_half_of_the_events_that_a_span_keeps_are_its_own(limit: int | None, told: int) -> None:
    """Whoever is in many batches, of two batchers, is told of the first ones; every batch is linked to it."""
    with listening(limits=SpanLimits(max_events=limit)) as heard:
        one = AsyncBatcher.from_callable(same, max_batch_size=1)
        other = AsyncBatcher.from_callable(same, max_batch_size=1)
        async with one, other:
            with request("many") as span:
                if told:
                    span.add_event("its own")
                await one.process_many(range(100))
                await other.process_many(range(100))
            with request("few"):
                await one.process(1)
    many = heard.named("many")
    batches = [address(batch) for batch in heard.batches]
    assert [event.name for event in many.events if event.name == "its own"] == ["its own"] * bool(told)
    assert told_of(many) == batches[:told]
    assert all(len(batch.links) == 1 for batch in heard.batches)
    assert told_of(heard.named("few")) == (batches[-1:] if told else [])


class Unhashable:
    """Somebody's own kind of span, with the SDK's behind it."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def __getattr__(self, name: str) -> Any:
        return getattr(self._span, name)


async def test_span_that_can_be_no_weak_key_is_told() -> None:
    """How often it was told can't be kept, and it is told each time."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(same, max_batch_size=1) as batcher:
            with request("odd") as span:
                stand_in: Any = Unhashable(span)
                token = context.attach(trace.set_span_in_context(stand_in))
                await batcher.process_many(range(70))
                context.detach(token)
    assert told_of(heard.named("odd")) == [address(batch) for batch in heard.batches]
    assert len(heard.batches) == 70
