"""Two runs at once: one runs, every other is refused with 75, and each refusal is counted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from caption_runs import place
from caption_storm import left_over, started, whole_run

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from caption_runs import Place

FIRES = 12
TOGETHER = 6


def figure(here: Place, file: str, name: str) -> float:
    """Read one of the metrics, which stands there once."""
    text = (here.state / file).read_text(encoding="utf-8")
    (value,) = re.findall(rf"^caption_qc_{name} (\S+)$", text, re.MULTILINE)
    return float(value)


def test_every_fire_beside_a_run_is_refused_and_counted(tmp_path: Path) -> None:
    """While one run is held, a dozen fires, two by two, end with 75; the next run counts them."""
    here = place(tmp_path)
    here.fill(60)
    with here.held_run() as (holder, lines):
        with ThreadPoolExecutor(2) as both:
            refused = list(both.map(lambda _: whole_run(here), range(FIRES)))
        assert {run.returncode for run in refused} == {75}
        assert {run.stderr for run in refused} == {""}
        said = f"previous run still active: pid {holder.pid} since "
        assert [run.stdout for run in refused if not run.stdout.startswith(said)] == []
        assert figure(here, "metrics-skips.prom", "lock_conflicts_in_a_row") == FIRES
        lines.read()
        assert holder.wait() == 0

    assert len(here.statuses) == 60
    assert whole_run(here).returncode == 0
    assert figure(here, "metrics-skips.prom", "lock_conflicts_in_a_row") == 0
    assert figure(here, "metrics.prom", "lock_conflicts_total") == FIRES
    assert left_over(here) == []


def test_of_runs_that_start_together_one_runs(tmp_path: Path) -> None:
    """Whoever is first has the lock until its log is read; all others are refused meanwhile."""
    here = place(tmp_path)
    here.fill(60)
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(started(here)) for _ in range(TOGETHER)]
        for run in runs:
            stack.callback(run.kill)
            assert run.stderr is not None
            fcntl.fcntl(run.stderr, fcntl.F_SETPIPE_SZ, 4096)
        first = _first_to_end(runs, TOGETHER - 1)
        assert [run.wait() for run in first] == [75] * (TOGETHER - 1)
        (winner,) = (run for run in runs if run not in first)
        said = winner.communicate()
        assert winner.returncode == 0, said

    assert len(here.statuses) == 60
    assert figure(here, "metrics-skips.prom", "lock_conflicts_in_a_row") == TOGETHER - 1


def _first_to_end(runs: list[subprocess.Popen[bytes]], count: int) -> list[subprocess.Popen[bytes]]:
    """Wait until so many of the runs have ended, and return these."""
    watched = {os.pidfd_open(run.pid): run for run in runs}
    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    ended: list[subprocess.Popen[bytes]] = []
    while len(ended) < count:
        for descriptor, _ in poll.poll():
            poll.unregister(descriptor)
            ended.append(watched[descriptor])
    for descriptor in watched:
        os.close(descriptor)
    return ended
