"""The dashboard as a page: one file that opens from disk, without network or script.

Names and messages come from files that strangers deliver: everything goes through `escape`.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATUSES: Final = ("error", "fail", "warn", "pass")
_BAR_HEIGHT: Final = 60


def html_of(dashboard: dict[str, Any]) -> str:
    """Return the content of `dashboard.html`."""
    body = "\n".join(
        [
            _head(dashboard),
            _totals(dashboard["totals"]),
            _trend(dashboard["trend"]),
            _rules(dashboard["rules"]),
            _assets(dashboard["assets"], truncated=dashboard["truncated"]),
        ]
    )
    return f"{_START}<style>{_STYLE}</style>\n<main>\n{body}\n</main>\n"


def _head(dashboard: dict[str, Any]) -> str:
    run = dashboard["run"]
    facts = {
        "Queue": dashboard["queue"],
        "Window": dashboard["window"] or "nothing checked yet",
        "Run": f"{run['id']} ({run['status']}, exit code {run['exit_code']})",
        "Profile": f"{dashboard['profile']} {dashboard['profile_sha256'][:12]}",
        "Written": dashboard["generated_at"],
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(fact))}</dd>" for name, fact in facts.items())
    return f"<h1>Caption QC</h1>\n<dl>{rows}</dl>"


def _totals(totals: dict[str, Any]) -> str:
    tiles = "".join(
        f'<li class="{escape(name)}"><b>{_number(value)}</b> {escape(name.replace("_", " "))}</li>'
        for name, value in totals.items()
    )
    return f'<ul class="tiles">{tiles}</ul>'


def _trend(trend: list[dict[str, Any]]) -> str:
    if not trend:
        return ""
    most = max(window["assets"] for window in trend) or 1
    bars = "".join(_bar(window, most) for window in trend)
    first, last = escape(trend[0]["window"]), escape(trend[-1]["window"])
    title = f"Assets by window, {len(trend)} with records"
    span = f"<figcaption><span>{first}</span><span>{last}</span></figcaption>"
    return f'<h2>{title}</h2>\n<figure><div class="trend">{bars}</div>{span}</figure>'


def _bar(window: dict[str, Any], most: int) -> str:
    parts = "".join(
        f'<i class="{status}" style="height:{window[status] * _BAR_HEIGHT / most:.1f}px"></i>'
        for status in _STATUSES
        if window[status]
    )
    counts = ", ".join(f"{window[status]} {status}" for status in _STATUSES if window[status])
    return f'<span title="{escape(window["window"])}: {counts}">{parts}</span>'


def _rules(rules: list[dict[str, Any]]) -> str:
    rows = (
        [_code(rule["rule"]), _badge(rule["severity"]), _number(rule["count"]), _number(rule["assets"])]
        for rule in rules
    )
    return _table("Rules", ("rule", "severity", "findings", "assets"), rows, empty="No findings.")


def _assets(assets: list[dict[str, Any]], *, truncated: bool) -> str:
    rows = (
        [
            _badge(asset["status"]),
            _code(asset["asset_id"]),
            " ".join(f"{count} {name}" for name, count in asset["counts"].items() if count) or "none",
            "<br>".join(_finding(finding) for finding in asset["first_findings"]),
        ]
        for asset in assets
    )
    title = f"Assets, the worst {len(assets)}" if truncated else "Assets"
    columns = ("status", "asset", "findings", "first findings")
    return _table(title, columns, rows, empty="No assets.")


def _finding(finding: dict[str, Any]) -> str:
    named = [("line", finding["line"]), ("word", finding["word"]), ("at", finding["timecode"])]
    place = " ".join(f"{name} {value}" for name, value in named if value is not None)
    where = f" <small>{escape(place)}</small>" if place else ""
    return f"{_badge(finding['severity'])} {_code(finding['rule'])}{where} {escape(finding['message'])}"


def _table(title: str, columns: Iterable[str], rows: Iterable[list[str]], *, empty: str) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = (
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        if body
        else f"<p>{empty}</p>"
    )
    return f"<h2>{escape(title)}</h2>\n{table}"


def _badge(word: str) -> str:
    return f'<span class="badge {escape(word)}">{escape(word)}</span>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


_START: Final = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Caption QC</title>
"""
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --pass: #2e8b57; --warn: #b8860b; --fail: #c0392b;
  --error: #7d3c98; --info: #5d7285; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.8rem 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; list-style: none; }
.tiles li { border: 1px solid var(--line); border-top: 4px solid var(--line); border-radius: 4px;
  padding: .4rem .8rem; min-width: 4.5rem; }
.tiles b { display: block; font-size: 1.4rem; }
.tiles .pass { border-top-color: var(--pass); } .tiles .warn { border-top-color: var(--warn); }
.tiles .fail { border-top-color: var(--fail); } .tiles .error { border-top-color: var(--error); }
figure { margin: 0; }
figcaption { display: flex; justify-content: space-between; font-size: .8rem; opacity: .7; }
.trend { display: flex; align-items: flex-end; gap: 1px; height: 60px; border-bottom: 1px solid var(--line); }
.trend span { flex: 1; max-width: 24px; display: flex; flex-direction: column; justify-content: flex-end; }
.trend i { display: block; background: var(--info); }
.trend .pass { background: var(--pass); } .trend .warn { background: var(--warn); }
.trend .fail { background: var(--fail); } .trend .error { background: var(--error); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td { overflow-wrap: anywhere; } code { font-size: .9em; }
.badge { display: inline-block; min-width: 2.6rem; text-align: center; font-size: .8rem; border-radius: 3px;
  padding: 0 .4rem; color: #fff; background: var(--info); }
.badge.pass { background: var(--pass); } .badge.warn { background: var(--warn); }
.badge.fail { background: var(--fail); } .badge.error { background: var(--error); }
"""
