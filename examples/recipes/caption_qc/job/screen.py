"""What a run says while it works: one line an asset, or a bar on a terminal.

Everything goes to standard error: standard output stays empty when all is well. A reader that is gone never
ends a run.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from .outcomes import Checked, DeadLetter, Died
from .rows import findings_of

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Finding

    from .outcomes import Ending
    from .plan import Plan
    from .totals import Ended, Totals


class Screen(Protocol):
    """Where a run's news go."""

    def show(self, ending: Ending) -> None:
        """Say what came of one asset."""

    def warn(self, text: str) -> None:
        """Say what the reader should look into."""

    def redraw(self, totals: Totals) -> None:
        """Show how far the run is."""

    def finish(self, plan: Plan, ended: Ended) -> None:
        """Sum up, last."""

    def close(self) -> None:
        """Leave the terminal as it was, however the run ended."""


class LogScreen:
    """Lines on standard error, for a log."""

    def show(self, ending: Ending) -> None:
        """Write one line."""
        _write(line_of(ending))

    def warn(self, text: str) -> None:
        """Write one line."""
        _write(f"warning: {text}")

    def redraw(self, totals: Totals) -> None:
        """Do nothing: a log has no bar."""

    def finish(self, plan: Plan, ended: Ended) -> None:
        """Write the summary line."""
        _write(summary_of(plan, ended))

    def close(self) -> None:
        """Do nothing: there is nothing to leave."""


def line_of(ending: Ending) -> str:
    """Say in one line what came of one asset."""
    name = ending.asset.asset_id
    match ending:
        case Checked():
            return f"{ending.report.status:<5} {name}{_reasons(findings_of(ending))}"
        case DeadLetter():
            return f"error {name}: dead letter: {findings_of(ending)[0].message}"
        case Died():
            return f"died  {name}: {ending.reason}"
        case _:
            return f"left  {name}: {ending.detail}"


def summary_of(plan: Plan, ended: Ended) -> str:
    """Sum a run up in one line."""
    totals = ended.totals
    if not totals.found:
        done = f"nothing to do: {totals.seen.assets} assets seen, none new or changed"
    else:
        counts = ", ".join(f"{totals.statuses[name]} {name}" for name in ("pass", "warn", "fail", "error"))
        done = f"checked {totals.checked} of {totals.found}: {counts}"
    parts = [done, *notes_of(ended), f"{ended.seconds:.1f} s", f"dashboard {plan.state / 'dashboard.html'}"]
    return "; ".join(parts)


def notes_of(ended: Ended) -> list[str]:
    """List what is out of the ordinary, each in a few words."""
    totals = ended.totals
    counts = {
        "dead letters": totals.dead_letters,
        "died and are tried again": totals.died,
        "left for the next run": totals.left.total(),
        "changed too short a time ago": totals.seen.settling,
        "links passed over": totals.seen.links,
        "unreadable": totals.seen.unreadable,
    }
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    return ["drained before the end", *notes] if ended.drained else notes


def _reasons(findings: tuple[Finding, ...]) -> str:
    """List the rules of the worst findings, with how many there are of each."""
    counts = Counter((finding.severity, finding.rule) for finding in findings if finding.severity != "info")
    ordered = sorted(counts.items(), key=lambda item: (item[0][0] != "error", -item[1], item[0][1]))
    text = ", ".join(f"{severity} {rule} x{count}" for (severity, rule), count in ordered[:_MOST_RULES])
    more = f" and {len(ordered) - _MOST_RULES} rules more" if len(ordered) > _MOST_RULES else ""
    return f": {text}{more}" if text else ""


_MOST_RULES = 5


def _write(line: str) -> None:
    # Whoever reads our lines may be gone; the records matter more.
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)
