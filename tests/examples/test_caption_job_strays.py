"""A state folder that has seen two queue paths: which queues there are, and what becomes of the dead letters."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from caption_crashes import Killer, crashes
from caption_ledgers import (
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
    sha256,
)
from caption_runs import GOOD, Place, place

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.history import KnownQueue, read_history
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

LETTERS = "SELECT queue, asset_id, place, move FROM dead_letters ORDER BY queue, asset_id"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def give_up(plan: Plan, name: str) -> None:
    """Let the file `name` die in a run of the plan, and be moved away."""
    with new_run(plan, f"died-{folder_of(plan).name}") as ledger:
        finish(ledger, died(deliver(plan, name), sha256(GOOD)))
        move_dead_letters(plan, ledger, pytest.fail)
        ledger.end_run(ended())


def moved(plan: Plan) -> Plan:
    """Move the queue to another path, where a run has been."""
    new = folder_of(plan).parent / "moved"
    folder_of(plan).rename(new)
    plan = replace(plan, queue=FolderQueue(new))
    with new_run(plan, "moved") as ledger:
        finish(ledger, checked(A))
        ledger.end_run(ended())
    return plan


def test_a_dead_letter_of_a_queue_that_was_moved_goes_back_to_where_the_queue_is_now(plan: Plan) -> None:
    """Under its old name, below the new path, as one that the next run checks; once."""
    give_up(plan, "b/c.scc")
    new = moved(plan)
    with new_run(new, "replay") as ledger:
        done = replay(new, ledger)
        assert (done.replayed, done.left, done.elsewhere) == (("b/c.scc",), (), ())
        assert ask(ledger, LETTERS) == []
        assert (folder_of(new) / "b/c.scc").read_bytes() == GOOD
        assert not (new.state / "dead-letter" / "b").exists()
        back = deliver(new, "b/c.scc")
        assert ledger.todo([back]) == [back]
        assert finish(ledger, checked(back, sha256(GOOD))) == (True,)
        assert replay(new, ledger).replayed == ()
    assert not folder_of(plan).exists()


@pytest.mark.parametrize("name", ["c.scc", "old", "new", "dead-letter"])
def test_it_is_named_by_its_id_and_by_each_of_its_paths(plan: Plan, name: str) -> None:
    """Where it lay, where it lies, and where it would lie now; another name is no dead letter's."""
    give_up(plan, "c.scc")
    new = moved(plan)
    paths = {
        "old": folder_of(plan) / "c.scc",
        "new": folder_of(new) / "c.scc",
        "dead-letter": new.state / "dead-letter" / "c.scc",
    }
    with new_run(new, "replay") as ledger:
        with pytest.raises(JobError, match=r"no dead letter: d\.scc; the dead letters are c\.scc$"):
            replay(new, ledger, ["d.scc"])
        assert replay(new, ledger, [str(paths.get(name, name))]).replayed == ("c.scc",)


def test_what_lies_under_its_name_by_now_is_not_touched(plan: Plan) -> None:
    """It stays a dead letter, of the queue that runs have now."""
    give_up(plan, "c.scc")
    new = moved(plan)
    deliver(new, "c.scc", b"newer")
    with new_run(new, "replay") as ledger:
        assert replay(new, ledger).left == (("c.scc", "something else lies in its place"),)
        assert ask(ledger, LETTERS) == [(new.queue.name, "c.scc", "c.scc", None)]
    assert (folder_of(new) / "c.scc").read_bytes() == b"newer"


def test_one_that_stayed_in_the_queue_went_with_it_and_is_none_any_more(plan: Plan) -> None:
    """There is no file of it; the scan says what comes of the one that the new path has."""
    give_up(plan, "c.scc")
    new = moved(plan)
    with new_run(new, "replay") as ledger:
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE dead_letters SET place = NULL")
        gone = f"its file lay in {plan.queue.name}, which is gone"
        assert replay(new, ledger).left == (("c.scc", gone),)
        assert ask(ledger, LETTERS) == []


def test_the_same_bytes_that_died_in_both_queues_go_back_one_after_the_other(plan: Plan) -> None:
    """The one of this queue first; the other is said to wait, and then is found to lie there."""
    give_up(plan, "c.scc")
    new = moved(plan)
    give_up(new, "c.scc")
    with new_run(new, "replay") as ledger:
        done = replay(new, ledger)
        waits = f"the same bytes are a dead letter of {new.queue.name} too: replay c.scc first, then again"
        assert (done.replayed, done.left) == (("c.scc",), (("c.scc", waits),))
        assert ask(ledger, "SELECT queue FROM dead_letters") == [(plan.queue.name,)]
        assert replay(new, ledger).replayed == ("c.scc",)
        assert ask(ledger, LETTERS) == []
    assert [path.name for path in (new.state / "dead-letter").rglob("*.scc")] == []


def test_one_of_a_queue_that_is_there_goes_back_into_that_alone(plan: Plan) -> None:
    """It is said how; asked for by name it is one that stays."""
    give_up(plan, "c.scc")
    new = moved(plan)
    folder_of(plan).mkdir()
    way_out = (
        f"it is of the queue {plan.queue.name}, which is there; "
        f"`replay --queue {plan.queue.name} --state {plan.state} c.scc` sends it back"
    )
    with new_run(new, "replay") as ledger:
        before = ask(ledger, LETTERS)
        done = replay(new, ledger)
        assert (done.replayed, done.left, done.elsewhere) == ((), (), (("c.scc", way_out),))
        assert replay(new, ledger, ["c.scc"]).left == (("c.scc", way_out),)
        assert ask(ledger, LETTERS) == before
        assert replay(plan, ledger, ["c.scc"]).replayed == ("c.scc",)
    assert (folder_of(plan) / "c.scc").exists()


def test_a_replay_that_is_killed_anywhere_leaves_the_file_once(tmp_path: Path) -> None:
    """The next run finishes it, or the next replay begins it anew."""
    plan = plan_in(tmp_path)
    new = replace(plan, queue=FolderQueue(tmp_path / "moved"))

    def before(_: int) -> None:
        for folder in (plan.state, folder_of(plan), folder_of(new)):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (plan.state, folder_of(plan)):
            folder.mkdir()
        give_up(plan, "b/c.scc")
        folder_of(plan).rename(folder_of(new))

    def step(killer: Killer) -> None:
        with new_run(new, "killed") as ledger:
            killer.watch(ledger)
            replay(new, ledger)

    for _ in crashes(step, before):
        with new_run(new, "after") as ledger:
            move_dead_letters(new, ledger, pytest.fail)
            replay(new, ledger)
            assert ask(ledger, LETTERS) == []
        found = [path for path in tmp_path.rglob("*.scc") if path.is_file()]
        assert found == [folder_of(new) / "b/c.scc"]


def test_history_names_the_queue_of_the_last_run_that_saw_one_and_counts_all(plan: Plan) -> None:
    """Not that of a run whose queue was mistyped, nor the last in the order of names."""
    with new_run(plan) as ledger:
        finish(ledger, died(A))
        ledger.end_run(ended())
    assert read_history(plan, lambda history: (history.queue(), history.queues())) == (plan.queue.name, [])
    first = replace(plan, queue=FolderQueue(plan.state.parent / "a"))
    with new_run(first, "run-2") as ledger:
        finish(ledger, checked(A))
        ledger.end_run(ended())
    wrong = replace(plan, queue=FolderQueue(plan.state.parent / "z"))
    with new_run(wrong, "run-3") as ledger:
        ledger.end_run(replace(ended(), code=Exit.NO_QUEUE))
    assert read_history(plan, lambda history: (history.queue(), history.queues())) == (
        first.queue.name,
        [
            KnownQueue(queue=first.queue.name, records=1, dead_letters=0),
            KnownQueue(queue=plan.queue.name, records=1, dead_letters=1),
        ],
    )


def test_runs_that_did_not_say_which_queue_they_had_are_told_by_their_records(plan: Plan) -> None:
    """Those of an older version, or of a ledger that was made again."""
    for number, name in enumerate(("b", "a")):
        one = replace(plan, queue=FolderQueue(plan.state.parent / name))
        with new_run(one, f"run-{number}", plan.window.replace(minute=10 + number)) as ledger:
            finish(ledger, checked(A))
            write_projections(one, ledger, ended())
    newest = str(plan.state.parent / "a")
    assert read_history(plan, lambda history: history.queue()) == newest


def test_the_commands_know_a_moved_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`status` names both and where the file lies; `replay` without a queue brings it to the new one."""
    here: Place = place(tmp_path)
    (tmp_path / "x").mkdir()
    here.state.mkdir()
    plan = replace(plan_in(tmp_path / "x"), state=here.state, queue=FolderQueue(here.queue))
    give_up(plan, "c.scc")
    new = moved(plan)
    state = ["--state", str(here.state)]

    assert main(["status", *state, "--json"], Drain()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["queue"] == new.queue.name
    assert [(one["queue"], one["records"], one["dead_letters"]) for one in told["queues"]] == [
        (new.queue.name, 1, 0),
        (plan.queue.name, 1, 1),
    ]
    (letter,) = told["dead_letters"]
    assert (letter["queue"], letter["path"]) == (plan.queue.name, str(here.state / "dead-letter" / "c.scc"))

    assert main(["status", *state], Drain()) == 0
    plain = " ".join(capsys.readouterr().out.split())
    assert f"queue {new.queue.name} " in plain
    assert f"other queue {plan.queue.name}, of runs before: 1 record, 1 dead letter" in plain
    assert "dead-letter/c.scc" in plain

    assert main(["replay", *state], Drain()) == 0
    assert capsys.readouterr().out == "back in the queue: c.scc\n"
    assert (folder_of(new) / "c.scc").exists()
    assert main(["replay", *state], Drain()) == 0
    assert capsys.readouterr().out == "nothing to do: there are no dead letters\n"
