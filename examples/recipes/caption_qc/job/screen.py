"""What a run says while it works: one line an asset, or a bar on a terminal.

Everything goes to standard error: standard output stays empty when all is well. A reader that is gone never
ends a run.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from examples.recipes.caption_qc.check.tally import tally

from .errors import Exit
from .outcomes import Checked, DeadLetter, Died
from .reports import DASHBOARD_HTML
from .rows import findings_of
from .streams import say

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Finding

    from .errors import JobError
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

    def refuse(self, error: JobError) -> None:
        """Say why there is no end to sum up, last."""

    def crash(self, error: Exception) -> None:
        """Say of a fault of ours what there is to say, before it ends the process."""

    def close(self) -> None:
        """Leave the terminal as it was, however the run ended."""


class LogScreen:
    """Lines on standard error, for a log."""

    def show(self, ending: Ending) -> None:
        """Write one line."""
        say(line_of(ending))

    def warn(self, text: str) -> None:
        """Write one line."""
        say(f"warning: {text}")

    def redraw(self, totals: Totals) -> None:
        """Do nothing: a log has no bar."""

    def finish(self, plan: Plan, ended: Ended) -> None:
        """Write the summary line."""
        say(summary_of(plan, ended))

    def refuse(self, error: JobError) -> None:
        """Write one line."""
        say_refused(error)

    def crash(self, error: Exception) -> None:
        """Leave it to Python, which shows where it was."""
        raise error

    def close(self) -> None:
        """Do nothing: there is nothing to leave."""


def say_refused(error: JobError) -> None:
    """Say in one line why the command could not be done."""
    if not say_to_cron(error):
        say(f"caption_qc: {error}")


def say_to_cron(error: JobError) -> bool:
    """Say on standard output, which cron mails, what people alert on: that the lock is held."""
    if error.code is not Exit.LOCK_HELD:
        return False
    with contextlib.suppress(OSError):
        print(error, flush=True)
    return True


def line_of(ending: Ending) -> str:
    """Say in one line what came of one asset."""
    why = reason_of(ending)
    return f"{status_of(ending):<5} {ending.asset.asset_id}{': ' if why else ''}{why}"


def status_of(ending: Ending) -> str:
    """Say in one word what came of one asset."""
    match ending:
        case Checked():
            return ending.report.status
        case DeadLetter():
            return "error"
        case Died():
            return "died"
        case _:
            return "left"


def reason_of(ending: Ending) -> str:
    """Say why in a few words; nothing where there is nothing to say."""
    match ending:
        case Checked():
            return _reasons(findings_of(ending))
        case DeadLetter():
            return f"dead letter: {findings_of(ending)[0].message}"
        case Died():
            return ending.reason
        case _:
            return ending.detail


def counted(number: int) -> str:
    """Write a number of assets."""
    return "1 asset" if number == 1 else f"{number} assets"


def summary_of(plan: Plan, ended: Ended) -> str:
    """Sum a run up in one line."""
    totals = ended.totals
    if not totals.found:
        done = nothing_checked(totals)
    else:
        counts = ", ".join(f"{totals.statuses[name]} {name}" for name in ("pass", "warn", "fail", "error"))
        done = f"checked {checked_of(totals)}: {counts}"
    page = f"dashboard {plan.out.shown(DASHBOARD_HTML)}"
    return "; ".join([done, *notes_of(ended), f"{ended.seconds:.1f} s", page])


def checked_of(totals: Totals) -> str:
    """Say how many of how many were checked, as far as the scan came."""
    return f"{totals.checked} of {totals.found}{'' if totals.all_found else ' found so far'}"


def nothing_checked(totals: Totals) -> str:
    """Say why nothing was checked: there is nothing, or the scan was cut short before there was."""
    if totals.whole_redo:
        return "nothing to do: of these windows no asset is there as it was"
    seen = counted(totals.seen.assets)
    if totals.whole_queue:
        none = "none to check yet" if totals.seen.settling else "none new or changed"
        return f"nothing to do: {seen} seen, {none}"
    return f"nothing checked: {seen} seen so far"


def notes_of(ended: Ended) -> list[str]:
    """List what is out of the ordinary, each in a few words."""
    totals = ended.totals
    counts = {
        "dead letter" if totals.dead_letters == 1 else "dead letters": totals.dead_letters,
        "died and tried again": totals.died,
        "left for the next run": totals.waiting,
        "gone before they were checked": totals.left["gone"],
        "changed too short a time ago": totals.seen.settling,
        "link passed over" if totals.seen.links == 1 else "links passed over": totals.seen.links,
        "unreadable": totals.seen.unreadable,
        "record kept as it was"
        if totals.kept.total() == 1
        else "records kept as they were": totals.kept.total(),
    }
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    return ["drained before the end", *notes] if ended.drained else notes


def _reasons(findings: tuple[Finding, ...]) -> str:
    """List the rules of the worst findings, with how many there are of each."""
    found = [entry for entry in tally(findings) if entry.severity != "info"]
    text = ", ".join(f"{entry.severity} {entry.rule} x{entry.count}" for entry in found[:_MOST_RULES])
    more = len(found) - _MOST_RULES
    return f"{text} and {more} {'rule' if more == 1 else 'rules'} more" if more > 0 else text


_MOST_RULES = 5
