"""The dashboard: what the last window with records shows, as JSON for programs and as one HTML file.

`dashboard.schema.json` describes the JSON. Additions raise the minor version, removals the major one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .plan import microseconds, time_of
from .rows import queue_name

if TYPE_CHECKING:
    from datetime import datetime

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended

VERSION: Final = "1.0.0"
TREND_WINDOWS: Final = 288
MOST_ASSETS: Final = 200
FIRST_FINDINGS: Final = 5
STATUSES: Final = ("pass", "warn", "fail", "error")


def dashboard_of(plan: Plan, ledger: Ledger, ended: Ended) -> dict[str, Any]:
    """Return the content of `dashboard.json`."""
    shown = _shown_window(plan, ledger)
    totals = ended.totals
    summary = _summary(ledger, *shown) if shown else _EMPTY
    counts = {"skipped": totals.skipped, "dead_letters": ledger.dead_letters(), "backlog": totals.backlog}
    return {
        "schema_version": VERSION,
        "generated_at": _iso(ended.at),
        "queue": queue_name(plan),
        "window": _iso(time_of(shown[0])) if shown else None,
        "run": {
            "id": plan.run_id,
            "status": "drained" if ended.drained else "complete",
            "exit_code": int(ended.code),
            "drained": ended.drained,
        },
        "profile": plan.profile.name,
        "profile_sha256": plan.profile.sha256,
        **summary,
        "totals": summary["totals"] | counts,
        "trend": _trend(ledger),
    }


def _shown_window(plan: Plan, ledger: Ledger) -> tuple[int, int] | None:
    """Return this run's window and its changes; one without records gives way to the newest that has some."""
    window = microseconds(plan.window)
    found: tuple[int, int] | None = ledger.read(_SHOWN, (window,)).fetchone()
    return found


def _summary(ledger: Ledger, window: int, changes: int) -> dict[str, Any]:
    kept = ledger.read(_KEPT, (window, changes)).fetchone()
    if kept is not None:
        known: dict[str, Any] = json.loads(kept[0])
        return known
    summary = _summarise(ledger, window)
    ledger.keep_summary(window, changes, json.dumps(summary))
    return summary


def _summarise(ledger: Ledger, window: int) -> dict[str, Any]:
    rules = [
        {"rule": rule, "severity": severity, "count": count, "assets": assets}
        for rule, severity, count, assets in ledger.read(_RULES, (window,))
    ]
    records = ledger.read(_WORST_ASSETS, (window, MOST_ASSETS + 1)).fetchall()
    return {
        "totals": _counts(ledger.read(_COUNTS, (window,)).fetchone()[0]),
        "rules": rules,
        "assets": [_asset(ledger, *record) for record in records[:MOST_ASSETS]],
        "truncated": len(records) > MOST_ASSETS,
    }


def _asset(ledger: Ledger, status: str, *key: str) -> dict[str, Any]:
    queue, asset_id, content, profile = key
    counts = dict(ledger.read(_SEVERITIES, (queue, asset_id, content, profile)).fetchall())
    names = ("rule", "severity", "line", "word", "timecode", "message")
    first = ledger.read(_FIRST_FINDINGS, (queue, asset_id, content, profile, FIRST_FINDINGS))
    return {
        "asset_id": asset_id,
        "content_sha256": content,
        "status": status,
        "worst_severity": next((name for name in ("error", "warn", "info") if counts.get(name)), None),
        "counts": {name: counts.get(name, 0) for name in ("error", "warn", "info")},
        "first_findings": [dict(zip(names, finding, strict=True)) for finding in first],
    }


def _trend(ledger: Ledger) -> list[dict[str, Any]]:
    rows = ledger.read(_TREND, (TREND_WINDOWS,)).fetchall()
    return [{"window": _iso(time_of(window)), **_counts(counts)} for window, counts in reversed(rows)]


def _counts(text: str) -> dict[str, int]:
    counts = json.loads(text)
    if not isinstance(counts, dict):
        raise TypeError(f"{text!r} is no count by status")
    by_status = {status: counts.get(status, 0) for status in STATUSES}
    return {"assets": sum(by_status.values()), **by_status}


def _iso(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


_EMPTY: Final[dict[str, Any]] = {"totals": _counts("{}"), "rules": [], "assets": [], "truncated": False}

_SHOWN: Final = (
    "SELECT window_start, changes FROM windows ORDER BY window_start = ? DESC, window_start DESC LIMIT 1"
)
_KEPT: Final = "SELECT content FROM summary WHERE window_start = ? AND changes = ?"
_COUNTS: Final = "SELECT counts FROM windows WHERE window_start = ?"
# Of windows whose files have been written once: a drain may leave others to the next run.
_TREND: Final = """
SELECT window_start, counts FROM windows WHERE counts IS NOT NULL ORDER BY window_start DESC LIMIT ?
"""
_RULES: Final = """
SELECT f.rule, f.severity, COUNT(*) AS found, COUNT(DISTINCT f.asset_id)
FROM records r JOIN findings f USING (queue, asset_id, content_sha256, profile_sha256)
WHERE r.window_start = ? GROUP BY f.rule, f.severity
ORDER BY CASE f.severity WHEN 'error' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, found DESC, f.rule
"""
_WORST_ASSETS: Final = """
SELECT status, queue, asset_id, content_sha256, profile_sha256 FROM records WHERE window_start = ?
ORDER BY CASE status WHEN 'error' THEN 0 WHEN 'fail' THEN 1 WHEN 'warn' THEN 2 ELSE 3 END, asset_id LIMIT ?
"""
_SEVERITIES: Final = """
SELECT severity, COUNT(*) FROM findings
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ? GROUP BY severity
"""
_FIRST_FINDINGS: Final = """
SELECT rule, severity, line, word, timecode, message FROM findings
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, place LIMIT ?
"""
