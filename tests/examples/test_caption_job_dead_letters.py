"""Dead letters: the files are moved out of the queue, and no bytes are lost at any line."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from caption_crashes import Killer, crashes
from caption_disks import two_devices
from caption_ledgers import ask, checked, deliver, died, finish, folder_of, new_run, plan_in, seen, sha256
from caption_runs import GOOD, WITHOUT_ROOTS_RIGHTS

from examples.recipes.caption_qc.job import moving
from examples.recipes.caption_qc.job.dead_letters import move_dead_letters
from examples.recipes.caption_qc.job.dead_places import letters_in
from examples.recipes.caption_qc.job.moving import OccupiedError, put_back
from examples.recipes.caption_qc.job.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.plan import Plan

BAD = GOOD + b"\nbad"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def give_up(plan: Plan, ledger: Ledger, name: str, data: bytes = BAD) -> None:
    """Deliver a file, and let it die."""
    finish(ledger, died(deliver(plan, name, data), sha256(data)))


def move(plan: Plan, ledger: Ledger) -> list[str]:
    """Do the moves, and return the warnings."""
    warnings: list[str] = []
    move_dead_letters(plan, ledger, warnings.append)
    return warnings


def files_of(plan: Plan) -> dict[str, bytes]:
    """Return every file of queue and dead-letter folder, by its path."""
    places = (folder_of(plan), plan.state / "dead-letter")
    paths = [path for place in places for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder_of(plan).parent)): path.read_bytes() for path in paths}


def rows(ledger: Ledger) -> list[tuple[object, ...]]:
    return ask(ledger, "SELECT asset_id, place, move FROM dead_letters ORDER BY asset_id, content_sha256")


def test_a_dead_letter_is_one_record_and_its_file_keeps_its_folders(plan: Plan) -> None:
    """The bytes, the time of modification and the name stay; the queue has it no more."""
    name = os.fsdecode(b"b/\xe9%.scc")
    with new_run(plan) as ledger:
        give_up(plan, ledger, name)
        was = (folder_of(plan) / name).stat()
        assert move(plan, ledger) == []
        path = plan.state / "dead-letter" / name
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (BAD, was.st_mtime_ns)
        assert list(files_of(plan)) == [f"state/dead-letter/{name}"]
        assert rows(ledger) == [("b/%E9%25.scc", "b/%E9%25.scc", None)]
        assert ask(ledger, "SELECT status, attempt FROM records") == [("error", 3)]
        assert ask(ledger, "SELECT rule, message FROM findings") == [
            ("JOB_DEAD_LETTER", "not checked: hung, 3 times alone")
        ]
        assert ledger.dead_letters() == 1
        assert move(plan, ledger) == []


def test_a_file_is_never_moved_over_another(plan: Plan) -> None:
    """The same name with other bytes lies beside it; a file where a folder would be is no way either."""
    contents = [BAD + bytes([number]) for number in range(3)]
    with new_run(plan) as ledger:
        for data in contents:
            give_up(plan, ledger, "a.scc", data)
            assert move(plan, ledger) == []
        give_up(plan, ledger, "a.scc/b.scc")
        assert move(plan, ledger) == []
    dead = {path.removeprefix("state/dead-letter/"): data for path, data in files_of(plan).items()}
    assert dead == {
        "a.scc": contents[0],
        "~2/a.scc": contents[1],
        "~3/a.scc": contents[2],
        "~4/a.scc/b.scc": BAD,
    }
    assert {name for name, _ in letters_in(plan)} == {b"a.scc", b"a.scc/b.scc"}


def test_the_same_bytes_dead_once_more_need_no_second_place(plan: Plan) -> None:
    """They lie there already: the queue's file goes, and the record stays the one."""
    with new_run(plan) as ledger:
        for _ in range(2):
            give_up(plan, ledger, "a.scc")
            assert move(plan, ledger) == []
        assert list(files_of(plan)) == ["state/dead-letter/a.scc"]
        assert len(rows(ledger)) == len(ask(ledger, "SELECT 1 FROM records")) == 1


def test_a_file_that_changed_since_is_not_moved(plan: Plan) -> None:
    """It is new to the scan; so is one that was replaced, and one that is gone is a dead letter no more."""
    with new_run(plan) as ledger:
        for name in ("grown.scc", "replaced.scc", "gone.scc"):
            give_up(plan, ledger, name)
        with (folder_of(plan) / "grown.scc").open("ab") as file:
            file.write(b"more")
        deliver(plan, "new")
        (folder_of(plan) / "new").replace(folder_of(plan) / "replaced.scc")
        (folder_of(plan) / "gone.scc").unlink()
        before = files_of(plan)
        assert move(plan, ledger) == []
        assert files_of(plan) == before
        assert rows(ledger) == []
        new = [seen(plan, name) for name in ("grown.scc", "replaced.scc")]
        assert ledger.todo(new) == new
        assert ask(ledger, "SELECT COUNT(*) FROM records WHERE status = 'error'") == [(3,)]


def test_a_file_that_is_replaced_at_the_moment_of_the_move_goes_back(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken is looked at: other bytes lie in the queue again."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
        deliver(plan, ".new", b"newer")
        rename = Path.rename

        def replaced_first(path: Path, target: Path) -> Path:
            if path.name == "a.scc":
                (folder_of(plan) / ".new").replace(path)
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", replaced_first)
        assert move(plan, ledger) == []
        assert files_of(plan) == {"queue/a.scc": b"newer"}
        assert rows(ledger) == []


def test_a_file_that_goes_back_is_linked_before_a_crash_and_once_after_it(plan: Plan) -> None:
    """Both names of one file: the second is removed; another file there keeps both as they are."""
    source, target = deliver(plan, "source.scc"), folder_of(plan) / "target.scc"
    path = folder_of(plan) / os.fsdecode(source.name)
    os.link(path, target)
    put_back(path, target)
    assert files_of(plan) == {"queue/target.scc": GOOD}
    path.write_bytes(b"other")
    with pytest.raises(OccupiedError):
        put_back(path, target)
    assert files_of(plan) == {"queue/source.scc": b"other", "queue/target.scc": GOOD}


def test_new_bytes_that_were_checked_are_no_dead_letter(plan: Plan) -> None:
    """Whether what died lies there no more, or was moved away, where it stays."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "moved.scc")
        move(plan, ledger)
        give_up(plan, ledger, "unmoved.scc")
        for name in ("moved.scc", "unmoved.scc"):
            finish(ledger, checked(deliver(plan, name), sha256(GOOD)))
        assert rows(ledger) == []
    assert (plan.state / "dead-letter" / "moved.scc").read_bytes() == BAD


def move_without_roots_rights(plan: Plan) -> str:
    """Do the moves in a process to which the queue is read-only, and return what it warned of."""
    program = (
        "import pickle, sys\n"
        "from examples.recipes.caption_qc.job.dead_letters import move_dead_letters\n"
        "from examples.recipes.caption_qc.job.ledger import open_ledger\n"
        "plan = pickle.load(sys.stdin.buffer)\n"
        "with open_ledger(plan) as ledger:\n"
        "    move_dead_letters(plan, ledger, print)\n"
    )
    folder_of(plan).chmod(0o555)
    done = subprocess.run(
        [*WITHOUT_ROOTS_RIGHTS, sys.executable, "-c", program],
        input=pickle.dumps(plan),
        capture_output=True,
        check=True,
    )
    folder_of(plan).chmod(0o755)
    return done.stdout.decode()


def test_in_a_queue_that_cannot_be_written_the_file_stays_and_the_fact_stands(plan: Plan) -> None:
    """No copy, no warning, and no second try."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
    assert move_without_roots_rights(plan) == ""
    assert files_of(plan) == {"queue/a.scc": BAD}
    with new_run(plan, "run-2") as ledger:
        assert rows(ledger) == [("a.scc", None, None)]
        assert ledger.todo([seen(plan, "a.scc")]) == []


def test_a_second_file_of_the_same_bytes_that_must_stay_hides_the_first_from_nobody(plan: Plan) -> None:
    """The one that was moved before is still known where it lies, and goes back."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
        move(plan, ledger)
        give_up(plan, ledger, "a.scc")
    assert "it stays in the queue: Permission denied" in move_without_roots_rights(plan)
    with new_run(plan, "run-2") as ledger:
        assert rows(ledger) == [("a.scc", "a.scc", None)]
        assert replay(plan, ledger).replayed == ("a.scc",)
    assert files_of(plan) == {"queue/a.scc": BAD}


def test_a_copy_whose_first_cannot_be_removed_is_none(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file stays in the queue, and there is one of it."""

    def refused(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    two_devices(monkeypatch)
    monkeypatch.setattr(moving, "remove", refused)
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
        assert move(plan, ledger) == ["dead letter a.scc: it stays in the queue: Permission denied"]
        assert files_of(plan) == {"queue/a.scc": BAD}
        assert rows(ledger) == [("a.scc", None, None)]


def test_what_was_put_aside_and_is_another_file_goes_back(plan: Plan) -> None:
    """A crash after newer bytes were put aside: they lie in the queue again, what died below `dead-letter/`."""
    with new_run(plan) as ledger:
        give_up(plan, ledger, "a.scc")
        move(plan, ledger)
        with ledger.transaction() as cursor:
            cursor.execute("UPDATE dead_letters SET move = 'out'")
        moving.aside_of(folder_of(plan) / "a.scc").write_bytes(b"newer")
        assert move(plan, ledger) == []
        assert files_of(plan) == {"queue/a.scc": b"newer", "state/dead-letter/a.scc": BAD}


@pytest.mark.parametrize("then", [move, replay])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_move_that_is_killed_anywhere_is_finished_or_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int, then: Callable[[Plan, Ledger], object]
) -> None:
    """By the next run, or a replay before it: the file lies in one place in the end, and nothing else."""
    if devices > 1:
        two_devices(monkeypatch)
    plan = replace(plan_in(tmp_path), run_id="run-1")

    def before(_: int) -> None:
        shutil.rmtree(plan.state)
        shutil.rmtree(folder_of(plan))
        plan.state.mkdir()
        folder_of(plan).mkdir()
        with new_run(plan) as ledger:
            give_up(plan, ledger, "b/a.scc")
            give_up(plan, ledger, "b/a.scc")  # The same twice is once.
            deliver(plan, "b/other.scc")

    def step(killer: Killer) -> None:
        with new_run(plan, "killed") as ledger:
            killer.watch(ledger)
            killer.watch_copies()
            move_dead_letters(plan, ledger, pytest.fail)

    for _ in crashes(step, before):
        assert BAD in files_of(plan).values()
        with new_run(plan, "after") as ledger:
            then(plan, ledger)
            if then is move:
                assert files_of(plan) == {"state/dead-letter/b/a.scc": BAD, "queue/b/other.scc": GOOD}
                assert rows(ledger) == [("b/a.scc", "b/a.scc", None)]
            else:
                assert files_of(plan) == {"queue/b/a.scc": BAD, "queue/b/other.scc": GOOD}
                assert rows(ledger) == []
            assert ask(ledger, "SELECT COUNT(*) FROM records") == [(1,)]
