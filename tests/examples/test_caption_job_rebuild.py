"""A lost ledger is made again from the Parquet files, and says so."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from caption_crashes import Killer, crashes
from caption_ledgers import (
    FAULTY,
    A,
    B,
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
    sha256,
    window_paths,
)
from caption_runs import GOOD
from pyarrow import parquet

from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.rebuild import MOST_KEPT
from examples.recipes.caption_qc.job.records import FINDINGS as FINDING_COLUMNS
from examples.recipes.caption_qc.job.replay import replay
from examples.recipes.caption_qc.job.reports_folder import Folder
from examples.recipes.caption_qc.job.rows import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.recipes.caption_qc.job.plan import Plan

# What Parquet holds of a record: its tally is counted again from its findings.
RECORDS = f"SELECT {', '.join(RECORD_COLUMNS)} FROM records ORDER BY queue, asset_id, content_sha256"  # noqa: S608
FINDINGS = "SELECT * FROM findings ORDER BY queue, asset_id, content_sha256, place"
LATER = timedelta(minutes=5)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A ledger with three records in two windows, projected and closed."""
    plan = plan_in(tmp_path)
    with new_run(plan) as ledger:
        finish(ledger, checked(A, report=FAULTY), checked(B))
        write_projections(plan, ledger, ended())
    with new_run(plan, "run-2", plan.window + LATER) as ledger:
        finish(ledger, checked(A, "2" * 64))
        write_projections(plan, ledger, ended())
    return plan


def everything(plan: Plan) -> dict[str, list[tuple[Any, ...]]]:
    """Return the records and findings."""
    with contextlib.closing(sqlite3.connect(plan.ledger)) as ledger:
        return {query: ledger.execute(query).fetchall() for query in (RECORDS, FINDINGS)}


def files(plan: Plan) -> dict[Path, tuple[int, int]]:
    """Return the Parquet files, each with inode and time."""
    found = {path: path.stat() for path in (reports_of(plan) / "telemetry").rglob("*.parquet")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def reopened(plan: Plan, name: str = "run-3") -> list[str]:
    """Do a run that checks nothing, and return what it warned of."""
    warnings: list[str] = []
    with new_run(plan, name, plan.window + 2 * LATER, warnings.append) as ledger:
        write_projections(plan, ledger, ended())
        said = dict(ask(ledger, "SELECT run_id, rebuilt FROM runs"))[name]
    assert warnings == ([] if said is None else [said])
    return warnings


def no_database(path: Path) -> None:
    path.write_bytes(b"this is no database, and long enough to be read as one" * 99)


def torn(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-2 * 4096 :] = b"\xa5" * (2 * 4096)
    path.write_bytes(whole)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def inside(path: Path) -> None:
    """Damage a page in the middle, and let size and time of modification be as they were."""
    stat, data = path.stat(), bytearray(path.read_bytes())
    data[4 * 4096 : 5 * 4096] = b"\xa5" * 4096
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("damage", [no_database, torn, cut_short, inside, empty, Path.unlink])
def test_a_lost_ledger_is_made_again_with_the_records_it_had(
    plan: Plan, damage: Callable[[Path], object]
) -> None:
    """One line says so, also in the run's record; the files are as they were, and so is the next run's."""
    before, were = everything(plan), files(plan)
    damage(plan.ledger)
    (said,) = reopened(plan)
    assert "\n" not in said
    assert f"the ledger {plan.ledger} is " in said
    assert "with 3 records of 2 windows" in said
    assert everything(plan) == before
    assert files(plan) == were
    assert reopened(plan, "run-4") == []
    with new_run(plan, "run-5") as ledger:
        trend = ask(ledger, "SELECT changes, projected, counts FROM windows ORDER BY window_start")
        assert trend == [(1, 1, '{"fail": 1, "pass": 1}'), (1, 1, '{"pass": 1}')]
        assert ledger.suspects() == []


def test_the_damaged_file_is_kept_under_the_time_and_only_so_many(plan: Plan) -> None:
    """None is deleted or written over: the run is refused when there are too many."""
    damaged = []
    for number in range(MOST_KEPT):
        no_database(plan.ledger)
        with plan.ledger.open("ab") as file:
            file.write(b"%d" % number)
        damaged.append(plan.ledger.read_bytes())
        (said,) = reopened(plan, f"run-{number}-again")
        assert "is damaged (file is not a database)" in said
        assert "; the damaged one is kept as ledger.sqlite.damaged-20260101T000730Z" in said
    kept = sorted(plan.state.glob("ledger.sqlite.damaged-*"))
    assert {path.read_bytes() for path in kept} == set(damaged)
    no_database(plan.ledger)
    was = plan.ledger.read_bytes()
    with pytest.raises(
        JobError, match=r"10 damaged ledgers are kept .*; find out what damages them"
    ) as error:
        reopened(plan)
    assert error.value.code == Exit.IO_ERROR
    assert plan.ledger.read_bytes() == was


def test_nothing_that_lay_beside_a_lost_ledger_lies_beside_the_new_one(plan: Plan) -> None:
    """A log of the old one would be taken for the new one's."""
    before = everything(plan)
    for damage in (no_database, Path.unlink):
        damage(plan.ledger)
        for suffix in ("-wal", "-shm", "-journal"):
            plan.ledger.with_name(plan.ledger.name + suffix).write_bytes(b"old" * 999)
        reopened(plan, f"run-{damage.__name__}")
        assert everything(plan) == before
        names = {path.name for path in plan.state.glob("ledger.sqlite*") if ".damaged" not in path.name}
        assert names == {"ledger.sqlite"}


def test_content_is_the_judge_after_it(plan: Plan) -> None:
    """Every file is read again: an equal one gives no new record and is then known, another one does."""
    plan.ledger.unlink()
    reopened(plan)
    with new_run(plan, "run-4", plan.window + 3 * LATER) as ledger:
        assert ledger.todo([A, B]) == [A, B]
        assert finish(ledger, checked(A, report=FAULTY), checked(B, "3" * 64)) == (False, True)
        assert ledger.todo([A, B]) == []
        assert ask(ledger, "SELECT COUNT(*) FROM records") == [(4,)]


def test_without_any_parquet_a_damaged_ledger_begins_anew(tmp_path: Path) -> None:
    """Where runs have left their reports there is nothing that could be had twice; it says so."""
    plan = plan_in(tmp_path)
    (reports_of(plan) / "dashboard.json").touch()
    no_database(plan.ledger)
    (said,) = reopened(plan)
    assert "with 0 records of 0 windows" in said


def test_parquet_of_the_first_version_is_read_with_what_it_lacks_as_null(plan: Plan) -> None:
    """Its findings have no captions; the rest is as it was, and the files are not written again."""
    later = [column.name for column in FINDING_COLUMNS if column.since > 1]
    for path in files(plan):
        table = parquet.read_table(path, partitioning=None)
        table = table.drop_columns([name for name in later if name in table.column_names])
        parquet.write_table(table.replace_schema_metadata({"schema_version": "1"}), path)
    with contextlib.closing(sqlite3.connect(plan.ledger, isolation_level=None)) as ledger:
        ledger.execute("UPDATE findings SET caption = 'as shown', caption_start = 1.0, caption_end = 2.0")
    before, there = everything(plan), files(plan)
    plan.ledger.unlink()

    assert "with 3 records of 2 windows" in reopened(plan)[0]

    after = everything(plan)
    assert (after[RECORDS], files(plan)) == (before[RECORDS], there)
    lacking = [row[: -len(later)] + (None,) * len(later) for row in before[FINDINGS]]
    assert after[FINDINGS] == lacking


def test_a_window_with_findings_alone_has_no_record(plan: Plan) -> None:
    """A crash between the two renames: they go, since their assets are checked again elsewhere."""
    findings, assets = window_paths(plan, plan.window)
    assets.unlink()
    plan.ledger.unlink()
    (said,) = reopened(plan)
    assert "with 1 record of 2 windows" in said
    assert parquet.read_table(findings).num_rows == parquet.read_table(assets).num_rows == 0


@pytest.mark.parametrize("stale", ["first", "last"])
def test_of_one_record_in_two_windows_the_later_check_stands(plan: Plan, stale: str) -> None:
    """One window's files were not written yet when the ledger was lost; now they are, whichever it was."""
    windows = [plan.window, plan.window + 2 * LATER]
    if stale == "last":
        windows.reverse()
    with new_run(plan, "run-3", windows[0]) as ledger:
        finish(ledger, died(A, "4" * 64))
        write_projections(plan, ledger, ended())
    old = {path: path.read_bytes() for path in window_paths(plan, windows[0])}
    with new_run(plan, "run-4", windows[1]) as ledger:
        finish(ledger, checked(A, "4" * 64, FAULTY))
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE records SET checked_at = checked_at + 1 WHERE run_id = 'run-4'")
        write_projections(plan, ledger, ended())
    before = everything(plan)
    for path, data in old.items():
        path.write_bytes(data)
    plan.ledger.unlink()
    reopened(plan, "run-5")
    assert everything(plan) == before
    rows = [parquet.read_table(window_paths(plan, window)[1]).num_rows for window in windows]
    assert rows == ([2, 1] if stale == "first" else [0, 3])


def garbage(path: Path) -> None:
    path.write_bytes(b"PAR1 garbage PAR1")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def foreign(path: Path) -> None:
    parquet.write_table(pa.table({"theirs": [1]}), path)


def from_the_future(path: Path) -> None:
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({"schema_version": "99"}), path)


def of_another_window(path: Path) -> None:
    table = parquet.read_table(path)
    column = pa.array([0] * table.num_rows, table.schema.field("window_start").type)
    place = table.schema.get_field_index("window_start")
    parquet.write_table(table.set_column(place, "window_start", column), path)


def renamed(path: Path) -> None:
    path.rename(path.with_name("compacted.parquet"))


@pytest.mark.parametrize(
    "damage", [garbage, half, a_fifo, foreign, from_the_future, of_another_window, renamed]
)
def test_a_parquet_file_that_is_not_ours_is_one_line_with_the_way_out(
    plan: Plan, damage: Callable[[Path], object]
) -> None:
    """Nothing is concluded from a part: no ledger is made, and nothing is moved; mended, it is."""
    path = window_paths(plan, plan.window)[1]
    copy = path.read_bytes()
    damage(path)
    no_database(plan.ledger)
    was = plan.ledger.read_bytes()
    with pytest.raises(JobError, match="the ledger can't be made again from ") as error:
        reopened(plan)
    assert error.value.code == Exit.IO_ERROR
    assert "\n" not in str(error.value)
    assert "bring it back from a copy, or move " in str(error.value)
    assert plan.ledger.read_bytes() == was
    assert sorted(path.name for path in plan.state.glob("*ledger.sqlite*")) == ["ledger.sqlite"]
    path.parent.joinpath("compacted.parquet").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(copy)
    assert len(reopened(plan)) == 1


def test_assets_without_their_findings_are_refused(plan: Plan) -> None:
    """Findings are written first, so somebody took them away."""
    findings, _ = window_paths(plan, plan.window)
    findings.unlink()
    plan.ledger.unlink()
    with pytest.raises(JobError, match=rf"{findings} is missing beside it"):
        reopened(plan)


def test_dead_letters_that_were_moved_are_known_again(plan: Plan) -> None:
    """By their bytes; a file of which no record tells by its name alone."""
    data = GOOD + b"\nbad"
    with new_run(plan, "run-3") as ledger:
        for name in ("a.scc", "b/c.scc"):
            finish(ledger, died(deliver(plan, name, data), sha256(data)))
        move_dead_letters(plan, ledger, pytest.fail)
        write_projections(plan, ledger, ended())
        before = ask(ledger, _LETTERS)
    (plan.state / "dead-letter" / "stray.scc").write_bytes(b"stray")
    plan.ledger.unlink()
    reopened(plan, "run-4")
    with new_run(plan, "run-5") as ledger:
        *known, stray = ask(ledger, _LETTERS)
        assert (known, stray[0]) == (before, "stray.scc")
        assert sorted(replay(plan, ledger).replayed) == ["a.scc", "b/c.scc", "stray.scc"]
    assert (folder_of(plan) / "b" / "c.scc").read_bytes() == data


_LETTERS = "SELECT asset_id, content_sha256, attempts, place, size, mtime_ns FROM dead_letters ORDER BY 1"


def test_the_folders_are_those_of_out(plan: Plan) -> None:
    """With the Parquet elsewhere the ledger is made again from there."""
    elsewhere = replace(plan, out=Folder(plan.state.with_name("out")))
    reports_of(elsewhere).mkdir()
    shutil.move(reports_of(plan) / "telemetry", reports_of(elsewhere) / "telemetry")
    before = everything(plan)
    plan.ledger.unlink()
    assert len(reopened(elsewhere)) == 1
    assert everything(plan) == before
    assert (reports_of(elsewhere) / "dashboard.html").is_file()


def test_a_rebuild_that_is_killed_anywhere_begins_again(plan: Plan) -> None:
    """No temporary file is left by the run that comes to its end, and the damaged one is still there."""
    whole = everything(plan)
    copy = plan.state.with_name("copy")
    shutil.copytree(plan.state, copy)

    def before(_: int) -> None:
        shutil.rmtree(plan.state)
        shutil.copytree(copy, plan.state)
        no_database(plan.ledger)

    def step(killer: Killer) -> None:
        del killer
        with new_run(plan, "killed", warn=len):
            pass

    for _ in crashes(step, before):
        with new_run(plan, "after", warn=len) as ledger:
            assert ask(ledger, "PRAGMA quick_check") == [("ok",)]
        assert everything(plan) == whole
        names = {path.name for path in plan.state.iterdir() if "ledger.sqlite" in path.name}
        assert names == {"ledger.sqlite", "ledger.sqlite.damaged-20260101T000730Z"}


def test_without_pyarrow_it_is_one_line(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The damaged ledger stays where it is until it can be made again."""
    for name in ("rebuild_rows", "parquet_reading", "parquet"):
        monkeypatch.delitem(sys.modules, f"examples.recipes.caption_qc.job.{name}", raising=False)
    plan.ledger.unlink()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(JobError, match=r"cannot make the ledger again .*pyarrow.*; install") as error:
            reopened(plan)
    assert error.value.code == Exit.BAD_CONFIG
    assert len(reopened(plan)) == 1
