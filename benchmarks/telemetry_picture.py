"""One trace, drawn from real spans: four requests to the HTTP service, and the batch that served them.

    python benchmarks/telemetry_picture.py      # makes docs/telemetry-trace.png

The service of the recipes is served by uvicorn on loopback, in this process. Four clients, each with a trace of its
own, ask within one window; the model takes 30 ms and makes a span of its own. Of some rounds the quickest is drawn, as
it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import uvicorn
from opentelemetry import propagate, trace
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from telemetry_plot import draw

from examples.recipes.fastapi_app import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from fastapi import FastAPI
    from opentelemetry.sdk.trace import ReadableSpan

    Round = Sequence[ReadableSpan]

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "telemetry-trace.png"
CLIENTS = 4
APART = 0.002
"""Seconds between two clients: all come within the batcher's window of 10 ms."""
ROUNDS = 20
MODEL_TAKES = 0.03


async def model(rows: list[list[float]]) -> list[float]:
    """Stand for a model, with a span of its own as an instrumented client of one has."""
    with trace.get_tracer("model").start_as_current_span("inference"):
        await asyncio.sleep(MODEL_TAKES)
        return [sum(row) for row in rows]


@contextlib.asynccontextmanager
async def listening(app: FastAPI) -> AsyncGenerator[str]:
    """Serve on a free port of loopback."""
    # With the protocol named: only then asyncio sends what it is given at once, and not 40 ms later.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


async def ask(client: httpx.AsyncClient, number: int) -> None:
    """Ask once, as a program with a trace of its own does."""
    await asyncio.sleep(number * APART)
    headers: dict[str, str] = {}
    with trace.get_tracer("client").start_as_current_span(f"client {number + 1}"):
        propagate.inject(headers)
        answer = await client.post("/predict", json={"row": [number]}, headers=headers)
        answer.raise_for_status()


async def record(spans: InMemorySpanExporter, folder: str) -> list[Round]:
    """Ask in rounds, the first of which opens connections; give those in which all four were in one batch."""
    app = create_app(Path(folder) / "events.sqlite", prediction_processor=model)
    FastAPIInstrumentor.instrument_app(app, exclude_spans=["receive", "send"])
    rounds: list[Round] = []
    async with listening(app) as url, httpx.AsyncClient(base_url=url) as client:
        for _ in range(ROUNDS):
            spans.clear()
            await asyncio.gather(*(ask(client, number) for number in range(CLIENTS)))
            rounds.append(spans.get_finished_spans())
    return [each for each in rounds[1:] if [len(span.links) for span in each if span.links] == [CLIENTS]]


def took(spans: Round) -> int:
    """Give the time of all together: what else the machine did only makes it longer."""
    return max(span.end_time or 0 for span in spans) - min(span.start_time or 0 for span in spans)


def main() -> None:
    """Record and draw."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    with tempfile.TemporaryDirectory() as folder:
        rounds = asyncio.run(record(spans, folder))
    if not rounds:
        sys.exit("the clients never came within one window: run it again, with nothing else at work")
    draw(min(rounds, key=took), PICTURE)
    print(f"made {PICTURE.name}")


if __name__ == "__main__":
    main()
