"""What the tests of the HTTP service share: the app as a server runs it, and what it stored."""

import contextlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

Rows = list[list[float]]


FAILED = {
    "error": "InternalServerError",
    "detail": "The service failed on this request: its outcome is unknown.",
    "withdrawn": False,
}


async def total(rows: Rows) -> list[float]:
    return [sum(row) for row in rows]


@contextlib.asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """Start the app as a server does, and give a client that sees a 500 as a 500."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield client


def stored(path: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            name: json.loads(payload)
            for name, payload in connection.execute("SELECT id, payload FROM events")
        }
