"""A state folder inside a queue is passed over where it stands by default; one that is only named so is not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from examples.recipes.caption_qc.job.scan import Seen, Walk, scan_queue

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def deliver(queue: Path, *names: str) -> None:
    for name in names:
        path = queue / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found(queue: Path) -> list[str]:
    walk = Walk(queue=bytes(queue), settle=0.0, now=NOW)
    return sorted(asset.asset_id for page in scan_queue(walk, Seen()) for asset in page)


def test_whoever_delivers_below_such_a_name_is_checked(tmp_path: Path) -> None:
    """At any depth: a name alone hides nobody's files."""
    names = ["caption-qc-state/a.scc", "caption-qc-state/x/b.scc", "deep/caption-qc-state/x/y/c.scc"]
    deliver(tmp_path, *names)
    assert found(tmp_path) == names


@pytest.mark.parametrize("file", ["run.lock", "ledger.sqlite"])
@pytest.mark.parametrize(
    "state", ["caption-qc-state", "caption-qc-state/q-1234", "deep/caption-qc-state/q-1234"]
)
def test_a_state_folder_is_passed_over_and_what_lies_beside_it_is_not(
    tmp_path: Path, state: str, file: str
) -> None:
    """Its dead letters are no assets of a queue around it, before its first ledger and without its lock too."""
    deliver(tmp_path, f"{state}/{file}", f"{state}/dead-letter/dead.scc")
    deliver(tmp_path, "caption-qc-state.scc/a.scc", "deep/b.scc")
    beside = [] if state == "caption-qc-state" else [f"{state.rpartition('/')[0]}/delivered/c.scc"]
    deliver(tmp_path, *beside)
    assert found(tmp_path) == sorted(["caption-qc-state.scc/a.scc", "deep/b.scc", *beside])


def test_a_lock_elsewhere_hides_nothing(tmp_path: Path) -> None:
    """A folder of any other name, or one that lies deeper, is a folder like any other."""
    names = ["caption-qc-state/q/deeper/b.scc", "delivered/a.scc"]
    deliver(tmp_path, *names, "delivered/run.lock", "caption-qc-state/q/deeper/run.lock")
    assert found(tmp_path) == names
