"""The caption job with its reports in a bucket: as records in the ledger, as commands here, as real runs."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from caption_inspect import Said
from caption_ledgers import STAT, checked, ended, finish, new_run
from caption_runs import COMMAND, ENVIRONMENT, ROOT
from pyarrow import parquet

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.owner import claim_reports
from examples.recipes.caption_qc.job.projections import write_projections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from caption_runs import Place
    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.plan import Plan

PREFIX: Final = "reports/"
OUT: Final = "s3://captions/reports"
LATER: Final = timedelta(minutes=5)


def empty(server: ObjectServer) -> None:
    """Take all objects out of the bucket, and forget what was asked."""
    for key in server.keys():  # noqa: SIM118 - a method of its own
        server.delete(key)
    server.forget()


def record(plan: Plan, *numbers: int) -> None:
    """Record an asset in each window of these numbers, and write the reports."""
    claim_reports(plan)
    for number in numbers:
        with new_run(plan, f"run-{number}", plan.window + number * LATER) as ledger:
            finish(ledger, checked(Asset(b"%d.scc" % number, STAT), f"{number:064d}"))
            write_projections(plan, ledger, ended())
            ledger.end_run(ended())


def command(*arguments: str) -> Said:
    """Do a command in this process, and give back the signals that it takes."""
    out, errors = io.StringIO(), io.StringIO()
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    }
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(arguments, Drain())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Said(code, out.getvalue(), errors.getvalue().splitlines())


def fire(here: Place, *more: str, out: str = OUT) -> Said:
    """Do a run of the queue in this process."""
    return command(*here.arguments("--out", out, *more))


@contextlib.contextmanager
def begun(here: Place, server: ObjectServer, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Begin a run in a process of its own; what is left of it at the end of the block is killed."""
    with subprocess.Popen(
        [*COMMAND, *here.arguments("--out", OUT, "--workers", "1", *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | server.environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def real_run(here: Place, server: ObjectServer, *more: str) -> Said:
    """Do a run in a process of its own."""
    with begun(here, server, *more) as process:
        out, errors = process.communicate()
        return Said(process.returncode, out, errors.splitlines())


def reports(server: ObjectServer) -> list[str]:
    """List the reports, as they are named below their place."""
    keys = server.keys()
    return [key.removeprefix(PREFIX) for key in keys if key.startswith(PREFIX)]


def written(server: ObjectServer) -> list[str]:
    """List what was written, in the order of the requests."""
    return [path.partition(PREFIX)[2].rstrip("?") for path in server.calls("PUT")]


def tables(name: str) -> list[str]:
    """Name the two files of a window, in the order in which they are written."""
    return [f"telemetry/{table}/window={name}/{table}.parquet" for table in ("findings", "assets")]


def data_of(server: ObjectServer, name: str) -> bytes:
    """Read a report."""
    return server.client.get_object(Bucket=server.bucket, Key=PREFIX + name)["Body"].read()


def dashboard(server: ObjectServer) -> dict[str, Any]:
    """Read the dashboard for programs."""
    found: dict[str, Any] = json.loads(data_of(server, "dashboard.json"))
    return found


def recorded(server: ObjectServer) -> list[str]:
    """List the assets of all windows' records, each as often as it is there."""
    names = [name for name in reports(server) if name.endswith("/assets.parquet")]
    files = (parquet.read_table(io.BytesIO(data_of(server, name))) for name in names)
    return sorted(str(name) for file in files for name in file.column("asset_id").to_pylist())
