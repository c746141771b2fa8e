"""The record of a file has the figures that its report has."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from caption_cues import popon
from caption_reports import HOUSE, checked

from examples.recipes.caption_qc.check import Report, too_large
from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.outcomes import Checked
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.reports_folder import Folder
from examples.recipes.caption_qc.job.rows import FINDING_COLUMNS, RECORD_COLUMNS, finding_rows, record_row

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
PLAN = Plan(
    run_id="run-1",
    queue=FolderQueue(Path("queue")),
    state=Path("state"),
    out=Folder(Path("state")),
    lock=Path("state/run.lock"),
    metrics_file=Path("state/metrics.prom"),
    profile=HOUSE,
    started=NOW,
    window=NOW,
    workers=1,
    settle=0.0,
    asset_timeout=30.0,
    drain_timeout=25.0,
    max_attempts=3,
)
SPEEDS = ("max_cps", "p95_cps", "wpm", "share_over_cps")


def ending(report: Report) -> Checked:
    asset = Asset(b"a.scc", Stat(size=1, mtime_ns=1, ctime_ns=1, inode=1))
    return Checked(asset=asset, content_sha256="0" * 64, report=report, seconds=0.1)


def record(report: Report) -> dict[str, object]:
    return dict(zip(RECORD_COLUMNS, record_row(PLAN, ending(report), 0, NOW), strict=True))


def test_record_has_the_speeds_and_the_layout() -> None:
    """Of two cues of thirty frames, one is too fast."""
    row = record(checked(popon((100, 130, "I AM"), (200, 230, "X" * 22))))

    assert [row[name] for name in SPEEDS] == [
        pytest.approx(22 / 1.001),
        pytest.approx(22 / 1.001),
        pytest.approx(3 * 60 / 2.002),
        0.5,
    ]
    assert (row["cues"], row["mode_pop"], row["max_rows"], row["max_cols"]) == (2, 2, 1, 22)


def test_file_that_shows_nothing_has_no_speeds_in_its_record() -> None:
    """Nor has one that was refused by its size."""
    refused = too_large(9_000_000, HOUSE)
    assert refused is not None

    for report in (checked(b""), refused):
        assert [record(report)[name] for name in (*SPEEDS, "max_rows", "max_cols")] == [None] * 6


def test_finding_about_a_cue_is_recorded_with_it() -> None:
    """Its cue, channel, place and measure."""
    rows = [
        dict(zip(FINDING_COLUMNS, row, strict=True))
        for row in finding_rows(PLAN, ending(checked(popon((100, 130, "I AM"), (200, 230, "X" * 22)))))
    ]

    (fast,) = rows
    place = (fast["rule"], fast["cue"], fast["channel"], fast["line"], fast["frame"], fast["number"])
    assert place == ("RATE_CPS", 2, "CC1", 7, 200, 1)
    assert fast["measured"] == pytest.approx(22 / 1.001)
    assert (fast["threshold"], fast["unit"]) == (20, "characters a second")
