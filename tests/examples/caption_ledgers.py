"""A ledger, real endings, and what is asked of them: shared by the tests of what the job keeps."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from caption_runs import GOOD

from examples.recipes.caption_qc.check import Report, check, load
from examples.recipes.caption_qc.job.assets import Asset, Stat, stat_of
from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.ledger import Finished, Ledger, open_ledger
from examples.recipes.caption_qc.job.outcomes import Checked, DeadLetter, Ending
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.reports import window_files
from examples.recipes.caption_qc.job.reports_folder import Folder
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.totals import Ended, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)
PROFILE = load("house")
CLEAN = check(GOOD, PROFILE)
# A report with findings, of two rules.
FAULTY = check(GOOD.replace(b"9420", b"9421").replace(b"942f", b"942g", 1), PROFILE)
STAT = Stat(size=5, mtime_ns=1, ctime_ns=2, inode=3)
A, B = Asset(b"a.scc", STAT), Asset(b"b/\xe9.scc", STAT)

# What makes a ledger of an earlier version of today's.
AS_VERSION_4 = """
ALTER TABLE findings DROP COLUMN caption; ALTER TABLE findings DROP COLUMN caption_start;
ALTER TABLE findings DROP COLUMN caption_end; ALTER TABLE records DROP COLUMN tally;
DROP TABLE summary; DROP TABLE summary_text;
CREATE TABLE summary (
    one INTEGER PRIMARY KEY CHECK (one = 1), window_start INTEGER NOT NULL, changes INTEGER NOT NULL,
    content TEXT NOT NULL);
INSERT INTO summary SELECT 1, window_start, changes, '{}' FROM windows; PRAGMA user_version = 4;
"""
# Runs had no numbers.
AS_VERSION_3 = f"""{AS_VERSION_4}
CREATE TABLE old AS SELECT run_id, started_at, window_start, profile, profile_sha256, tool_version, finished_at,
    exit_code, drained, totals, rebuilt FROM runs;
DROP TABLE runs; ALTER TABLE old RENAME TO runs; PRAGMA user_version = 3;
"""  # noqa: S608 - our own text
AS_VERSION_2 = f"""{AS_VERSION_3}
ALTER TABLE assets DROP COLUMN sidecar; ALTER TABLE runs DROP COLUMN rebuilt;
DROP TABLE dead_letters; DROP TABLE pruned; DROP TABLE skips; PRAGMA user_version = 2;
"""


def plan_in(folder: Path) -> Plan:
    """Plan a run over an empty queue below `folder`."""
    state, queue = folder / "state", folder / "queue"
    state.mkdir()
    queue.mkdir()
    return Plan(
        run_id="run-1",
        queue=FolderQueue(queue),
        state=state,
        out=Folder(state),
        lock=state / "run.lock",
        metrics_file=state / "metrics.prom",
        profile=PROFILE,
        started=NOW,
        window=NOW.replace(minute=5, second=0),
        workers=1,
        settle=0.0,
        asset_timeout=30.0,
        drain_timeout=25.0,
        max_attempts=3,
    )


def reports_of(plan: Plan) -> Path:
    """Return the folder where the reports lie."""
    assert isinstance(plan.out, Folder)
    return plan.out.path


def window_paths(plan: Plan, window: datetime) -> tuple[Path, Path]:
    """Return where the findings and the assets of a window lie."""
    findings, assets = window_files(window)
    return reports_of(plan) / findings, reports_of(plan) / assets


@contextlib.contextmanager
def new_run(
    plan: Plan,
    name: str = "run-1",
    window: datetime | None = None,
    warn: Callable[[str], object] = pytest.fail,
) -> Iterator[Ledger]:
    """Open the ledger for a run of that name; a ledger that is made again fails the test without `warn`."""
    plan = replace(plan, run_id=name, window=window or plan.window)
    with open_ledger(plan, warn) as ledger:
        ledger.begin_run()
        yield ledger


def checked(asset: Asset, content: str = "1" * 64, report: Report = CLEAN) -> Checked:
    """Say that the asset was checked."""
    return Checked(asset=asset, content_sha256=content, report=report, seconds=0.5)


def died(asset: Asset, content: str = "1" * 64) -> DeadLetter:
    """Say that the asset was given up."""
    return DeadLetter(asset=asset, content_sha256=content, attempts=3, reason="hung")


def finish(ledger: Ledger, *endings: Ending) -> tuple[bool, ...]:
    """Record the endings, and say which gave a new record."""
    (recorded,) = ledger.write([Finished(endings, NOW)])
    return tuple(new for _, new in recorded)


def ended() -> Ended:
    """End a run well."""
    return Ended(totals=Totals(seen=Seen()), code=Exit.OK, drained=False, at=NOW, seconds=1.0)


def folder_of(plan: Plan) -> Path:
    """Return the folder that the plan's queue is."""
    folder = plan.queue.folder
    assert folder is not None
    return folder


def deliver(plan: Plan, name: str, data: bytes = GOOD) -> Asset:
    """Put a file into the queue, and see it."""
    path = folder_of(plan) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return seen(plan, name)


def seen(plan: Plan, name: str) -> Asset:
    """See a file of the queue as the scan would."""
    path = folder_of(plan) / name
    return Asset(bytes(path.relative_to(folder_of(plan))), stat_of(path.lstat()))


def sha256(data: bytes) -> str:
    """Name a content."""
    return hashlib.sha256(data).hexdigest()


def ask(ledger: Ledger, query: str) -> list[tuple[Any, ...]]:
    """Ask the ledger."""
    return ledger.read(query).fetchall()


def asset_rows(ledger: Ledger) -> list[tuple[Any, ...]]:
    """List the assets that the ledger knows."""
    return ask(ledger, "SELECT asset_id, state, attempts FROM assets ORDER BY asset_id")


def write_two(plan: Plan) -> Plan:
    """Leave a ledger with two records, closed, and its projections."""
    with new_run(plan) as ledger:
        finish(ledger, checked(A), checked(B))
        write_projections(plan, ledger, ended())
    return plan
