"""The HTTP service over a real server: a client that leaves frees its place, and harms nobody."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from app_serving import Gate, RawRequest, Requests, listening, stored, total
from fastapi import Request, Response
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint

from examples.recipes.client_gone import ClientGone, while_connected
from examples.recipes.fastapi_app import create_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio", "uvloop"), pytest.mark.real_time]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


async def counts(url: str, batcher: str = "predictions") -> dict[str, int]:
    async with httpx.AsyncClient(base_url=url, timeout=50) as client:
        found: dict[str, int] = (await client.get("/stats")).json()[batcher]
        return found


async def test_a_client_that_leaves_the_queue_takes_its_row_along(database: Path) -> None:
    """The row is never processed, its place is free at once, and who came with it gets its answer."""
    gate = Gate()
    app = Requests(create_app(database, prediction_processor=gate.model))
    async with listening(app) as url:
        running = await RawRequest.post(url, "/predict", {"row": [1]})
        await gate.begun[0].wait()
        leaving = await RawRequest.post(url, "/predict", {"row": [2]}, "leaving")
        staying = await RawRequest.post(url, "/predict", {"row": [3]}, "staying")
        await app.waits("leaving").wait()
        await app.waits("staying").wait()
        await leaving.leave()
        await app.ended("leaving").wait()
        assert (await counts(url))["withdrawn"] == 1
        assert (await counts(url))["waiting"] == 1
        for opened in gate.open:
            opened.set()
        assert (await running.answer())[2] == {"prediction": 1}
        assert (await staying.answer())[2] == {"prediction": 3}
        await running.leave()
        await staying.leave()
    assert gate.batches == [[[1.0]], [[3.0]]]


async def test_a_client_that_leaves_a_running_batch_harms_no_sibling(database: Path) -> None:
    """The batch goes on, the sibling gets its answer, and only the result of who left is dropped."""
    gate = Gate()
    app = Requests(create_app(database, prediction_processor=gate.model))
    async with listening(app) as url:
        first = await RawRequest.post(url, "/predict", {"row": [1]})
        await gate.begun[0].wait()
        leaving = await RawRequest.post(url, "/predict", {"row": [2]}, "leaving")
        await app.waits("leaving").wait()
        staying = await RawRequest.post(url, "/predict", {"row": [3]}, "staying")
        await app.waits("staying").wait()
        gate.open[0].set()
        await gate.begun[1].wait()
        await leaving.leave()
        await app.ended("leaving").wait()
        assert (await counts(url))["abandoned"] == 1
        gate.open[1].set()
        assert (await staying.answer())[2] == {"prediction": 3}
        await first.leave()
        await staying.leave()
    assert gate.batches == [[[1.0]], [[2.0], [3.0]]]


async def test_a_client_that_leaves_with_its_event_is_counted_once(database: Path) -> None:
    """Whether its transaction had begun or not: the counts say which, and the database has it accordingly."""
    app = create_app(database, prediction_processor=total)
    watched = Requests(app)
    release = threading.Event()
    async with listening(watched) as url:
        assert (await counts(url, "events"))["accepted"] == 0  # started
        app.state.service._store.executor.submit(release.wait)
        leaving = await RawRequest.post(url, "/events", {"id": "a", "payload": 1}, "leaving")
        await watched.waits("leaving").wait()
        await leaving.leave()
        await watched.ended("leaving").wait()
        then = await counts(url, "events")
        release.set()
    assert then["withdrawn"] + then["abandoned"] == 1
    assert stored(database) == ({"a": 1} if then["abandoned"] else {})


async def _pass_on(request: Request, call_next: RequestResponseEndpoint) -> Response:
    return await call_next(request)


async def _read_and_pass_on(request: Request, call_next: RequestResponseEndpoint) -> Response:
    await request.body()
    return await call_next(request)


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("dispatch", [_pass_on, _read_and_pass_on])
async def test_it_hears_the_disconnect_under_a_base_http_middleware(
    database: Path, dispatch: Callable[[Request, RequestResponseEndpoint], Awaitable[Response]]
) -> None:
    """Also where the middleware has read the body."""
    gate = Gate()
    app = create_app(database, prediction_processor=gate.model)
    app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    watched = Requests(app)
    async with listening(watched) as url:
        leaving = await RawRequest.post(url, "/predict", {"row": [1]}, "leaving")
        await gate.begun[0].wait()
        await leaving.leave()
        await watched.ended("leaving").wait()
        assert (await counts(url))["abandoned"] == 1
        gate.open[0].set()


class Replay:
    """A middleware that reads the body and repeats it for ever: what the server says, nobody hears."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self.left = anyio.Event()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await receive()

        async def repeat() -> "Message":
            return body

        async def send_on(message: "Message") -> None:
            assert (await receive())["type"] == "http.disconnect"
            self.left.set()

        await self._app(scope, repeat, send_on if scope["method"] == "POST" else send)


@pytest.mark.backends("asyncio")
async def test_under_a_middleware_that_replays_the_body_the_work_runs_to_its_end(database: Path) -> None:
    """It can't hear the disconnect, and neither spins nor takes the replay for one."""
    gate = Gate()
    middleware = Replay(create_app(database, prediction_processor=gate.model))
    async with listening(middleware) as url:
        leaving = await RawRequest.post(url, "/predict", {"row": [1]})
        await gate.begun[0].wait()
        await leaving.leave()
        assert (await counts(url))["running"] == 1
        gate.open[0].set()
        await middleware.left.wait()
        assert (await counts(url))["succeeded"] == 1


async def test_work_that_fails_or_is_cancelled_does_so_through_the_helper() -> None:
    """Its own error passes unchanged, an outside cancellation wins, and no task is left behind."""

    async def never() -> "Message":
        await anyio.sleep_forever()
        raise AssertionError

    async def fail() -> None:
        raise ValueError("its own")

    request = Request({"type": "http"}, never)
    with pytest.raises(ValueError, match="its own"):
        await while_connected(request, fail())
    with anyio.move_on_after(0.01) as scope:
        await while_connected(request, anyio.sleep_forever())
    assert scope.cancelled_caught


async def test_who_left_before_the_work_began_ends_it() -> None:
    """The disconnect that has come already counts; a body that was not read is read over."""
    messages: list[Message] = [
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b"},
        {"type": "http.disconnect"},
    ]

    async def receive() -> "Message":
        return messages.pop(0)

    with pytest.raises(ClientGone):
        await while_connected(Request({"type": "http"}, receive), anyio.sleep_forever())
    assert messages == []
