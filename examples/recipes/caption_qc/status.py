"""`status`: how the runs of a queue are doing, asked without changing anything or being in a run's way."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from .job.assets import printable, shown
from .job.dead_places import below, dead_letter_folder
from .job.errors import Exit, JobError, cannot_look
from .job.history import read_history
from .job.holder import LockState, lock_state
from .job.queues import queue_named
from .job.skips import in_a_row
from .planning import names_no_queue, plan_of_places

if TYPE_CHECKING:
    from argparse import Namespace

    from .job.history import DeadLetterFact, History, Kept, KnownQueue, PastRun
    from .job.plan import Plan

# A day of windows of five minutes.
RUNS_OF_TIME: Final = 288
RUNS_SHOWN: Final = 10
DEAD_LETTERS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What `status` says. What needs the ledger is empty where there is none, or none that can be read."""

    plan: Plan
    queue: str | None
    """The one that was given, else that of the last run; `None` where nothing is recorded yet."""
    window_seconds: float
    lock: LockState
    skipped_in_a_row: int
    trouble: JobError | None = None
    """Why the ledger can't be read, or that there is no state folder."""
    skipped: int | None = None
    """All that were refused and are counted in the ledger."""
    runs: tuple[PastRun, ...] = ()
    """The last ones, the newest first; of the first `RUNS_SHOWN` more is shown."""
    dead_letters: tuple[DeadLetterFact, ...] = ()
    dead_letter_count: int = 0
    queues: tuple[KnownQueue, ...] = ()
    """Where runs had several: what is kept of each."""
    kept: Kept | None = None

    @property
    def running(self) -> PastRun | None:
        """The run that holds the lock now; `None` also where it has not written of itself yet."""
        holder = self.lock.holder if self.lock.held else None
        start = holder.start if holder else None
        unended = (run for run in self.runs if run.finished is None)
        return next((run for run in unended if run.started.isoformat(timespec="seconds") == start), None)

    @property
    def scan_errors(self) -> int | None:
        """What the last run could not read; `None` where that is not kept."""
        return self.last.totals.get("scan_errors") if self.last else None

    @property
    def last(self) -> PastRun | None:
        """The last run that came to its end."""
        return next((run for run in self.runs if run.finished is not None), None)

    @property
    def seen_whole(self) -> PastRun | None:
        """The last run that saw the whole queue, and so knows what waits."""
        return next((run for run in self.runs if run.totals.get("backlog") is not None), None)

    @property
    def backlog(self) -> int | None:
        """What waited after that run; `None` where none has seen the whole queue."""
        return self.seen_whole.totals["backlog"] if self.seen_whole else None

    @property
    def p95(self) -> float | None:
        """Seconds that 95 of 100 of the last runs stayed within."""
        seconds = sorted(found for run in self.runs if (found := seconds_of(run)) is not None)
        return seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else None


def status(options: Namespace, now: datetime) -> int:
    """Print how the runs are doing; where the ledger can't be read, say the rest and return its code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `status | head` ends like any other tool.
    standing = look(options, plan_of_places(options, now))
    if options.json:
        print(json.dumps(as_object(standing)))
    else:
        from .status_page import print_standing  # noqa: PLC0415 - JSON needs no rich

        print_standing(standing)
    if standing.trouble is not None:
        raise standing.trouble
    return Exit.OK


def look(options: Namespace, plan: Plan) -> Standing:
    """Look at lock, skips and ledger.

    Raises:
        JobError: the state folder can't be looked at.
    """
    try:
        lock = lock_state(plan.lock)
    except OSError as error:
        raise cannot_look(error, plan.state) from error
    missing = None
    if names_no_queue(options) and not plan.state.exists():
        found = f"no run has been here: there is no folder {shown(plan.state)}"
        missing = JobError(f"{found}; give the queue, or its folder with --state", Exit.NO_QUEUE)
    known: dict[str, Any] = {
        "trouble": missing,
        "plan": plan,
        "queue": None if names_no_queue(options) else plan.queue.name,
        "window_seconds": options.window,
        "lock": lock,
        "skipped_in_a_row": in_a_row(plan),
    }
    try:
        facts = read_history(plan, lambda history: _facts(history, known["queue"]))
        return Standing(**(known | (facts or {})))
    except JobError as error:
        return Standing(**(known | {"trouble": error}))


def _facts(history: History, queue: str | None) -> dict[str, Any]:
    return {
        "queue": queue or history.queue(),
        "skipped": history.skips_total(),
        "runs": tuple(history.runs(RUNS_OF_TIME)),
        "dead_letters": tuple(history.dead_letters(DEAD_LETTERS_SHOWN)),
        "dead_letter_count": history.dead_letter_count(),
        "queues": tuple(history.queues()),
        "kept": history.kept(),
    }


def seconds_of(run: PastRun) -> float | None:
    """Return how long a run took; `None` where it did not come to its end."""
    return None if run.finished is None else (run.finished - run.started).total_seconds()


def path_of(plan: Plan, dead: DeadLetterFact) -> str:
    """Say where the file of a dead letter lies."""
    if dead.place is None:
        return queue_named(dead.queue).shown(unquote_to_bytes(dead.asset_id))
    return shown(below(dead_letter_folder(plan), unquote_to_bytes(dead.place)))


def as_object(standing: Standing) -> dict[str, Any]:
    """Return what `--json` prints."""
    plan, holder, kept = standing.plan, standing.lock.holder, standing.kept
    return {
        "queue": standing.queue,
        "state": shown(plan.state),
        "lock": {"held": standing.lock.held, "holder": asdict(holder) if holder else None},
        "skipped_in_a_row": standing.skipped_in_a_row,
        "skipped": standing.skipped,
        "backlog": standing.backlog,
        "backlog_at": standing.seen_whole.started.isoformat() if standing.seen_whole else None,
        "scan_errors": standing.scan_errors,
        "dead_letter_count": standing.dead_letter_count,
        "dead_letters": [
            _plain(asdict(dead)) | {"path": path_of(plan, dead)} for dead in standing.dead_letters
        ],
        "queues": [asdict(known) for known in standing.queues],
        "runs": [_run_object(run, standing.running) for run in standing.runs[:RUNS_SHOWN]],
        "run_seconds_p95": standing.p95,
        "window_seconds": standing.window_seconds,
        "kept": _plain(asdict(kept)) if kept else None,
        "error": None if standing.trouble is None else printable(str(standing.trouble)),
    }


def _run_object(run: PastRun, running: PastRun | None) -> dict[str, Any]:
    return _plain(asdict(run)) | {"seconds": seconds_of(run), "running": run is running}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Write times as text."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()
    }
