"""The metrics of a run that counted what a test says, and every name that the job ever writes."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

from examples.recipes.caption_qc.job.metrics import metrics_of
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.skips import METRIC
from examples.recipes.caption_qc.job.totals import Ended, Totals

if TYPE_CHECKING:
    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


def text_of(plan: Plan, totals: Totals, *, success: datetime | None = NOW, code: int = 0) -> str:
    """Write the metrics of a run that counted `totals` and found seven refused runs in the ledger."""
    ledger = SimpleNamespace(
        last_success=lambda until: success, dead_letters=lambda: 0, folded_skips=lambda: (7, "")
    )
    ended = Ended(totals=totals, code=code, drained=False, at=NOW, seconds=1.5)
    return metrics_of(plan, cast("Ledger", ledger), ended)


def names_of(text: str) -> set[str]:
    """List the families that a file has."""
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def every_text(plan: Plan) -> str:
    """Write the metrics of a run of which everything is known."""
    totals = Totals(seen=Seen(assets=1, oldest_settling_ns=0), whole_queue=True)
    totals.findings["608_PARITY", "error"] = 1
    return text_of(plan, totals)


def every_name(plan: Plan) -> set[str]:
    """List every name: those of such a run, and that of refused runs."""
    return names_of(every_text(plan)) | {METRIC}
