"""The ledger and what lies beside it: what would hang a run, an older one brought back, one that is lost."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import checked, deliver, ended, finish, new_run, plan_in, write_two
from caption_runs import GOOD, Place, command, place

from examples.recipes.caption_qc.job.projections import unknown_windows, write_projections
from examples.recipes.caption_qc.job.redo import redo_pages
from examples.recipes.caption_qc.job.scan import Seen, Shard
from examples.recipes.caption_qc.job.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


@pytest.mark.parametrize(
    "name", ["ledger.checked", "ledger.sqlite-journal", "ledger.sqlite-wal", "ledger.sqlite-shm"]
)
def test_a_fifo_beside_the_ledger_hangs_nothing(name: str, here: Place) -> None:
    """A note that can't be read is none; what SQLite would open is refused with 73."""
    here.fill(1)
    assert here.run().returncode == 0
    (here.state / name).unlink(missing_ok=True)
    os.mkfifo(here.state / name)
    done = command(*here.arguments(), prefix=["timeout", "--signal=KILL", "60"])
    told = command("status", "--state", str(here.state), prefix=["timeout", "--signal=KILL", "60"])
    if name == "ledger.checked":
        assert (done.returncode, told.returncode) == (0, 0)
        assert (here.state / name).is_file()
    else:
        assert (done.returncode, told.returncode) == (73, 73)
        assert f"{here.state / name}: it is not a regular file" in done.stderr


def test_a_link_beside_the_ledger_leads_to_no_other_file(here: Place, tmp_path: Path) -> None:
    """The note is made anew where it is, never written through."""
    here.fill(1)
    (tmp_path / "theirs").write_bytes(b"theirs")
    here.state.mkdir()
    (here.state / "ledger.checked").symlink_to(tmp_path / "theirs")
    assert here.run().returncode == 0
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    assert not (here.state / "ledger.checked").is_symlink()


def test_an_older_ledger_that_was_brought_back_is_noticed(here: Place, tmp_path: Path) -> None:
    """One warning with the way out, which makes it whole again: each record stands in one window."""
    (here.queue / "a.scc").write_bytes(GOOD)
    assert here.run("--at", "2026-01-01T00:00Z").returncode == 0
    shutil.copy2(here.state / "ledger.sqlite", tmp_path / "backup")
    (here.queue / "b.scc").write_bytes(GOOD)
    assert here.run("--at", "2026-01-01T00:05Z").returncode == 0
    shutil.copy2(tmp_path / "backup", here.state / "ledger.sqlite")
    (here.queue / "b.scc").unlink()

    done = here.run("--at", "2026-01-01T00:10Z")

    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert (done.returncode, len(warnings)) == (0, 1)
    assert "window=2026-01-01T0005Z has records that the ledger does not know; if an older" in warnings[0]
    (here.state / "ledger.sqlite").rename(tmp_path / "aside")
    assert here.run("--at", "2026-01-01T00:15Z").returncode == 0
    assert here.statuses == {"a.scc": "pass", "b.scc": "pass"}
    assert "does not know" not in here.run("--at", "2026-01-01T00:20Z").stderr


def test_files_of_pruned_windows_are_known(plan: Plan) -> None:
    """They are about to go; and where nothing was written yet there is nothing to know."""
    with new_run(plan, "run-0") as ledger:
        assert unknown_windows(plan, ledger) is None
    write_two(plan)
    (plan.state / "ledger.checked").unlink()
    with new_run(plan, "run-2") as ledger, ledger.transaction() as cursor:
        cursor.execute("DELETE FROM windows")
        cursor.execute("INSERT INTO pruned SELECT DISTINCT window_start FROM records")
    (plan.state / "ledger.checked").unlink()
    with new_run(plan, "run-3") as ledger:
        assert unknown_windows(plan, ledger) is None
        with ledger.transaction() as cursor:
            cursor.execute("DELETE FROM pruned")
        assert "has records that the ledger does not know" in (unknown_windows(plan, ledger) or "")


@pytest.mark.parametrize("words", [("prune", "--keep", "30d"), ("replay",)], ids=["prune", "replay"])
def test_only_a_run_makes_a_lost_ledger_again(words: tuple[str, ...], here: Place, tmp_path: Path) -> None:
    """The others may not know where its Parquet lies: 74, and nothing is put in its place."""
    here.fill(1)
    out = ("--out", str(tmp_path / "out"))
    assert here.run(*out).returncode == 0
    (here.state / "ledger.sqlite").write_bytes(b"no database" * 999)
    queue = ("--queue",) if words[0] == "replay" else ()

    done = command(*words, *queue, str(here.queue), "--state", str(here.state))

    (line,) = done.stderr.splitlines()
    assert (done.returncode, "do a run first, with the --out that runs have" in line) == (74, True)
    assert (here.state / "ledger.sqlite").read_bytes() == b"no database" * 999
    assert "made again from" in here.run(*out).stderr
    assert len(here.statuses) == 1


def test_a_shard_leaves_suspects_and_windows_of_others_alone(plan: Plan) -> None:
    """Also in a state that knows more than that shard."""
    names = [f"{number}.scc" for number in range(12)]
    assets = [deliver(plan, name) for name in names]
    ours = replace(plan, shard=Shard(1, 2), redo=(plan.window, plan.window))
    with new_run(plan) as ledger:
        finish(ledger, *(checked(asset, "1" * 64) for asset in assets))
        write_projections(plan, ledger, ended())
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE assets SET content_sha256 = ?", ("1" * 64,))
    wanted = {asset.name for asset in assets if Shard(1, 2).holds(asset.name)}
    assert 0 < len(wanted) < len(names)
    with new_run(ours, "run-2") as ledger:
        totals = Totals(seen=Seen())
        pages = list(redo_pages(replace(ours, run_id="run-2"), ledger, totals))
        assert ({asset.name for page in pages for asset in page}, totals.kept.total()) == (wanted, 0)
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE assets SET state = 'running'")
        assert {suspect.asset.name for suspect in ledger.suspects()} == wanted
