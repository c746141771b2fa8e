"""Serve the app, and own its end: `serve(app, host=, port=, drain_delay=)`.

The problem. At SIGTERM uvicorn stops listening first and tells the app last: a balancer sees refused connections
before `/readyz` could say 503, and who waits in a queue is waited for without any limit.

The promise. At the first SIGTERM or SIGINT the service is ready no more, and every answer from then on asks its
client to close the connection. It goes on serving for `drain_delay`, so that balancers see it. Then both intakes
close (new work is a 503), they drain together within the app's budgets, and only then uvicorn stops listening,
waits up to `LAST_ANSWERS` for answers on their way out, and returns. A second signal cuts the delay and the drain
short: who still waits is told so at once. A third one ends the process, and so does one that comes when all has
drained and only a thread, or a call that will not be cancelled, is waited for.

A signal that comes before the service has started is kept: once it has, it never listens, and ends. A second one
ends the process. All this holds for the first process of a container too, which the system spares
(`owned_signals.py`).

What it does not promise. No interruption of threads, nor of a call that swallows its cancellation: the process
ends when the last one has. One process only: run one command for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from typing import TYPE_CHECKING

import anyio
import uvicorn

from examples.recipes.owned_signals import SIGNALS, end_on_signal, leave_on_signal

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator

    from fastapi import FastAPI
    from starlette.types import Message, Receive, Scope, Send

    from examples.recipes.app_service import Service

_log = logging.getLogger("uvicorn.error")  # uvicorn shows its own loggers only

LAST_ANSWERS = 1
"""Seconds for answers that are being written, and for bodies that are still being sent, once all has drained."""


def serve(app: FastAPI, *, host: str, port: int, drain_delay: float = 0) -> None:
    """Serve until a signal, and return when everything has drained.

    It is a program's last step: both signals are its own from here on, and once it has returned they end the process.

    Args:
        app: Of `create_app`.
        host: The address to listen on.
        port: The port; 0 is a free one.
        drain_delay: Seconds to go on serving after the signal: what the balancer takes to see `/readyz`, about 5.

    Raises:
        DatabaseUnusable: The service can't start; nothing was served.
        ExceptionGroup: The drain failed; everybody has been told all the same.
        SystemExit: The address can't be listened on.
    """
    leave_on_signal()
    config = uvicorn.Config(
        LastAnswers(app),
        host=host,
        port=port,
        lifespan="off",  # `serve` below enters it: a failed start is an error then, and not a log
        ws="none",
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    DrainingServer(config, app, drain_delay).run()


def settle_collector() -> None:
    """Let Python's garbage collector pass over what start-up made, and look less often.

    Requests that wait together are alive together, each some 150 objects. By default the collector starts when 700
    more are alive than before, which is every few requests, and every 1,500 requests or so it goes through all that
    was imported: a pause of 40 to 100 ms, and with the rest a tenth of a loaded server's time or more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class DrainingServer(uvicorn.Server):
    """uvicorn, but a signal drains the service first."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, drain_delay: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_delay = drain_delay
        self._service: Service | None = None
        self._ends_at_start = False
        self._hurry = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve between the app's start and its end; the signals are its own all the while."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self._on_signal)
        try:
            async with self._app.router.lifespan_context(self._app):
                self._service = self._app.state.service
                if not self._ends_at_start:
                    settle_collector()
                    await super().serve(sockets)
        finally:
            self._leave_signals()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Keep uvicorn from taking the signals."""
        yield

    def _on_signal(self) -> None:
        if self._service is None:
            self._ends_at_start = True
            self._leave_signals()  # before it says so: who reads it may send the next one at once
            _log.info("It is still starting: it ends once it has started; a second signal ends it now")
        elif not self._tasks:
            self._tasks.append(asyncio.create_task(self._drain(self._service)))
        else:
            self._leave_signals()
            _log.info("Second signal: the drain is cut short")
            self._hurry.set()
            self._tasks.append(asyncio.create_task(self._service.force()))

    def _leave_signals(self) -> None:
        """Take no more of them: the next one ends the process."""
        for each in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)
        end_on_signal()

    async def _drain(self, service: Service) -> None:
        _log.info("Ready no more, serving for %s s, then draining", self._drain_delay)
        service.retire()
        with anyio.move_on_after(self._drain_delay):
            await self._hurry.wait()
        try:
            await service.shutdown()
        except Exception:  # noqa: BLE001  the lifespan's end raises it again, and tells
            _log.info("The drain has failed")
        finally:
            self.should_exit = True


class LastAnswers:
    """Once the service is retired, have clients close their connections with the answer that they get.

    Else the server closes them between two requests, and a client may have sent the next one into the void.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI kind."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start" and not self._app.state.service.ready:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, send_on)
