"""Fires of the caption job without the rest of it: refused, counted, and what the metric then says."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.ledger import Ledger, open_ledger
from examples.recipes.caption_qc.job.lock import Holder, LockHeldError, run_lock
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from caption_runs import Place

    from examples.recipes.caption_qc.job.plan import Plan

FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
OTHER: Final = Holder("7", "elsewhere", "then")
METRIC: Final = "caption_qc_lock_conflicts_in_a_row"


def plan_for(here: Place, started: datetime = FIRST) -> Plan:
    return plan_of(build_parser({}).parse_args(here.arguments()), load("house"), started)


@contextlib.contextmanager
def ledger_of(plan: Plan) -> Iterator[Ledger]:
    with open_ledger(plan, pytest.fail) as ledger:
        yield ledger


def metric(plan: Plan) -> int:
    name, number = plan.metrics_skips.read_text().splitlines()[-1].split()
    assert name == METRIC
    return int(number)


def fold(plan: Plan) -> int:
    """Fold as a run does that has the lock, and return the total."""
    with ledger_of(plan) as ledger:
        skips.fold(plan, ledger)
        return ledger.folded_skips()[0]


def holder_of(plan: Plan) -> Holder:
    """Reach for a lock that is held, and return by whom."""
    with pytest.raises(LockHeldError) as error:
        run_lock(plan.lock, started=plan.started).__enter__()
    return error.value.holder


def refused(plan: Plan) -> None:
    """Be refused, and note it."""
    skips.note(plan, holder_of(plan))
