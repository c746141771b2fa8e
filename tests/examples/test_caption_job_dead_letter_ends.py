"""When a dead letter ends: what was delivered since has been checked, whatever it and the letter were judged by."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from caption_bad_files import bad_file
from caption_ledgers import (
    CLEAN,
    FAULTY,
    NOW,
    A,
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
from caption_runs import GOOD, command, place
from caption_storm import whole_run

from examples.recipes.caption_qc.job import moving
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.ledger import Finished
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

OTHER = "f" * 64
BAD = GOOD + b"\nbad"
RECORDS = "SELECT asset_id, status, profile_sha256 FROM records ORDER BY 1, 2, 3"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def give_up(plan: Plan, ledger: Ledger, name: str, data: bytes = BAD) -> Path:
    """Deliver a file, let it die, and return where it lies then."""
    finish(ledger, died(deliver(plan, name, data), sha256(data)))
    move_dead_letters(plan, ledger, pytest.fail)
    return plan.state / "dead-letter" / name


@pytest.mark.parametrize("letter_by", [None, OTHER], ids=["profile", "sidecar"])
@pytest.mark.parametrize("check_by", [CLEAN.profile_sha256, "e" * 64])
def test_a_check_takes_the_place_of_every_error_of_its_content(
    plan: Plan, letter_by: str | None, check_by: str
) -> None:
    """Whatever it was judged by then and now: one record, in the window of the check; other contents keep theirs."""
    other = Asset(b"other.scc", A.stat)
    with new_run(plan) as ledger:
        finish(ledger, replace(died(A), judged_by=letter_by), died(other))
    with new_run(plan, "run-2", plan.window.replace(minute=10)) as ledger:
        assert finish(ledger, checked(A, report=replace(FAULTY, profile_sha256=check_by))) == (True,)
        assert ask(ledger, RECORDS) == [
            ("a.scc", "fail", check_by),
            ("other.scc", "error", plan.profile.sha256),
        ]
        assert ask(ledger, "SELECT DISTINCT rule FROM findings WHERE asset_id = 'a.scc'") != [
            ("JOB_DEAD_LETTER",)
        ]
        assert ask(ledger, "SELECT changes FROM windows ORDER BY window_start") == [(3,), (1,)]


def test_a_dead_letter_with_a_sidecar_is_judged_by_both(tmp_path: Path) -> None:
    """As its checks are: its record has the digest that the later one has, and gives way to it."""
    here = place(tmp_path)
    (here.queue / "k.scc").write_bytes(bad_file(GOOD, "kill"))
    (here.queue / "k.toml").write_text('programme = "00:00:00:00-01:28:30:00"\n')
    assert whole_run(here, "--max-attempts", "1", CAPTION_BAD_FILES="1").returncode == 0
    ((status, first),) = here.ask("SELECT status, profile_sha256 FROM records")
    assert status == "error"
    assert command("replay", "--state", str(here.state)).returncode == 0
    assert whole_run(here).returncode == 0
    ((status, second),) = here.ask("SELECT status, profile_sha256 FROM records")
    assert (status, second) == ("fail", first)


def test_a_file_too_large_is_judged_by_its_sidecar_too(tmp_path: Path) -> None:
    """Another sidecar gives another record."""
    here = place(tmp_path)
    (here.queue / "a.scc").write_bytes(GOOD)
    (tmp_path / "tiny.toml").write_text('name = "tiny"\nmax_bytes = 10\n')
    for sidecar in (None, "00:00:00:00-01:28:30:00", "00:00:00:00-01:28:31:00"):
        if sidecar is not None:
            (here.queue / "a.toml").write_text(f'programme = "{sidecar}"\n')
        assert here.run("--profile", str(tmp_path / "tiny.toml")).returncode == 0
    assert here.ask("SELECT COUNT(*), COUNT(DISTINCT profile_sha256), MIN(status) FROM records") == [
        (3, 3, "fail")
    ]


def test_a_file_that_was_delivered_again_ends_the_dead_letter(plan: Plan) -> None:
    """Once it has been checked, good or not; the one that was moved is kept, and nobody else's letter ends."""
    with new_run(plan) as ledger:
        moved = give_up(plan, ledger, "a.scc")
        give_up(plan, ledger, "b.scc")
        new = deliver(plan, "a.scc", GOOD)
        assert ledger.dead_letters() == 2, "not before it has been checked"
        ledger.write([Finished((checked(new, sha256(GOOD), FAULTY),), NOW + timedelta(seconds=1))])
        assert ask(ledger, "SELECT asset_id FROM dead_letters") == [("b.scc",)]
        assert moved.read_bytes() == BAD
        assert ledger.todo([seen(plan, "a.scc")]) == []
        write_projections(plan, ledger, ended())
    plan.ledger.unlink()
    with new_run(plan, "run-2", warn=len) as ledger:
        assert ask(ledger, "SELECT asset_id FROM dead_letters") == [("b.scc",)], "nor after a rebuild"


def test_what_can_not_go_back_is_a_code_of_its_own(tmp_path: Path) -> None:
    """73 from `replay`: a script that asked for it has to know."""
    here = place(tmp_path)
    (here.queue / "k.scc").write_bytes(bad_file(GOOD, "kill"))
    assert whole_run(here, "--max-attempts", "1", CAPTION_BAD_FILES="1").returncode == 0
    (here.queue / "k.scc").write_bytes(GOOD)
    done = command("replay", "--state", str(here.state), "k.scc")
    assert (done.returncode, "something else lies in its place" in done.stderr) == (73, True)
    (here.queue / "k.scc").unlink()
    assert command("replay", "--state", str(here.state), "k.scc").returncode == 0


# Links and folders in the queue


def test_nothing_goes_back_through_a_link(plan: Plan) -> None:
    """Out of the queue, to wherever it leads: the file stays, and that is said; with the folder back it goes."""
    outside = folder_of(plan).parent / "outside"
    outside.mkdir()
    with new_run(plan) as ledger:
        moved = give_up(plan, ledger, "sub/a.scc")
        (folder_of(plan) / "sub").rmdir()
        (folder_of(plan) / "sub").symlink_to(outside)
        ((name, why),) = replay(plan, ledger).left
        assert (name, why) == ("sub/a.scc", f"a link lies where its folder was, {folder_of(plan)}/sub")
        assert (moved.read_bytes(), list(outside.iterdir())) == (BAD, [])
        assert ask(ledger, "SELECT asset_id, move FROM dead_letters") == [("sub/a.scc", None)]
        (folder_of(plan) / "sub").unlink()
        assert replay(plan, ledger).replayed == ("sub/a.scc",)
    assert (folder_of(plan) / "sub" / "a.scc").read_bytes() == BAD


def test_nothing_is_taken_through_a_link(plan: Plan) -> None:
    """The folder was moved out of the queue and linked: the file is not in the queue any more, and not ours."""
    with new_run(plan) as ledger:
        finish(ledger, died(deliver(plan, "sub/a.scc", BAD), sha256(BAD)))
        (folder_of(plan) / "sub").rename(folder_of(plan).parent / "outside")
        (folder_of(plan) / "sub").symlink_to(folder_of(plan).parent / "outside")
        move_dead_letters(plan, ledger, pytest.fail)
        assert ledger.dead_letters() == 0
    assert (folder_of(plan).parent / "outside" / "a.scc").read_bytes() == BAD
    assert not list((plan.state / "dead-letter").rglob("*.scc"))


@pytest.mark.parametrize("free", [True, False])
def test_a_folder_in_the_place_of_a_dying_file_goes_back(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, *, free: bool
) -> None:
    """Taken by the rename in the last moment, with all that is in it; where the place is taken by then it waits."""
    access = os.access
    path = folder_of(plan) / "a.scc"

    def replaced(asked: Path, mode: int) -> bool:
        path.unlink()
        path.mkdir()
        (path / "inner.scc").write_bytes(GOOD)
        return access(asked, mode)

    warnings: list[str] = []
    with new_run(plan) as ledger, monkeypatch.context() as race:
        finish(ledger, died(deliver(plan, "a.scc", BAD), sha256(BAD)))
        race.setattr(os, "access", replaced)
        if not free:
            put_back = moving.put_back

            def late(source: Path, target: Path) -> None:
                target.write_bytes(BAD)
                put_back(source, target)

            race.setattr(moving, "put_back", late)
        move_dead_letters(plan, ledger, warnings.append)
    inner = [*folder_of(plan).rglob("inner.scc"), *plan.state.rglob("inner.scc")]
    assert len(inner) == 1
    assert inner[0].is_relative_to(folder_of(plan)) == free
    assert bool(warnings) != free


# After the ledger was lost


def test_every_file_below_dead_letter_is_known_again(plan: Plan) -> None:
    """By its record, also where it had a good one before; by its name alone where none tells of it."""
    with new_run(plan) as ledger:
        finish(ledger, checked(deliver(plan, "good.scc", BAD), sha256(BAD)))
        give_up(plan, ledger, "good.scc")
        give_up(plan, ledger, "b/pruned.scc", BAD + b"2")
        with ledger.transaction() as cursor:
            cursor.execute("DELETE FROM records WHERE asset_id = 'b/pruned.scc'")
            cursor.execute("DELETE FROM findings WHERE asset_id = 'b/pruned.scc'")
        write_projections(plan, ledger, ended())
    plan.ledger.unlink()
    with new_run(replace(plan, started=NOW), "run-2", warn=len) as ledger:
        letters = ask(ledger, "SELECT asset_id, place, reason FROM dead_letters ORDER BY 1")
        why, told = "known by its file alone", "not checked: hung, 3 times alone"
        assert letters == [("b/pruned.scc", "b/pruned.scc", why), ("good.scc", "good.scc", told)]
        assert set(replay(plan, ledger).replayed) == {"b/pruned.scc", "good.scc"}


def test_dead_letters_of_all_queues_are_known_again(plan: Plan) -> None:
    """The middle one of three too."""
    for number in range(3):
        queue = folder_of(plan).with_name(f"queue-{number}")
        queue.mkdir()
        other = replace(plan, queue=FolderQueue(queue))
        with new_run(other, f"run-{number}") as ledger:
            give_up(other, ledger, "k.scc", BAD + b"%d" % number)
            write_projections(other, ledger, ended())
    plan.ledger.unlink()
    with new_run(plan, "run-4", warn=len) as ledger:
        letters = ask(ledger, "SELECT queue, place FROM dead_letters ORDER BY 1")
    assert letters == [
        (f"{folder_of(plan)}-{number}", f"{'' if not number else f'~{number + 1}/'}k.scc")
        for number in range(3)
    ]
