"""What the ledger keeps of each asset, on real SQLite."""

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from caption_ledgers import (
    CLEAN,
    NOW,
    PROFILE,
    STAT,
    A,
    B,
    ask,
    asset_rows,
    checked,
    died,
    ended,
    finish,
    new_run,
    plan_in,
    window_paths,
)
from pyarrow import parquet

from examples.recipes.caption_qc.check import Finding
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.ledger import Finished, Started
from examples.recipes.caption_qc.job.outcomes import Died, Left
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import write_projections


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def test_what_was_checked_is_not_done_again_until_its_stat_or_the_profile_is_another(plan: Plan) -> None:
    """The page comes back without what is done; any of the four figures, or the profile, makes it new."""
    with new_run(plan) as ledger:
        assert ledger.todo([A, B]) == [A, B]
        finish(ledger, checked(A), checked(B))
        assert ledger.todo([A, B]) == []
        for field in ("size", "mtime_ns", "ctime_ns", "inode"):
            other = Asset(A.name, STAT._replace(**{field: 99}))
            assert ledger.todo([other, B]) == [other]
    stricter = replace(plan, profile=replace(PROFILE, name="other", sha256="f" * 64))
    with new_run(stricter, "run-2") as ledger:
        assert ledger.todo([A, B]) == [A, B]
        by_another = replace(CLEAN, profile_sha256="f" * 64)
        assert finish(ledger, checked(A, report=by_another)) == (True,)


def test_equal_content_gives_no_new_record_and_the_ledger_takes_the_new_stat(plan: Plan) -> None:
    """A touched file is done; a content that comes back has its record already."""
    touched, changed, back = (Asset(A.name, STAT._replace(mtime_ns=n)) for n in (10, 11, 12))
    with new_run(plan) as ledger:
        assert finish(ledger, checked(A)) == (True,)
        assert finish(ledger, checked(touched)) == (False,)
        assert ledger.todo([touched]) == []
        assert finish(ledger, checked(changed, "2" * 64)) == (True,)
        assert finish(ledger, checked(back)) == (False,)
        assert ledger.todo([back]) == []
        contents = ledger.read("SELECT content_sha256 FROM records ORDER BY 1").fetchall()
        assert contents == [("1" * 64,), ("2" * 64,)]


def test_what_cannot_be_written_of_one_asset_takes_no_other_with_it(plan: Plan) -> None:
    """It is undone whole and left to the next run, in the same transaction as its neighbours."""
    broken = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="m", line=1 << 70),))
    odd = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="\ud800"),))
    with new_run(plan) as ledger:
        ledger.write([Started((A, B))])
        endings = (checked(B, report=broken), checked(A), checked(B, report=odd))
        (recorded,) = ledger.write([Finished(endings, NOW)])
        assert [new for _, new in recorded] == [False, True, False]
        assert [ending.why for ending, _ in recorded if isinstance(ending, Left)] == ["unrecorded"] * 2
        assert asset_rows(ledger) == [("a.scc", "done", 0)]
        assert ledger.read("SELECT asset_id FROM records").fetchall() == [("a.scc",)]
        assert ledger.read("SELECT COUNT(*) FROM findings").fetchone() == (len(CLEAN.findings),)
        assert ledger.todo([A, B]) == [B]


def test_a_batch_is_one_transaction(plan: Plan) -> None:
    """When the ledger itself refuses, nothing of the batch is there, and one line says why."""
    with new_run(plan) as ledger:
        ledger._writer.set_authorizer(
            lambda action, table, *_: (
                sqlite3.SQLITE_DENY if (action, table) == (sqlite3.SQLITE_INSERT, "findings") else 0
            )
        )
        report = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="m"),))
        with pytest.raises(JobError, match=r"the ledger .* failed"):
            ledger.write([Started((B,)), Finished((checked(A, report=report),), NOW)])
        ledger._writer.set_authorizer(None)
        assert asset_rows(ledger) == []
        assert ledger.read("SELECT COUNT(*) FROM records").fetchone() == (0,)
        assert finish(ledger, checked(A)) == (True,)


@pytest.mark.parametrize("figure", ["mtime_ns", "ctime_ns", "inode"])
@pytest.mark.parametrize("value", [(1 << 64) - 1, 10_413_792_000 * 10**9, -(1 << 63) - 5])
def test_a_stat_beyond_64_bits_is_recorded_like_any_other(plan: Plan, figure: str, value: int) -> None:
    """A year past 2262 or a huge inode: done and known again, with a record that Parquet holds."""
    found = SimpleNamespace(st_size=5, **{f"st_{name}": 1 for name in ("mtime_ns", "ctime_ns", "ino")})
    setattr(found, "st_ino" if figure == "inode" else f"st_{figure}", value)
    asset = Asset(b"far.scc", stat_of(found))  # type: ignore[arg-type]
    with new_run(plan) as ledger:
        ledger.write([Started((asset,))])
        assert finish(ledger, checked(asset)) == (True,)
        assert ledger.todo([asset]) == []
        write_projections(plan, ledger, ended())
    (row,) = parquet.read_table(window_paths(plan, plan.window)[1]).to_pylist()
    assert row["mtime_ns"] == asset.stat.mtime_ns


def test_inodes_beyond_63_bits_stay_different() -> None:
    """Each of the 2**64 has its own number in the ledger; a small one keeps it."""

    def kept(inode: int) -> int:
        return stat_of(SimpleNamespace(st_size=0, st_mtime_ns=0, st_ctime_ns=0, st_ino=inode)).inode  # type: ignore[arg-type]

    inodes = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    assert len({kept(inode) for inode in inodes}) == len(inodes)
    assert [kept(inode) for inode in inodes[:3]] == inodes[:3]
    assert all(-(1 << 63) <= kept(inode) < 1 << 63 for inode in inodes)


def test_what_a_dead_run_left_running_is_suspect_and_what_it_died_of_alone_goes_last(plan: Plan) -> None:
    """Suspect, not guilty: no attempt is counted, and none keeps the queue from being checked."""
    with new_run(plan) as ledger:
        ledger.write([Started((A,), alone=True), Started((B,))])
    with new_run(plan, "run-2") as ledger:
        assert ledger.todo([A, B]) == []
        suspects = ledger.suspects()
        assert [(suspect.asset, suspect.attempts, suspect.last) for suspect in suspects] == [
            (B, 0, False),
            (A, 0, True),
        ]
        assert finish(ledger, checked(A), checked(B)) == (True, True)
        assert ledger.suspects() == []


def test_attempts_are_of_one_content(plan: Plan) -> None:
    """A death alone is an attempt; another file of the same name begins anew; a dead letter waits for that."""
    changed = Asset(A.name, STAT._replace(size=6))
    with new_run(plan) as ledger:
        for attempts in (1, 2):
            ledger.write([Started((A,), alone=True)])
            finish(ledger, Died(asset=A, reason="hung"))
            assert asset_rows(ledger) == [("a.scc", "suspect", attempts)]
        ledger.write([Started((A,), alone=True)])
        finish(ledger, died(A))
        assert asset_rows(ledger) == [("a.scc", "dead", 3)]
        assert ledger.todo([A]) == []
        assert ledger.suspects() == []
        assert ledger.todo([changed]) == [changed]
        ledger.write([Started((changed,))])
        assert asset_rows(ledger) == [("a.scc", "running", 0)]
        finish(ledger, checked(changed, "2" * 64))
        records = ledger.read("SELECT status, attempt FROM records ORDER BY content_sha256").fetchall()
        assert records == [("error", 3), ("pass", 1)]


def test_a_check_takes_the_place_of_a_dead_letters_record_and_nothing_else(plan: Plan) -> None:
    """The same bytes, checked after all: one record, of the check, and both windows have changed."""
    later = plan.window + timedelta(minutes=5)
    with new_run(plan) as ledger:
        finish(ledger, died(A))
    touched = Asset(A.name, STAT._replace(ctime_ns=9))
    with new_run(plan, "run-2", later) as ledger:
        assert finish(ledger, checked(touched)) == (True,)
        assert ledger.read("SELECT status, run_id FROM records").fetchall() == [("pass", "run-2")]
        assert ledger.read("SELECT COUNT(*) FROM findings").fetchone() == (len(CLEAN.findings),)
        assert ledger.read("SELECT changes FROM windows ORDER BY 1 DESC").fetchall() == [(2,), (1,)]


def test_what_is_left_is_new_to_the_next_fire(plan: Plan) -> None:
    """A file that changed while it was read leaves no trace."""
    with new_run(plan) as ledger:
        ledger.write([Started((A,))])
        assert finish(ledger, Left(asset=A, why="changed", detail="it grew")) == (False,)
        assert ledger.todo([A]) == [A]


def test_findings_of_one_rule_at_one_place_are_numbered(plan: Plan) -> None:
    """`number` counts within rule and place, so that it names the same finding in every run."""
    places = (("X", 1), ("X", 1), ("X", 2), ("Y", 1), ("X", 1))
    found = tuple(Finding(rule=rule, severity="warn", message="m", line=line) for rule, line in places)
    with new_run(plan) as ledger:
        finish(ledger, checked(A, report=replace(CLEAN, findings=found)))
        rows = ledger.read("SELECT rule, line, number FROM findings ORDER BY place").fetchall()
    assert rows == [("X", 1, 1), ("X", 1, 2), ("X", 2, 1), ("Y", 1, 1), ("X", 1, 3)]


def test_a_stale_look_at_a_file_does_not_undo_what_was_recorded_since(plan: Plan) -> None:
    """A suspect that is left because it changed keeps the row that its new content has got."""
    changed = Asset(A.name, STAT._replace(size=6))
    with new_run(plan) as ledger:
        finish(ledger, checked(changed))
        finish(ledger, Left(asset=A, why="changed", detail="it changed since it was seen"))
        assert ledger.todo([changed]) == []


def test_skips_and_the_last_success_are_kept(plan: Plan) -> None:
    """A count with what tells what is in it, as one value; the end of the newest run with exit code 0."""
    with new_run(plan) as ledger:
        assert ledger.folded_skips() == (0, "")
        assert ledger.last_success(NOW) is None
        ledger.fold_skips(3, "120 abc")
        ledger.fold_skips(5, "200 def")
        assert ledger.folded_skips() == (5, "200 def")
        ledger.end_run(ended())
        assert ledger.last_success(NOW) == NOW
    with new_run(replace(plan, started=NOW + timedelta(hours=1)), "run-2") as ledger:
        ledger.end_run(replace(ended(), code=Exit.IO_ERROR, at=NOW + timedelta(hours=1)))
        assert ledger.last_success(NOW) == NOW


def test_another_sidecar_is_another_check_and_the_same_file(plan: Plan) -> None:
    """A new, changed or removed sidecar makes an asset new; what a suspect had beside it is kept."""
    sidecars = [None, STAT, STAT._replace(mtime_ns=9)]
    with new_run(plan) as ledger:
        for sidecar in (*sidecars, None):
            asset = replace(A, sidecar=sidecar)
            others = [replace(A, sidecar=other) for other in sidecars if other != sidecar]
            assert ledger.todo([asset]) == [asset]
            ledger.write([Started((asset,))])
            finish(ledger, Left(asset=others[0], why="changed", detail="stale"))
            assert [suspect.asset for suspect in ledger.suspects()] == [asset]
            finish(ledger, checked(asset, report=replace(CLEAN, profile_sha256=f"{sidecar}")))
            assert ledger.todo([asset]) == []
            assert all(ledger.todo([other]) == [other] for other in others)
        assert len(ask(ledger, "SELECT 1 FROM records")) == len(sidecars)
