"""Bytes that come back: the newest record of a name is of what was met there last, and there is one a key.

Whole runs are real ones but for the processes: what a worker does is done in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from caption_crashes import Killer, crashes
from caption_ledgers import (
    CLEAN,
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
    sha256,
    window_paths,
)
from caption_runs import GOOD, Place, place
from pyarrow import parquet

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import runner
from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.ledger import Finished
from examples.recipes.caption_qc.job.pool import Pool
from examples.recipes.caption_qc.job.projections import write_projections, write_windows
from examples.recipes.caption_qc.job.prune import prune
from examples.recipes.caption_qc.job.redo import redo_pages
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.totals import Totals
from examples.recipes.caption_qc.job.worker import Orders, check_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from examples.recipes.caption_qc.job.assets import Asset
    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.outcomes import Ending, Outcome
    from examples.recipes.caption_qc.job.plan import Plan

BAD = GOOD.replace(b"9420", b"9421")
LATER = timedelta(minutes=5)
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")


class Threads(Pool):
    """Checks in threads where the pool would in processes."""

    def __init__(self, workers: int, orders: Orders) -> None:
        super().__init__(workers, orders)
        self._orders = orders

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        return await asyncio.to_thread(check_chunk, self._orders, chunk)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(runner, "Pool", Threads)
    return place(tmp_path)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def dashboard_on(here: Place, day: str, *more: str) -> dict[str, Any]:
    """Do a run in the first window of `day`, and return the dashboard."""
    assert main(here.arguments("--at", f"{day}T00:00Z", *more), Drain()) == 0
    shown: dict[str, Any] = json.loads((here.state / "dashboard.json").read_text())
    return {
        "window": str(shown["window"])[:10],
        "assets": [(one["asset_id"], one["status"]) for one in shown["assets"]],
    }


def records(here: Place) -> list[tuple[str, str]]:
    """List day and status of each record, the oldest window first."""
    query = "SELECT date(window_start / 1000000, 'unixepoch'), status FROM records ORDER BY window_start"
    return [(day, status) for day, status in here.ask(query)]


def test_a_bad_file_that_comes_back_is_what_the_dashboard_shows(here: Place) -> None:
    """Mended and then delivered as it was: its one record stands where it came back, with its findings."""
    file = here.queue / "a.scc"
    for day, data in zip(DAYS, (BAD, GOOD, BAD), strict=False):
        file.write_bytes(data)
        shown = dashboard_on(here, day)
    assert shown == {"window": DAYS[2], "assets": [("a.scc", "fail")]}
    assert records(here) == [(DAYS[1], "pass"), (DAYS[2], "fail")]
    found = here.ask(
        "SELECT COUNT(*) FROM findings JOIN records USING (content_sha256) WHERE status = 'fail'"
    )
    assert found > [(0,)]
    files = (here.state / "telemetry" / "assets").glob("*/assets.parquet")
    rows = {path.parent.name[7:17]: parquet.read_table(path).column("status").to_pylist() for path in files}
    assert rows == {DAYS[0]: [], DAYS[1]: ["pass"], DAYS[2]: ["fail"]}


def test_a_sidecar_that_comes_and_goes_leaves_the_verdict_without_it(here: Place) -> None:
    """The file has not changed, what it was judged by has."""
    (here.queue / "a.scc").write_bytes(GOOD)
    sidecar = here.queue / "a.toml"
    dashboard_on(here, DAYS[0])
    sidecar.write_text("nonsense")
    assert dashboard_on(here, DAYS[1])["assets"] == [("a.scc", "fail")]
    sidecar.unlink()
    assert dashboard_on(here, DAYS[2]) == {"window": DAYS[2], "assets": [("a.scc", "pass")]}
    assert records(here) == [(DAYS[1], "fail"), (DAYS[2], "pass")]


def test_a_profile_and_back_leaves_the_verdict_of_the_last(here: Place) -> None:
    """Its record of before is of the last check."""
    (here.queue / "a.scc").write_bytes(GOOD)
    for day, profile in zip(DAYS, ("house", "bbc", "house"), strict=False):
        dashboard_on(here, day, "--profile", profile)
    query = "SELECT profile, date(window_start / 1000000, 'unixepoch') FROM records ORDER BY window_start"
    assert here.ask(query) == [("bbc", DAYS[1]), ("house", DAYS[2])]


def test_a_touch_moves_nothing_and_writes_nothing_again(here: Place) -> None:
    """The same bytes as those that were met last: the ledger takes the new stat alone, also after a return."""
    file = here.queue / "a.scc"
    for day, data in zip(DAYS, (BAD, GOOD, BAD), strict=False):
        file.write_bytes(data)
        dashboard_on(here, day)
    before = here.ask("SELECT * FROM records"), here.ask("SELECT window_start, changes FROM windows")
    os.utime(file, ns=(1, 1))
    dashboard_on(here, DAYS[3])
    assert (
        here.ask("SELECT * FROM records"),
        here.ask("SELECT window_start, changes FROM windows"),
    ) == before
    assert here.ask("SELECT mtime_ns FROM assets") == [(1,)]


def test_an_archive_that_was_wrong_before_is_mended_by_the_next_look(plan: Plan) -> None:
    """A ledger of an older version has the record of the other bytes as the newest, though they are gone."""
    asset = deliver(plan, "a.scc")
    with new_run(plan) as ledger:
        at(ledger, 0, checked(asset, "a" * 64, FAULTY))
        at(ledger, 1, checked(asset, "b" * 64))
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE assets SET content_sha256 = ?", ("a" * 64,))
        assert at(ledger, 2, checked(asset, "a" * 64, FAULTY)) == (False,)
        assert ask(ledger, NEWEST) == [("a" * 64, "fail")]


NEWEST = "SELECT content_sha256, status FROM records ORDER BY checked_at DESC LIMIT 1"
KEYS = "SELECT content_sha256, status, run_id FROM records ORDER BY window_start, content_sha256"


def at(ledger: Ledger, minutes: int, *endings: Ending) -> tuple[bool, ...]:
    """Record the endings as of some minutes later, and say which gave a new record."""
    (recorded,) = ledger.write([Finished(endings, NOW + timedelta(minutes=minutes))])
    return tuple(new for _, new in recorded)


def deliver_and_check(plan: Plan, number: int, data: bytes, *, dies: bool = False) -> tuple[bool, ...]:
    """Deliver `data` as a.scc and check it in the run and the window of that number, with its reports."""
    with new_run(plan, f"run-{number}", plan.window + number * LATER) as ledger:
        asset, content = deliver(plan, "a.scc", data), sha256(data)
        ending = died(asset, content) if dies else checked(asset, content, FAULTY if data == BAD else CLEAN)
        new = at(ledger, number, ending)
        move_dead_letters(plan, ledger, pytest.fail)
        write_projections(plan, ledger, ended())
    return new


def test_a_ledger_that_was_made_again_takes_the_newest_record_for_what_lay_there(plan: Plan) -> None:
    """What it knew of the file is lost: bytes as those of the newest record move nothing, older ones do."""
    for number, data in enumerate((BAD, GOOD, BAD)):
        deliver_and_check(plan, number, data)
    plan.ledger.unlink()
    with new_run(plan, "run-3", plan.window + 3 * LATER, lambda _: None) as ledger:
        was = ask(ledger, KEYS)
        assert was == [(sha256(GOOD), "pass", "run-1"), (sha256(BAD), "fail", "run-2")]
        assert at(ledger, 3, checked(deliver(plan, "a.scc", BAD), sha256(BAD), FAULTY)) == (False,)
        assert ask(ledger, KEYS) == was
        with ledger.transaction() as cursor:
            cursor.execute("DELETE FROM assets")
        assert at(ledger, 4, checked(deliver(plan, "a.scc", GOOD), sha256(GOOD))) == (False,)
        assert ask(ledger, KEYS) == [(sha256(BAD), "fail", "run-2"), (sha256(GOOD), "pass", "run-3")]


def test_both_windows_files_are_written_again_and_a_rebuild_from_either_state_agrees(plan: Plan) -> None:
    """Also where the older window's files still have the record, as after a crash: the newer one counts."""
    deliver_and_check(plan, 0, BAD)
    old = window_paths(plan, plan.window)[1].parent.parent.parent
    kept = plan.state / "kept"
    shutil.copytree(old, kept)
    deliver_and_check(plan, 1, GOOD)
    deliver_and_check(plan, 2, BAD)
    shutil.copytree(kept, old, dirs_exist_ok=True)
    plan.ledger.unlink()
    with new_run(plan, "run-3", plan.window + 3 * LATER, lambda _: None) as ledger:
        assert ask(ledger, KEYS) == [(sha256(GOOD), "pass", "run-1"), (sha256(BAD), "fail", "run-2")]
        assert ask(ledger, "SELECT COUNT(*) FROM findings") == [(len(FAULTY.findings) + len(CLEAN.findings),)]
        write_projections(plan, ledger, ended())
    assert parquet.read_table(window_paths(plan, plan.window)[1]).num_rows == 0


def test_a_dead_letter_that_comes_back_and_dies_again_is_the_newest(plan: Plan) -> None:
    """Its error stands in the window of its return, and a rebuild knows the dead letter by it."""
    assert deliver_and_check(plan, 0, BAD, dies=True) == (True,)
    assert deliver_and_check(plan, 1, GOOD) == (True,)
    assert deliver_and_check(plan, 2, BAD, dies=True) == (False,)
    expected = [(sha256(GOOD), "pass", "run-1"), (sha256(BAD), "error", "run-2")]
    for _ in range(2):
        with new_run(plan, "run-3", plan.window + 3 * LATER, lambda _: None) as ledger:
            assert ask(ledger, KEYS) == expected
            assert ask(ledger, "SELECT asset_id, content_sha256 FROM dead_letters") == [
                ("a.scc", sha256(BAD))
            ]
            (found,) = ask(ledger, "SELECT COUNT(*) FROM findings WHERE rule = 'JOB_DEAD_LETTER'")
            assert found == (1,)
        plan.ledger.unlink()


def test_a_dead_letter_that_dies_again_with_nothing_between_keeps_its_error(plan: Plan) -> None:
    """Nothing else was met there."""
    deliver_and_check(plan, 0, BAD, dies=True)
    assert deliver_and_check(plan, 1, BAD, dies=True) == (False,)
    with new_run(plan, "run-2") as ledger:
        assert ask(ledger, KEYS) == [(sha256(BAD), "error", "run-0")]


def test_pruning_the_window_of_the_first_delivery_keeps_the_record(plan: Plan) -> None:
    """It has left that window; what is pruned of the others is checked as new when it comes back."""
    for number, data in enumerate((BAD, GOOD, BAD)):
        deliver_and_check(plan, number, data)
    with new_run(plan, "run-3", plan.window + 3 * LATER) as ledger:
        prune(replace(plan, started=NOW + 9 * LATER), ledger, plan.window + 2 * LATER)
        assert ask(ledger, KEYS) == [(sha256(BAD), "fail", "run-2")]
    assert deliver_and_check(plan, 4, GOOD) == (True,)


def test_a_redo_meets_it_in_the_window_of_its_return_alone(plan: Plan) -> None:
    """In that of the first delivery there is nothing to do again, and in that of the other it is changed."""
    for number, data in enumerate((BAD, GOOD, BAD)):
        deliver_and_check(plan, number, data)
    kept: list[dict[str, int]] = []
    for number in range(3):
        window = plan.window + number * LATER
        again = replace(plan, run_id=f"redo-{number}", redo=(window, window), window=plan.window + 9 * LATER)
        with new_run(again, again.run_id, again.window) as ledger:
            totals = Totals(seen=Seen())
            for page in redo_pages(again, ledger, totals):
                assert at(ledger, 9, *(checked(asset, sha256(BAD), FAULTY) for asset in page)) == (True,)
            kept.append(dict(totals.kept))
            found = ask(ledger, KEYS)
    assert kept == [{}, {"changed": 1}, {}]
    assert found == [(sha256(GOOD), "pass", "run-1"), (sha256(BAD), "fail", "redo-2")]


def test_a_return_that_is_killed_anywhere_leaves_one_record_of_each(tmp_path: Path) -> None:
    """In one window or the other, with its findings; the next run brings the rest."""
    plan = plan_in(tmp_path)
    back = replace(plan, run_id="back", window=plan.window + 2 * LATER)

    def before(_: int) -> None:
        for folder in (plan.state, folder_of(plan)):
            shutil.rmtree(folder)
            folder.mkdir()
        with new_run(plan, "run-0") as ledger:
            at(ledger, 0, checked(deliver(plan, "a.scc", BAD), sha256(BAD), FAULTY))
            write_windows(plan, ledger)
            at(ledger, 1, checked(deliver(plan, "a.scc", GOOD), sha256(GOOD)))

    def step(killer: Killer) -> None:
        with new_run(back, "back", back.window) as ledger:
            killer.watch(ledger)
            at(ledger, 2, checked(deliver(plan, "a.scc", BAD), sha256(BAD), FAULTY))
            write_windows(back, ledger)

    states = set()
    for _ in crashes(step, before):
        with new_run(back, "after", plan.window + 3 * LATER) as ledger:
            found = [(status, run) for _, status, run in ask(ledger, KEYS)]
            states.add(tuple(found))
            query = "SELECT COUNT(*) FROM findings JOIN records USING (content_sha256) WHERE status = 'fail'"
            assert ask(ledger, query) == [(len(FAULTY.findings),)]
            write_windows(plan, ledger)
        windows = (window_paths(plan, plan.window + number * LATER)[1] for number in range(3))
        rows = [parquet.read_table(path).num_rows for path in windows if path.exists()]
        assert sum(rows) == len(found) == 2
    before_it, after_it = (("fail", "run-0"), ("pass", "run-0")), (("pass", "run-0"), ("fail", "back"))
    assert {tuple(sorted(state)) for state in states} == {tuple(sorted(before_it)), tuple(sorted(after_it))}


def test_a_return_within_one_window_is_of_the_new_check(plan: Plan) -> None:
    """Its time says which of the two records is the last."""
    asset = deliver(plan, "a.scc")
    with new_run(plan) as ledger:
        at(ledger, 0, checked(asset, "a" * 64, FAULTY))
        at(ledger, 1, checked(asset, "b" * 64))
        assert at(ledger, 2, checked(asset, "a" * 64, FAULTY)) == (False,)
        assert ask(ledger, NEWEST) == [("a" * 64, "fail")]
        assert ask(ledger, "SELECT COUNT(*) FROM records") == [(2,)]


def test_a_clock_that_was_set_back_hides_no_return(plan: Plan) -> None:
    """The other bytes have an earlier time: that they were met last stands in the ledger all the same."""
    asset = deliver(plan, "a.scc")
    with new_run(plan) as ledger:
        at(ledger, 9, checked(asset, "a" * 64, FAULTY))
        at(ledger, 0, checked(asset, "b" * 64))
    with new_run(plan, "back", plan.window + LATER) as ledger:
        assert finish(ledger, checked(asset, "a" * 64, FAULTY)) == (False,)
        assert ask(ledger, "SELECT run_id FROM records WHERE status = 'fail'") == [("back",)]
