"""Two processes of uvicorn's: each has a batcher of its own, so batches form apart and caps add up."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

SERVICE = '''
import asyncio
import os
from fastapi import FastAPI
from async_batcher import AsyncBatcher

async def gated(numbers: list[int]) -> list[dict[str, int]]:
    """Say on the test's socket that a batch has begun, and wait there for its word."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["GATE"]))
    writer.write(bytes([len(numbers)]))
    await reader.readexactly(1)
    writer.close()
    return [{"process": os.getpid(), "size": len(numbers)} for _ in numbers]

batcher = AsyncBatcher.from_callable(gated, max_batch_size=2, max_queue_time=50, concurrency=1)
app = FastAPI()

@app.get("/process")
async def process() -> int:
    return os.getpid()

@app.get("/{number}")
async def ask(number: int) -> dict[str, int]:
    return await batcher.process(number)
'''


@contextlib.contextmanager
def serving(folder: Path, gate: socket.socket) -> Generator[str]:
    """Serve by two workers on a free port of loopback, and end them as after SIGTERM."""
    (folder / "service.py").write_text(SERVICE)
    command = [sys.executable, "-m", "uvicorn", "service:app", "--workers", "2", "--port", "0"]
    command += ["--timeout-worker-healthcheck", "60"]  # A machine that stands still is no worker that hangs.
    with subprocess.Popen(
        [*command, "--no-access-log"],
        cwd=folder,
        env=os.environ | {"GATE": str(gate.getsockname()[1]), "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            found = next(
                match for line in server.stderr if (match := re.search(r"(http://127\.0\.0\.1:\d+)", line))
            )
            started = (line for line in server.stderr if "Application startup complete" in line)
            next(started), next(started)
            yield found[1]
            server.send_signal(signal.SIGTERM)
            said = server.stderr.read()
            assert server.wait(timeout=50) == 0
            assert "Traceback" not in said
        finally:
            if server.poll() is None:
                server.terminate()  # not killed at once: it has its workers to end
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(timeout=10)
                server.kill()


@contextlib.contextmanager
def clients_of_each(url: str, number: int) -> Generator[dict[int, list[httpx.Client]]]:
    """Connect until so many connections lead to each of the two processes.

    The kernel deals them out as it likes, so who has enough is stopped until the other has them too.
    """
    clients: dict[int, list[httpx.Client]] = {}
    with contextlib.ExitStack() as open_clients, contextlib.ExitStack() as stopped:
        while [len(each) for each in clients.values()] != [number] * 2:
            client = open_clients.enter_context(httpx.Client(base_url=url, timeout=50))
            process = int(client.get("/process").text)
            clients.setdefault(process, []).append(client)
            if len(clients[process]) == number:
                stopped.callback(os.kill, process, signal.SIGCONT)
                os.kill(process, signal.SIGSTOP)
        stopped.close()
        yield clients


def test_each_process_has_a_queue_and_a_slot_of_its_own(tmp_path: Path) -> None:
    """Two callers in each make two batches of two, not one of four; both run at once, with `concurrency=1`."""
    with (
        socket.create_server(("127.0.0.1", 0)) as gate,
        serving(tmp_path, gate) as url,
        clients_of_each(url, 2) as clients,
        ThreadPoolExecutor(4) as threads,
    ):
        gate.settimeout(50)
        askers = [client for each in clients.values() for client in each]
        asked = [threads.submit(client.get, f"/{number}") for number, client in enumerate(askers)]
        begun = [gate.accept()[0] for _ in range(2)]  # the second comes while the first still waits
        assert [connection.recv(1) for connection in begun] == [b"\x02", b"\x02"]
        for connection in begun:
            connection.sendall(b"!")
            connection.close()
        answers = [answer.result(50).json() for answer in asked]
    first, second = clients
    assert answers == [{"process": process, "size": 2} for process in (first, first, second, second)]
