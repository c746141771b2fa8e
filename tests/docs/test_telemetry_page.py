"""The page on telemetry says what there is: every instrument, unit, attribute and name, and nothing else."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from listening import Heard, in_request, listening
from opentelemetry.sdk.metrics.export import Histogram, Sum
from opentelemetry.sdk.trace import SpanLimits
from pages import ROOT, table

from async_batcher import AsyncBatcher

PAGE = ROOT / "docs" / "telemetry.md"


def names(cell: str) -> set[str]:
    """Return what stands in code marks."""
    return set(re.findall(r"`([^`]+)`", cell))


async def batches() -> None:
    """Run what shows each attribute: a split batch, a failed one, weights, more callers than links."""

    async def picky(batch: list[int]) -> list[int]:
        if 3 in batch:
            raise ValueError
        if 4 in batch:
            raise OSError
        return batch

    options: dict[str, Any] = {"weigh": int, "split_on": ValueError, "max_queue_time": 0.01}
    async with AsyncBatcher.from_callable(picky, name="n", **options) as batcher:
        for items in ((1, 2, 3), (4, 5)):
            callers = (in_request(batcher.process, item)() for item in items)
            await asyncio.gather(*callers, return_exceptions=True)


def attributes_heard(heard: Heard) -> set[str]:
    of_spans = {name for span in (*heard.batches, *heard.parts) for name in span.attributes or {}}
    of_events = {name for span in heard.ended for event in span.events for name in event.attributes or {}}
    of_points = {name for points in heard.collected().values() for of in points for name, _ in of}
    return of_spans | of_events | of_points


def test_every_attribute_stands_in_the_table_and_none_else(monkeypatch: Any) -> None:
    """`taken_back` alone takes an executor that never began (a test of the core has it)."""
    monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", "1")
    with listening(limits=SpanLimits(max_links=1)) as heard:
        asyncio.run(batches())
        found = attributes_heard(heard)
    described = {name for cells in table(PAGE, "| attribute | type |") for name in names(cells[0])}
    of_spans = {name for cells in table(PAGE, "| span or event |") for name in names(cells[2])}
    of_event = {"async_batcher.batch.trace_id", "async_batcher.batch.span_id"}
    assert described == (found | {"async_batcher.batch.taken_back"}) - of_event
    assert of_spans == (found | {"async_batcher.batch.taken_back"}) - {"async_batcher.outcome"}


def test_every_span_and_event_stands_in_the_table_and_none_else() -> None:
    """By its name."""
    with listening() as heard:
        asyncio.run(batches())
    spans = {span.name.replace(" n", " NAME") for span in (*heard.batches, *heard.parts)}
    events = {event.name for span in heard.ended for event in span.events}
    described = {name for cells in table(PAGE, "| span or event |") for name in names(cells[0])}
    assert described == spans | events | {"batch"}


def test_every_instrument_stands_in_the_table_as_it_is_and_none_else() -> None:
    """Its kind, its unit and its attributes."""
    with listening() as heard:
        asyncio.run(batches())
        data = heard.reader.get_metrics_data()
        assert data is not None
        found = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            match metric.data:
                case Histogram():
                    kind = "histogram"
                case Sum(is_monotonic=True):
                    kind = "observable counter"
                case Sum():
                    kind = "observable up-down counter"
                case other:
                    kind = type(other).__name__
            attributes = {name for point in metric.data.data_points for name in point.attributes or {}}
            found[metric.name] = (kind, metric.unit, attributes - {"async_batcher.name"})
    rows = table(PAGE, "| instrument | kind |")
    described = {
        names(row[0]).pop(): (row[1], names(row[2]).pop(), names(row[3])) for row in rows if len(row) > 4
    }
    assert described == found
