"""The ledger and what is made of it on another device, and on one that is full."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_disks import small_disk
from caption_ledgers import (
    FAULTY,
    ask,
    checked,
    deliver,
    died,
    ended,
    finish,
    folder_of,
    new_run,
    plan_in,
    seen,
    sha256,
)
from caption_runs import GOOD

from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.prune import prune
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

MIB = 1 << 20


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Take all the room of the disk but some bytes."""
    room = os.statvfs(folder)
    with (folder / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize - leave))


def test_a_dead_letter_goes_to_another_device_and_back(plan: Plan) -> None:
    """Where it can neither be renamed nor linked: mode and time of modification stay, and no copy is left."""
    bad = GOOD + b"\nbad"
    with small_disk(plan.state, 4096), new_run(plan) as ledger:
        deliver(plan, "b/a.scc", bad)
        (folder_of(plan) / "b/a.scc").chmod(0o640)
        asset = seen(plan, "b/a.scc")
        finish(ledger, died(asset, sha256(bad)))
        move_dead_letters(plan, ledger, pytest.fail)
        moved = plan.state / "dead-letter/b/a.scc"
        assert moved.read_bytes() == bad
        assert (moved.stat().st_mode & 0o777, moved.stat().st_mtime_ns) == (0o640, asset.stat.mtime_ns)
        assert [*folder_of(plan).rglob("*")] == [folder_of(plan) / "b"]
        assert [path.name for path in moved.parent.iterdir()] == ["a.scc"]
        assert replay(plan, ledger).replayed == ("b/a.scc",)
        back = folder_of(plan) / "b/a.scc"
        assert back.read_bytes() == bad
        assert (back.stat().st_mode & 0o777, back.stat().st_mtime_ns) == (0o640, asset.stat.mtime_ns)
        assert [*back.parent.iterdir()] == [back]
        assert [*(plan.state / "dead-letter").rglob("*")] == []


def test_a_dead_letter_that_finds_no_room_is_moved_by_a_later_run(plan: Plan) -> None:
    """It stays in the queue, whole, and nothing of a copy stays anywhere; the run goes on."""
    bad = GOOD + bytes(2 * MIB)
    warnings: list[str] = []
    with small_disk(plan.state, 4096) as make_room:
        with new_run(plan) as ledger:
            finish(ledger, died(deliver(plan, "a.scc", bad), sha256(bad)))
            fill(plan.state, leave=MIB)
            move_dead_letters(plan, ledger, warnings.append)
            assert warnings == ["dead letter a.scc: it is moved by the next run: No space left on device"]
            assert (folder_of(plan) / "a.scc").read_bytes() == bad
            assert [*(plan.state / "dead-letter").rglob("*")] == []
            assert ledger.todo([seen(plan, "a.scc")]) == []
        make_room()
        with new_run(plan, "run-2") as ledger:
            move_dead_letters(plan, ledger, pytest.fail)
            assert (plan.state / "dead-letter/a.scc").read_bytes() == bad
            assert [*folder_of(plan).iterdir()] == []


def test_a_ledger_that_finds_no_room_to_be_made_again_stays_lost_until_there_is(plan: Plan) -> None:
    """One line with 74, no half of a new one; the Parquet and the damaged one are as they were."""
    report = replace(FAULTY, findings=FAULTY.findings * 200)
    with small_disk(plan.state, 16384) as make_room:
        with new_run(plan) as ledger:
            finish(ledger, *(checked(deliver(plan, f"{n}.scc"), f"{n}" * 64, report) for n in range(3)))
            write_projections(plan, ledger, ended())
        plan.ledger.write_bytes(b"no database" * 99)
        fill(plan.state, leave=MIB // 8)
        with pytest.raises(JobError, match=r"disk is full|No space left") as error, new_run(plan, "run-2"):
            pytest.fail("made a ledger without room")
        assert error.value.code == Exit.IO_ERROR
        assert plan.ledger.read_bytes() == b"no database" * 99
        assert not [path for path in plan.state.iterdir() if path.name.startswith(".")]
        make_room()
        with new_run(plan, "run-3", warn=len) as ledger:
            assert ask(ledger, "SELECT COUNT(*) FROM findings") == [(3 * len(report.findings),)]


def test_a_prune_without_room_for_a_second_ledger_says_so_and_drops_the_windows(plan: Plan) -> None:
    """What is free in the ledger is used by its next records; the next prune gives it back."""
    report = replace(FAULTY, findings=FAULTY.findings * 100)
    windows = [plan.window + day * timedelta(days=1) for day in range(2)]
    plan = replace(plan, started=windows[1])
    with small_disk(plan.state, 16384) as make_room:
        for number, window in enumerate(windows):
            with new_run(plan, f"run-{number}", window) as ledger:
                for n in range(3):
                    name = f"{number}{n}.scc"
                    finish(ledger, checked(deliver(plan, name), f"{number}{n}" * 32, report))
                write_projections(plan, ledger, ended())
        size = plan.ledger.stat().st_size
        fill(plan.state, leave=size * 2 // 3)
        with new_run(plan, "run-2", windows[1]) as ledger:
            pruned = prune(plan, ledger, windows[1])
            assert pruned.windows == 1
            assert pruned.note is not None
            assert pruned.note.startswith("the ledger keeps its size for now")
            assert ask(ledger, "SELECT COUNT(*) FROM records") == [(3,)]
            make_room()
            assert prune(plan, ledger, windows[1]).note is None
            assert ask(ledger, "PRAGMA quick_check") == [("ok",)]
        assert plan.ledger.stat().st_size < size
