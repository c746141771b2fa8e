"""The HTTP service where its collector hangs, is down, or was never asked for: no request and no end is held up."""

import asyncio
import re
import signal
import time
from pathlib import Path

import httpx
import pytest
from otlp_collector import Collector, collecting, hanging, refusing
from service_process import HERE, Process, running

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]

EXPORT_AT_ONCE = {
    "OTEL_BSP_SCHEDULE_DELAY": "1",
    "OTEL_METRIC_EXPORT_INTERVAL": "1",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "60",
}
LOST = "telemetry that was not sent within 2.0 s of the end is lost"
UNBOUNDED = 30
"""Seconds that the SDK's providers wait for their exporters, where nobody bounds it."""


def command(folder: Path) -> list[str]:
    return [str(HERE / "traced_app.py"), "async", str(folder / "events.sqlite"), str(folder / "no gate")]


async def answers(url: str, requests: int) -> list[int]:
    async with httpx.AsyncClient(base_url=url, timeout=50) as client:
        sent = (client.post("/predict", json={"row": [number]}) for number in range(requests))
        return [answer.status_code for answer in await asyncio.gather(*sent)]


async def end(process: Process) -> float:
    """Give the seconds from SIGTERM to a good end."""
    process.signal(signal.SIGTERM)
    since = time.monotonic()
    assert await process.ends() == 0, process.said
    assert "Traceback" not in process.said
    return time.monotonic() - since


async def test_a_collector_that_hangs_or_is_down_harms_no_request_and_holds_no_end(tmp_path: Path) -> None:
    """Spans go to one that never answers, metrics to one that is not there: the end takes its two seconds for them."""
    with hanging() as silent, refusing() as gone:
        variables = EXPORT_AT_ONCE | {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{silent}/v1/traces",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{gone}/v1/metrics",
        }
        with running(command(tmp_path), tmp_path, variables=variables) as process:
            assert await answers(process.url, 50) == [200] * 50
            took = await end(process)
    assert LOST in process.said
    assert took < UNBOUNDED / 2


async def test_the_variables_say_what_arrives_and_the_end_sends_it(tmp_path: Path) -> None:
    """No exporter's turn has come: the end sends it, compressed, with the headers and the names that they say.

    Sampled are the requests whose trace is, and none of those that come without one; probes never.
    """
    with (
        collecting() as collector,
        running(command(tmp_path), tmp_path, variables=FOR_A_TENANT | address(collector)) as process,
    ):
        assert await answers(process.url, 5) == [200] * 5
        trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
        async with httpx.AsyncClient(
            base_url=process.url, headers={"traceparent": trace}, timeout=50
        ) as client:
            for path in ("/stats", "/livez", "/readyz", "/metrics"):
                assert (await client.get(path)).status_code == 200
        assert collector.headers == []
        await end(process)
    assert LOST not in process.said
    [request] = collector.spans()
    assert (request.name, request.parent, request.service) == ("GET /stats", "cd" * 8, "till")
    assert "http.server.request.duration" in collector.metric_names()
    assert {(sent["content-encoding"], sent["x-tenant"]) for sent in collector.headers} == {("gzip", "shop")}


def address(collector: Collector) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}


FOR_A_TENANT = {
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=shop",
    "OTEL_RESOURCE_ATTRIBUTES": "service.name=till,deployment.environment.name=test",
    "OTEL_BSP_SCHEDULE_DELAY": "600000",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0",
}


WATCHED = """
import runpy, sys, threading

def watch(event, arguments):
    if event == "socket.connect":
        sys.stderr.write(f"connects to {arguments[1]}\\n")

def start(thread, start=threading.Thread.start):
    sys.stderr.write(f"starts {thread.name}\\n")
    start(thread)

sys.addaudithook(watch)
threading.Thread.start = start
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


async def test_without_a_variable_nothing_starts(tmp_path: Path) -> None:
    """No connection to localhost:4318 or elsewhere, and no thread of an exporter's."""
    with running(["-c", WATCHED, *command(tmp_path)], tmp_path) as process:
        assert await answers(process.url, 5) == [200] * 5
        await end(process)
    started = re.findall("^starts (.*)", process.said, re.MULTILINE)
    assert "connects to" not in process.said
    assert [name for name in started if name.startswith("Otel")] == []
    assert "events_0" in started  # the watch works
