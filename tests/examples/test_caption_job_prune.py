"""Prune: old windows are dropped whole, and nothing is checked again for it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from caption_crashes import Killer, crashes
from caption_ledgers import (
    FAULTY,
    NOW,
    ask,
    checked,
    deliver,
    died,
    ended,
    finish,
    folder_of,
    new_run,
    plan_in,
    reports_of,
    seen,
    sha256,
    window_paths,
)
from caption_runs import GOOD

from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.prune import Pruned, plan_prune, prune

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

DAY = timedelta(days=1)
WINDOWS = 3
MANY = replace(FAULTY, findings=FAULTY.findings * 20)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    plan = plan_in(tmp_path)
    fill(plan)
    return replace(plan, started=NOW + 99 * DAY)


def start(plan: Plan, day: int) -> datetime:
    return plan.window + day * DAY


def fill(plan: Plan) -> None:
    """Record three files a day for some days, and project them; one of the first day is gone since."""
    for day in range(WINDOWS):
        run = replace(plan, started=NOW + day * DAY)
        with new_run(run, f"run-{day}", start(plan, day)) as ledger:
            for name in "abc":
                data = GOOD + b"%d" % day + name.encode()
                finish(ledger, checked(deliver(plan, f"{day}{name}.scc", data), sha256(data), MANY))
            write_projections(plan, ledger, ended())
            ledger.end_run(ended())
    (folder_of(plan) / "0a.scc").unlink()


def windows_on_disk(plan: Plan) -> set[str]:
    return {path.name for path in (reports_of(plan) / "telemetry").glob("*/*")}


def names(plan: Plan, *days: int) -> set[str]:
    return {window_paths(plan, start(plan, day))[0].parent.name for day in days}


def test_old_windows_go_whole_and_what_is_kept_stays(plan: Plan) -> None:
    """Records, findings, folders and runs before the day; the report is what a dry run says, and more."""
    size = plan.ledger.stat().st_size
    folders = [window_paths(plan, start(plan, day)) for day in (0, 1)]
    in_parquet = sum(path.stat().st_size for paths in folders for path in paths)
    with new_run(replace(plan, started=NOW + 9 * DAY), "run-9") as ledger:
        before = ask(ledger, "SELECT * FROM records WHERE asset_id >= '2'")
        planned = plan_prune(plan, ledger, start(plan, 2))
        assert ask(ledger, "SELECT COUNT(*) FROM records") == [(3 * WINDOWS,)]
        assert windows_on_disk(plan) == names(plan, 0, 1, 2)
        assert planned == Pruned(
            windows=2,
            records=6,
            findings=6 * len(MANY.findings),
            assets=0,
            runs=2,
            bytes=in_parquet,
            oldest=start(plan, 2),
        )
        pruned = prune(plan, ledger, start(plan, 2))
        assert replace(pruned, assets=0, bytes=0) == replace(planned, bytes=0)
        assert pruned.assets == 1
        assert windows_on_disk(plan) == names(plan, 2)
        assert ask(ledger, "SELECT * FROM records") == before
        assert ask(ledger, "SELECT COUNT(*) FROM findings") == [(3 * len(MANY.findings),)]
        assert ask(ledger, "SELECT run_id FROM runs ORDER BY run_id") == [("run-2",), ("run-9",)]
        assert pruned.bytes >= in_parquet + size - plan.ledger.stat().st_size
        assert plan.ledger.stat().st_size < 0.7 * size
        assert prune(plan, ledger, start(plan, 2)).windows == 0


def test_a_file_that_still_lies_there_is_not_checked_again(plan: Plan) -> None:
    """The ledger forgets only the one that is gone; that one, delivered again, is new and has a record again."""
    with new_run(plan, "run-9") as ledger:
        prune(plan, ledger, start(plan, 2))
        lying = [seen(plan, path.name) for path in sorted(folder_of(plan).iterdir())]
        assert len(lying) == 3 * WINDOWS - 1
        assert ledger.todo(lying) == []
        back = deliver(plan, "0a.scc", GOOD + b"0a")
        assert ledger.todo([back]) == [back]
        assert finish(ledger, checked(back, sha256(GOOD + b"0a"))) == (True,)


def test_the_newest_window_is_never_dropped(plan: Plan) -> None:
    """Nor the newest run, nor the last that ended well, of which alerts ask."""
    with new_run(replace(plan, started=NOW + 9 * DAY), "run-9") as ledger:
        assert prune(plan, ledger, NOW + 99 * DAY).oldest == start(plan, 2)
        assert windows_on_disk(plan) == names(plan, 2)
        assert ask(ledger, "SELECT run_id FROM runs ORDER BY run_id") == [("run-2",), ("run-9",)]
        assert ledger.last_success(NOW) == NOW


@pytest.mark.parametrize("queue", ["empty", "missing"])
def test_in_a_queue_that_is_not_there_no_file_is_taken_for_gone(plan: Plan, queue: str) -> None:
    """A disk that is not mounted is an empty folder, or none."""
    lying = [seen(plan, path.name) for path in sorted(folder_of(plan).iterdir())]
    away = folder_of(plan).rename(folder_of(plan).with_name("away"))
    if queue == "empty":
        folder_of(plan).mkdir()
    with new_run(plan, "run-9") as ledger:
        assert prune(plan, ledger, start(plan, 2)).assets == 0
        if queue == "empty":
            folder_of(plan).rmdir()
        away.rename(folder_of(plan))
        assert ledger.todo(lying) == []


def test_dead_letters_outlive_their_window(plan: Plan) -> None:
    """The file and the fact stay; the record goes with its window."""
    with new_run(plan, "run-8", start(plan, 0)) as ledger:
        finish(ledger, died(deliver(plan, "bad.scc", b"bad"), sha256(b"bad")))
        move_dead_letters(plan, ledger, pytest.fail)
        prune(plan, ledger, start(plan, 2))
        assert ledger.dead_letters() == 1
        assert ask(ledger, "SELECT COUNT(*) FROM records WHERE status = 'error'") == [(0,)]
    assert (plan.state / "dead-letter" / "bad.scc").read_bytes() == b"bad"


def test_what_is_not_ours_in_a_windows_folder_stays(plan: Plan) -> None:
    """The folder too; the next run writes its reports as ever."""
    note = window_paths(plan, start(plan, 0))[0].with_name("note.txt")
    note.write_text("mine")
    with new_run(plan, "run-9") as ledger:
        prune(plan, ledger, start(plan, 1))
        write_projections(plan, ledger, ended())
    assert sorted(path.name for path in note.parent.iterdir()) == ["note.txt"]
    assert not window_paths(plan, start(plan, 0))[1].parent.exists()


def test_a_folder_that_cannot_be_removed_now_is_removed_later(plan: Plan) -> None:
    """One line and a code; the ledger is pruned as far as it says, and the next run finishes it."""
    assets = window_paths(plan, start(plan, 0))[1]
    copy = assets.read_bytes()
    assets.unlink()
    (assets / "in the way").mkdir(parents=True)
    with new_run(plan, "run-9") as ledger:
        with pytest.raises(JobError, match=r"cannot write .*assets\.parquet") as error:
            prune(plan, ledger, start(plan, 1))
        assert error.value.code == Exit.CANNOT_CREATE
        (assets / "in the way").rmdir()
        assets.rmdir()
        assets.write_bytes(copy)
        write_projections(plan, ledger, ended())
        assert windows_on_disk(plan) == names(plan, 1, 2)
        assert ask(ledger, "SELECT * FROM pruned") == []


def test_a_window_that_comes_back_is_written_anew(plan: Plan) -> None:
    """A re-drive into a window that was dropped: its old files go before the new ones come."""
    with new_run(plan, "run-9", start(plan, 0)) as ledger:
        prune(plan, ledger, start(plan, 1))
        with ledger.transaction() as cursor:
            cursor.execute("INSERT INTO pruned SELECT ?", (ledger._recorder._window,))
        finish(ledger, checked(deliver(plan, "again.scc"), sha256(GOOD)))
        write_projections(plan, ledger, ended())
    assert window_paths(plan, start(plan, 0))[1].is_file()


def test_a_prune_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    """No record without its files, no files without a record, and no kept file checked again."""
    plan = replace(plan_in(tmp_path), started=NOW + 99 * DAY)
    fill(plan)
    copy = plan.state.with_name("copy")
    shutil.copytree(plan.state, copy)

    def before(_: int) -> None:
        shutil.rmtree(plan.state)
        shutil.copytree(copy, plan.state)

    def step(killer: Killer) -> None:
        with new_run(plan, "killed") as ledger:
            killer.watch(ledger)
            prune(plan, ledger, start(plan, 2))

    for number in crashes(step, before):
        with new_run(plan, "after") as ledger:
            if number % 2:  # Finished by a run, or by a prune.
                write_projections(plan, ledger, ended())
            prune(plan, ledger, start(plan, 2))
            assert windows_on_disk(plan) == names(plan, 2)
            assert ask(ledger, "SELECT COUNT(*) FROM windows") == [(1,)]
            assert ask(ledger, "SELECT COUNT(*) FROM records") == [(3,)]
            assert ask(ledger, "SELECT * FROM pruned") == []
            assert ledger.todo([seen(plan, path.name) for path in folder_of(plan).iterdir()]) == []
