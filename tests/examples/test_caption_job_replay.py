"""Replay: dead letters go back into the queue, and the next run checks them."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from caption_crashes import Killer, crashes
from caption_disks import two_devices
from caption_ledgers import ask, checked, deliver, died, finish, folder_of, new_run, plan_in, seen, sha256
from caption_runs import GOOD

from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.outcomes import Died
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

NAMES = ("a.scc", "b/c.scc", os.fsdecode(b"b/\xe9.scc"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def bytes_of(name: str) -> bytes:
    return GOOD + os.fsencode(name)


def give_up(plan: Plan, ledger: Ledger, *names: str) -> None:
    """Deliver files, let them die, and move them."""
    for name in names:
        finish(ledger, died(deliver(plan, name, bytes_of(name)), sha256(bytes_of(name))))
    move_dead_letters(plan, ledger, pytest.fail)


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_all_dead_letters_go_back_and_are_checked_as_if_new(plan: Plan) -> None:
    """To their folders, with no attempt; the error's record gives way to that of the next check."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, *NAMES)
        shutil.rmtree(folder_of(plan) / "b")
        done = replay(plan, ledger)
        assert sorted(done.replayed) == ["a.scc", "b/%E9.scc", "b/c.scc"]
        assert done.left == ()
        assert below(folder_of(plan)) == sorted(NAMES)
        assert below(plan.state / "dead-letter") == []
        assert ledger.dead_letters() == 0
        back = [seen(plan, name) for name in NAMES]
        assert ledger.todo(back) == back
        assert ask(ledger, "SELECT DISTINCT status FROM records") == [("error",)]
        finish(ledger, Died(asset=back[1], reason="hung"))
        assert finish(ledger, checked(back[0], sha256(bytes_of("a.scc")))) == (True,)
        assert ask(ledger, "SELECT status, attempt FROM records WHERE asset_id = 'a.scc'") == [("pass", 1)]
        assert replay(plan, ledger).replayed == ()


@pytest.mark.parametrize("name", ["b/%E9.scc", "queue", "dead-letter", "relative"])
def test_a_dead_letter_is_named_by_its_id_or_a_path(
    plan: Plan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it lay in the queue, or where it lies now; the others stay."""
    monkeypatch.chdir(folder_of(plan))
    paths = {
        "queue": str(folder_of(plan) / NAMES[2]),
        "dead-letter": str(plan.state / "dead-letter" / NAMES[2]),
        "relative": f"./b/../{NAMES[2]}",
    }
    with new_run(plan) as ledger:
        give_up(plan, ledger, *NAMES)
        assert replay(plan, ledger, [paths.get(name, name)]).replayed == ("b/%E9.scc",)
        assert ledger.dead_letters() == 2
        assert below(folder_of(plan)) == [NAMES[2]]


def test_an_unknown_name_is_an_error_that_lists_what_there_is_and_moves_nothing(plan: Plan) -> None:
    """One line, whatever the name is."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc", "b/c.scc")
        with pytest.raises(JobError) as error:
            replay(plan, ledger, ["a.scc", "other\n.scc"])
        assert str(error.value) == "no dead letter: other%0A.scc; the dead letters are a.scc, b/c.scc"
        assert error.value.code == Exit.NO_QUEUE
        assert below(folder_of(plan)) == []
        replay(plan, ledger)
        with pytest.raises(JobError, match=r"no dead letter: a\.scc; there is none"):
            replay(plan, ledger, ["a.scc"])


def test_what_lies_in_its_place_by_now_is_not_touched(plan: Plan) -> None:
    """It stays a dead letter, and says why; with the same bytes there it is one no more."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc", "b/c.scc")
        deliver(plan, "a.scc", b"newer")
        deliver(plan, "b/c.scc", bytes_of("b/c.scc"))
        done = replay(plan, ledger)
        assert done.replayed == ("b/c.scc",)
        assert done.left == (("a.scc", "something else lies in its place"),)
        assert (folder_of(plan) / "a.scc").read_bytes() == b"newer"
        assert below(plan.state / "dead-letter") == ["a.scc"]
        assert ask(ledger, "SELECT asset_id, place, move FROM dead_letters") == [("a.scc", "a.scc", None)]


def test_a_dead_letter_that_stayed_in_the_queue_is_new_again(plan: Plan) -> None:
    """There is nothing to move; a file that is gone is said to be, and is none any more."""
    with new_run(plan) as ledger:
        asset = deliver(plan, "a.scc", bytes_of("a.scc"))
        finish(ledger, died(asset, sha256(bytes_of("a.scc"))))
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE dead_letters SET move = NULL")
        assert ledger.todo([asset]) == []
        assert replay(plan, ledger, ["a.scc"]).replayed == ("a.scc",)
        assert ledger.todo([asset]) == [asset]
        give_up(plan, ledger, "b/c.scc")
        (plan.state / "dead-letter" / "b" / "c.scc").unlink()
        assert replay(plan, ledger).left == (("b/c.scc", "its file is gone"),)
        assert ledger.dead_letters() == 0


def test_a_file_that_was_mended_where_it_lay_goes_back_as_it_is(plan: Plan) -> None:
    """Whatever lies in its place below `dead-letter/` is what the next run checks."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
        (plan.state / "dead-letter" / "a.scc").write_bytes(GOOD)
        assert replay(plan, ledger).replayed == ("a.scc",)
    assert (folder_of(plan) / "a.scc").read_bytes() == GOOD


def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system have no hard links."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)


@pytest.mark.parametrize("disks", [lambda _: None, no_links, two_devices], ids=["one", "no links", "two"])
def test_a_replay_that_is_killed_anywhere_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disks: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """At each act the bytes are there; in the end in the queue alone, and once."""
    disks(monkeypatch)
    plan = plan_in(tmp_path)

    def before(_: int) -> None:
        for folder in (plan.state, folder_of(plan)):
            shutil.rmtree(folder)
            folder.mkdir()
        with new_run(plan) as ledger:
            give_up(plan, ledger, "b/c.scc")

    def step(killer: Killer) -> None:
        with new_run(plan, "killed") as ledger:
            killer.watch(ledger)
            killer.watch_copies()
            replay(plan, ledger, ["b/c.scc"])

    for _ in crashes(step, before):
        with new_run(plan, "after") as ledger:
            move_dead_letters(plan, ledger, pytest.fail)
            if ledger.dead_letters():  # Killed before it was asked for.
                assert below(plan.state / "dead-letter") == ["b/c.scc"]
                replay(plan, ledger)
        assert below(plan.state / "dead-letter") == []
        assert below(folder_of(plan)) == ["b/c.scc"]
        assert (folder_of(plan) / "b/c.scc").read_bytes() == bytes_of("b/c.scc")
