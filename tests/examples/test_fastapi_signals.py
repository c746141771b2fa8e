"""The HTTP service in a process of its own: SIGTERM, SIGINT and SIGKILL, under load."""

import asyncio
import signal
from pathlib import Path

import anyio
import httpx
import pytest
from app_serving import RawRequest, serving, stored, total
from service_process import Held, Load, event, payload, served

from examples.recipes.fastapi_app import create_app

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


async def test_sigterm_under_load_loses_no_event_and_leaves_no_request_without_an_answer(
    tmp_path: Path, held: Held
) -> None:
    """The queue drains though clients go on: 200 is stored, 503 is not, and what got no answer never got in."""
    with served(tmp_path, held, drain_delay=0.1) as process:
        load = Load(process.url)
        predicting = await RawRequest.post(process.url, "/predict", {"row": [-1]})
        async with anyio.create_task_group() as group:
            group.start_soon(load.run, 16, 100)
            async with held.batch():
                await load.under_way.wait()
                process.signal(signal.SIGTERM)
                await load.refused.wait()
        status, headers, body = await predicting.answer()
        code = await process.ends()
        await predicting.leave()
    assert (status, body) == (200, {"prediction": -1.0})
    assert headers["connection"] == "close"
    assert code == 0, process.said
    assert "Traceback" not in process.said
    refused = load.with_status(503)
    assert load.with_status(200) | refused == set(load.answers)
    assert all(load.answers[key].json()["new"] for key in load.with_status(200))
    assert all(load.answers[key].json()["withdrawn"] for key in refused)
    assert stored(tmp_path / "events.sqlite") == {key: payload(key) for key in load.with_status(200)}


async def test_from_sigterm_on_it_is_not_ready_and_goes_on_serving_for_the_delay(
    tmp_path: Path, held: Held
) -> None:
    """Balancers see the 503 while clients are served; a second signal cuts the delay and the drain short."""
    with served(tmp_path, held, drain_delay=60) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=50) as client:
            assert (await client.get("/readyz")).json() == {"status": "ready"}
            process.signal(signal.SIGTERM)
            await process.says("Ready no more")
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()) == (503, {"status": "closing"})
            assert ready.headers["connection"] == "close"
            assert (await client.get("/livez")).status_code == 200
            assert (await client.post("/predict", json={"row": [1, 2]})).json() == {"prediction": 3.0}
            assert (await client.post("/events", json=event("a"))).json()["new"] is True
        running = await RawRequest.post(process.url, "/predict", {"row": [-1]})
        async with held.batch():
            waiting = await RawRequest.post(process.url, "/predict", {"row": [2]})
            process.signal(signal.SIGTERM)
            answers = [await running.answer(), await waiting.answer()]
        code = await process.ends()
        await running.leave()
        await waiting.leave()
    assert [(status, body["error"], body["withdrawn"]) for status, _, body in answers] == [
        (503, "BatcherStopped", False),
        (503, "BatcherStopped", True),
    ]
    assert code == 0, process.said
    assert stored(tmp_path / "events.sqlite") == {"a": payload("a")}


async def test_after_the_grace_everybody_is_told_and_the_process_ends(tmp_path: Path, held: Held) -> None:
    """By SIGINT too. A model that hangs costs the grace, and a body that never ends a second."""
    with served(tmp_path, held, grace=0.2) as process:
        slow = await RawRequest.begin(process.url, "POST /events HTTP/1.1\r\nContent-Length: 100", b"{")
        running = await RawRequest.post(process.url, "/predict", {"row": [-1]})
        async with held.batch():
            process.signal(signal.SIGINT)
            told = await running.answer()
            await process.says("Cancel 1 running task")
            late = await slow.answer()
        code = await process.ends()
        await running.leave()
        await slow.leave()
    assert (told[0], told[2]["withdrawn"]) == (503, False)
    assert (late[0], late[2]["error"], late[2]["withdrawn"]) == (503, "BatcherStopped", True)
    assert code == 0, process.said


async def test_sigkill_under_load_leaves_whole_events_and_retries_are_harmless(
    tmp_path: Path, held: Held
) -> None:
    """What was answered is stored, what is stored is whole, and the next life takes each id once."""
    database = tmp_path / "events.sqlite"
    with served(tmp_path, held) as process:
        load = Load(process.url)
        async with anyio.create_task_group() as group:
            group.start_soon(load.run, 16, 100)
            await load.under_way.wait()
            process.signal(signal.SIGKILL)
        await process.ends()
    left = stored(database)
    sent = set(load.answers) | set(load.unanswered)
    assert load.with_status(200) == set(load.answers)
    assert set(load.answers) <= set(left) <= sent
    assert all(left[key] == payload(key) for key in left)
    async with serving(create_app(database, prediction_processor=total)) as client:
        answers = await asyncio.gather(*(client.post("/events", json=event(key)) for key in sorted(sent)))
    assert {answer.json()["id"]: answer.json()["new"] for answer in answers} == {
        key: key not in left for key in sent
    }
    assert stored(database) == {key: payload(key) for key in sent}
