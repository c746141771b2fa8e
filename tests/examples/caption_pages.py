"""Dashboards of any size for the tests of the page: what the job would say of so many assets, without the checks."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from examples.recipes.caption_qc.job.page import fragment_of, html_of
from examples.recipes.caption_qc.job.page.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHA = "ab" * 32
LIMIT = 20.0
QUEUE = "/srv/captions/incoming"
STATE = "/var/lib/captions"
COMMANDS = Commands(f"python -m examples.recipes.caption_qc replay --state {STATE}", STATE)
SEVERITIES = ("error", "warn", "info")
STATUSES = ("error", "fail", "warn", "pass")
KINDS = {
    "error": [("LAY_OVER_32_COLS", "error", "3 characters are lost past column 32")],
    "fail": [
        ("TC_BACKWARD", "error", "the line is 2 s before the line above it"),
        ("RATE_CPS", "warn", "the cue reads at 27.4 characters a second"),
        ("CUE_SHORT", "warn", "the cue is on screen for 0.567 s"),
    ],
    "warn": [
        ("CUE_SHORT", "warn", "the cue is on screen for 0.567 s"),
        ("CUE_GAP", "warn", "a gap of one frame"),
    ],
    "pass": [("608_CTRL_NOT_DOUBLED", "info", "sent once")],
}


def finding(rule: str, severity: str, message: str, **more: Any) -> dict[str, Any]:
    """One finding, with a place and a caption."""
    known = {
        "rule": rule,
        "severity": severity,
        "message": message,
        "line": 12,
        "word": 3,
        "timecode": "00:01:02;05",
        "cue": 7,
        "channel": "CC1",
        "measured": 27.4,
        "threshold": 20.0,
        "unit": "characters a second",
        "caption": "- Where did you put it?\n- On the kitchen table.",
        "caption_start": 62.128,
        "caption_end": 63.5,
    }
    return known | more


def asset(name: str, status: str = "fail", **more: Any) -> dict[str, Any]:
    """One asset, with the findings that its status asks for unless others are given."""
    first = more.pop("first_findings", None)
    first = [finding(*kind) for kind in KINDS[status]] if first is None else first
    counts = Counter(one["severity"] for one in first)
    known = {
        "asset_id": name,
        "content_sha256": SHA,
        "status": status,
        "worst_severity": next((one for one in SEVERITIES if counts[one]), None),
        "counts": {one: counts[one] for one in SEVERITIES},
        "rules": dict(Counter(one["rule"] for one in first)),
        "findings": len(first),
        "first_findings": first,
        "profile": "house",
        "profile_sha256": SHA,
        "time_base": "df",
        "cues": 812,
        "max_cps": 31.2,
        "p95_cps": 18.7,
        "wpm": 162.0,
        "share_over_cps": 0.03,
        "duration_seconds": 1710.5,
        "queue": QUEUE,
        "superseded": False,
    }
    return known | more


def many(count: int) -> list[dict[str, Any]]:
    """Give `count` assets, the worst first: one in a hundred could not be checked, one in ten fails."""

    def status(number: int) -> str:
        part = number / count
        return "error" if part < 0.01 else "fail" if part < 0.1 else "warn" if part < 0.4 else "pass"

    return [
        asset(
            f"show-{number % 97:02d}/season-1/episode-{number:05d}.scc",
            status(number),
            p95_cps=8 + number * 7 % 240 / 10,
        )
        for number in range(count)
    ]


def summary_of(assets: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """All that the records say, and `more` that a test changes of it."""
    statuses = Counter(one["status"] for one in assets)
    totals = {"assets": len(assets), **{name: statuses[name] for name in STATUSES}}
    known = {
        "totals": totals,
        "profiles": [{"name": "house", "sha256": SHA, "assets": len(assets)}] if assets else [],
        "rules": _rules(assets),
        "reading_speed": _reading_speed(assets),
        "trend": _trend(totals),
        "dead_letters": [],
        "dead_letters_truncated": False,
        "assets": list(assets),
        "assets_total": len(assets),
        "truncated": False,
    }
    return known | more


def head_of(summary: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the run says of itself; `more` totals by name, else parts of the head."""
    totals = summary["totals"] | {"skipped": 0, "dead_letters": len(summary["dead_letters"]), "backlog": 0}
    known = {
        "schema_version": "1.2.0",
        "generated_at": "2026-01-05T06:10:09Z",
        "queue": QUEUE,
        "window": "2026-01-05T06:05:00Z" if summary["assets"] else None,
        "run": {
            "id": "20260105T061001Z-4711",
            "status": "complete",
            "exit_code": 0,
            "drained": False,
            "redo": False,
        },
        "profile": "house",
        "profile_sha256": SHA,
        "totals": totals | {name: value for name, value in more.items() if name in totals},
        "superseded": {
            name: sum(one["superseded"] and one["status"] == name for one in summary["assets"])
            for name in STATUSES
        },
    }
    return known | {name: value for name, value in more.items() if name not in totals}


def page_of(summary: dict[str, Any], **head: Any) -> str:
    """Write the page as a run does: the worst 200 to the fragment, all to the data."""
    fragment = fragment_of(summary | {"assets": summary["assets"][:200]})
    before, after = html_of(head_of(summary, **head), fragment, COMMANDS)
    data = {name: value for name, value in summary.items() if name != "totals"}
    return before + json.dumps(data).replace("&", "\\u0026").replace("<", "\\u003c") + after


def dead_letter(name: str, reason: str, **more: Any) -> dict[str, Any]:
    """One asset that was given up."""
    known = {
        "asset_id": name,
        "content_sha256": SHA,
        "reason": reason,
        "attempts": 3,
        "died_at": "2026-01-05T06:07:40Z",
        "place": name,
    }
    return known | more


def _rules(assets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found = Counter((one["rule"], one["severity"]) for asset in assets for one in asset["first_findings"])
    pairs = sorted(found.items(), key=lambda one: (SEVERITIES.index(one[0][1]), -one[1], one[0]))
    return [
        {"rule": rule, "severity": severity, "count": count, "assets": count}
        for (rule, severity), count in pairs
    ]


def _reading_speed(assets: Iterable[dict[str, Any]]) -> dict[str, Any]:
    speeds = [asset["p95_cps"] for asset in assets]
    known = Counter(min(int(speed), 40) for speed in speeds if speed is not None)
    bins = [
        {"from": edge, "to": edge + 1 if edge < 40 else None, "assets": known[edge]} for edge in range(41)
    ]
    over = sum(speed is not None and speed > LIMIT for speed in speeds)
    speed = {"unit": "cps", "width": 1, "threshold": LIMIT, "over": over}
    return speed | {"bins": bins, "unknown": speeds.count(None)}


def _trend(totals: dict[str, int]) -> list[dict[str, Any]]:
    if not totals["assets"]:
        return []
    return [
        {
            "window": f"2026-01-{4 + hour // 24:02d}T{hour % 24:02d}:05:00Z",
            **totals,
            "pass_rate": totals["pass"] / totals["assets"],
        }
        for hour in range(30)
    ]
