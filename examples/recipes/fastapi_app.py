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
| anything else, whatever the backend raised     | 500                    | the outcome is unknown |

The first three lines are the service's own words. What the processor or the database raises, or puts in an
item's place, is never taken for them, a `QueueFull` of its own or an `HTTPException` neither: only
`BackendDeadlineExceeded` keeps its meaning. A 500 is logged, says nothing of its cause, and keeps the connection.

What it does not promise. A client that leaves does not end its request's work. With several server processes
each has queues and slots of its own. It runs on asyncio, as uvicorn does.

    uvicorn --app-dir tests/programs http_service:app
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from async_batcher import AsyncBatcher, BatcherStopped, EnqueueTimeout, QueueFull, TooManyGroups
from examples.recipes.backend_errors import apart
from examples.recipes.event_store import Event, EventStore
from examples.recipes.operations import BackendDeadlineExceeded, Intake, ResponseDeadlineExceeded
from examples.recipes.operations.intake import check_timeout

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

router = APIRouter()

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Row(BaseModel):
    """What to predict for."""

    row: list[Number] = Field(min_length=1)


class Prediction(BaseModel):
    """What the model says."""

    prediction: float = Field(allow_inf_nan=False)


class Stored(BaseModel):
    """The event is in the database; `new` is false where its id was there before, whatever its payload."""

    id: str
    new: bool


class Unreadable(BaseModel):
    """The body is no text that could be JSON."""

    detail: str


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


class Service:
    """What runs between the app's start and its end."""

    def __init__(
        self, store: EventStore, prediction_processor: Callable[[list[list[float]]], Any], budgets: Budgets
    ) -> None:
        self._store = store
        self._budgets = budgets
        self._predictions = AsyncBatcher.from_callable(apart(prediction_processor), name="predictions")
        self._events: AsyncBatcher[Event, bool] = AsyncBatcher.from_callable(
            apart(store.store), name="events", executor=store.executor
        )
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

        A cancelled scope around it does not cut it short: its budgets bound it. A task that is cancelled
        natively while it drains is out of patience: both batchers are forced.

        Raises:
            ExceptionGroup: What failed, once both have ended.
        """
        with anyio.CancelScope(shield=True):
            try:
                await drain_together(self._prediction_intake, self._event_intake, budgets=self._budgets)
            except asyncio.CancelledError:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._force, self._predictions)
                    group.start_soon(self._force, self._events)
                raise
            finally:
                # Behind everybody who could still write; a forced write may hold its thread for longer.
                closing = asyncio.wrap_future(self._store.close())
                with anyio.move_on_after(self._budgets.shutdown_force):
                    await asyncio.shield(closing)

    async def _force(self, batcher: AsyncBatcher[Any, Any]) -> None:
        with contextlib.suppress(TimeoutError):  # everybody has been told by then
            await batcher.stop(force=True, timeout=self._budgets.shutdown_force)


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
        TypeError: The processor is none.
    """
    budgets = Budgets(response_timeout, shutdown_grace, shutdown_force)
    if not callable(prediction_processor):
        raise TypeError(
            "prediction_processor must be a function of a list of rows; "
            f"{prediction_processor!r} can't be called"
        )
    AsyncBatcher.from_callable(prediction_processor)  # its checks, before anything is opened

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        service = Service(await EventStore.open(sqlite_path), prediction_processor, budgets)
        app.state.service = service
        try:
            yield
        finally:
            await service.shutdown()

    app = FastAPI(title="Predictions and events", lifespan=lifespan, responses={500: {"model": Refusal}})
    app.include_router(router)
    app.add_middleware(FailedRequests)
    for error in (QueueFull, EnqueueTimeout, TooManyGroups):
        app.add_exception_handler(error, _not_accepted)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BatcherStopped, _stopped)
    app.add_exception_handler(ResponseDeadlineExceeded, _response_deadline)
    app.add_exception_handler(BackendDeadlineExceeded, _backend_deadline)
    return app


async def running_service(request: Request) -> Service:  # async: FastAPI would ask a plain one in a thread
    """Give what runs between the app's start and its end."""
    service: Service | None = getattr(request.app.state, "service", None)
    if service is None:
        raise RuntimeError("the app has not been started: run it by a server that sends lifespan events")
    return service


Running = Annotated[Service, Depends(running_service)]
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Unreadable},
    503: {
        "model": Refusal,
        "headers": {
            "Retry-After": {
                "description": "Seconds to wait, where the request was not accepted.",
                "schema": {"type": "integer"},
            }
        },
    },
    504: {"model": Refusal},
}


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


class FailedRequests:
    """Answer what nothing else has answered by a 500.

    A handler of `Exception` would not do: Starlette calls it outside all else and then raises on, upon which
    the server drops the connection, and with it the answers to requests that came behind in it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI kind."""
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            if scope["type"] != "http" or begun:
                raise
            _log.exception("a request failed: %s %s", scope["method"], scope["path"])
            detail = "The service failed on this request: its outcome is unknown."
            refusal = Refusal(error="InternalServerError", detail=detail, withdrawn=False)
            await _refuse(500, refusal)(scope, receive, send)


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
