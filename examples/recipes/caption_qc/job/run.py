"""One run from lock to dashboard.

    place -> lock -> ledger -> scan -> (something to check? runner) -> ledger -> projections

A fire that finds nothing to check starts no event loop, no pool, and imports neither.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from .assets import shown
from .errors import Exit, JobError, cannot_write
from .ledger import open_ledger
from .lock import LockHeldError, note_skip, run_lock
from .place import require_local
from .projections import write_projections
from .scan import Seen, Walk, file_key, scan_queue
from .totals import Ended, Totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .assets import Asset
    from .drain import Drain
    from .ledger import Ledger
    from .plan import Plan
    from .screen import Screen


def run(plan: Plan, screen: Screen, drain: Drain) -> None:
    """Do one run.

    Raises:
        LockHeldError: another run holds the lock; the skip is noted.
        JobError: the run can't be done; one line says why.
    """
    _require_queue(plan)
    _make_folders(plan)
    try:
        with run_lock(plan.lock, started=plan.started), open_ledger(plan) as ledger:
            _run_locked(plan, ledger, screen, drain)
    except LockHeldError as error:
        try:
            note_skip(plan.skips, at=plan.started, holder=error.holder)
        except JobError as unnoted:
            screen.warn(str(unnoted))
        raise


def _run_locked(plan: Plan, ledger: Ledger, screen: Screen, drain: Drain) -> None:
    began = monotonic()
    ledger.begin_run()
    totals = Totals(seen=Seen())
    _check(plan, ledger, totals, screen, drain)
    for warning in totals.seen.warnings:
        screen.warn(warning)
    ended = Ended(
        totals=totals,
        code=Exit.OK,
        drained=drain.requested,
        at=datetime.now(UTC),
        seconds=monotonic() - began,
    )
    ledger.end_run(ended)
    try:
        write_projections(plan, ledger, ended)
    except JobError as error:
        ledger.end_run(replace(ended, code=error.code))
        raise
    screen.finish(plan, ended)


def _check(plan: Plan, ledger: Ledger, totals: Totals, screen: Screen, drain: Drain) -> None:
    pages = _pages(plan, ledger, totals, drain)
    first = next(pages, None)
    if first is None and not ledger.suspects():
        return
    # Here, because it brings the event loop, the batchers and the pool.
    from .runner import Runner  # noqa: PLC0415

    work = pages if first is None else itertools.chain([first], pages)
    Runner(plan, ledger, totals, screen, drain).run(work)


def _pages(plan: Plan, ledger: Ledger, totals: Totals, drain: Drain) -> Iterator[list[Asset]]:
    """Yield what is to be checked of each page of the scan, until a drain is asked for."""
    state = file_key(plan.state.stat())
    walk = Walk(queue=bytes(plan.queue), settle=plan.settle, now=datetime.now(UTC), skip=frozenset({state}))
    for page in scan_queue(walk, totals.seen):
        if drain.requested:
            return
        if todo := ledger.todo(page):
            yield todo
    totals.whole_queue = not drain.requested


def _require_queue(plan: Plan) -> None:
    try:
        with os.scandir(plan.queue):
            (plan.queue / "..").stat()  # Listing takes the right to read, this the right to enter.
    except PermissionError as error:
        way_out = "give this user the right to read and enter it"
        raise JobError(
            f"cannot read the queue {shown(plan.queue)}: {error.strerror}; {way_out}", Exit.NO_PERMISSION
        ) from error
    except OSError as error:
        way_out = "give the folder that holds the caption files"
        raise JobError(
            f"no queue at {shown(plan.queue)}: {error.strerror}; {way_out}", Exit.NO_QUEUE
        ) from error


def _make_folders(plan: Plan) -> None:
    """Make the folders of state and lock, on a local file system."""
    for folder in (plan.state, plan.lock.parent):
        require_local(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            option = "--state" if folder == plan.state else "--lock"
            raise cannot_write(error, shown(folder), option) from error
