"""A disk that is full in the middle of a run: the run says so, and nothing is done that is not recorded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from caption_disks import small_disk
from caption_runs import Place, place
from caption_storm import Undisturbed, assert_whole, deliver, left_over, undisturbed_run, whole_run

if TYPE_CHECKING:
    from pathlib import Path

ASSETS = 30
_FULL = {"No space left on device", "database or disk is full", "disk I/O error"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"), ASSETS)


def _fill(here: Place, disk: Path, size: int, undisturbed: Undisturbed) -> tuple[str, int]:
    """Run on a small disk and again with room; return what the first said last, and how many it recorded."""
    deliver(here.queue, range(ASSETS))
    disk.mkdir(parents=True)
    with small_disk(disk, size) as make_room:
        full = whole_run(here)
        *before, last = full.stderr.splitlines()
        lines = [line for line in before if not line.startswith("warning: cannot write ")]
        assert (full.returncode, full.stdout) == (74, ""), last
        assert last.startswith("caption_qc: ")
        assert any(reason in last for reason in _FULL), last
        assert not [line for line in lines if not line.startswith(("pass ", "warn ", "fail "))]
        assert {path.name for path in left_over(here)} <= {"ledger.sqlite-wal", "ledger.sqlite-shm"}
        make_room()
        recorded = _recorded(here, len(lines))
        mended = whole_run(here)
        assert mended.returncode == 0, mended.stderr
        assert_whole(here, undisturbed.rows)
    return last, recorded


def _recorded(here: Place, said: int) -> int:
    """Count the records; what is done, and what the log says, is among them."""
    if not here.ask("SELECT 1 FROM sqlite_master"):
        assert not said
        return 0
    done, recorded = (here.ask(query) for query in (_DONE, "SELECT asset_id FROM records ORDER BY 1"))
    assert done == recorded
    assert len(recorded) >= said
    return len(recorded)


_DONE = "SELECT asset_id FROM assets WHERE state IN ('done', 'dead') ORDER BY 1"


def test_a_disk_that_is_full_during_a_commit(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Exit 74, whichever commit it is; with room again, the next run does the rest."""
    sizes = range(96, 300, 50)

    def fill(size: int) -> tuple[str, int]:
        folder = tmp_path / str(size)
        folder.mkdir()
        return _fill(here := place(folder), here.state, size, undisturbed)

    with ThreadPoolExecutor(2) as both:
        found = list(both.map(fill, sizes))
    assert any("the ledger" in last and 0 < recorded < ASSETS for last, recorded in found), found


def test_a_disk_that_is_full_during_a_projection(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Exit 74, in either of a window's files; all is recorded, and the next run writes what is missing."""

    def fill(size: int) -> str:
        folder = tmp_path / str(size)
        folder.mkdir()
        here = place(folder)
        last, recorded = _fill(here, here.state / "telemetry", size, undisturbed)
        assert recorded == ASSETS
        return last

    with ThreadPoolExecutor(2) as both:
        found = list(both.map(fill, (4, 24)))
    assert "findings.parquet" in found[0]
    assert "assets.parquet" in found[1]
