"""The HTTP service over a real server and real connections: busy, late, failed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from app_serving import FAILED, Gate, RawRequest, Requests, Rows, listening, total

from examples.recipes.fastapi_app import create_app
from examples.recipes.operations import backend_call

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]

QUEUE = 1024
BATCH = 64


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


async def test_a_full_queue_is_a_503_with_retry_after(database: Path) -> None:
    """One batch runs and the queue behind it is full: the next is refused at once, and never processed."""
    gate = Gate()
    app = create_app(database, prediction_processor=gate.model)
    async with listening(app) as url:
        first = await RawRequest.post(url, "/predict", {"row": [1]})
        await gate.begun[0].wait()
        held = [asyncio.create_task(app.state.service.predict([2.0])) for _ in range(QUEUE)]
        await asyncio.sleep(0)  # each has its place now
        refused = await RawRequest.post(url, "/predict", {"row": [-1]})
        status, headers, body = await refused.answer()
        assert (status, headers["retry-after"]) == (503, "1")
        assert (body["error"], body["withdrawn"]) == ("QueueFull", True)
        for opened in gate.open:
            opened.set()
        assert (await first.answer())[0] == 200
        assert set(await asyncio.gather(*held)) == {2.0}
        await first.leave()
        await refused.leave()
    assert not any([-1.0] in batch for batch in gate.batches)
    assert max(map(len, gate.batches)) == BATCH


async def test_a_response_deadline_says_whether_the_row_ran(database: Path) -> None:
    """Two wait when their time is up: one in a running batch, one in the queue behind it."""
    gate = Gate()
    app = Requests(create_app(database, prediction_processor=gate.model, response_timeout=0.5))
    async with listening(app) as url:
        running = await RawRequest.post(url, "/predict", {"row": [1]})
        await gate.begun[0].wait()
        waiting = await RawRequest.post(url, "/predict", {"row": [2]})
        answers = [await running.answer(), await waiting.answer()]
        gate.open[0].set()
        await running.leave()
        await waiting.leave()
    assert [(status, body["error"], body["withdrawn"]) for status, _, body in answers] == [
        (504, "ResponseDeadlineExceeded", False),
        (504, "ResponseDeadlineExceeded", True),
    ]
    assert gate.batches == [[[1.0]]]


async def test_a_backend_deadline_and_a_backends_own_timeout_are_two_things(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first is a 504 with its own explanation, the second a 500 that says nothing."""

    async def model(rows: Rows) -> list[float]:
        if rows[0][0] < 0:
            raise TimeoutError("secret")
        await anyio.sleep_forever()
        return await total(rows)

    async def processor(rows: Rows) -> list[float]:
        return await backend_call(model, rows, timeout=0.05)

    app = create_app(database, prediction_processor=processor, response_timeout=50)
    async with listening(app) as url, httpx.AsyncClient(base_url=url, timeout=50) as client:
        late = await client.post("/predict", json={"row": [1]})
        failed = await client.post("/predict", json={"row": [-1]})
    assert (late.status_code, late.json()["error"]) == (504, "BackendDeadlineExceeded")
    assert late.json()["withdrawn"] is False
    assert (failed.status_code, failed.json()) == (500, FAILED)
    assert "secret" in caplog.text


class Panic(BaseException):
    """What an extension in another language may raise."""


@pytest.mark.parametrize(
    "error", [ValueError("secret"), Panic("secret")], ids=lambda error: type(error).__name__
)
async def test_a_failed_request_keeps_its_connection(
    database: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """A 500 and, sent behind it before it came, an event: both are answered, in order, on one connection."""

    async def failing(rows: Rows) -> list[float]:
        raise error

    async with listening(create_app(database, prediction_processor=failing)) as url:
        connection = await RawRequest.post(url, "/predict", {"row": [1]})
        text = json.dumps({"id": "a", "payload": 1}).encode()
        head = f"POST /events HTTP/1.1\r\nHost: it\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        await connection.send(head.encode() + b"\r\n\r\n" + text)
        first, second = await connection.answer(), await connection.answer()
        await connection.leave()
    assert (first[0], first[2]) == (500, FAILED)
    assert "connection" not in first[1]
    assert (second[0], second[2]) == (200, {"id": "a", "new": True})
    assert "a request failed" in caplog.text


async def test_a_request_that_the_server_cancels_at_its_end_is_told(database: Path) -> None:
    """Where a server has lost its patience: a 503 in JSON, and the truth that the outcome is unknown."""
    gate = Gate()
    app = create_app(database, prediction_processor=gate.model)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not sent:
            sent.append(None)
            return {"type": "http.request", "body": b'{"row": [1]}'}
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    async with app.router.lifespan_context(app):
        request = asyncio.create_task(app(scope, receive, send))
        await gate.begun[0].wait()
        request.cancel()
        await asyncio.wait([request])
        gate.open[0].set()
    assert request.cancelled()
    assert sent[1]["status"] == 503
    assert json.loads(sent[2]["body"])["withdrawn"] is False
