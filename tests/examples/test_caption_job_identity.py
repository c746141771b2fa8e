"""Which file is which: one record a queue, asset and content, and what makes a file be looked at again.

Runs are whole ones but for the processes: what a worker does is done in a thread.
"""

import asyncio
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from caption_runs import GOOD, Place, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import runner
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.outcomes import Outcome
from examples.recipes.caption_qc.job.pool import Pool
from examples.recipes.caption_qc.job.worker import Orders, check_chunk


class Threads(Pool):
    """Checks in threads where the pool would in processes."""

    checked = 0

    def __init__(self, workers: int, orders: Orders) -> None:
        super().__init__(workers, orders)
        self._orders = orders

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        Threads.checked += len(chunk)
        return await asyncio.to_thread(check_chunk, self._orders, chunk)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(runner, "Pool", Threads)
    return place(tmp_path)


def checked(here: Place, *more: str) -> int:
    """Do one run, and say how many assets it checked."""
    Threads.checked = 0
    assert main(here.arguments(*more), Drain()) == 0
    return Threads.checked


def records(here: Place) -> list[tuple[Any, ...]]:
    return here.ask("SELECT asset_id, content_sha256, status FROM records ORDER BY asset_id, checked_at")


def test_new_bytes_under_an_old_name_are_checked_again_and_equal_ones_give_no_record(here: Place) -> None:
    """Touched, replaced by its copy: the ledger takes the new stat and is asked no more. New bytes: one record more."""
    file = here.queue / "a.scc"
    file.write_bytes(GOOD)
    assert checked(here) == 1
    assert checked(here) == 0

    os.utime(file, ns=(1, 1))
    assert (checked(here), checked(here)) == (1, 0)
    (here.queue / "copy").write_bytes(GOOD)
    (here.queue / "copy").rename(file)
    assert (checked(here), checked(here)) == (1, 0)
    assert records(here) == [("a.scc", sha256(GOOD).hexdigest(), "pass")]
    assert here.ask("SELECT inode, mtime_ns FROM assets") == [(file.stat().st_ino, file.stat().st_mtime_ns)]

    file.write_bytes(b"")
    assert (checked(here), checked(here)) == (1, 0)
    assert [status for _, _, status in records(here)] == ["pass", "fail"]
    file.write_bytes(GOOD)
    assert (checked(here), checked(here)) == (1, 0)
    assert len(records(here)) == 2, "its old content has its record"


def test_a_file_of_the_same_size_and_time_is_another_by_its_inode_or_change(here: Place) -> None:
    """A re-delivery may keep size and time; the system's own time of change, or the inode, tells."""
    file = here.queue / "a.scc"
    file.write_bytes(GOOD)
    os.utime(file, ns=(5, 5))
    assert checked(here) == 1
    other = here.queue / "other"
    other.write_bytes(GOOD[:-1] + b" ")
    os.utime(other, ns=(5, 5))
    other.rename(file)
    assert checked(here) == 1
    with file.open("r+b") as again:
        again.seek(-1, os.SEEK_END)
        again.write(b"\t")
    os.utime(file, ns=(5, 5))
    assert checked(here) == 1
    assert len(records(here)) == 3


def test_equal_names_in_folders_and_bytes_that_are_not_utf_8_do_not_collide(here: Place) -> None:
    """A name is the whole path as bytes; `%E9` in a name is not the byte E9."""
    for name in (b"a.scc", b"x/a.scc", b"y/a.scc", b"\xe9.scc", b"%E9.scc", b"\xc3\xa9.scc", b"a.SCC"):
        path = here.queue / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(GOOD)
    assert (checked(here), checked(here)) == (7, 0)
    names = {name for name, _, _ in records(here)}
    assert names == {"a.scc", "x/a.scc", "y/a.scc", "%E9.scc", "%25E9.scc", "\u00e9.scc", "a.SCC"}


def test_equal_names_in_two_queues_do_not_collide_in_one_state_folder(here: Place, tmp_path: Path) -> None:
    """The queue is part of the key."""
    other = Place(tmp_path / "other", here.state)
    other.queue.mkdir()
    for queue in (here.queue, other.queue):
        (queue / "a.scc").write_bytes(GOOD)
    assert (checked(here), checked(other), checked(here), checked(other)) == (1, 1, 0, 0)
    assert len(here.ask("SELECT DISTINCT queue FROM records WHERE asset_id = 'a.scc'")) == 2


def test_another_profile_judges_anew_and_the_one_before_keeps_its_record(here: Place) -> None:
    """A record is of content and profile; going back finds the old record there."""
    (here.queue / "a.scc").write_bytes(GOOD)
    assert (checked(here), checked(here, "--profile", "bbc"), checked(here)) == (1, 1, 1)
    assert here.ask("SELECT profile FROM records ORDER BY profile") == [("bbc",), ("house",)]


OUTSIDE = b'programme = "05:00:00;00-06:00:00;00"\n'
INSIDE = b'programme = "00:00:00:00-01:00:00:00"\n'


def test_a_sidecar_is_part_of_what_a_file_is_judged_by(here: Place) -> None:
    """Added, changed: checked again with a record of its own. Removed, brought back: the record is there already."""
    file, sidecar = here.queue / "a.scc", here.queue / "a.toml"
    file.write_bytes(GOOD)
    assert checked(here) == 1
    house = load("house").sha256

    sidecar.write_bytes(OUTSIDE)
    assert (checked(here), checked(here)) == (1, 0)
    programmes = "SELECT DISTINCT rule FROM findings WHERE rule LIKE 'PROG_%' ORDER BY rule"
    assert here.ask(programmes) != []
    sidecar.write_bytes(INSIDE)
    assert (checked(here), checked(here)) == (1, 0)
    judged_by = [judge for (judge,) in here.ask("SELECT profile_sha256 FROM records ORDER BY checked_at")]
    assert judged_by == [house, digest_with(house, OUTSIDE), digest_with(house, INSIDE)]
    assert here.ask("SELECT DISTINCT content_sha256 FROM records") == [(sha256(GOOD).hexdigest(),)]

    sidecar.unlink()
    assert (checked(here), checked(here)) == (1, 0)
    sidecar.write_bytes(INSIDE)
    assert (checked(here), checked(here)) == (1, 0)
    assert len(records(here)) == 3


def digest_with(profile: str, sidecar: bytes) -> str:
    return sha256(profile.encode() + b"\n" + sidecar).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"programme = 5\n", "programme is 5"),
        (b"not toml", "sidecar 'sub/a.toml': "),
        (b"\xff", "is not UTF-8"),
        (b"#" * 1_000_001, "it has 1000001 bytes, over the limit of 1000000"),
    ],
)
def test_a_sidecar_that_cannot_be_used_is_a_finding(here: Place, content: bytes, message: str) -> None:
    """The captions are checked all the same, the file fails, and the finding says what is wrong with the sidecar."""
    (here.queue / "sub").mkdir()
    (here.queue / "sub" / "a.scc").write_bytes(GOOD)
    (here.queue / "sub" / "a.toml").write_bytes(content)

    assert (checked(here), checked(here)) == (1, 0)

    ((status, cues),) = here.ask("SELECT status, cues FROM records")
    assert status == "fail"
    assert cues > 0
    ((found,),) = here.ask("SELECT message FROM findings WHERE rule = 'JOB_SIDECAR' AND severity = 'error'")
    assert message in found
    assert found.endswith("; the programme was not looked at")
