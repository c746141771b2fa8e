"""From an outcome to the rows that the ledger keeps of it.

Rows are made in the parent, which shares its processors with the workers: no field is copied twice.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from examples.recipes.caption_qc.check.report import Figures, Finding
from examples.recipes.caption_qc.check.tally import tally

from . import TOOL_VERSION
from .outcomes import Checked, DeadLetter
from .plan import microseconds
from .records import ASSETS, FINDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from .captions import Caption
    from .plan import Plan
    from .records import Value

DEAD_LETTER_RULE: Final = "JOB_DEAD_LETTER"
# A finding's window is its record's; `place` is where it stands in the report.
FINDING_COLUMNS: Final = ("place", *(column.name for column in FINDINGS[1:]))
RECORD_COLUMNS: Final = tuple(column.name for column in ASSETS)
# What stands in a row before the finding's own fields: place, the key's four, number.
_BEFORE_PARTS: Final = 6
# What stands after them: the caption's text, start and end.
_AFTER_PARTS: Final = 3
_PARTS: Final[Callable[[Finding], tuple[Value, ...]]] = attrgetter(
    *FINDING_COLUMNS[_BEFORE_PARTS:-_AFTER_PARTS]
)
_WHERE: Final[Callable[[Finding], tuple[Value, ...]]] = attrgetter("rule", "line", "word", "cue", "channel")
_CAPTION: Final[Callable[[Caption], tuple[Value, ...]]] = attrgetter("text", "start", "end")
_NO_CAPTION: Final[tuple[Value, ...]] = (None,) * _AFTER_PARTS
_FIGURE_NAMES: Final = tuple(field.name for field in fields(Figures) if field.name in RECORD_COLUMNS)
_FIGURES: Final[Callable[[Figures], tuple[Value, ...]]] = attrgetter(*_FIGURE_NAMES)


def findings_of(ending: Checked | DeadLetter) -> tuple[Finding, ...]:
    """Return what was found; a dead letter has one finding, its reason."""
    if isinstance(ending, Checked):
        return ending.report.findings
    message = f"not checked: {ending.reason}, {ending.attempts} times alone"
    return (Finding(rule=DEAD_LETTER_RULE, severity="error", message=message, measured=ending.attempts),)


def record_row(
    plan: Plan, ending: Checked | DeadLetter, attempt: int, at: datetime, window: int | None = None
) -> tuple[Value, ...]:
    """Return the asset's record, in the order of its columns.

    Args:
        plan: The run.
        ending: What came of the asset.
        attempt: The how manieth check of this content it was.
        at: When it ended.
        window: The start of the record's window, where it is not the run's own.
    """
    checked = ending if isinstance(ending, Checked) else None
    values: dict[str, Value] = dict(
        zip(_FIGURE_NAMES, _FIGURES(checked.report.figures if checked else Figures()), strict=True)
    )
    values |= {
        "window_start": microseconds(plan.window) if window is None else window,
        "queue": queue_name(plan),
        "asset_id": ending.asset.asset_id,
        "content_sha256": ending.content_sha256,
        "size_bytes": ending.asset.stat.size,
        "mtime_ns": ending.asset.stat.mtime_ns,
        "status": checked.report.status if checked else "error",
        "attempt": attempt,
        "profile": plan.profile.name,
        "profile_sha256": judged_by(plan, ending),
        "tool_version": TOOL_VERSION,
        "run_id": plan.run_id,
        "checked_at": microseconds(at),
        "check_seconds": checked.seconds if checked else None,
    }
    return tuple(map(values.__getitem__, RECORD_COLUMNS))


def tally_of(ending: Checked | DeadLetter) -> str:
    """Write down how many findings are listed, and how many there were of each rule and severity."""
    findings = findings_of(ending)
    return json.dumps([len(findings), [[one.rule, one.severity, one.count] for one in tally(findings)]])


def finding_rows(plan: Plan, ending: Checked | DeadLetter) -> list[tuple[Value, ...]]:
    """Return one row a finding; `number` counts, from 1, those of one rule at one place."""
    key = record_key(plan, ending)
    numbers: Counter[tuple[Value, ...]] = Counter()
    rows: list[tuple[Value, ...]] = []
    for place, (finding, shows) in enumerate(zip(findings_of(ending), _shown_of(ending), strict=False)):
        where = _WHERE(finding)
        numbers[where] += 1
        rows.append((place, *key, numbers[where], *_PARTS(finding), *shows))
    return rows


def _shown_of(ending: Checked | DeadLetter) -> Iterator[tuple[Value, ...]]:
    """Yield what shows at each finding, and for ever on that nothing does: at those that the job has added."""
    captions = ending.captions if isinstance(ending, Checked) else ()
    found = (_NO_CAPTION if caption is None else _CAPTION(caption) for caption in captions)
    return chain(found, repeat(_NO_CAPTION))


def record_key(plan: Plan, ending: Checked | DeadLetter) -> tuple[str, str, str, str]:
    """Return the four that name a record."""
    return (queue_name(plan), ending.asset.asset_id, ending.content_sha256, judged_by(plan, ending))


def judged_by(plan: Plan, ending: Checked | DeadLetter) -> str:
    """Return the digest of what the file was judged by: the profile, and its sidecar where it has one."""
    if isinstance(ending, Checked):
        return ending.report.profile_sha256
    return ending.judged_by or plan.profile.sha256


def queue_name(plan: Plan) -> str:
    """Name the queue in every record."""
    return plan.queue.name
