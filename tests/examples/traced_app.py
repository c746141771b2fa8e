"""The program that the tests of telemetry run: the service under its own command's server, and a model to hold.

    python traced_app.py KIND DATABASE GATE

KIND says what the model is: an async function, or a sync one, which runs in a thread. It makes a span of its own, and
a row that begins with a number under 0 holds its batch, as in `served_app.py`. A line on the error stream tells of each
request that waits for its batch, and of each client that leaves.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from opentelemetry import trace

from examples.recipes.app_telemetry import telemetry
from examples.recipes.fastapi_app import create_app
from examples.recipes.owned_drain import serve

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

kind, database, gate = sys.argv[1:]


class Waiting:
    """Say when a handler listens for the disconnect, beside the work, which then waits; and when it comes."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        body_is_over = False

        async def receive_on() -> "Message":
            nonlocal body_is_over
            if body_is_over:
                sys.stderr.write("a request waits\n")
            message = await receive()
            if message["type"] == "http.disconnect":
                sys.stderr.write("a client has left\n")
            body_is_over = not message.get("more_body", False)
            return message

        await self._app(scope, receive_on, send)


def sync_model(rows: list[list[float]]) -> list[float]:
    with trace.get_tracer("model").start_as_current_span("inference"):
        if any(row[0] < 0 for row in rows):
            Path(gate).read_bytes()
        return [sum(row) for row in rows]


async def async_model(rows: list[list[float]]) -> list[float]:
    with trace.get_tracer("model").start_as_current_span("inference"):
        if any(row[0] < 0 for row in rows):
            await anyio.to_thread.run_sync(Path(gate).read_bytes)
        return [sum(row) for row in rows]


app = create_app(
    database,
    prediction_processor=sync_model if kind == "sync" else async_model,
    response_timeout=30,
    shutdown_grace=20,
    shutdown_force=0.2,
)
app.add_middleware(Waiting)
with telemetry(app):
    serve(app, host="127.0.0.1", port=0)
