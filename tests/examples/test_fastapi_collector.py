"""The command's process is its own, and it settles Python's garbage collector there before it listens."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import contextlib, gc
import uvicorn
from fastapi import FastAPI
from examples.recipes.owned_drain import serve

@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.service = object()
    app.state.made_at_start = [[] for _ in range(100_000)]
    yield

async def look(self, sockets=None):
    print(gc.get_freeze_count() > 100_000, gc.get_threshold())

uvicorn.Server.serve = look
serve(FastAPI(lifespan=lifespan), host="127.0.0.1", port=0)
"""


def test_collector_is_settled_once_the_service_has_started_and_before_it_listens() -> None:
    """What start-up made is passed over from then on, and requests that wait together are not looked at each time."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "True (10000, 20, 20)\n"
