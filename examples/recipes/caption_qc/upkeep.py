"""`replay` and `prune`: what people do to the state between two runs, each under the run lock."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from .job.assets import shown
from .job.errors import Exit, JobError, cannot_look
from .job.history import read_history
from .job.ledger import left_lost, open_ledger
from .job.lock import run_lock
from .job.owner import require_own_reports
from .job.plan import window_name
from .job.prune import plan_prune, prune
from .job.queues import queue_named
from .job.replay import replay
from .job.streams import say
from .labels import in_bytes
from .planning import names_no_queue, plan_of_places

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from datetime import datetime

    from .job.ledger import Ledger
    from .job.plan import Plan
    from .job.prune import Pruned


def replay_assets(options: Namespace, now: datetime) -> int:
    """Put dead letters back, and name each on standard output."""
    plan = _plan_of(options, now)
    with _ledger_of(plan) as ledger:
        plan.queue.require()
        done = replay(plan, ledger, options.assets)
    for name in done.replayed:
        print(f"back in the queue: {name}")
    for name, reason in done.left:
        _warn(f"{name} is not back in the queue: {reason}")
    for name, reason in done.elsewhere:
        _warn(f"{name}: {reason}")
    if done.elsewhere and not done.replayed and not done.left:
        print(f"nothing to do: no dead letter is of the queue {plan.queue.name}")
    elif not done.replayed and not done.left:
        print("nothing to do: there are no dead letters")
    return Exit.CANNOT_CREATE if done.left else Exit.OK


def prune_windows(options: Namespace, now: datetime) -> int:
    """Delete the windows that are older than `--keep`, or say what would go."""
    plan = _plan_of(options, now)
    act, done = (plan_prune, "would delete") if options.dry_run else (prune, "deleted")
    with _ledger_of(plan) as ledger:
        pruned = act(plan, ledger, now - options.keep)
    print(_told(done, pruned))
    if pruned.note is not None:
        _warn(pruned.note)
    return Exit.OK


def _plan_of(options: Namespace, now: datetime) -> Plan:
    plan = plan_of_places(options, now)
    if not names_no_queue(options):
        return plan
    queue = read_history(plan, lambda history: history.queue())
    return plan if queue is None else replace(plan, queue=queue_named(queue))


@contextlib.contextmanager
def _ledger_of(plan: Plan) -> Iterator[Ledger]:
    """Hold the lock and open the ledger that runs have made; none is made here."""
    try:
        plan.ledger.lstat()
    except FileNotFoundError as error:
        found = f"no run has been here: there is no {shown(plan.ledger)}"
        raise JobError(f"{found}; give the queue, or its folder with --state", Exit.NO_QUEUE) from error
    except OSError as error:
        raise cannot_look(error, plan.state) from error
    with run_lock(plan.lock, started=plan.started):
        require_own_reports(plan)
        with open_ledger(plan, _warn, left_lost) as ledger:
            yield ledger


def _warn(text: str) -> None:
    say(f"warning: {text}")


def _told(done: str, pruned: Pruned) -> str:
    if not pruned.windows:
        return f"nothing to do: no window is as old as that{_oldest(pruned)}"
    windows = "1 window" if pruned.windows == 1 else f"{pruned.windows} windows"
    records = "1 record" if pruned.records == 1 else f"{pruned.records} records"
    return f"{done} {windows} with {records}, {in_bytes(pruned.bytes)}{_oldest(pruned)}"


def _oldest(pruned: Pruned) -> str:
    return "" if pruned.oldest is None else f"; the oldest that stays is {window_name(pruned.oldest)}"
