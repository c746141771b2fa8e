"""A prediction and event service over HTTP: two batchers, two deadlines, every error its own status.

The problem. Many requests, each with one row or one event, in front of a model and a database that are fast
only in bulk; and a client that gets an error has to know whether sending again is safe.

The promise. `POST /predict` gives a row of numbers to `prediction_processor`, in batches. `POST /events`
stores an event in SQLite, a batch a transaction, under an id of the caller's: an id that is stored already is
left as it is, so that a retry is harmless. The database is opened when the app starts, not before. On
shutdown both intakes close before either drains, they drain together, and what failed is raised as one
`ExceptionGroup`.

| what happened                                  | status                 | sending again          |
|------------------------------------------------|------------------------|------------------------|
| `QueueFull`, `EnqueueTimeout`, `TooManyGroups` | 503 with `Retry-After` | safe: not accepted     |
| `BatcherStopped`                               | 503                    | safe where `withdrawn` |
| `ResponseDeadlineExceeded`                     | 504                    | safe where `withdrawn` |
| `BackendDeadlineExceeded`                      | 504                    | the outcome is unknown |
| anything else, the backend's `TimeoutError`    | 500                    | the outcome is unknown |

What it does not promise. A client that leaves does not end its request's work. With several server processes
each has queues and slots of its own. It runs on asyncio, as uvicorn does.

    uvicorn --app-dir tests/programs http_service:app
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, JsonValue, field_validator

from async_batcher import AsyncBatcher, BatcherStopped, EnqueueTimeout, QueueFull, TooManyGroups
from examples.recipes.operations import BackendDeadlineExceeded, Intake, ResponseDeadlineExceeded
from examples.recipes.operations.intake import check_timeout

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable

router = APIRouter()

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Row(BaseModel):
    """What to predict for."""

    row: list[Number] = Field(min_length=1)


class Prediction(BaseModel):
    """What the model says."""

    prediction: float = Field(allow_inf_nan=False)


class Event(BaseModel):
    """What to store, and the caller's own stable id for it."""

    id: str = Field(min_length=1, max_length=200)
    payload: JsonValue

    @field_validator("payload")
    @classmethod
    def _is_json(cls, payload: JsonValue) -> JsonValue:
        """Refuse NaN and infinity here: in the batch they would fail the siblings too."""
        json.dumps(payload, allow_nan=False)
        return payload


class Stored(BaseModel):
    """The event is in the database; `new` is false where its id was there before, whatever its payload."""

    id: str
    new: bool


class Refusal(BaseModel):
    """Why there is no answer; where `withdrawn` the item was never processed, and sending again is safe."""

    error: str
    detail: str
    withdrawn: bool


@dataclasses.dataclass(frozen=True)
class Budgets:
    """Seconds, each over 0 and finite; `None` is no limit."""

    response_timeout: float | None
    shutdown_grace: float | None
    shutdown_force: float | None

    def __post_init__(self) -> None:
        for name, seconds in dataclasses.asdict(self).items():
            check_timeout(name, seconds)


class EventStore:
    """Events in SQLite. One thread owns the connection, from opening it to closing it."""

    def __init__(self, executor: ThreadPoolExecutor, connection: sqlite3.Connection) -> None:
        self.executor = executor
        self._connection = connection

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> EventStore:
        """Open or create the database.

        Raises:
            RuntimeError: It can't be used.
        """
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="events")
        try:
            connection = await asyncio.get_running_loop().run_in_executor(executor, _connect, path)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(executor, connection)

    def store(self, events: list[Event]) -> list[bool]:
        """Store a batch in one transaction, and say of each event whether its id was new."""
        with self._connection as transaction:
            return [
                transaction.execute(
                    "INSERT INTO events (id, payload) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
                    (event.id, json.dumps(event.payload)),
                ).rowcount
                == 1
                for event in events
            ]

    def close(self) -> Future[None]:
        """Close the database behind the write that may still run."""
        closing = self.executor.submit(self._connection.close)
        self.executor.shutdown(wait=False)
        return closing


class Service:
    """What runs between the app's start and its end."""

    def __init__(
        self, store: EventStore, prediction_processor: Callable[[list[list[float]]], Any], budgets: Budgets
    ) -> None:
        self._store = store
        self._budgets = budgets
        self._predictions = AsyncBatcher.from_callable(prediction_processor, name="predictions")
        self._events = AsyncBatcher.from_callable(store.store, name="events", executor=store.executor)
        self._prediction_intake = Intake(self._predictions)
        self._event_intake = Intake(self._events)

    @property
    def ready(self) -> bool:
        """Whether new requests are accepted."""
        return not (self._prediction_intake.closed or self._event_intake.closed)

    async def predict(self, row: list[float]) -> float:
        """Return the model's value for `row`."""
        timeout = self._budgets.response_timeout
        return float(await self._prediction_intake.process(row, response_timeout=timeout))

    async def store(self, event: Event) -> bool:
        """Store `event`, and say whether its id was new."""
        return await self._event_intake.process(event, response_timeout=self._budgets.response_timeout)

    def stats(self) -> dict[str, dict[str, int]]:
        """Return the counts of both batchers."""
        return {
            "predictions": dataclasses.asdict(self._predictions.stats()),
            "events": dataclasses.asdict(self._events.stats()),
        }

    async def shutdown(self) -> None:
        """Close both intakes, drain them together, then close the database.

        Raises:
            ExceptionGroup: What failed, once both have ended.
        """
        try:
            await drain_together(self._prediction_intake, self._event_intake, budgets=self._budgets)
        except BaseException:
            self._store.close()
            raise
        closing = asyncio.wrap_future(self._store.close())
        with anyio.move_on_after(
            self._budgets.shutdown_force
        ):  # a forced write may hold its thread for longer
            await asyncio.shield(closing)


async def drain_together(*intakes: Intake[Any, Any], budgets: Budgets) -> None:
    """Close all, then drain all at the same time, so that the budgets are those of one.

    Raises:
        ExceptionGroup: What failed, once all have ended.
    """
    for intake in intakes:
        intake.close()
    failures: list[Exception] = []

    async def drain(intake: Intake[Any, Any]) -> None:
        try:
            await intake.shutdown(grace_timeout=budgets.shutdown_grace, force_timeout=budgets.shutdown_force)
        except Exception as failure:  # noqa: BLE001  the others drain on; it is raised with theirs
            failures.append(failure)

    async with anyio.create_task_group() as group:
        for intake in intakes:
            group.start_soon(drain, intake)
    if failures:
        raise ExceptionGroup("the service did not shut down in time", failures)


def create_app(
    sqlite_path: str | os.PathLike[str],
    *,
    prediction_processor: Callable[[list[list[float]]], Any],
    response_timeout: float | None = None,
    shutdown_grace: float | None = None,
    shutdown_force: float | None = None,
) -> FastAPI:
    """Build the app. Nothing is opened before it starts.

    Args:
        sqlite_path: The events' database; it is created where there is none.
        prediction_processor: A function, async or not, of a list of rows, that returns a number for each.
        response_timeout: Seconds for one answer, over 0 and finite; `None` is no limit.
        shutdown_grace: Seconds for the drain.
        shutdown_force: Seconds for the cleanup after it was forced.

    Raises:
        ValueError: A timeout is none.
        TypeError: The processor can't be called.
    """
    budgets = Budgets(response_timeout, shutdown_grace, shutdown_force)
    if not callable(prediction_processor):
        raise TypeError(
            "prediction_processor must be a function of a list of rows; "
            f"{prediction_processor!r} can't be called"
        )

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        service = Service(await EventStore.open(sqlite_path), prediction_processor, budgets)
        app.state.service = service
        try:
            yield
        finally:
            await service.shutdown()

    app = FastAPI(title="Predictions and events", lifespan=lifespan)
    app.include_router(router)
    for error in (QueueFull, EnqueueTimeout, TooManyGroups):
        app.add_exception_handler(error, _not_accepted)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BatcherStopped, _stopped)
    app.add_exception_handler(ResponseDeadlineExceeded, _response_deadline)
    app.add_exception_handler(BackendDeadlineExceeded, _backend_deadline)
    return app


async def _service(request: Request) -> Service:  # async: FastAPI would ask a plain function in a thread
    service: Service | None = getattr(request.app.state, "service", None)
    if service is None:
        raise RuntimeError("the app has not been started: run it by a server that sends lifespan events")
    return service


Running = Annotated[Service, Depends(_service)]
REFUSALS: dict[int | str, dict[str, Any]] = {503: {"model": Refusal}, 504: {"model": Refusal}}


@router.post("/predict", responses=REFUSALS)
async def predict(row: Row, service: Running) -> Prediction:
    """Predict for one row."""
    return Prediction(prediction=await service.predict(row.row))


@router.post("/events", responses=REFUSALS)
async def store_event(event: Event, service: Running) -> Stored:
    """Store one event, once."""
    return Stored(id=event.id, new=await service.store(event))


@router.get("/stats")
async def stats(service: Running) -> dict[str, dict[str, int]]:
    """Return the counts of both batchers."""
    return service.stats()


@router.get("/livez")
async def livez() -> dict[str, str]:
    """Say that the process serves."""
    return {"status": "alive"}


@router.get("/readyz", responses={503: {"description": "It is shutting down."}})
async def readyz(service: Running) -> JSONResponse:
    """Say whether new requests are accepted."""
    return JSONResponse({"status": "ready"}) if service.ready else JSONResponse({"status": "closing"}, 503)


def _refuse(status: int, refusal: Refusal, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(refusal.model_dump(), status, headers)


async def _invalid(_: Request, error: Exception) -> Response:
    """Say what is wrong without echoing it: a NaN or half a character could not be sent back."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    detail = [{"type": fault["type"], "loc": fault["loc"], "msg": fault["msg"]} for fault in faults]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


async def _not_accepted(_: Request, error: Exception) -> JSONResponse:
    detail = "The service is busy and did not accept this request. Send it again a little later."
    refusal = Refusal(error=type(error).__name__, detail=detail, withdrawn=True)
    return _refuse(503, refusal, {"Retry-After": "1"})


async def _stopped(_: Request, error: Exception) -> JSONResponse:
    withdrawn = isinstance(error, BatcherStopped) and error.withdrawn
    detail = (
        "The service is shutting down and never processed this request: send it again, to another instance."
        if withdrawn
        else "The service was shut down while it processed this request: its outcome is unknown."
    )
    return _refuse(503, Refusal(error="BatcherStopped", detail=detail, withdrawn=withdrawn))


async def _response_deadline(_: Request, error: Exception) -> JSONResponse:
    withdrawn = isinstance(error, ResponseDeadlineExceeded) and error.withdrawn
    detail = (
        "There was no answer in time, and the request was never processed: sending it again is safe."
        if withdrawn
        else "There was no answer in time, and the request is being processed: its outcome is unknown."
    )
    return _refuse(504, Refusal(error="ResponseDeadlineExceeded", detail=detail, withdrawn=withdrawn))


async def _backend_deadline(_request: Request, _error: Exception) -> JSONResponse:
    detail = "The backend took too long and its call was cancelled: the outcome of this request is unknown."
    return _refuse(504, Refusal(error="BackendDeadlineExceeded", detail=detail, withdrawn=False))


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, payload TEXT NOT NULL)"
            )
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise RuntimeError(
            f"the events' database {path} can't be used ({error}): give the path of a SQLite file, "
            "or of a new one, in a folder that exists and can be written"
        ) from error
    return connection
