"""Refuse a body that is too large before it has been read: an ASGI middleware.

A length that is declared is refused before a byte is read. A body in chunks declares none: it is refused with the
chunk that passes the limit. What the client still sends is dropped by the server; the connection stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import HTTPException
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 64 * 1024
"""Bytes. With the queue's length it bounds what a burst can make the service hold."""


class BodyTooLarge(HTTPException):
    """The body passes the limit. It is an `HTTPException`, since FastAPI makes a 400 of all else in a body."""

    def __init__(self) -> None:
        super().__init__(413)


class BodyLimit:
    """Let bodies of up to `MAX_BODY` bytes through; whoever reads a larger one gets `BodyTooLarge`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI kind."""
        if scope["type"] == "http":
            receive = _limited(receive, Headers(scope=scope).get("content-length", ""))
        await self._app(scope, receive, send)


def _limited(receive: Receive, declared: str) -> Receive:
    too_long = declared.isdecimal() and int(declared) > MAX_BODY
    left = MAX_BODY

    async def receive_some() -> Message:
        nonlocal left
        if too_long:
            raise BodyTooLarge
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise BodyTooLarge
        return message

    return receive_some
