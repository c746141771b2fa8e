"""Give up a request's work when its client leaves: `await while_connected(request, work)`.

The problem. FastAPI does not cancel a handler whose client has gone: its item keeps its place in the queue,
and a busy backend works for nobody.

The promise. Beside the work one task waits for the server's `http.disconnect`; nothing polls. When it comes,
the work is cancelled: an item that waits leaves the queue and the processor never sees it; in a running batch
only this caller's result is dropped.

What it does not promise. It hears what its `receive` hears, so it can't under a middleware that reads the body
and then hands on a `receive` of its own, which repeats the body or says nothing: the work runs to its end. One
that says "disconnected" behind the body ends every request; such a middleware has to go on with the server's
own `receive`, as Starlette's `BaseHTTPMiddleware` does by now. Behind a proxy the client is the proxy. A client
that closes only its sending half has left too, for uvicorn. It runs on asyncio.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fastapi import Request
    from starlette.types import Receive

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client has left: nobody will read the answer."""


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """Await `work`, which ends when it is cancelled, and cancel it when the client leaves.

    Raises:
        ClientGone: The client left before the work was done.
    """
    with anyio.CancelScope() as scope:
        watch = asyncio.create_task(_watch(request.receive, scope))
        try:
            return await work
        finally:
            watch.cancel()
    raise ClientGone("the client left before its answer was there")


async def _watch(receive: Receive, scope: anyio.CancelScope) -> None:
    if await _disconnected(receive):
        scope.cancel()


async def _disconnected(receive: Receive) -> bool:
    """Wait for the disconnect, or find out that this `receive` can't tell.

    Behind the body nothing else comes: one that says more replays the body, and might do so for ever.
    """
    body_is_over = False
    while (message := await receive())["type"] != "http.disconnect":
        if body_is_over:
            return False
        body_is_over = not message.get("more_body", False)
    return True
