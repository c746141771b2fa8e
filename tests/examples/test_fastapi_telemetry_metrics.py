"""The HTTP service's page for Prometheus: it parses, it agrees with `/stats`, and no client chooses its labels."""

import asyncio
import re
import signal
import threading
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import anyio
import httpx
import pytest
from app_serving import RawRequest, serving, total
from prometheus_client import REGISTRY, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from service_process import HERE, ROOT, Held, Process, event, running

from examples.recipes.fastapi_app import create_app

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]

OUTCOMES = ("succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped")
OTHERS = {
    "waiting": "async_batcher_item_waiting",
    "running": "async_batcher_item_running",
    "in_line": "async_batcher_item_in_line",
    "rejected": "async_batcher_rejections",
}
FIELDS = (*OUTCOMES, *OTHERS)
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


async def test_the_page_agrees_with_the_stats(tmp_path: Path, held: Held) -> None:
    """To the item, for both batchers: while one runs, two wait and one has left, and once all have their answers."""
    command = [str(HERE / "traced_app.py"), "async", str(tmp_path / "events.sqlite"), str(held.path)]
    with running(command, tmp_path) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=50) as client:
            rows = (client.post("/predict", json={"row": [number]}) for number in range(30))
            assert {answer.status_code for answer in await asyncio.gather(*rows)} == {200}
            events = (client.post("/events", json=event(str(number))) for number in range(10))
            assert {answer.status_code for answer in await asyncio.gather(*events)} == {200}
            assert (await client.post("/events", json={"id": "1", "payload": "other"})).status_code == 409
            for _ in range(30 + 10 + 1):
                await process.says("a request waits")
            busy = await both_pages_while_some_wait(process, held, client)
            rest = (await client.get("/stats")).json(), (await client.get("/metrics")).text
        process.signal(signal.SIGTERM)
        assert await process.ends() == 0, process.said
    for stats, page in (busy, rest):
        assert {name: counts(page, name) for name in stats} == {
            name: {field: stats[name][field] for field in FIELDS} for name in stats
        }
    assert (busy[0]["predictions"]["running"], busy[0]["predictions"]["waiting"]) == (1, 2)
    assert (rest[0]["predictions"]["succeeded"], rest[0]["predictions"]["withdrawn"]) == (33, 1)
    assert rest[0]["events"]["failed"] == 1
    assert asked_for_in_the_documents() <= {
        name
        for metric in text_string_to_metric_families(rest[1])
        for sample in metric.samples
        for name in (sample.name, *sample.labels)
    }
    for name, items in (("predictions", 33), ("events", 11)):
        sizes = samples(rest[1], "async_batcher_batch_size", async_batcher_name=name)
        assert sizes["async_batcher_batch_size_count"] == rest[0][name]["batches"]
        assert sizes["async_batcher_batch_size_sum"] == items


async def both_pages_while_some_wait(
    process: Process, held: Held, client: httpx.AsyncClient
) -> tuple[dict[str, dict[str, int]], str]:
    """Ask while a batch is held and of three behind it one has left; then let the others have their answers."""
    requests = [await RawRequest.post(process.url, "/predict", {"row": [-1]})]
    async with held.batch():
        requests += [await RawRequest.post(process.url, "/predict", {"row": [number]}) for number in range(3)]
        for _ in range(4):
            await process.says("a request waits")
        await requests.pop().leave()
        await process.says("a client has left")
        pages = (await client.get("/stats")).json(), (await client.get("/metrics")).text
    for request in requests:
        assert (await request.answer())[0] == 200
        await request.leave()
    return pages


def asked_for_in_the_documents() -> set[str]:
    """Give the metrics, and the labels, that the queries in the documents ask for."""
    page = (ROOT / "docs" / "observability.md").read_text()
    queries = re.findall(r"^\|[^|]*\| `([^`]+)` \|$", page, re.MULTILINE)
    asked = {name for query in queries for name in re.findall(r"\b(?:async_batcher|http)_\w+", query)}
    assert asked
    return asked


def counts(page: str, name: str) -> dict[str, float]:
    """Give a batcher's counts, as the page has them."""
    found = {
        outcome: value
        for outcome in OUTCOMES
        for value in samples(
            page, "async_batcher_items", async_batcher_name=name, async_batcher_outcome=outcome
        ).values()
    }
    for field, family in OTHERS.items():
        [found[field]] = samples(page, family, async_batcher_name=name).values()
    return found


def samples(page: str, family: str, **labels: str) -> dict[str, float]:
    """Sum the samples of a family that have these labels, by their names; a histogram's buckets left out."""
    found: dict[str, float] = defaultdict(float)
    for metric in text_string_to_metric_families(page):
        for sample in metric.samples:
            if (
                metric.name == family
                and "le" not in sample.labels
                and labels.items() <= sample.labels.items()
            ):
                found[sample.name] += sample.value
    return found


async def test_no_client_chooses_a_label(tmp_path: Path) -> None:
    """Neither by a host, nor by a path, nor by a method: else each could add series until there is no memory."""
    command = [str(HERE / "traced_app.py"), "async", str(tmp_path / "events.sqlite"), "no gate"]
    with running(command, tmp_path) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=50) as client:
            await client.get("/stats", headers={"Host": "chosen.example"})
            await client.get("/chosen/path?chosen=query", headers={"User-Agent": "chosen"})
            await client.request("CHOSEN", "/stats")
            page = await client.get("/metrics", headers={"Accept": OPENMETRICS})
    assert page.headers["content-type"].startswith("application/openmetrics-text")
    durations = {
        tuple(sorted(sample.labels.items()))
        for metric in openmetrics(page.text)  # type: ignore[no-untyped-call]  # it ships none
        if metric.name == "http_server_request_duration_seconds"
        for sample in metric.samples
        if "le" not in sample.labels
    }
    assert len(durations) == 3
    assert "chosen" not in page.text.lower()


class SlowMetric(Collector):
    """A metric of the process's own that takes as long as the test wants."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun, self.go_on = threading.Event(), threading.Event()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Generator[Metric]:
        self.asked += 1
        self.begun.set()
        self.go_on.wait(50)  # it ends also where it is made on the event loop
        yield Metric("held", "", "gauge")


async def test_a_slow_page_holds_up_no_request_and_no_two_are_made_at_a_time(tmp_path: Path) -> None:
    """It is made in a thread; OpenTelemetry's reader would give two that overlap each other's series."""
    held = SlowMetric()
    app = create_app(tmp_path / "events.sqlite", prediction_processor=total)
    REGISTRY.register(held)
    try:
        async with serving(app) as client, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.get, "/metrics")
            await anyio.to_thread.run_sync(held.begun.wait)
            assert (await client.post("/predict", json={"row": [1, 2]})).json() == {"prediction": 3.0}
            at_a_time = held.asked
            held.go_on.set()
    finally:
        REGISTRY.unregister(held)
    assert (at_a_time, held.asked) == (1, 3)


async def test_an_app_of_yours_has_the_page_too(tmp_path: Path) -> None:
    """With what its process counts, for whoever has set nothing up; scrapes at the same time are answered."""
    app = create_app(tmp_path / "events.sqlite", prediction_processor=total)
    async with serving(app) as client:
        pages = await asyncio.gather(*(client.get("/metrics") for _ in range(5)))
    for page in pages:
        assert page.headers["content-type"].startswith("text/plain; version=")
        assert "python_info" in {metric.name for metric in text_string_to_metric_families(page.text)}
    answers = app.openapi()["paths"]["/metrics"]["get"]["responses"]
    assert set(answers) == {"200", "500"}
    assert set(answers["200"]["content"]) == {"text/plain", "application/openmetrics-text"}


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text;version=abc",
        "text/plain;version=1.x",
        "application/openmetrics-text;q=x",
        ";,=",
    ],
)
async def test_a_format_that_no_scraper_asks_for_is_answered(tmp_path: Path, accept: str) -> None:
    """Any client may ask for a version that is no number: it gets a page, and nothing is logged as a fault."""
    app = create_app(tmp_path / "events.sqlite", prediction_processor=total)
    async with serving(app) as client:
        page = await client.get("/metrics", headers={"Accept": accept})
    assert (page.status_code, "python_info" in page.text) == (200, True)
