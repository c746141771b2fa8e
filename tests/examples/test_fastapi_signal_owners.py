"""Who owns the signals of the HTTP service at the moment in which it says what the next one does."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn
from app_serving import Rows, signals_kept, total
from fastapi import FastAPI

from examples.recipes.fastapi_app import create_app
from examples.recipes.owned_drain import DrainingServer

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]


class Moments(logging.Handler):
    """Who has SIGTERM at the moment in which something is said."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, object] = {}
        self._heard = anyio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.owners[record.getMessage()[:13]] = signal.getsignal(signal.SIGTERM)
        self._heard.set()
        self._heard = anyio.Event()

    async def owner(self, words: str) -> object:
        """Wait until this is said, and give who had it."""
        while words not in self.owners:
            await self._heard.wait()
        return self.owners[words]


@pytest.fixture
async def moments() -> AsyncGenerator[Moments]:
    log = logging.getLogger("uvicorn.error")
    found, level = Moments(), log.level
    log.addHandler(found)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(found)
    log.setLevel(level)


async def test_who_reads_that_the_next_signal_ends_it_may_send_it_at_once(
    tmp_path: Path, moments: Moments
) -> None:
    """While it starts, and in the drain: the signals are the system's again before it is said."""

    @contextlib.asynccontextmanager
    async def hasty(app: FastAPI) -> AsyncGenerator[None]:
        signal.raise_signal(signal.SIGTERM)
        assert await moments.owner("It is still s") == signal.SIG_DFL
        yield

    gate = anyio.Event()

    async def held(rows: Rows) -> list[float]:
        gate.set()
        await anyio.sleep_forever()
        return await total(rows)

    app = create_app(tmp_path / "events.sqlite", prediction_processor=held)
    starting = FastAPI(lifespan=hasty)
    starting.state.service = None
    with signals_kept(), socket.create_server(("127.0.0.1", 0)) as listener:
        await server(starting).serve([listener])
        living = asyncio.create_task(server(app).serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=50) as client:
            asking = asyncio.create_task(client.post("/predict", json={"row": [1]}))
            await gate.wait()
            signal.raise_signal(signal.SIGTERM)
            assert await moments.owner("Ready no more") != signal.SIG_DFL
            signal.raise_signal(signal.SIGTERM)
            assert await moments.owner("Second signal") == signal.SIG_DFL
            assert (await asking).status_code == 503
        await living


def server(app: FastAPI) -> DrainingServer:
    return DrainingServer(
        uvicorn.Config(app, lifespan="off", ws="none", log_config=None), app, drain_delay=60
    )
