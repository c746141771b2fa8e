"""What telemetry costs: a batcher with each kind of it, beside the same batcher with telemetry stubbed out.

Each caller is a task in a span of its own, made before the clock starts: what is measured is what the batcher adds.
Callers of both sides have such spans, so that the one difference is the batcher's witness. At 10 % every tenth caller
comes with a sampled parent, as a request does whose trace began elsewhere, and a batch is sampled by its own. In the
line "API alone" no provider is set, as for whoever does not use OpenTelemetry; the others have the real SDK, whose
reader and exporter are in memory and drop what they get, so that no network and no other thread is measured.

A kind of telemetry is set up once a process (the API allows no more), so the pairs of each run in a process of their
own: `--kind` says which. Pairs run one right after the other in alternating order, after one that warms up; a ratio
is that of a pair, of items a second of this process's own CPU time. Printed: the median, the least and the greatest.

    uv run python benchmarks/telemetry.py [--pairs 9] [--items 60000] [--only TEXT]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from functools import partial

from core_sides import Shape, opened, run
from core_table import HEADER, Found, Mark, table
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

CALLERS, BATCH = 256, 64
SHAPE = f"{CALLERS} callers, batches of {BATCH}"
KINDS = {
    "api": Mark(f"{SHAPE}: API alone, over telemetry stubbed out", 0.93, level=0.02),
    "metrics": Mark(f"{SHAPE}: SDK with metrics", 0.6),
    "both": Mark(f"{SHAPE}: SDK with metrics, and tracing at 10 % parent-based sampling", 0.5),
    "all": Mark(f"{SHAPE}: SDK with metrics, and every caller traced", 0.1),
}


SHARES = {"api": 1, "metrics": 1, "both": 10, "all": 1}
"""One in how many callers is sampled."""


class Dropping(SpanProcessor):
    """Takes spans as an exporter's queue does, and drops them."""

    def on_end(self, span: ReadableSpan) -> None:
        """Drop it."""


def set_up(kind: str) -> None:
    """Set providers up as whoever uses them does."""
    if kind == "api":
        return
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    if kind == "metrics":
        return
    sampler = ParentBased(TraceIdRatioBased(1 / SHARES[kind]))
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(Dropping())
    trace.set_tracer_provider(provider)


async def rate(shape: Shape, *, share: int, stubbed: bool) -> float:
    """Run the callers, each in a span of its own, one in `share` of them sampled: items a second of CPU time."""
    tracer = trace.get_tracer("benchmark")
    parents = [_parent(number, sampled=number % share == 0) for number in range(1, shape.callers + 1)]
    async with opened(max_batch_size=shape.batch, name="benchmark") as batcher:
        if stubbed:
            batcher._runner.watch(None)  # noqa: SLF001  (there is no public way to be without)
        process, gate, rounds = batcher.process, asyncio.Event(), shape.items // shape.callers

        async def caller(numbers: range, parent: Context) -> None:
            with tracer.start_as_current_span("caller", parent):
                await gate.wait()
                for number in numbers:
                    await process(number)

        callers = [
            asyncio.create_task(caller(range(first * rounds, (first + 1) * rounds), parent))
            for first, parent in enumerate(parents)
        ]
        await asyncio.sleep(0)
        started = time.process_time()
        gate.set()
        await asyncio.gather(*callers)
        return rounds * shape.callers / (time.process_time() - started)


def _parent(number: int, *, sampled: bool) -> Context:
    """Make the context of a request that came in with a trace of its own."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    span = NonRecordingSpan(SpanContext(number, number, is_remote=True, trace_flags=flags))
    return trace.set_span_in_context(span, Context())


def ratios(kind: str, pairs: int, items: int) -> list[tuple[float, float]]:
    """Measure the pairs in this process: the ratio of each, and items a second with telemetry."""
    set_up(kind)
    shape, found, share = Shape(CALLERS, BATCH, items), [], SHARES[kind]
    told, stubbed = (partial(rate, share=share, stubbed=stub) for stub in (False, True))
    for number in range(-1, pairs):
        rates = {side: run(side, shape) for side in ((told, stubbed) if number % 2 else (stubbed, told))}
        if number >= 0:
            found.append((rates[told] / rates[stubbed], rates[told]))
    return found


def measured(kind: str, options: argparse.Namespace) -> Found:
    """Measure the pairs in a process of their own."""
    command = [sys.executable, __file__, "--kind", kind, "--pairs", str(options.pairs)]
    output = subprocess.check_output([*command, "--items", str(options.items)])
    pairs: list[tuple[float, float]] = json.loads(output)
    beside = f"{statistics.median(rate for _, rate in pairs):,.0f} items/s"
    return Found(KINDS[kind], [ratio for ratio, _ in pairs], beside)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--items", type=int, default=60_000, help="of each run (%(default)s)")
    parser.add_argument("--only", default="", help="measure the lines that have this text")
    parser.add_argument("--kind", choices=KINDS, help="measure this in this very process, and print JSON")
    options = parser.parse_args()
    if options.kind is not None:
        print(json.dumps(ratios(options.kind, options.pairs, options.items)))
        return
    before = os.getloadavg()
    found = [measured(kind, options) for kind, mark in KINDS.items() if options.only in mark.what]
    if not found:
        parser.error(f"nothing was measured: no line has {options.only!r} in it")
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"load before and after: {before[0]:.1f}, {os.getloadavg()[0]:.1f}; {options.pairs} pairs\n")
    print(table([HEADER, *(each.row() for each in found)]))


if __name__ == "__main__":
    main()
