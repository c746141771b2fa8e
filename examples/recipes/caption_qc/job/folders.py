"""The folders of a run that are made: of its state, its lock, its reports and its metrics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .assets import shown
from .errors import cannot_write
from .files import require_replaceable
from .metrics_file import require_own_metrics
from .owner import claim_reports
from .place import require_local

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan


def make_state(plan: Plan) -> None:
    """Make the folders of state and lock, on a local file system.

    A queue that is none gets no state folder; one that had one before keeps it, so that the run that finds
    its queue gone can say so there.

    Raises:
        JobError: one can't be made, or lies where it must not.
    """
    for place in (plan.state, plan.lock):  # The lock may be a mount of its own.
        require_local(place)
    if not os.path.lexists(plan.state):  # Nor is it there where it can't be seen: making it says why.
        plan.queue.require()
    _make(plan.state, "--state")
    _make(plan.lock.parent, "--lock")


def make_reports(plan: Plan) -> None:
    """Make the places of reports and metrics; before the work, so that a mistake shows at once.

    Raises:
        JobError: one can't be made, or something else is where a report goes.
    """
    plan.out.make()
    claim_reports(plan)
    _make(plan.metrics_file.parent, "--metrics-file")
    for path in (plan.metrics_file, plan.metrics_skips):
        require_replaceable(path, "--metrics-file")
        require_own_metrics(plan, path)


def _make(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(error, shown(folder), option) from error
