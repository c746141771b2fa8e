"""The HTTP service's traces: each caller's own is whole, and its batch's is another that leads to all of them."""

import json
import secrets
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from app_serving import RawRequest
from otlp_collector import Collector, Place, Seen, collecting
from service_process import HERE, Held, Process, running

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]

CALLERS = 4
INTERNAL, SERVER = 1, 2
REQUESTS = "opentelemetry.instrumentation.fastapi"
BATCHES = "async_batcher"


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


@contextmanager
def traced(kind: str, folder: Path, held: Held, collector: Collector) -> Generator[Process]:
    command = [str(HERE / "traced_app.py"), kind, str(folder / "events.sqlite"), str(held.path)]
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_SERVICE_NAME": "shop"}
    with running(command, folder, variables=variables) as process:
        yield process


@attrs.frozen
class Client:
    """One that has a trace of its own, and says so in its request."""

    place: Place
    request: RawRequest

    @classmethod
    async def post(cls, url: str, path: str, body: dict[str, Any], *, sampled: bool = True) -> "Client":
        place = Place(secrets.token_hex(16), secrets.token_hex(8))
        text = json.dumps(body).encode()
        parent = f"00-{place.trace}-{place.span}-{'01' if sampled else '00'}"
        head = f"POST {path} HTTP/1.1\r\nTraceparent: {parent}\r\nContent-Length: {len(text)}"
        return cls(place, await RawRequest.begin(url, head, text))

    async def status(self) -> int:
        status, _, _ = await self.request.answer()
        await self.request.leave()
        return status


async def batched_together(process: Process, held: Held) -> list[Client]:
    """Have them wait behind a batch that is held, so that they are the next batch; the last one is not sampled."""
    first = await Client.post(process.url, "/predict", {"row": [-1]})
    async with held.batch():
        await process.says("a request waits")
        clients = []
        for number in range(CALLERS + 1):
            sampled = number < CALLERS
            clients.append(await Client.post(process.url, "/predict", {"row": [number, 1]}, sampled=sampled))
            await process.says("a request waits")
    assert {await client.status() for client in (first, *clients)} == {200}
    return clients


async def ended(process: Process) -> None:
    """Have it send what is left."""
    process.signal(signal.SIGTERM)
    assert await process.ends() == 0, process.said
    assert "Traceback" not in process.said


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_each_callers_trace_is_whole_and_its_batch_is_linked_to_all(
    kind: str, tmp_path: Path, held: Held
) -> None:
    """Four clients, four traces, one batch: links lead from it to each, events from each to it.

    The model's own span is the batch's child. A fifth client, whose trace is not sampled, is in the batch, and nowhere.
    """
    with collecting() as collector, traced(kind, tmp_path, held, collector) as process:
        *clients, unseen = await batched_together(process, held)
        await ended(process)
    requests = {span.parent: span for span in collector.spans(REQUESTS)}
    callers = [requests[client.place.span] for client in clients]
    assert [span.place.trace for span in callers] == [client.place.trace for client in clients]
    assert {(span.name, span.kind, span.service) for span in callers} == {("POST /predict", SERVER, "shop")}
    [batch] = [span for span in collector.spans(BATCHES) if len(span.links) == CALLERS]
    assert set(batch.links) == {span.place for span in callers}
    assert (batch.name, batch.kind, batch.parent) == ("batch predictions", INTERNAL, "")
    assert batch.attributes["async_batcher.batch.size"] == CALLERS + 1
    assert [told_by(span) for span in callers] == [batch.place] * CALLERS
    theirs = {client.place.trace for client in clients}
    assert batch.place.trace not in {*theirs, unseen.place.trace}
    [work] = [span for span in collector.spans("model") if span.parent == batch.place.span]
    assert work.place.trace == batch.place.trace
    assert Counter(
        span.place.trace for span in collector.spans() if span.place.trace in theirs
    ) == dict.fromkeys(theirs, 1)
    assert unseen.place.trace not in {span.place.trace for span in collector.spans()}


def told_by(request: Seen) -> Place:
    """Give the batch that the event in a request's span names."""
    [told] = [values for name, values in request.events if name == "async_batcher.batch"]
    return Place(told["async_batcher.batch.trace_id"], told["async_batcher.batch.span_id"])
