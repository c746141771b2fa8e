"""The HTTP service over a real server: answers, a failed request, SIGTERM and SIGKILL."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from app_serving import serving, stored, total

from examples.recipes.fastapi_app import create_app

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def uvicorn(folder: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Serve the public program on a free port of loopback."""
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(ROOT / "tests" / "programs"),
        "http_service:app",
    ]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--no-access-log"],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            for line in server.stderr:
                if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                    break
            else:
                pytest.fail("the server did not start")
            yield server, found.group(1)
        finally:
            server.kill()


def test_a_real_server_answers_and_stores_before_it_ends(tmp_path: Path) -> None:
    """Over loopback: predictions, events, and after SIGTERM an orderly end with every event stored."""
    with uvicorn(tmp_path) as (server, url), httpx.Client(base_url=url, timeout=10) as client:
        assert client.post("/predict", json={"row": [1, 2, 3]}).json() == {"prediction": 6.0}
        for n in range(5):
            assert client.post("/events", json={"id": f"e{n}", "payload": n}).json()["new"] is True
        assert client.get("/readyz").json() == {"status": "ready"}
        client.close()
        server.send_signal(signal.SIGTERM)
        assert server.stderr is not None
        said = server.stderr.read()
        server.wait(timeout=10)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    assert stored(tmp_path / "batcher-deadlines.sqlite") == {f"e{n}": n for n in range(5)}


def test_a_failed_request_keeps_its_connection(tmp_path: Path) -> None:
    """A 500 and, sent behind it before it came, an event: both are answered, in order, on one connection."""
    requests = [("/predict", b'{"row": [1e308, 1e308]}'), ("/events", b'{"id": "a", "payload": 1}')]
    with uvicorn(tmp_path) as (_, url):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with contextlib.closing(socket.create_connection(address, timeout=10)) as connection:
            for path, body in requests:
                head = f"POST {path} HTTP/1.1\r\nHost: it\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answered = b""
            while answered.count(b"}") < 2 and (more := connection.recv(65536)):
                answered += more
    assert re.findall(rb"HTTP/1.1 (\d+)", answered) == [b"500", b"200"]
    assert b"connection: close" not in answered.lower()
    assert answered.endswith(b'{"id":"a","new":true}')


def test_a_killed_server_leaves_whole_events_and_a_retry_is_harmless(tmp_path: Path) -> None:
    """After SIGKILL what was answered is stored, and the next life knows it."""
    event, database = {"id": "once", "payload": [1, 2]}, tmp_path / "batcher-deadlines.sqlite"
    with uvicorn(tmp_path) as (server, url):
        assert httpx.post(f"{url}/events", json=event, timeout=10).json()["new"] is True
        server.kill()
        server.wait(timeout=10)

    async def next_life() -> httpx.Response:
        async with serving(create_app(database, prediction_processor=total)) as client:
            return await client.post("/events", json=event)

    assert asyncio.run(next_life()).json() == {"id": "once", "new": False}
    assert stored(database) == {"once": [1, 2]}
