"""The run's figures as a Prometheus text file, for the node exporter's textfile collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended


def metrics_of(plan: Plan, ledger: Ledger, ended: Ended) -> str:
    """Return the content of `metrics.prom`; a figure that is not known is not there."""
    return "".join(line + "\n" for line in _lines(plan, ledger, ended))


def _lines(plan: Plan, ledger: Ledger, ended: Ended) -> Iterator[str]:
    totals = ended.totals
    (dead,) = ledger.read("SELECT COUNT(*) FROM assets WHERE state = 'dead'").fetchone()
    oldest = totals.seen.oldest_settling_ns
    age = None if oldest is None else max(0.0, plan.started.timestamp() - oldest / 1e9)
    yield from _gauge("last_success_timestamp_seconds", "When the last run ended well.", ended.at.timestamp())
    yield from _gauge("run_duration_seconds", "How long the last run took.", ended.seconds)
    yield from _gauge("backlog_assets", "Assets that wait for the next run.", totals.backlog)
    yield from _gauge("oldest_unprocessed_seconds", "Age of the oldest asset that waits.", age)
    yield from _gauge("seen_assets", "Caption files that the scan met.", totals.seen.assets)
    yield from _gauge("scan_errors", "Files and folders that could not be read.", totals.scan_errors)
    yield from _gauge("dead_letter_assets", "Assets that were given up.", dead)
    yield from _family("assets", "Assets that the last run checked.")
    for status in ("pass", "warn", "fail", "error"):
        yield f'{_PREFIX}assets{{status="{status}"}} {totals.statuses[status]}'


def _gauge(name: str, meaning: str, value: float | None) -> Iterator[str]:
    if value is not None:
        yield from _family(name, meaning)
        yield f"{_PREFIX}{name} {value!r}"


def _family(name: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {meaning}"
    yield f"# TYPE {_PREFIX}{name} gauge"


_PREFIX: Final = "caption_qc_"
