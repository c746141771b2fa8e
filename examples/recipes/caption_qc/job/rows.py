"""From an outcome to the rows that the ledger keeps of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from examples.recipes.caption_qc.check.report import Figures, Finding

from . import TOOL_VERSION
from .assets import as_text
from .outcomes import Checked, DeadLetter
from .plan import microseconds
from .records import ASSETS, FINDINGS

if TYPE_CHECKING:
    from datetime import datetime

    from .plan import Plan
    from .records import Value

DEAD_LETTER_RULE: Final = "JOB_DEAD_LETTER"
# A finding's window is its record's; `place` is where it stands in the report.
FINDING_COLUMNS: Final = ("place", *(column.name for column in FINDINGS[1:]))
RECORD_COLUMNS: Final = tuple(column.name for column in ASSETS)


def findings_of(ending: Checked | DeadLetter) -> tuple[Finding, ...]:
    """Return what was found; a dead letter has one finding, its reason."""
    if isinstance(ending, Checked):
        return ending.report.findings
    message = f"not checked: {ending.reason}, {ending.attempts} times alone"
    return (Finding(rule=DEAD_LETTER_RULE, severity="error", message=message, measured=ending.attempts),)


def record_row(plan: Plan, ending: Checked | DeadLetter, attempt: int, at: datetime) -> tuple[Value, ...]:
    """Return the asset's record, in the order of its columns."""
    checked = ending if isinstance(ending, Checked) else None
    values: dict[str, Value] = asdict(checked.report.figures if checked else Figures())
    values |= {
        "window_start": microseconds(plan.window),
        "queue": queue_name(plan),
        "asset_id": ending.asset.asset_id,
        "content_sha256": ending.content_sha256,
        "size_bytes": ending.asset.stat.size,
        "mtime_ns": ending.asset.stat.mtime_ns,
        "status": checked.report.status if checked else "error",
        "attempt": attempt,
        "profile": plan.profile.name,
        "profile_sha256": plan.profile.sha256,
        "tool_version": TOOL_VERSION,
        "run_id": plan.run_id,
        "checked_at": microseconds(at),
        "check_seconds": checked.seconds if checked else None,
    }
    return tuple(values[name] for name in RECORD_COLUMNS)


def finding_rows(plan: Plan, ending: Checked | DeadLetter) -> list[tuple[Value, ...]]:
    """Return one row a finding; `number` counts, from 1, those of one rule at one place."""
    key: dict[str, Value] = {
        "queue": queue_name(plan),
        "asset_id": ending.asset.asset_id,
        "content_sha256": ending.content_sha256,
        "profile_sha256": plan.profile.sha256,
    }
    numbers: Counter[tuple[Value, ...]] = Counter()
    rows = []
    for place, finding in enumerate(findings_of(ending)):
        where = (finding.rule, finding.line, finding.word, finding.cue, finding.channel)
        numbers[where] += 1
        values = key | asdict(finding) | {"place": place, "number": numbers[where]}
        rows.append(tuple(values[name] for name in FINDING_COLUMNS))
    return rows


def queue_name(plan: Plan) -> str:
    """Name the queue in every record: its path, as text."""
    return as_text(bytes(plan.queue))
