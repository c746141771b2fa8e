"""The HTTP service over a real server: bad input is a documented status, in a body of the documented shape."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from app_serving import RawRequest, listening, serving, stored, total

from examples.recipes.body_limit import MAX_BODY
from examples.recipes.fastapi_app import MAX_ROW, create_app
from examples.recipes.http_answers import FAULTS_TOLD

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


def check_shape(schema: dict[str, Any], path: str, method: str, status: int, body: Any) -> None:
    """Hold the body against what OpenAPI says of this status."""
    described = schema["paths"][path][method]["responses"][str(status)]["content"]["application/json"]
    jsonschema.validate(body, described["schema"] | {"components": schema["components"]})


def nested(depth: int) -> str:
    return '{"id": "deep", "payload": ' + "[" * depth + "]" * depth + "}"


BAD = [
    ("/predict", '{"row": [1], "rows": []}', 422),
    ("/predict", json.dumps({"row": [0] * (MAX_ROW + 1)}), 422),
    ("/predict", json.dumps({"row": ["a"] * MAX_ROW}), 422),
    ("/predict", json.dumps({"row": [[1]]}), 422),
    ("/predict", '{"row": [' + "1" * 400 + "]}", 422),
    ("/predict", '{"row": [' + "1" * 5000 + "]}", 400),
    ("/predict", '{"row": [1]} and more', 422),
    ("/predict", '{"row": "\xff"}', 400),
    ("/predict", "", 422),
    ("/predict", "null", 422),
    ("/events", '{"id": "a", "payload": 1, "at": 2}', 422),
    ("/events", '{"id": "a", "payload": 1, "\\ud800": 2}', 422),
    ("/events", json.dumps({"id": "a" * 201, "payload": 1}), 422),
    ("/events", nested(300), 422),
    ("/events", nested(20_000), 400),
    ("/events", json.dumps({"id": "a", "payload": "p" * MAX_BODY}), 413),
    ("/predict", json.dumps({"row": [0.5] * MAX_BODY}), 413),
]


@pytest.mark.real_time
async def test_bad_input_is_answered_in_the_shape_that_the_schema_says(database: Path) -> None:
    """Each is refused by itself, in JSON, and reaches no batch."""
    app = create_app(database, prediction_processor=total)
    async with listening(app) as url, httpx.AsyncClient(base_url=url, headers=JSON, timeout=50) as client:
        for path, text, status in BAD:
            answer = await client.post(path, content=text.encode("latin-1"))
            assert answer.status_code == status, (path, text[:40], answer.text)
            assert len(answer.content) < 10_000
            check_shape(app.openapi(), path, "post", status, answer.json())
        counts = (await client.get("/stats")).json()
    assert {batcher["accepted"] for batcher in counts.values()} == {0}
    assert stored(database) == {}


async def test_a_422_lists_a_few_faults_only(database: Path) -> None:
    """A small request can't ask for a large answer."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        answer = await client.post("/predict", json={"row": ["a"] * MAX_ROW})
    assert len(answer.json()["detail"]) == FAULTS_TOLD


@pytest.mark.real_time
async def test_the_good_answers_have_their_shape_too(database: Path) -> None:
    """Of each route."""
    app = create_app(database, prediction_processor=total)
    async with serving(app) as client:
        requests = [("post", "/predict", {"row": [1]}), ("post", "/events", {"id": "a", "payload": None})]
        requests += [("get", path, {}) for path in ("/stats", "/livez", "/readyz")]
        for method, path, body in requests:
            answer = await client.request(method, path, json=body or None)
            assert answer.status_code == 200
            check_shape(app.openapi(), path, method, 200, answer.json())


@pytest.mark.real_time
async def test_the_largest_body_is_read(database: Path) -> None:
    """The limit itself is no fault, declared or in chunks."""
    event = {"id": "a", "payload": ""}
    event["payload"] = "p" * (MAX_BODY - len(json.dumps(event)))
    text = json.dumps(event).encode()
    assert len(text) == MAX_BODY

    async def in_chunks() -> Any:
        for start in range(0, MAX_BODY, 1000):
            yield text[start : start + 1000]

    app = create_app(database, prediction_processor=total)
    async with listening(app) as url, httpx.AsyncClient(base_url=url, headers=JSON, timeout=50) as client:
        assert (await client.post("/events", content=text)).json() == {"id": "a", "new": True}
        assert (await client.post("/events", content=in_chunks())).json() == {"id": "a", "new": False}


@pytest.mark.real_time
async def test_a_body_that_declares_too_much_is_refused_unread(database: Path) -> None:
    """The answer comes though not a byte of the body has been sent; the connection serves on behind it."""
    async with listening(create_app(database, prediction_processor=total)) as url:
        request = await RawRequest.begin(url, f"POST /events HTTP/1.1\r\nContent-Length: {10**7}")
        status, headers, body = await request.answer()
        assert (status, body["error"], body["withdrawn"]) == (413, "BodyTooLarge", True)
        assert "connection" not in headers
        await request.send(b" " * 10**7)
        await request.send(b"GET /livez HTTP/1.1\r\nHost: it\r\n\r\n")
        assert (await request.answer())[0] == 200
        await request.leave()


@pytest.mark.real_time
async def test_a_body_in_chunks_is_refused_before_its_end(database: Path) -> None:
    """No length is declared and the end never comes: the answer does, with the chunk that passes the limit."""
    chunk = b"%x\r\n%s\r\n" % (1000, b" " * 1000)
    async with listening(create_app(database, prediction_processor=total)) as url:
        request = await RawRequest.begin(url, "POST /events HTTP/1.1\r\nTransfer-Encoding: chunked")
        answering = asyncio.create_task(request.answer())
        await request.send(chunk * (MAX_BODY // 1000 + 1))
        assert (await answering)[0] == 413
        await request.leave()


async def test_an_unknown_path_or_method_is_answered_in_json(database: Path) -> None:
    """Also with a slash behind it: no redirect without a body."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        assert (await client.post("/predict/", json={"row": [1]})).json() == {"detail": "Not Found"}
        assert (await client.get("/predict")).json() == {"detail": "Method Not Allowed"}
