"""A batcher behind FastAPI routes that are plain functions, over a real server: `anyio.from_thread.run`."""

import asyncio
import contextlib
import functools
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest
import uvicorn
from fastapi import FastAPI, HTTPException

from async_batcher import AsyncBatcher, QueueFull
from examples.recipes.operations import Intake, ResponseDeadlineExceeded

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, pytest.mark.backends("asyncio")]

THREADS = 40
"""So many worker threads anyio has by default, and so many plain routes run at once."""


class Server(uvicorn.Server):
    """A server that tells when it has begun to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = anyio.Event()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending.set()
        await super().shutdown(sockets)


class Service(NamedTuple):
    """A server that runs, and a client of it."""

    server: Server
    client: httpx.AsyncClient


@contextlib.asynccontextmanager
async def serving(batcher: AsyncBatcher[int, int], ask: Callable[[int], Any]) -> AsyncGenerator[Service]:
    """Serve `GET /{number}` by a plain function, on a free port of loopback, and end as after SIGTERM."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with batcher:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/{number}")
    def read(number: int) -> int:
        try:
            return int(anyio.from_thread.run(ask, number))
        except (QueueFull, ResponseDeadlineExceeded) as error:
            raise HTTPException(503, type(error).__name__) from error

    server = Server(uvicorn.Config(app, log_config=None))
    listening = socket.create_server(("127.0.0.1", 0))  # clients that come before the app wait in its backlog
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    limits = httpx.Limits(max_connections=None)
    async with (
        anyio.create_task_group() as group,
        httpx.AsyncClient(base_url=url, timeout=50, limits=limits) as client,
    ):
        group.start_soon(functools.partial(server.serve, sockets=[listening]))
        try:
            yield Service(server, client)
        finally:
            server.should_exit = True


class Gated:
    """A sync processor that waits in its thread for the test."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began = threading.Semaphore(0)
        self.gate = threading.Event()

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.began.release()
        assert self.gate.wait(50)
        return [item * 2 for item in items]


async def test_plain_routes_share_a_batch() -> None:
    """Eight requests in eight threads: one call of the processor, and each gets its own answer."""
    seen: list[list[int]] = []

    async def double(items: list[int]) -> list[int]:
        seen.append(sorted(items))
        return [item * 2 for item in items]

    batcher = AsyncBatcher.from_callable(double, max_batch_size=8, max_queue_time=50)
    async with serving(batcher, batcher.process) as (_, client):
        answers = await asyncio.gather(*(client.get(f"/{number}") for number in range(8)))
    assert [answer.json() for answer in answers] == [number * 2 for number in range(8)]
    assert seen == [list(range(8))]


async def test_more_requests_than_threads_are_all_served() -> None:
    """A sync processor has threads of its own: routes that wait in all of anyio's can't keep it from running."""
    fn = Gated()
    batcher = AsyncBatcher.from_callable(fn, max_batch_size=8, max_queue_time=0)
    asked: list[int] = []
    all_wait = anyio.Event()

    async def ask(number: int) -> int:
        asked.append(number)
        if len(asked) == THREADS:
            all_wait.set()
        return await batcher.process(number)

    async with serving(batcher, ask) as (_, client), anyio.create_task_group() as group:
        answers: dict[int, int] = {}

        async def get(number: int) -> None:
            answers[number] = (await client.get(f"/{number}")).json()

        for number in range(2 * THREADS):
            group.start_soon(get, number)
        await asyncio.get_running_loop().run_in_executor(None, fn.began.acquire)
        await all_wait.wait()
        fn.gate.set()
    assert answers == {number: number * 2 for number in range(2 * THREADS)}
    assert sorted(number for batch in fn.batches for number in batch) == list(range(2 * THREADS))
    assert max(map(len, fn.batches)) == 8


async def test_a_plain_route_has_its_deadline_and_its_refusal() -> None:
    """Through an intake: a late answer and a full queue are errors that the route can name; siblings go on."""
    fn = Gated()
    batcher = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0)
    intake = Intake(batcher)

    async def ask(number: int) -> int:
        return await intake.process(number, response_timeout=0.05 if number == 2 else None)

    async with serving(batcher, ask) as (_, client), anyio.create_task_group() as group:
        answers: dict[int, httpx.Response] = {}

        async def get(number: int) -> None:
            answers[number] = await client.get(f"/{number}")

        group.start_soon(get, 1)
        await asyncio.get_running_loop().run_in_executor(None, fn.began.acquire)
        late = await client.get("/2")
        assert (late.status_code, late.json()) == (503, {"detail": "ResponseDeadlineExceeded"})
        waiting = await batcher.submit(3)
        refused = await client.get("/4")
        assert (refused.status_code, refused.json()) == (503, {"detail": "QueueFull"})
        fn.gate.set()
        assert await waiting == 6
    assert answers[1].json() == 2
    assert fn.batches == [[1], [3]]


async def test_a_server_that_ends_answers_the_routes_that_wait() -> None:
    """Told to end while a plain route waits for its batch: the answer comes, and then the server is gone."""
    fn = Gated()
    batcher = AsyncBatcher.from_callable(fn, max_queue_time=0)
    async with serving(batcher, batcher.process) as (server, client), anyio.create_task_group() as group:
        answers: list[int] = []

        async def get() -> None:
            answers.append((await client.get("/1")).json())

        group.start_soon(get)
        await asyncio.get_running_loop().run_in_executor(None, fn.began.acquire)
        server.should_exit = True
        await server.ending.wait()
        assert answers == []
        fn.gate.set()
    assert answers == [2]
    assert fn.batches == [[1]]


def test_threads_of_a_program_without_a_loop_share_a_batch() -> None:
    """`start_blocking_portal`: one loop in a thread of its own, for the threads of a WSGI server."""
    seen: list[list[int]] = []

    async def double(items: list[int]) -> list[int]:
        seen.append(sorted(items))
        return [item * 2 for item in items]

    for backend in ("asyncio", "trio"):
        batcher = AsyncBatcher.from_callable(double, max_batch_size=4, max_queue_time=50)
        with (
            anyio.from_thread.start_blocking_portal(backend) as portal,
            portal.wrap_async_context_manager(batcher),
            ThreadPoolExecutor(4) as threads,
        ):
            results = list(threads.map(functools.partial(portal.call, batcher.process), range(4)))
        assert results == [0, 2, 4, 6]
    assert seen == [[0, 1, 2, 3]] * 2
