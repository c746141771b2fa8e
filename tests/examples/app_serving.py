"""What the tests of the HTTP service share: the app as a server runs it, and what it stored."""

import asyncio
import contextlib
import json
import signal
import socket
import sqlite3
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import uvicorn
from fastapi import FastAPI

from examples.recipes.owned_signals import SIGNALS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Rows = list[list[float]]


FAILED = {
    "error": "InternalServerError",
    "detail": "The service failed on this request: its outcome is unknown.",
    "withdrawn": False,
}


async def total(rows: Rows) -> list[float]:
    return [sum(row) for row in rows]


@contextlib.asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """Start the app as a server does, and give a client that sees a 500 as a 500."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def listening(app: "ASGIApp") -> AsyncGenerator[str]:
    """Serve the app by uvicorn on a free port of loopback, in this process, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="on", ws="none", log_config=None, access_log=False)
        server = _Server(config)
        living = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.end.set()
            await living


@contextlib.contextmanager
def signals_kept() -> Generator[None]:
    """Give the signals back at the end: a server that has ended leaves the next one to the system."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Server(uvicorn.Server):
    """uvicorn, ended by an event: it would look ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.end = anyio.Event()

    async def main_loop(self) -> None:
        await self.end.wait()


class Gate:
    """A model that says when a batch has begun, keeps what it saw, and waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[Rows] = []
        self.begun: list[anyio.Event] = [anyio.Event(), anyio.Event()]
        self.open: list[anyio.Event] = [anyio.Event(), anyio.Event()]

    async def model(self, rows: Rows) -> list[float]:
        turn = len(self.batches)
        self.batches.append(rows)
        if turn < len(self.open):
            self.begun[turn].set()
            await self.open[turn].wait()
        return await total(rows)


class Requests:
    """An app's requests, by the value of their header `x-name`: when each waits in a queue, and when it has ended."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self._waiting: dict[str, anyio.Event] = {}
        self._ended: dict[str, anyio.Event] = {}

    def waits(self, name: str) -> anyio.Event:
        """Give what is set once its handler listens for the disconnect: beside the work, which then waits."""
        return self._waiting.setdefault(name, anyio.Event())

    def ended(self, name: str) -> anyio.Event:
        return self._ended.setdefault(name, anyio.Event())

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        name = dict(scope.get("headers", ())).get(b"x-name", b"").decode()
        body_is_over = False

        async def receive_on() -> "Message":
            nonlocal body_is_over
            if body_is_over:
                self.waits(name).set()
            message = await receive()
            body_is_over = scope["type"] == "http" and not message.get("more_body", False)
            return message

        await self._app(scope, receive_on, send)
        self.ended(name).set()


class RawRequest:
    """A request over a connection of its own, which a test can leave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def begin(cls, url: str, head: str, body: bytes = b"") -> "RawRequest":
        """Send the head's lines, as they are, and the body."""
        host, port = url.removeprefix("http://").split(":")
        request = cls(*await asyncio.open_connection(host, int(port)))
        await request.send(f"{head}\r\nHost: it\r\nContent-Type: application/json\r\n\r\n".encode() + body)
        return request

    @classmethod
    async def post(cls, url: str, path: str, body: Any, name: str = "") -> "RawRequest":
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nX-Name: {name}\r\nContent-Length: {len(text)}"
        return await cls.begin(url, head, text)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read one answer: its status, its headers, and its JSON."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:-2])}
        body = await self._reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, json.loads(body)

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def stored(path: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            name: json.loads(payload)
            for name, payload in connection.execute("SELECT id, payload FROM events")
        }
