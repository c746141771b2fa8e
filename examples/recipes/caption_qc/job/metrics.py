"""The run's figures as a Prometheus text file, for the node exporter's textfile collector.

A figure that is not known is not there. A run that failed writes them too, with its exit code and the last
success of the ledger; one that has no ledger to ask changes the code alone. `skips.py` writes the one metric of
refused runs, to a file of its own: no name may stand in two files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import Exit
from .metrics_file import PREFIX, lines_kept, write_metrics_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended, Totals

_EXIT_CODE: Final = "run_exit_code"
_EXIT_CODE_MEANING: Final = "With which code the last run ended."


def write_metrics(plan: Plan, ledger: Ledger, ended: Ended) -> None:
    """Write what this run found and did, whether it failed or not.

    Raises:
        JobError: the file can't be written.
    """
    write_metrics_file(plan, plan.metrics_file, metrics_of(plan, ledger, ended))


def write_failure(plan: Plan, code: int) -> None:
    """Write the exit code of a run that has no ledger to ask; all else stays as the last run left it.

    Raises:
        JobError: the file can't be read or written.
    """
    kept = (line for line in lines_kept(plan.metrics_file) if f"{PREFIX}{_EXIT_CODE} " not in line)
    write_metrics_file(
        plan, plan.metrics_file, _written([*kept, *_gauge(_EXIT_CODE, _EXIT_CODE_MEANING, code)])
    )


def metrics_of(plan: Plan, ledger: Ledger, ended: Ended) -> str:
    """Return the content of the metrics file."""
    return _written(_lines(plan, ledger, ended))


def _written(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _lines(plan: Plan, ledger: Ledger, ended: Ended) -> Iterator[str]:
    totals = ended.totals
    success = ended.at if ended.code == Exit.OK else ledger.last_success(ended.at)
    ended_well = None if success is None else success.timestamp()
    yield from _gauge(
        "last_success_timestamp_seconds", "When the last run that exited with 0 ended.", ended_well
    )
    yield from _gauge(_EXIT_CODE, _EXIT_CODE_MEANING, int(ended.code))
    yield from _gauge("run_duration_seconds", "How long the last run took.", ended.seconds)
    # None is a fact only where the whole queue was looked at.
    seen = totals.seen.assets if totals.seen.assets or totals.whole_queue else None
    yield from _gauge("seen_assets", "Caption files that the scan met.", seen)
    yield from _gauge("scan_errors", "Files and folders that could not be read.", totals.scan_errors)
    yield from _gauge("backlog_assets", "Assets that wait for the next run.", totals.backlog)
    age = _oldest_age(plan, totals)
    yield from _gauge("oldest_unprocessed_seconds", "How long the oldest that waits has lain there.", age)
    yield from _gauge("dead_letter_assets", "Assets that were given up.", ledger.dead_letters())
    total, _ = ledger.folded_skips()
    yield from _family("lock_conflicts_total", "Runs that were refused because one still ran.", "counter")
    yield f"{PREFIX}lock_conflicts_total {total}"
    yield from _family("assets", "Assets that the last run checked, by status.")
    for status in ("pass", "warn", "fail", "error"):
        yield _sample("assets", totals.statuses[status], status=status)
    yield from _findings(totals)


def _findings(totals: Totals) -> Iterator[str]:
    if totals.findings:
        yield from _family("findings", "Findings in what the last run checked, by rule.")
    for (rule, severity), count in sorted(totals.findings.items()):
        yield _sample("findings", count, rule=rule, severity=severity)


def _oldest_age(plan: Plan, totals: Totals) -> float | None:
    """Return how long the oldest waits of all that wait; unknown, like their number, when a drain cut the scan.

    What is waiting changed too short a time ago, could not be read as it was seen, or died and is tried again.
    """
    since = [time for time in (totals.seen.oldest_settling_ns, totals.oldest_left_ns) if time is not None]
    if totals.backlog is None or not since:
        return None
    return max(0.0, plan.started.timestamp() - min(since) / 1e9)


def _gauge(name: str, meaning: str, value: float | None) -> Iterator[str]:
    if value is not None:
        yield from _family(name, meaning)
        yield f"{PREFIX}{name} {value!r}"


def _family(name: str, meaning: str, kind: str = "gauge") -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {meaning}"
    yield f"# TYPE {PREFIX}{name} {kind}"


def _sample(name: str, value: float, **labels: str) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{PREFIX}{name}{{{written}}} {value!r}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
