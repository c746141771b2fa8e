"""Whose a place of reports is when two claim it at one time: one's, and the other is told before it writes."""

from __future__ import annotations

import errno
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from caption_ledgers import plan_in
from caption_runs import GOOD, Place
from caption_store_reports import OUT, begun, data_of, empty, fire, recorded
from caption_stores import asked_here
from object_server import object_server

from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.object_store import Bucket
from examples.recipes.caption_qc.job.owner import claim_reports
from examples.recipes.caption_qc.job.reports_folder import Folder
from examples.recipes.caption_qc.job.reports_store import InBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.plan import Plan
    from examples.recipes.caption_qc.job.reports import Reports

AT: Final = ("--at", "2026-01-01T00:05Z")


@pytest.fixture(scope="module")
def served() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def server(served: ObjectServer) -> ObjectServer:
    """The store, with nothing in it."""
    empty(served)
    return served


@pytest.fixture(params=["folder", "bucket"])
def out(request: pytest.FixtureRequest, server: ObjectServer, tmp_path: Path) -> Reports:
    """A fresh place for reports."""
    del server
    if request.param == "bucket":
        return InBucket(Bucket("captions", "reports/"))
    (tmp_path / "out").mkdir()
    return Folder(tmp_path / "out")


def machines(folder: Path, out: Reports) -> list[Plan]:
    """Plan runs of two machines whose reports go to one place."""
    plans = []
    for name in ("first", "second"):
        (folder / name).mkdir()
        plans.append(replace(plan_in(folder / name), out=out))
    return plans


def claimed_by(out: Reports) -> str:
    with out.opened("owner.txt") as file:
        return file.read().decode().splitlines()[0]


def let_in_between(monkeypatch: pytest.MonkeyPatch, other: Plan) -> None:
    """Let another claim the place whole, once the next that claims it has seen that it is nobody's."""

    def token(size: int) -> str:
        monkeypatch.undo()
        claim_reports(other)
        return "1" * 2 * size

    monkeypatch.setattr(secrets, "token_hex", token)


def test_of_two_that_claim_a_place_at_one_time_one_has_it(
    out: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw that it was nobody's: who comes second is refused with 73, the first goes on."""
    late, early = machines(tmp_path, out)
    let_in_between(monkeypatch, early)

    with pytest.raises(JobError, match="holds the reports of the state folder") as refused:
        claim_reports(late)

    assert refused.value.code == Exit.CANNOT_CREATE
    assert claimed_by(out) == str(early.state)
    claim_reports(early)


def test_a_claim_leaves_the_note_alone(tmp_path: Path) -> None:
    """No temporary file of it stays, whether the claim was good or came second."""
    (tmp_path / "out").mkdir()
    for plan in machines(tmp_path, Folder(tmp_path / "out")):
        made = plan.out.create("owner.txt", f"{plan.state}\n".encode())
        assert made == (plan.state.parent.name == "first")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["owner.txt"]


def test_a_folder_that_knows_no_links_is_claimed_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on FAT or some networks' file systems: the note is made where none is."""

    def hardlink_to(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    (tmp_path / "out").mkdir()
    first, second = machines(tmp_path, Folder(tmp_path / "out"))
    with monkeypatch.context() as without_links:
        without_links.setattr(Path, "hardlink_to", hardlink_to)
        claim_reports(first)
        assert not second.out.create("owner.txt", b"another\n")
    assert claimed_by(first.out) == str(first.state)
    with pytest.raises(JobError, match="holds the reports"):
        claim_reports(second)


@pytest.mark.parametrize(
    "answer", ["501 Not Implemented", "400 Invalid Argument", "409 Conditional Request Conflict"]
)
def test_a_store_that_knows_no_condition_is_claimed_without(
    answer: str, server: ObjectServer, tmp_path: Path
) -> None:
    """The note is looked for, written and read back; so is it where the store could not say who was first."""
    first, second = machines(tmp_path, InBucket(Bucket("captions", "reports/")))
    server.rule("PUT", "owner.txt", answer, times=1)

    claim_reports(first)

    assert claimed_by(first.out) == str(first.state)
    with pytest.raises(JobError, match="holds the reports"):
        claim_reports(second)


@pytest.mark.parametrize("answer", ["501 Not Implemented", "409 Conditional Request Conflict"])
def test_what_was_written_meanwhile_is_seen_where_the_store_did_not_tell(
    answer: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's note is not written over because a condition was refused."""
    late, early = machines(tmp_path, InBucket(Bucket("captions", "reports/")))
    server.rule("PUT", "owner.txt", "pass", times=1)
    server.rule("PUT", "owner.txt", answer)
    let_in_between(monkeypatch, early)

    with pytest.raises(JobError, match="holds the reports"):
        claim_reports(late)

    assert (claimed_by(early.out), len(server.calls("PUT"))) == (str(early.state), 2)


def test_a_claim_whose_answer_is_lost_is_good(server: ObjectServer, tmp_path: Path) -> None:
    """Asked again, the store says that a note is there: it is ours."""
    plan, _ = machines(tmp_path, InBucket(Bucket("captions", "reports/")))
    server.rule("PUT", "owner.txt", "lose", times=1)
    with asked_here(server, tries=3):
        claim_reports(plan)

    assert len(server.calls("PUT")) == 2
    assert claimed_by(plan.out) == str(plan.state)


def test_two_first_runs_at_one_time_write_over_no_report(server: ObjectServer, tmp_path: Path) -> None:
    """The one whose claim is slow is refused with 73 before it checks anything; the other's reports stay."""
    for name in ("slow", "quick"):
        (tmp_path / name).mkdir()
    slow, quick = (Place(tmp_path / name / "queue", tmp_path / name / "state") for name in ("slow", "quick"))
    for here in (slow, quick):
        here.queue.mkdir()
        (here.queue / f"{here.queue.parent.name}.scc").write_bytes(GOOD)
    server.rule("PUT", "owner.txt", "hold", times=1)

    with begun(slow, server, *AT) as process:
        server.held()
        assert fire(quick, *AT).code == 0
        server.go_on()
        _, said = process.communicate()

    assert process.returncode == 73, said
    assert f"--out {OUT} holds the reports of the state folder {quick.state};" in said
    assert recorded(server) == ["quick.scc"]
    assert data_of(server, "owner.txt").decode().splitlines()[0] == str(quick.state)
