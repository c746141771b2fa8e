"""The plan of a run: what the options say, and what follows from what they leave open.

What contradicts itself is refused here, before anything is made.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .check import load
from .job.assets import shown
from .job.cpus import default_workers
from .job.errors import Exit, JobError
from .job.plan import TAKEN_NAMES, Plan, window_of
from .job.queue_folder import FolderQueue
from .job.reports_folder import Folder
from .job.scan import STATE_FOLDER

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from .check import Profile
    from .job.object_store import Bucket
    from .job.queues import Queue
    from .job.reports import Reports
    from .job.scan import Shard

SAMPLES: Final = Path(__file__).resolve().parent / "samples"
SETTLE: Final = 10.0


def new_run_id(now: datetime) -> str:
    """Name a run so that names sort by time and no two are equal."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def plan_of(options: Namespace, profile: Profile, now: datetime, run_id: str | None = None) -> Plan:
    """Fill in what the options leave open.

    Raises:
        JobError: options that can't be together.
    """
    queue = _queue_of(options.queue or SAMPLES)
    state = _real(options.state or default_state(queue, options.shard))
    settle = SETTLE if options.queue else 0.0
    plan = Plan(
        run_id=run_id or new_run_id(now),
        queue=queue,
        state=state,
        out=_reports_in(options.out or state),
        lock=_real(options.lock or state / "run.lock"),
        metrics_file=_real(options.metrics_file or state / "metrics.prom"),
        profile=profile,
        started=now,
        window=window_of(options.at or now, options.window),
        workers=options.workers or default_workers(),
        settle=settle if options.settle is None else options.settle,
        asset_timeout=options.asset_timeout,
        drain_timeout=options.drain_timeout,
        max_attempts=options.max_attempts,
        ping_url=options.ping_url,
        redo=options.redo,
        shard=options.shard,
        fail_on=options.fail_on or frozenset(),
        json_logs=bool(options.json_logs),
        scheduler=options.scheduler,
    )
    _require_places(plan)
    _require_one_window(options)
    return plan


def plan_of_places(options: Namespace, now: datetime) -> Plan:
    """Find where the runs of a queue keep things, for a command that does no run.

    Raises:
        JobError: options that can't be together.
    """
    return plan_of(options, load("house"), now)


def names_no_queue(options: Namespace) -> bool:
    """Whether a state folder was given and no queue, so that its ledger knows which it is."""
    return options.queue is None and options.state is not None


def default_state(queue: Queue, shard: Shard | None = None) -> Path:
    """Name a queue's own state folder under the working directory; each shard has one."""
    digest = hashlib.sha256(queue.key).hexdigest()[:8]
    part = f"-{shard.index}-of-{shard.count}" if shard else ""
    return Path(STATE_FOLDER) / f"{queue.label}-{digest}{part}"


def _queue_of(place: Path | Bucket) -> Queue:
    if isinstance(place, Path):
        return FolderQueue(_real(place))
    from .job.queue_store import StoreQueue  # noqa: PLC0415 - a local run needs none of it

    return StoreQueue(place)


def _reports_in(place: Path | Bucket) -> Reports:
    if isinstance(place, Path):
        return Folder(_real(place))
    from .job.reports_store import InBucket  # noqa: PLC0415 - a local run needs none of it

    return InBucket(place)


def _real(path: Path) -> Path:
    """Follow links, as far as they lead somewhere: a loop is left to whoever opens it to complain of."""
    return Path(os.path.realpath(path))


def _require_places(plan: Plan) -> None:
    """Refuse a lock and metrics that would be written over other files of the job."""
    default = plan.state / "metrics.prom"
    if plan.metrics_file.suffix != ".prom":
        found = f"the metrics {shown(plan.metrics_file)} have a name that does not end in .prom"
        way_out = f"collectors read no other: give --metrics-file one, or leave it out for {shown(default)}"
        raise JobError(f"{found}; {way_out}", Exit.USAGE)
    metrics = frozenset({plan.metrics_file, plan.metrics_skips})
    if _is_taken(plan.lock, plan) or plan.lock in metrics:
        raise _in_the_way("lock", plan.lock, "--lock")
    if plan.metrics_file != default and any(_is_taken(path, plan) for path in metrics):
        raise _in_the_way("metrics", plan.metrics_file, "--metrics-file")


def _is_taken(path: Path, plan: Plan) -> bool:
    ours = path.parent == plan.state or plan.out.is_folder(path.parent)
    return ours and path.name in TAKEN_NAMES


def _in_the_way(what: str, path: Path, option: str) -> JobError:
    found = f"the {what} {shown(path)} would be where the job has its {path.name}"
    return JobError(f"{found}; give {option} another path, or leave it out", Exit.USAGE)


def _require_one_window(options: Namespace) -> None:
    """Refuse `--at` with `--redo`: what is done again stays in its own window."""
    if options.redo and options.at:
        found = "--redo keeps records in their own windows, and --at names another"
        raise JobError(f"{found}; leave one of them out", Exit.USAGE)
