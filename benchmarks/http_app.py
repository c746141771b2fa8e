"""One service, served as `http.py` needs it: one route, one kind of work behind it, and one way to batch it.

It runs in the environment of each peer too, where `async_batcher` is another library: so each way imports its own.
Printed, once it listens: its port. `GET /usage` says what the process has used so far.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import inspect
import os
import resource
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, Field

ROOT = Path(__file__).resolve().parents[1]
BATCH = 64
WINDOW = 0.01

Rows = list[list[float]]
Work = Callable[[Rows], Any]
Ask = Callable[[list[float]], Awaitable[float]]
Open = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Row(BaseModel):
    """What to predict for: as in the recipe."""

    model_config = ConfigDict(extra="forbid")

    row: list[Annotated[float, Field(strict=True, allow_inf_nan=False)]] = Field(
        min_length=1, max_length=1000
    )


class Prediction(BaseModel):
    """What the model says."""

    prediction: float = Field(allow_inf_nan=False)


# The work


def forest() -> Work:
    """Train the recipe's default model, and give it as a plain function."""
    from sklearn.datasets import load_diabetes  # noqa: PLC0415  (a second to import, for one work of three)
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

    model = RandomForestRegressor(n_estimators=100, random_state=0, n_jobs=1).fit(
        *load_diabetes(return_X_y=True)
    )

    def predict(rows: Rows) -> list[float]:
        values: list[float] = model.predict(rows).tolist()
        return values

    return predict


def nothing() -> Work:
    """Answer at once: what is left is the way there."""

    async def answer(rows: Rows) -> list[float]:
        return [row[0] for row in rows]

    return answer


def steady() -> Work:
    """Take 20 ms and 0.2 ms a row, as a model on another machine does."""

    async def answer(rows: Rows) -> list[float]:
        await asyncio.sleep(0.02 + 0.0002 * len(rows))
        return [row[0] for row in rows]

    return answer


WORKS = {"forest": forest, "nothing": nothing, "steady": steady}


# The ways to batch it


def bare(work: Work, _options: dict[str, Any]) -> FastAPI:
    """Call the work once a request: where it blocks, in one of FastAPI's threads."""
    app = FastAPI()
    if inspect.iscoroutinefunction(work):

        @app.post("/predict")
        async def predict(row: Row) -> Prediction:
            return Prediction(prediction=(await work([row.row]))[0])
    else:

        @app.post("/predict")
        def predict_in_thread(row: Row) -> Prediction:
            return Prediction(prediction=work([row.row])[0])

    return app


def bare_in_one_thread(work: Work, _options: dict[str, Any]) -> FastAPI:
    """Call the work once a request, one call at a time: forty threads would fight over one interpreter."""
    app = FastAPI()
    executor = ThreadPoolExecutor(1)

    @app.post("/predict")
    async def predict(row: Row) -> Prediction:
        loop = asyncio.get_running_loop()
        return Prediction(prediction=(await loop.run_in_executor(executor, work, [row.row]))[0])

    return app


def batched_app(ask: Ask, open_it: Open | None = None, refused: tuple[type[Exception], ...] = ()) -> FastAPI:
    """Ask a batcher, and say 503 where it refuses."""
    app = FastAPI(lifespan=open_it)

    @app.post("/predict")
    async def predict(row: Row) -> Prediction:
        try:
            return Prediction(prediction=await ask(row.row))
        except refused as error:
            raise HTTPException(503, "busy") from error

    return app


def ours(work: Work, options: dict[str, Any]) -> FastAPI:
    """Batch it by this library."""
    from async_batcher import AsyncBatcher, QueueFull  # noqa: PLC0415  (a peer has that name elsewhere)

    batcher = AsyncBatcher.from_callable(work, **({"max_batch_size": BATCH} | options))

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with batcher:
            yield

    return batched_app(batcher.process, lifespan, (QueueFull,))


def recipe(_work: Work, _options: dict[str, Any]) -> FastAPI:
    """Serve the recipe as it stands: its own default model, deadlines, and a watch over clients that leave."""
    sys.path.append(str(ROOT))
    from examples.recipes.fastapi_app import create_app  # noqa: PLC0415  (needs ours)

    folder = tempfile.mkdtemp()
    return create_app(Path(folder) / "events.sqlite", response_timeout=2)


def async_batcher_0_2_2(work: Work, _options: dict[str, Any]) -> FastAPI:
    """Batch it by the older library of our import name."""
    library: Any = importlib.import_module("async_batcher.batcher")

    def process_batch(_batcher: object, batch: Rows) -> list[float]:
        results: list[float] = work(batch)
        return results

    kind = type("Batcher", (library.AsyncBatcher,), {"process_batch": process_batch})
    return batched_app(kind(max_batch_size=BATCH, max_queue_time=WINDOW).process)


def batched_0_1_5(work: Work, _options: dict[str, Any]) -> FastAPI:
    """Batch it by `batched`, to which a list would be many items."""
    library: Any = importlib.import_module("batched.aio")
    process = library.dynamically(work, batch_size=BATCH, timeout_ms=WINDOW * 1000)

    async def ask(row: list[float]) -> float:
        value: float = await process(tuple(row))
        return value

    return batched_app(ask)


SIDES = {
    "bare": bare,
    "bare, one thread": bare_in_one_thread,
    "ours": ours,
    "recipe": recipe,
    "async-batcher 0.2.2": async_batcher_0_2_2,
    "batched 0.1.5": batched_0_1_5,
}


# The process

usage = APIRouter()


@usage.get("/usage")
def read_usage() -> dict[str, float]:
    """Say how many seconds of CPU this process has used, and how many bytes of memory it holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"cpu": time.process_time(), "memory": pages * resource.getpagesize()}


def settle_collector() -> None:
    """Let CPython's collector pass over what was made at start-up, and look less often.

    Requests that wait together are alive together. By default the collector looks at them each time that 700 more
    objects are alive, which is every few requests, and now and then at all that was imported.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def main() -> None:
    """Serve until SIGTERM."""
    # scikit-learn sets the process's filters aside for each tree. Two threads that predict at the same time (so
    # does "bare", and nobody else) leave them broken, and then each tree warns of it.
    warnings.showwarning = lambda *_, **__: None
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--work", choices=WORKS, required=True)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--queue", type=int)
    parser.add_argument("--window", type=float)
    parser.add_argument(
        "--settled", type=int, default=0, help="1: as the recipe's command, settle the collector"
    )
    arguments = parser.parse_args()
    named = {
        "max_batch_size": arguments.batch,
        "max_queue_size": arguments.queue,
        "max_queue_time": arguments.window,
    }
    options = {name: value for name, value in named.items() if value is not None}
    app = SIDES[arguments.side](WORKS[arguments.work](), options)
    app.include_router(usage)
    # With the protocol named: only then asyncio sends what it is given at once, and not 40 ms later.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    os.write(sys.stdout.fileno(), f"{listening.getsockname()[1]}\n".encode())
    if arguments.settled:
        settle_collector()
    config = uvicorn.Config(app, log_level="error", access_log=False, loop="asyncio", http="h11")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
