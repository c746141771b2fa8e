"""Redo: what lies there with the bytes of its record is checked again, and the record replaced in its window."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_crashes import Killer, crashes
from caption_ledgers import (
    CLEAN,
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
    sha256,
    window_paths,
)
from caption_runs import GOOD
from pyarrow import parquet

from examples.recipes.caption_qc.job import redo
from examples.recipes.caption_qc.job.assets import as_text
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.redo import redo_pages
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.totals import Totals

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

LATER = timedelta(minutes=5)
RECORDS = "SELECT asset_id, status, profile_sha256, run_id, (window_start - {}) / 300000000 FROM records ORDER BY 1, 5"
HOUSE = CLEAN.profile_sha256
OTHER = "f" * 64


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Files a to d are recorded in window 0, e in window 1, as they lie in the queue."""
    plan = plan_in(tmp_path)
    record(plan, 0, "a.scc", "b/%.scc", "c.scc", "d.scc")
    record(plan, 1, "e.scc")
    return plan


def record(plan: Plan, window: int, *names: str) -> None:
    with new_run(plan, f"run-{window}", plan.window + window * LATER) as ledger:
        finish(
            ledger, *(checked(deliver(plan, name, bytes_of(name)), sha256(bytes_of(name))) for name in names)
        )
        write_projections(plan, ledger, ended())


def bytes_of(name: str) -> bytes:
    return GOOD + name.encode()


def redoing(plan: Plan, first: int, last: int, profile: str = HOUSE) -> Plan:
    """Plan a run in window 9 that does the windows again."""
    judged_by = replace(plan.profile, sha256=profile)
    windows = (plan.window + first * LATER, plan.window + last * LATER)
    return replace(plan, redo=windows, profile=judged_by, window=plan.window + 9 * LATER)


def do_again(plan: Plan, ledger: Ledger, profile: str = HOUSE) -> Totals:
    """Check again what is to be, with another result."""
    totals = Totals(seen=Seen())
    report = replace(FAULTY, profile_sha256=profile)
    for asset in itertools.chain.from_iterable(redo_pages(plan, ledger, totals)):
        content = sha256((folder_of(plan) / asset.name.decode()).read_bytes())
        totals.checked += sum(finish(ledger, checked(asset, content, report)))
    return totals


def records(plan: Plan, ledger: Ledger) -> list[tuple[object, ...]]:
    return ask(ledger, RECORDS.format(int(plan.window.timestamp() * 1_000_000)))


def test_records_are_replaced_in_their_own_windows(plan: Plan) -> None:
    """Findings too, and the windows' files; other windows, and the run's own, stay as they are."""
    other = window_paths(plan, plan.window + LATER)[1]
    was = other.stat().st_ino
    again = redoing(plan, 0, 0)
    with new_run(again, "redo", again.window) as ledger:
        assert do_again(replace(again, run_id="redo"), ledger).checked == 4
        assert records(plan, ledger) == [
            *(
                (as_text(name.encode()), "fail", HOUSE, "redo", 0)
                for name in ("a.scc", "b/%.scc", "c.scc", "d.scc")
            ),
            ("e.scc", "pass", HOUSE, "run-1", 1),
        ]
        assert ask(ledger, "SELECT COUNT(*) FROM findings") == [(4 * len(FAULTY.findings),)]
        write_projections(again, ledger, ended())
    findings, assets = (parquet.read_table(path) for path in window_paths(plan, plan.window))
    assert set(assets.column("status").to_pylist()) == {"fail"}
    assert findings.num_rows == 4 * len(FAULTY.findings)
    assert other.stat().st_ino == was
    assert not window_paths(plan, again.window)[1].exists()


def test_gone_and_changed_ones_keep_their_records_and_are_counted(plan: Plan) -> None:
    """Also one that is a link or a folder now; one that was only touched has its bytes."""
    (folder_of(plan) / "a.scc").unlink()
    (folder_of(plan) / "b" / "%.scc").write_bytes(b"other")
    with new_run(plan, "run-2", plan.window + 2 * LATER) as ledger:
        finish(ledger, checked(deliver(plan, "e.scc", b"recorded since"), sha256(b"recorded since")))
    (folder_of(plan) / "c.scc").unlink()
    (folder_of(plan) / "c.scc").symlink_to("d.scc")
    deliver(plan, "d.scc", bytes_of("d.scc"))
    again = replace(redoing(plan, 0, 1), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        before = [row for row in records(plan, ledger) if row[0] != "d.scc"]
        totals = do_again(again, ledger)
        assert totals.kept == {"gone": 1, "changed": 3}
        assert totals.checked == 1
        assert [row for row in records(plan, ledger) if row[3] != "redo"] == before


def test_with_another_profile_the_new_record_takes_the_place(plan: Plan) -> None:
    """One that the profile has elsewhere comes home: there is one record a key, and it is in the window."""
    with new_run(
        replace(plan, profile=replace(plan.profile, sha256=OTHER)), "run-2", plan.window + 2 * LATER
    ) as ledger:
        report = replace(CLEAN, profile_sha256=OTHER)
        finish(ledger, checked(deliver(plan, "a.scc", bytes_of("a.scc")), sha256(bytes_of("a.scc")), report))
    again = replace(redoing(plan, 0, 0, OTHER), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        do_again(again, ledger, OTHER)
        assert [(row[0], *row[2:]) for row in records(plan, ledger)] == [
            *((as_text(name.encode()), OTHER, "redo", 0) for name in ("a.scc", "b/%.scc", "c.scc", "d.scc")),
            ("e.scc", HOUSE, "run-1", 1),
        ]
        behind = ask(ledger, "SELECT COUNT(*) FROM windows WHERE changes != projected")
        assert behind == [(2,)]


def test_a_content_in_two_of_the_windows_is_done_once(plan: Plan) -> None:
    """Its record stands in the first of them."""
    with new_run(
        replace(plan, profile=replace(plan.profile, sha256=OTHER)), "run-2", plan.window + LATER
    ) as ledger:
        report = replace(CLEAN, profile_sha256=OTHER)
        finish(ledger, checked(deliver(plan, "a.scc", bytes_of("a.scc")), sha256(bytes_of("a.scc")), report))
    again = replace(redoing(plan, 0, 1, OTHER), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        assert do_again(again, ledger, OTHER).checked == 5
        assert [row for row in records(plan, ledger) if row[0] == "a.scc"] == [
            ("a.scc", "fail", OTHER, "redo", 0)
        ]


def test_what_this_run_has_recorded_is_not_replaced_once_more(plan: Plan) -> None:
    """A second check of the same bytes gives no new record, as ever."""
    again = replace(redoing(plan, 0, 1), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        do_again(again, ledger)
        asset = deliver(plan, "a.scc", bytes_of("a.scc"))
        assert finish(ledger, checked(asset, sha256(bytes_of("a.scc")), FAULTY)) == (False,)


def test_dead_letters_are_left_to_replay(plan: Plan) -> None:
    """They would end a worker again; one that dies in a redo has its error in the place of the old record."""
    with new_run(plan, "run-2") as ledger:
        finish(ledger, died(deliver(plan, "bad.scc", b"bad"), sha256(b"bad")))
    again = replace(redoing(plan, 0, 0), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        pages = list(redo_pages(again, ledger, Totals(seen=Seen())))
        assets = {asset.name: asset for page in pages for asset in page}
        assert sorted(assets) == [b"a.scc", b"b/%.scc", b"c.scc", b"d.scc"]
        assert finish(ledger, died(assets[b"a.scc"], sha256(bytes_of("a.scc")))) == (True,)
        assert records(plan, ledger)[0] == ("a.scc", "error", HOUSE, "redo", 0)
        assert ledger.dead_letters() == 2
        left = itertools.chain.from_iterable(redo_pages(again, ledger, Totals(seen=Seen())))
        assert sorted(asset.name for asset in left) == [b"b/%.scc", b"c.scc", b"d.scc"]


def test_new_bytes_that_are_checked_in_a_redo_are_a_record_of_the_runs_window(plan: Plan) -> None:
    """A suspect, or a file that was replaced after it was looked at: theirs is kept, and this is another."""
    again = replace(redoing(plan, 0, 0), run_id="redo")
    with new_run(again, "redo", again.window) as ledger:
        assert finish(ledger, checked(deliver(plan, "a.scc", b"new"), sha256(b"new"))) == (True,)
        assert records(plan, ledger)[:2] == [
            ("a.scc", "pass", HOUSE, "run-0", 0),
            ("a.scc", "pass", HOUSE, "redo", 9),
        ]


def test_it_streams_in_pages_and_meets_each_record_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was replaced meanwhile is not met again, whatever its new key is."""
    monkeypatch.setattr(redo, "PAGE_SIZE", 2)
    for profile in ("0" * 64, OTHER):
        again = replace(redoing(plan, 0, 1, profile), run_id=f"redo-{profile[0]}")
        with new_run(again, again.run_id, again.window) as ledger:
            pages = redo_pages(again, ledger, Totals(seen=Seen()))
            seen = []
            for page in pages:
                seen.append([asset.name for asset in page])
                report = replace(CLEAN, profile_sha256=profile)
                finish(
                    ledger, *(checked(asset, sha256(bytes_of(asset.name.decode())), report) for asset in page)
                )
        assert seen == [[b"a.scc", b"b/%.scc"], [b"c.scc", b"d.scc"], [b"e.scc"]]


def test_a_redo_that_is_killed_anywhere_leaves_one_record_of_each(tmp_path: Path) -> None:
    """The old one or the new one, with its own findings; done again to the end, all are new."""
    plan = plan_in(tmp_path)
    again = replace(redoing(plan, 0, 1), run_id="redo")

    def before(_: int) -> None:
        for folder in (plan.state, folder_of(plan)):
            shutil.rmtree(folder)
            folder.mkdir()
        record(plan, 0, "a.scc", "c.scc")
        record(plan, 1, "e.scc")

    def step(killer: Killer) -> None:
        with new_run(again, "redo", again.window) as ledger:
            killer.watch(ledger)
            do_again(again, ledger)

    for _ in crashes(step, before):
        with new_run(again, "after", again.window) as ledger:
            found = records(plan, ledger)
            assert [(row[0], row[4]) for row in found] == [("a.scc", 0), ("c.scc", 0), ("e.scc", 1)]
            failed = sum(row[1] == "fail" for row in found)
            assert ask(ledger, "SELECT COUNT(*) FROM findings") == [(failed * len(FAULTY.findings),)]
            do_again(replace(again, run_id="after"), ledger)
            assert {row[1] for row in records(plan, ledger)} == {"fail"}
