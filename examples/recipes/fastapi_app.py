"""A prediction and event service over HTTP: two batchers, two deadlines, every error its own status.

The problem. Many requests, each with one row or one event, in front of a model and a database that are fast
only in bulk; and a client that gets an error has to know whether sending again is safe.

The promise. `POST /predict` gives a row of numbers to `prediction_processor`, in batches. `POST /events`
stores an event in SQLite, a batch a transaction, under an id of the caller's: an id that is stored already is
left as it is, so that a retry is harmless, and 409 where the payload is another. Every error has a status of its
own (`http_answers.py` has the table). A client that leaves takes its item along, where that still waits. The
database is opened when the app starts, not before. On shutdown both intakes close before either drains, they
drain together, and what failed is raised as one `ExceptionGroup`.

What it does not promise. `/readyz` says 503 from SIGTERM on, and the drain has its budgets, under the command
below (`owned_drain.py`); any other server that stops listening before it tells the app is not ready by not
listening. With several server processes each has queues and slots of its own. It runs on asyncio, as uvicorn does.

    python -m examples.recipes.fastapi_app --port 8000 --drain-delay 5

has metrics for Prometheus on `GET /metrics`, and with `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318` in its
environment it sends traces and metrics to a collector there (`app_telemetry.py`).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which take a second
    from examples.recipes.owned_signals import leave_on_signal

    leave_on_signal()

import argparse
import contextlib
import math
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from async_batcher import AsyncBatcher
from examples.recipes.app_service import Budgets, Service, Stats
from examples.recipes.backend_errors import refusing
from examples.recipes.body_limit import BodyLimit
from examples.recipes.client_gone import while_connected
from examples.recipes.default_model import trained_forest
from examples.recipes.event_store import DatabaseUnusable, Event, EventStore
from examples.recipes.http_answers import answer_errors, documented
from examples.recipes.metrics_route import metrics_router
from examples.recipes.otel_settings import TelemetryMisconfigured
from examples.recipes.owned_drain import serve

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Sequence

router = APIRouter()

RESPONSE_TIMEOUT = 2.0
SHUTDOWN_GRACE = 5.0
SHUTDOWN_FORCE = 1.0
MAX_ROW = 1000
"""Most numbers in a row: with the queue's length it bounds what waits."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Row(BaseModel):
    """What to predict for."""

    model_config = ConfigDict(extra="forbid")

    row: list[Number] = Field(min_length=1, max_length=MAX_ROW)


class Prediction(BaseModel):
    """What the model says."""

    prediction: float = Field(allow_inf_nan=False)


class Stored(BaseModel):
    """The event is in the database; `new` is false where it was there before."""

    id: str
    new: bool


class Health(BaseModel):
    """How the process is."""

    status: Literal["alive", "ready", "closing"]


def create_app(
    sqlite_path: str | os.PathLike[str],
    *,
    prediction_processor: Callable[[list[list[float]]], Any] | None = None,
    response_timeout: float | None = None,
    shutdown_grace: float | None = None,
    shutdown_force: float | None = None,
) -> FastAPI:
    """Build the app. Nothing is opened before it starts.

    Args:
        sqlite_path: The events' database; it is created where there is none.
        prediction_processor: A function, async or not, of a list of rows, that returns a number for each, or an
            `ItemRefused` in the place of a row that does not fit. `None` is a random forest, trained at the start.
        response_timeout: Seconds for one answer, over 0 and finite; `None` is no limit.
        shutdown_grace: Seconds for the drain.
        shutdown_force: Seconds for the cleanup after it was forced.

    Raises:
        ValueError: A timeout is none.
        TypeError: The processor is none.
    """
    budgets = Budgets(response_timeout, shutdown_grace, shutdown_force)
    if prediction_processor is not None:
        _check_processor(prediction_processor)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        store = await EventStore.open(sqlite_path)  # first: it fails sooner than a model is trained
        try:
            processor = await _trained() if prediction_processor is None else prediction_processor
        except BaseException:
            store.close()
            raise
        app.state.service = service = Service(store, processor, budgets)
        try:
            yield
        finally:
            await service.shutdown()

    app = FastAPI(
        title="Predictions and events", lifespan=lifespan, responses=documented(500), redirect_slashes=False
    )
    app.include_router(router)
    app.include_router(metrics_router())
    app.add_middleware(BodyLimit)
    answer_errors(app)
    return app


async def running_service(request: Request) -> Service:  # async: FastAPI would ask a plain one in a thread
    """Give what runs between the app's start and its end."""
    service: Service | None = getattr(request.app.state, "service", None)
    if service is None:
        raise RuntimeError("the app has not been started: run it by a server that sends lifespan events")
    return service


Running = Annotated[Service, Depends(running_service)]


@router.post("/predict", responses=documented(400, 413, 503, 504))
async def predict(row: Row, service: Running, request: Request) -> Prediction:
    """Predict for one row."""
    return Prediction(prediction=await while_connected(request, service.predict(row.row)))


@router.post("/events", responses=documented(400, 409, 413, 503, 504))
async def store_event(event: Event, service: Running, request: Request) -> Stored:
    """Store one event, once."""
    return Stored(id=event.id, new=await while_connected(request, service.store(event)))


@router.get("/stats")
async def stats(service: Running) -> Stats:
    """Return the counts of both batchers."""
    return service.stats()


@router.get("/livez")
async def livez() -> Health:
    """Say that the process serves."""
    return Health(status="alive")


@router.get("/readyz", responses={503: {"model": Health, "description": "It is shutting down."}})
async def readyz(service: Running, response: Response) -> Health:
    """Say whether a balancer should send new requests here."""
    if service.ready:
        return Health(status="ready")
    response.status_code = 503
    return Health(status="closing")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the default model, with the three budgets above, until a signal."""
    options = build_parser().parse_args(arguments)
    app = create_app(
        options.database,
        response_timeout=RESPONSE_TIMEOUT,
        shutdown_grace=SHUTDOWN_GRACE,
        shutdown_force=SHUTDOWN_FORCE,
    )
    # Here, since half a second's import is nothing that an app of yours should pay for.
    from examples.recipes.app_telemetry import telemetry  # noqa: PLC0415

    try:
        with telemetry(app):
            serve(app, host=options.host, port=options.port, drain_delay=options.drain_delay)
    except (DatabaseUnusable, ImportError, TelemetryMisconfigured) as error:
        sys.exit(f"the service can't start: {error}")


def _check_processor(processor: Callable[[list[list[float]]], Any]) -> None:
    if not callable(processor):
        raise TypeError(
            f"prediction_processor must be a function of a list of rows; {processor!r} can't be called"
        )
    AsyncBatcher.from_callable(processor)  # its checks, before anything is opened


async def _trained() -> Callable[[list[list[float]]], Any]:
    forest = await anyio.to_thread.run_sync(trained_forest)
    return refusing(forest.predict, forest.fault)


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.recipes.fastapi_app", description="Serve predictions and events over HTTP."
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="0 is a free one (%(default)s)")
    parser.add_argument("--database", default="events.sqlite", help="the events' SQLite file (%(default)s)")
    parser.add_argument(
        "--drain-delay",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="go on serving for so long after SIGTERM; about 5 behind a balancer (%(default)s)",
    )
    return parser


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= 65535:  # noqa: PLR2004  (the largest there is)
        return int(text)
    raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535; got {text!r}")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"seconds are a finite number, 0 or more; got {text!r}")


if __name__ == "__main__":
    main()
