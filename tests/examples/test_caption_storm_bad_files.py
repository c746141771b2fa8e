"""Files whose check ends badly, among a thousand good ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD, place
from caption_storm import command_with, left_over, whole_run

if TYPE_CHECKING:
    from pathlib import Path

GOOD_ONES = 1000
BAD = {
    "kill": "died: SIGKILL, as the system does where memory runs out",
    "late": "hung: over 30 s",
    "eat": "out of memory: over 1024 MiB",
}
OPTIONS = ("--asset-timeout", "30s", "--max-attempts", "3", "--workers", "2")


@pytest.mark.timeout(180)
def test_bad_files_are_given_up_and_take_no_good_one_with_them(tmp_path: Path) -> None:
    """The good ones are done in the first run; each bad one is a dead letter after three, and can be replayed."""
    here = place(tmp_path)
    for number in range(GOOD_ONES):
        (here.queue / f"{number:04d}.scc").write_bytes(GOOD + b"\n" * number)
    for number, worst in enumerate(BAD):
        (here.queue / f"{number}500 {worst}.scc").write_bytes(bad_file(GOOD, worst))
    good = {f"{number:04d}.scc": "pass" for number in range(GOOD_ONES)}
    bad = {f"{number}500 {worst}.scc": "error" for number, worst in enumerate(BAD)}

    for attempt in (1, 2, 3):
        run = whole_run(here, *OPTIONS, CAPTION_BAD_FILES="1")

        assert (run.returncode, run.stdout) == (0, ""), run.stderr[-2000:]
        assert "Traceback" not in run.stderr
        assert here.statuses == (good if attempt < 3 else good | bad)
        state = "suspect" if attempt < 3 else "dead"
        assert here.ask(
            "SELECT state, attempts, COUNT(*) FROM assets WHERE state != 'done' GROUP BY 1, 2"
        ) == [(state, attempt, len(BAD))]
    reasons = dict(here.ask("SELECT asset_id, message FROM findings WHERE rule = 'JOB_DEAD_LETTER'"))
    said = [f"not checked: {why}, 3 times alone" for why in BAD.values()]
    assert reasons == dict(zip(bad, said, strict=True))
    assert {path.name for path in (here.state / "dead-letter").iterdir()} == bad.keys()
    assert {path.name for path in here.queue.iterdir()} == good.keys()

    assert whole_run(here, *OPTIONS, CAPTION_BAD_FILES="1").returncode == 0
    assert here.statuses == good | bad, "given up is given up"

    back = command_with("replay", "--queue", str(here.queue), "--state", str(here.state))
    mended = whole_run(here, *OPTIONS)  # With nothing in the worker that would make bad files of them.

    assert (back.returncode, back.stderr) == (0, ""), back
    assert mended.returncode == 0, mended.stderr
    assert here.ask("SELECT DISTINCT state, attempts FROM assets") == [("done", 0)]
    assert set(here.statuses) == good.keys() | bad.keys()
    assert "error" not in here.statuses.values()
    assert here.ask("SELECT rule FROM findings WHERE rule = 'JOB_DEAD_LETTER'") == []
    assert {path.name for path in here.queue.iterdir()} == good.keys() | bad.keys()
    assert left_over(here) == []
