"""What depends on the records alone: dead letters, rules, the two plots, and the worst assets as a plain table.

It is made once a change of the ledger and kept there; `document` puts it between what a run says of itself and the
script, which makes of the plain table one that sorts and filters. Where a library is missing, the page says so.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from .holes import hole
from .markup import (
    SEVERITIES,
    STATUSES,
    badge,
    clock,
    code,
    counted,
    folded,
    foreign,
    number,
    place_of,
    section,
    share,
    table,
    time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PLAIN_ASSETS: Final = 100
"""How many the plain table shows: what a page without the script is still quick with."""
PLAIN_FINDINGS: Final = 5
_NO_PLOT: Final = """\
<p class="missing">There is no plot, because pygal is not installed: <code>pip install pygal</code>. The next run that
checks something draws it.</p>"""
_NO_RECORDS: Final = '<p class="quiet">Nothing was checked yet.</p>'


def fragment_of(summary: Mapping[str, Any]) -> str:
    """Return the parts of the page that show records.

    Args:
        summary: What `dashboard.json` says of records and ledger.
    """
    plots = f'<div class="beside">{_pass_rate(summary["trend"])}\n{_reading_speed(summary["reading_speed"])}</div>'
    return "\n".join([_dead_letters(summary), _rules(summary), plots, _assets(summary)])


def _dead_letters(summary: Mapping[str, Any]) -> str:
    letters = summary["dead_letters"]
    if not letters:
        return ""
    cut = (
        " These are the newest; <code>status</code> counts them all."
        if summary["dead_letters_truncated"]
        else ""
    )
    rows = (
        [
            code(one["asset_id"]),
            foreign(one["reason"]),
            number(one["attempts"]),
            time(one["died_at"]),
            "in the queue" if one["place"] is None else code(f"dead-letter/{one['place']}"),
        ]
        for one in letters
    )
    columns = {"asset": "name", "reason": "long", "attempts": "number", "given up": "", "lies at": "name"}
    way_out = (
        f"Given up after repeated attempts, and left alone until the bytes change. When the cause is mended, "
        f"{hole('replay')} puts them back. Those that do not lie in the queue lie below {hole('state')}.{cut}"
    )
    return section(
        "dead-letters", "Dead letters", f"<p>{way_out}</p>\n{table('Dead letters', columns, rows)}"
    )


def _rules(summary: Mapping[str, Any]) -> str:
    rules = summary["rules"]
    if not rules:
        nothing = '<p class="quiet">No findings.</p>' if summary["totals"]["assets"] else _NO_RECORDS
        return section("rules", "Findings by rule", nothing)
    most = max(rule["count"] for rule in rules)
    about = _about()
    rows = (
        [
            _rule_cell(rule["rule"], rule["severity"]),
            badge(rule["severity"]),
            f"{number(rule['count'])}{_meter(rule['count'], most, rule['severity'])}",
            number(rule["assets"]),
            escape(about.get(rule["rule"], "")),
        ]
        for rule in rules
    )
    columns = {
        "rule": "name",
        "severity": "wide",
        "findings": "number",
        "assets": "number",
        "what it finds": "about",
    }
    sums = _by_severity(rules)
    return section("rules", "Findings by rule", f"<p>{sums}</p>\n{table('Findings by rule', columns, rows)}")


def _rule_cell(rule: str, severity: str) -> str:
    """Show the severity below the name, where there is no room for a column of it."""
    link = f'<a href="#assets-title" data-rule="{escape(rule)}">{code(rule)}</a>'
    return f'{link}<span class="narrow">{badge(severity)}</span>'


def _by_severity(rules: Iterable[Mapping[str, Any]]) -> str:
    sums = dict.fromkeys(SEVERITIES, 0)
    for rule in rules:
        sums[rule["severity"]] += rule["count"]
    return " ".join(f"{badge(name)} {count:,}" for name, count in sums.items())


def _about() -> dict[str, str]:
    """Say of each rule what trips it; here, because a run that finds nothing new needs no rules."""
    from examples.recipes.caption_qc.check.rules import RULES  # noqa: PLC0415
    from examples.recipes.caption_qc.job.rows import DEAD_LETTER_RULE  # noqa: PLC0415
    from examples.recipes.caption_qc.job.sidecar import SIDECAR_RULE  # noqa: PLC0415

    return {name: rule.about for name, rule in RULES.items()} | {
        DEAD_LETTER_RULE: "A file was given up after repeated attempts; it was not checked.",
        SIDECAR_RULE: "The TOML file beside the asset can't be used; the asset was not checked.",
    }


def _meter(count: int, most: int, severity: str) -> str:
    width = max(1, round(100 * count / most))
    rect = f'<rect width="{width}" height="4"/>'
    return (
        f'<svg class="meter {severity}" viewBox="0 0 100 4" preserveAspectRatio="none" '
        f'aria-hidden="true">{rect}</svg>'
    )


def _pass_rate(trend: Sequence[Mapping[str, Any]]) -> str:
    if not trend:
        return section("windows", "Pass rate", _NO_RECORDS)

    def plot() -> str:
        from .plots import pass_rate_plot  # noqa: PLC0415 - so that the package costs an empty fire nothing

        return pass_rate_plot(trend)

    columns = {"window": "", "passed": "number", **dict.fromkeys((*STATUSES, "assets"), "number")}
    rows = (
        [
            time(one["window"]),
            share(one["pass"], one["assets"]),
            *(number(one[name]) for name in (*STATUSES, "assets")),
        ]
        for one in reversed(trend)
    )
    last = trend[-1]
    when = escape(clock(last["window"]))
    told = (
        f"<p>{share(last['pass'], last['assets'])} of {last['assets']:,} passed on {when}.</p>"
        if last["assets"]
        else f"<p>No record is left in the window of {when}.</p>"
    )
    figures = folded("The same as a table", table("Pass rate by window", columns, rows))
    title = f"Pass rate over {counted(len(trend), 'window')}"
    return section("windows", title, f"{told}\n{_plotted(plot)}\n{figures}")


def _reading_speed(speed: Mapping[str, Any]) -> str:
    if not any(one["assets"] for one in speed["bins"]):
        return section("reading-speed", "Reading speed", '<p class="quiet">No asset has a reading speed.</p>')

    def plot() -> str:
        from .plots import reading_speed_plot  # noqa: PLC0415 - see above

        return reading_speed_plot(speed)

    from .plots import bin_name  # noqa: PLC0415 - see above

    limit = speed["threshold"]
    told = "95th percentile of each asset, in characters a second"
    marked = "" if limit is None else f'; <span class="limit">limit {limit:g}</span>'
    unknown = f"; {counted(speed['unknown'], 'asset')} without one" if speed["unknown"] else ""
    columns = {"characters a second": "number", "assets": "number"}
    rows = ([escape(bin_name(one)), number(one["assets"])] for one in speed["bins"])
    figures = folded("The same as a table", table("Assets by reading speed", columns, rows))
    body = f"<p>{told}{marked}{unknown}.</p>\n{_plotted(plot)}\n{figures}"
    return section("reading-speed", "Reading speed", body)


def _plotted(plot: Callable[[], str]) -> str:
    try:
        return f'<div class="plot">{plot()}</div>'
    except ImportError:
        return _NO_PLOT


def _assets(summary: Mapping[str, Any]) -> str:
    if not summary["assets"]:
        return section("assets", "Assets", _NO_RECORDS)
    shown = summary["assets"][:PLAIN_ASSETS]
    rows = (_asset(one) for one in shown)
    columns = {"status": "", "asset": "name", "findings": "number", "the worst of them": "long"}
    plain = table("The worst assets", columns, rows)
    left = (
        f"<p>{cut_line(len(shown), summary['assets_total'], 'worst')}</p>"
        if summary["assets_total"] > len(shown)
        else ""
    )
    return section(
        "assets", "Assets", f'<div id="plain">{left}\n{plain}</div>\n<div id="table" hidden></div>'
    )


def cut_line(shown: int, total: int, which: str) -> str:
    """Say plainly that not all are shown."""
    return f"The {which} {shown:,} of {counted(total, 'asset')}; the Parquet files and <code>inspect</code> have all."


def _asset(asset: Mapping[str, Any]) -> Sequence[str]:
    first = asset["first_findings"][:PLAIN_FINDINGS]
    more = asset["findings"] - len(first)
    left = f"<li>and {more:,} more</li>" if more else ""
    listed = "".join(f"<li>{_finding(finding)}</li>" for finding in first) + left
    findings = f'<ul class="plain">{listed}</ul>' if listed else "none"
    old = asset["superseded"]
    name = code(asset["asset_id"]) + ("<br><small>delivered again since</small>" if old else "")
    return [badge(asset["status"], "old" if old else ""), name, number(asset["findings"]), findings]


def _finding(finding: Mapping[str, Any]) -> str:
    where = place_of(finding)
    place = f" <small>{where}</small>" if where else ""
    return f"{badge(finding['severity'])} {code(finding['rule'])}{place} {foreign(finding['message'])}"
