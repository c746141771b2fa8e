"""What the HTTP service answers: the body of each status, and the table from errors to statuses.

| what happened                                  | status                 | sending again          |
|------------------------------------------------|------------------------|------------------------|
| the body can't be read as JSON                 | 400                    | of no use              |
| the body is no row or no event; `ItemRefused`  | 422                    | of no use              |
| `PayloadDiffers`                               | 409                    | of no use              |
| `BodyTooLarge`, `ItemTooHeavy`                 | 413                    | of no use              |
| `QueueFull`, `EnqueueTimeout`, `TooManyGroups` | 503 with `Retry-After` | safe: not accepted     |
| `ItemExpired`                                  | 503                    | safe: never processed  |
| `BatcherStopped`                               | 503                    | safe where `withdrawn` |
| `ResponseDeadlineExceeded`                     | 504                    | safe where `withdrawn` |
| `BackendDeadlineExceeded`                      | 504                    | the outcome is unknown |
| anything else, whatever the backend raised     | 500                    | the outcome is unknown |

What the processor or the database raises, or puts in an item's place, is never taken for the service's own
word (`backend_errors.py`). A 500 is logged, says nothing of its cause, and keeps the connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from async_batcher import (
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    QueueFull,
    TooManyGroups,
)
from examples.recipes.backend_errors import ItemRefused
from examples.recipes.body_limit import MAX_BODY, BodyTooLarge
from examples.recipes.client_gone import ClientGone
from examples.recipes.event_store import PayloadDiffers
from examples.recipes.operations import BackendDeadlineExceeded, ResponseDeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

FAULTS_TOLD = 10
"""Most faults that a 422 lists: a long row could have one a number."""


class Unreadable(BaseModel):
    """The body is no text that could be JSON, or it nests too deep or has too long a number."""

    detail: str


class Refusal(BaseModel):
    """Why there is no answer; where `withdrawn` the request had no effect, and sending it again is safe."""

    error: str
    detail: str
    withdrawn: bool


@dataclasses.dataclass(frozen=True)
class Answer:
    """One line of the table. An error that can be both says by its `withdrawn` which of the two texts holds."""

    status: int
    withdrawn: str = ""
    """What the client is told where the request had no effect."""
    unknown: str = ""
    """What it is told where it may have had one."""
    retry_after: int | None = None
    """Seconds to wait before sending again."""


_BUSY = Answer(
    503,
    withdrawn="The service is busy and did not accept this request. Send it again a little later.",
    retry_after=1,
)
ANSWERS: Final[Mapping[type[Exception], Answer]] = {
    QueueFull: _BUSY,
    EnqueueTimeout: _BUSY,
    TooManyGroups: _BUSY,
    BatcherStopped: Answer(
        503,
        withdrawn="The service is shutting down and never processed this request: send it again, to another "
        "instance.",
        unknown="The service was shut down while it processed this request: its outcome is unknown.",
    ),
    ResponseDeadlineExceeded: Answer(
        504,
        withdrawn="There was no answer in time, and the request was never processed: sending it again is safe.",
        unknown="There was no answer in time, and the request is being processed: its outcome is unknown.",
    ),
    BackendDeadlineExceeded: Answer(
        504,
        unknown="The backend took too long and its call was cancelled: the outcome of this request is unknown.",
    ),
    PayloadDiffers: Answer(
        409, withdrawn="This id is stored already, with another payload, which stays: use an id of its own."
    ),
    ItemExpired: Answer(
        503, withdrawn="This request waited too long and was never processed: send it again a little later."
    ),
    ItemTooHeavy: Answer(
        413,
        withdrawn="This request is heavier than a whole batch may be, and was not accepted: send less at once.",
    ),
    BodyTooLarge: Answer(
        413, withdrawn=f"The body is larger than {MAX_BODY} bytes and was not read: send less at once."
    ),
}


def refused(error: Exception) -> JSONResponse:
    """Answer an error of the table's, or a subclass of one."""
    kind = next(kind for kind in type(error).__mro__ if kind in ANSWERS)
    answer = ANSWERS[kind]
    withdrawn = getattr(error, "withdrawn", answer.withdrawn != "")
    detail = answer.withdrawn if withdrawn else answer.unknown
    headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
    return _refusal(answer.status, Refusal(error=kind.__name__, detail=detail, withdrawn=withdrawn), headers)


def answer_errors(app: FastAPI) -> None:
    """Have the app answer by the table."""
    for kind in ANSWERS:
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ItemRefused, _item_refused)
    app.add_exception_handler(ClientGone, _nobody_reads)
    app.add_middleware(FailedRequests)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI is told of these statuses."""
    return {status: _DOCUMENTED[status] for status in statuses}


_DOCUMENTED: Final[Mapping[int, dict[str, Any]]] = {
    400: {"model": Unreadable, "description": "It can't be read as JSON."},
    409: {"model": Refusal, "description": "The id is stored already, with another payload."},
    413: {"model": Refusal, "description": "It is too large."},
    500: {"model": Refusal, "description": "It failed: the outcome is unknown."},
    503: {
        "model": Refusal,
        "description": "The service is busy, or shutting down.",
        "headers": {
            "Retry-After": {
                "description": "Seconds to wait, where the request was not accepted.",
                "schema": {"type": "integer"},
            }
        },
    },
    504: {"model": Refusal, "description": "A deadline has passed."},
}


class FailedRequests:
    """Answer what nothing else has answered: by a 500, or by a 503 where the server cancels it at its end.

    A handler of `Exception` would not do: Starlette calls it outside all else and then raises on, upon which
    the server drops the connection, and with it the answers to requests that came behind in it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI kind."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = body_is_over = False

        async def receive_on() -> Message:
            nonlocal body_is_over
            message = await receive()
            body_is_over = body_is_over or not message.get("more_body", False)
            return message

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive_on, send_on)
        except asyncio.CancelledError:
            if not begun:  # nothing is done with a body before it is whole
                await refused(BatcherStopped(withdrawn=not body_is_over))(scope, receive, send)
            raise
        except Exception:
            if begun:
                raise
            _log.exception("a request failed: %s %s", scope["method"], scope["path"])
            await _failed()(scope, receive, send)


def _failed() -> JSONResponse:
    detail = "The service failed on this request: its outcome is unknown."
    return _refusal(500, Refusal(error="InternalServerError", detail=detail, withdrawn=False), {})


def _refusal(status: int, refusal: Refusal, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse(refusal.model_dump(), status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    return refused(error)


async def _invalid(_: Request, error: Exception) -> Response:
    """Say what is wrong, and do not echo it: a NaN could not be sent back."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    return _faults([{"type": fault["type"], "loc": fault["loc"], "msg": fault["msg"]} for fault in faults])


async def _item_refused(_: Request, error: Exception) -> Response:
    return _faults([{"type": "item_refused", "loc": ("body",), "msg": str(error)}])


def _faults(faults: list[dict[str, Any]]) -> Response:
    # In ASCII: a text with half of a surrogate pair has no UTF-8.
    text = json.dumps({"detail": faults[:FAULTS_TOLD]}, separators=(",", ":"))
    return Response(text, 422, media_type="application/json")


async def _nobody_reads(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # for the logs of a middleware; no client sees it
