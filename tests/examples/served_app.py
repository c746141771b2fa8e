"""The program that the tests of signals run: the service under its own command's server, and a model to hold.

    python served_app.py DATABASE GATE DRAIN_DELAY GRACE

A row that begins with a number under 0 holds its batch: the model opens the pipe GATE, which is when the test's
own opening of it returns, and reads until the test closes it. When all has drained it says so.
"""

import sys
from pathlib import Path

from examples.recipes.fastapi_app import create_app
from examples.recipes.owned_drain import serve

database, gate, drain_delay, grace = sys.argv[1:]


def model(rows: list[list[float]]) -> list[float]:
    if any(row[0] < 0 for row in rows):
        Path(gate).read_bytes()
    return [sum(row) for row in rows]


app = create_app(
    database, prediction_processor=model, response_timeout=30, shutdown_grace=float(grace), shutdown_force=0.2
)
serve(app, host="127.0.0.1", port=0, drain_delay=float(drain_delay))
sys.stderr.write("all has drained\n")
