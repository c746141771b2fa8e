"""The HTTP service in a process of its own, for the tests of signals; and clients that load it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import httpx

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | {
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": str(ROOT),
}


class Process:
    """One server, and what it says on its error stream."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        assert server.stderr is not None
        self._server = server
        self._lines = server.stderr
        self.said = ""
        self.url = ""

    async def says(self, pattern: str) -> None:
        """Wait for a line that has the pattern."""
        await anyio.to_thread.run_sync(self.hears, pattern)

    async def ends(self) -> int:
        """Wait for its end, and return its status."""
        return await anyio.to_thread.run_sync(self._end)

    def hears(self, pattern: str) -> re.Match[str]:
        """Read on until a line has the pattern."""
        for line in self._lines:
            self.said += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the server ended without {pattern!r}: {self.said}")

    def signal(self, number: signal.Signals) -> None:
        """Send it to the server, which may be its starter's child."""
        starter = self._server.pid
        children = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
        os.kill(int(children[0]) if children else starter, number)

    def _end(self) -> int:
        self.said += self._lines.read()
        return self._server.wait(timeout=50)


@contextlib.contextmanager
def running(
    command: Sequence[str],
    folder: Path,
    under: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Process]:
    """Run a server, once it serves; whatever happens, it ends with the block."""
    with starting(command, folder, under, variables) as process:
        process.url = process.hears(r"running on (http://127\.0\.0\.1:\d+)").group(1)
        yield process


@contextlib.contextmanager
def starting(
    command: Sequence[str],
    folder: Path,
    under: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Process]:
    """Start a server, under a program that starts programs; whatever happens, it ends with the block."""
    with subprocess.Popen(
        [*under, sys.executable, *command],
        cwd=folder,
        env={**ENVIRONMENT, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            yield Process(server)
        finally:
            server.kill()


class Held:
    """The pipe at which a batch of `served_app.py` waits."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"
        os.mkfifo(self.path)

    @contextlib.asynccontextmanager
    async def batch(self) -> AsyncGenerator[None]:
        """Wait until a batch has come to the gate; it is let go at the block's end."""
        with await anyio.to_thread.run_sync(self.path.open, "w"):
            yield


@contextlib.contextmanager
def served(
    folder: Path, held: Held, drain_delay: float = 0, grace: float = 20, under: Sequence[str] = ()
) -> Generator[Process]:
    arguments = [str(folder / "events.sqlite"), str(held.path), str(drain_delay), str(grace)]
    with running([str(HERE / "served_app.py"), *arguments], folder, under) as process:
        yield process


class Load:
    """Clients that send events of their own, one after the other, and keep what became of each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.answers: dict[str, httpx.Response] = {}
        self.unanswered: dict[str, httpx.TransportError] = {}
        self.under_way = anyio.Event()
        self.refused = anyio.Event()

    async def run(self, clients: int, enough: int) -> None:
        """Send until the server is gone; `under_way` is set after so many answers, `refused` at the first 503."""
        async with (
            httpx.AsyncClient(base_url=self._url, timeout=50) as client,
            anyio.create_task_group() as group,
        ):
            for name in range(clients):
                group.start_soon(self._send, client, name, enough)

    async def _send(self, client: httpx.AsyncClient, name: int, enough: int) -> None:
        number = 0
        while True:
            number += 1
            key = f"{name}-{number}"
            try:
                answer = await client.post("/events", json=event(key))
            except httpx.TransportError as error:
                self.unanswered[key] = error
                return
            self.answers[key] = answer
            if len(self.answers) == enough:
                self.under_way.set()
            if answer.status_code == 503:
                self.refused.set()

    def with_status(self, status: int) -> set[str]:
        return {key for key, answer in self.answers.items() if answer.status_code == status}


def event(key: str) -> dict[str, Any]:
    return {"id": key, "payload": payload(key)}


def payload(key: str) -> dict[str, str]:
    """Make a payload that shows whether it is whole."""
    return {"of": key, "text": key * 50}
