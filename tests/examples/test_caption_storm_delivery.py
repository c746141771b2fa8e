"""What is delivered, changed and taken away while a run works: nothing is lost, nothing is double."""

from __future__ import annotations

import os
import random
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import pytest
from caption_runs import Place, place
from caption_storm import CONTENTS, SEED, ends_within, left_over, parquet_rows, started, whole_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = 30
CHANGES = 60
FOLDERS = (b"", b"sub/", b"\xe9t\xe9/", b"sub/deep %/")


class Deliveries:
    """Who delivers files, and remembers all that lay under each name at any time."""

    def __init__(self, queue: Path, dice: random.Random) -> None:
        self._queue = bytes(queue)
        self._dice = dice
        self._number = 0
        self.contents: dict[bytes, bytes] = {}
        self.ever: dict[bytes, set[str]] = {}
        for folder in FOLDERS:
            os.makedirs(self.path(folder), exist_ok=True)  # noqa: PTH103 - the name is bytes

    def path(self, name: bytes) -> bytes:
        return self._queue + b"/" + name

    def deliver(self, name: bytes) -> None:
        """Deliver new content whole, beside what is there, and in its place by a rename."""
        content = self._new()
        self._write(name + b".part", content, "wb")
        os.rename(self.path(name + b".part"), self.path(name))  # noqa: PTH104 - the name is bytes
        self._remember(name, content)

    def change(self) -> None:
        """Do one of what happens to a queue."""
        what: Callable[[bytes], None] = self._dice.choice(
            [self.deliver, self._rewrite, self._grow, self._touch, self._rename, self._remove]
        )
        what(self._dice.choice(sorted(self.contents)))

    def _rewrite(self, name: bytes) -> None:
        content = self._new()
        self._remember(name, b"")
        self._write(name, content, "wb")
        self._remember(name, content)

    def _grow(self, name: bytes) -> None:
        more = b"\n" * self._dice.randint(1, 9)
        self._write(name, more, "ab")
        self._remember(name, self.contents[name] + more)

    def _touch(self, name: bytes) -> None:
        os.utime(self.path(name))

    def _rename(self, name: bytes) -> None:
        """Rename within the folder, or to the same name in another, perhaps over what is there."""
        folder, _, base = name.rpartition(b"/")
        target = (folder and folder + b"/") + b"again " + base
        if self._dice.random() < 0.5:
            target = self._dice.choice(FOLDERS) + base
        if target == name or len(base) > 100:
            return
        os.rename(self.path(name), self.path(target))  # noqa: PTH104 - the name is bytes
        self._remember(target, self.contents.pop(name))

    def _remove(self, name: bytes) -> None:
        if len(self.contents) > FILES // 2:
            os.unlink(self.path(name))  # noqa: PTH108 - the name is bytes
            del self.contents[name]

    def _new(self) -> bytes:
        self._number += 1
        return self._dice.choice(CONTENTS) + b"\n" * self._number

    def _write(self, name: bytes, content: bytes, mode: str) -> None:
        with open(self.path(name), mode, buffering=0) as file:  # noqa: PTH123 - the name is bytes
            file.write(content)

    def _remember(self, name: bytes, content: bytes) -> None:
        self.contents[name] = content
        self.ever.setdefault(name, set()).add(sha256(content).hexdigest())


def assert_nothing_lost_or_double(here: Place, deliveries: Deliveries) -> None:
    """See that what lies there now is recorded, once, and that only what ever lay there is recorded."""
    records = [
        (unquote_to_bytes(name), sha)
        for name, sha in here.ask("SELECT asset_id, content_sha256 FROM records")
    ]
    assert len(records) == len(set(records))
    now = {(name, sha256(content).hexdigest()) for name, content in deliveries.contents.items()}
    assert now <= set(records)
    assert [name for name, sha in records if sha not in deliveries.ever[name]] == []
    assert here.ask("SELECT COUNT(*) FROM records WHERE status = 'error'") == [(0,)]
    assert len(parquet_rows(here).assets) == len(records)
    assert left_over(here) == []


def test_a_queue_that_changes_during_a_run_is_recorded_as_it_was_and_as_it_is(tmp_path: Path) -> None:
    """Files replaced, grown, renamed, removed and touched while the run waits in the middle of its work."""
    here = place(tmp_path)
    deliveries = Deliveries(here.queue, random.Random(f"delivery {SEED}"))  # noqa: S311 - no secrets
    here.fill(FILES)  # Their long names fill the held run's pipe.
    for path in here.queue.glob("*.scc"):
        deliveries._remember(bytes(path.relative_to(here.queue)), path.read_bytes())
    for number in range(FILES):
        deliveries.deliver(FOLDERS[number % len(FOLDERS)] + b"%02d.scc" % (number // len(FOLDERS)))

    with here.held_run("--workers", "2") as (run, lines):
        for _ in range(CHANGES):
            deliveries.change()
        said = lines.read()
        assert run.wait() == 0, said

    last = whole_run(here)

    assert last.returncode == 0, last.stderr
    assert_nothing_lost_or_double(here, deliveries)
    assert here.ask("SELECT asset_id FROM assets WHERE state != 'done'") == []


@pytest.mark.parametrize("number", range(2))
def test_runs_beside_a_queue_that_never_rests_lose_nothing(tmp_path: Path, number: int) -> None:
    """Changes go on for as long as a run works; a last run over the queue at rest has everything."""
    here = place(tmp_path)
    dice = random.Random(f"restless {SEED} {number}")  # noqa: S311 - no secrets
    deliveries = Deliveries(here.queue, dice)
    for file in range(FILES):
        deliveries.deliver(FOLDERS[file % len(FOLDERS)] + b"%02d.scc" % (file // len(FOLDERS)))

    with started(here, "--workers", "2") as run:
        while not ends_within(run.pid, dice.uniform(0, 0.005)):
            deliveries.change()
        assert run.wait() == 0, run.communicate()
    last = whole_run(here)

    assert last.returncode == 0, last.stderr
    assert_nothing_lost_or_double(here, deliveries)
