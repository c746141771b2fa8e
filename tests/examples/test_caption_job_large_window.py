"""A drain while one large window is written: it is broken off, leaves nothing half done, and is written later."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import A, ask, checked, finish, new_run, plan_in, window_paths
from pyarrow import parquet

from examples.recipes.caption_qc.job import parquet as writing
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.projections import write_windows

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

RECORDS = 8
BEHIND = "SELECT COUNT(*) FROM windows WHERE projected != changes"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A window that is large: of more than two groups of rows."""
    monkeypatch.setattr(writing, "ROWS_AT_ONCE", 1)
    return plan_in(tmp_path)


def fill(ledger: Ledger) -> None:
    for number in range(RECORDS):
        finish(ledger, checked(Asset(b"%d.scc" % number, A.stat)))


def test_a_window_is_broken_off_and_written_by_the_next_run(plan: Plan) -> None:
    """Nothing of the file is there, not its temporary one either, and the ledger knows that it is behind."""
    asked = itertools.count(1)
    with new_run(plan) as ledger:
        fill(ledger)
        assert write_windows(plan, ledger, lambda: next(asked) >= 2)
        assert next(asked) == 3, (
            "the first of three groups is written before it is asked, and the last is not"
        )
        assert ask(ledger, BEHIND) == [(1,)]
    assets = window_paths(plan, plan.window)[1]
    assert list(assets.parent.iterdir()) == []
    with new_run(plan, "next") as ledger:
        assert write_windows(plan, ledger)
        assert ask(ledger, BEHIND) == [(0,)]
    assert parquet.read_metadata(assets).num_rows == RECORDS


def test_the_file_that_was_there_stays_as_it_was(plan: Plan) -> None:
    """A reader finds the window as an earlier run wrote it."""
    with new_run(plan) as ledger:
        fill(ledger)
        write_windows(plan, ledger)
    assets = window_paths(plan, plan.window)[1]
    before = assets.read_bytes()
    with new_run(plan, "next") as ledger:
        finish(ledger, checked(A, "9" * 64))
        assert write_windows(plan, ledger, lambda: True)
    assert assets.read_bytes() == before


def test_a_small_window_is_written_however_late_it_is(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that has come long ago breaks off nothing of a few rows: the dashboard shows that window."""
    monkeypatch.setattr(writing, "ROWS_AT_ONCE", RECORDS)
    with new_run(plan) as ledger:
        fill(ledger)
        write_windows(plan, ledger, lambda: True)
        assert ask(ledger, BEHIND) == [(0,)]
