"""What is said where the disk is full and SQLite calls it something else, and where no time is left for a digest."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from caption_disks import small_disk
from caption_runs import GOOD, Place, place

from examples.recipes.caption_qc.job.errors import Exit, ledger_failed

if TYPE_CHECKING:
    from pathlib import Path

WORD = "no space left on the disk: "


def said(path: Path, code: int) -> str:
    """Return what is said of an error of SQLite's."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    failed = ledger_failed(error, path)
    assert failed.code == Exit.IO_ERROR
    return str(failed)


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_FULL]
)
def test_a_full_disk_is_said_to_be_full(tmp_path: Path, code: int) -> None:
    """Whatever SQLite calls it; one with room is not, and another error is never."""
    ledger = tmp_path / "disk" / "ledger.sqlite"
    ledger.parent.mkdir()
    with small_disk(ledger.parent, 1024) as make_room:
        assert WORD not in said(ledger, code)
        room = os.statvfs(ledger.parent)
        (ledger.parent / "ballast").write_bytes(bytes(room.f_bavail * room.f_frsize))
        assert f"failed ({WORD}disk I/O error); free some space" in said(ledger, code)
        assert WORD not in said(ledger, sqlite3.SQLITE_ERROR)
        make_room()
        assert WORD not in said(ledger, code)


def test_a_disk_that_is_gone_is_not_said_to_be_full(tmp_path: Path) -> None:
    """Nobody can be asked."""
    assert WORD not in said(tmp_path / "gone" / "ledger.sqlite", sqlite3.SQLITE_IOERR)


def test_a_time_that_no_check_keeps_leaves_time_for_the_digest(tmp_path: Path) -> None:
    """The file is given up after its attempts, and not tried for ever."""
    here: Place = place(tmp_path)
    (here.queue / "a.scc").write_bytes(GOOD * 50)
    done = here.run("--asset-timeout", "0.00001s", "--max-attempts", "1")
    assert done.returncode == 0, done.stderr
    assert "dead letter: not checked: hung" in done.stderr
    assert here.statuses == {"a.scc": "error"}
