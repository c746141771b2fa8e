"""Files whose check ends badly, among a thousand good ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caption_bad_files import bad_file
from caption_runs import GOOD, place
from caption_storm import left_over, whole_run

if TYPE_CHECKING:
    from pathlib import Path

GOOD_ONES = 1000
BAD = ("kill", "leave", "spin", "sleep", "eat")
OPTIONS = ("--asset-timeout", "0.3s", "--max-attempts", "3", "--workers", "2")


def test_bad_files_are_given_up_and_take_no_good_one_with_them(tmp_path: Path) -> None:
    """The good ones are done in the first run; each bad one is a dead letter after three, with its reason."""
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
    assert reasons.keys() == bad.keys()
    assert all(reasons.values())
    assert here.ask("SELECT COUNT(*) FROM records WHERE status = 'error'") == [(len(BAD),)]

    assert whole_run(here, *OPTIONS, CAPTION_BAD_FILES="1").returncode == 0
    assert here.statuses == good | bad
    assert left_over(here) == []
