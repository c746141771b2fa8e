"""The runner with real files that end their workers, and drains at awkward moments."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from caption_bad_files import bad_file
from caption_inside import StandIn, runner_for
from caption_runs import COMMAND, GOOD, ROOT, Place, place, run_program
from caption_storm import environment

from examples.recipes.caption_qc.job import runner
from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.outcomes import Died, Left, Outcome
from examples.recipes.caption_qc.job.pool import CheckDiedError, PoolClosedError
from examples.recipes.caption_qc.job.runner import Task


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def run(here: Place, *options: str) -> subprocess.CompletedProcess[str]:
    """Do one run in whose workers the checks of bad files do their worst."""
    return subprocess.run(
        [*COMMAND, *here.arguments("--workers", "2", *options)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment("", CAPTION_BAD_FILES="1"),
        check=False,
    )


def attempts(here: Place) -> dict[str, tuple[str, int]]:
    """Say of each asset that is not done how far it is."""
    rows = here.ask("SELECT asset_id, state, attempts FROM assets WHERE state != 'done'")
    return {name: (state, count) for name, state, count in rows}


def reasons(here: Place) -> dict[str, str]:
    return dict(here.ask("SELECT asset_id, message FROM findings WHERE rule = 'JOB_DEAD_LETTER'"))


def test_every_good_file_is_done_in_the_first_run_and_each_bad_one_says_what_it_did(here: Place) -> None:
    """Two that end their worker, beside many: one attempt each a run, and no innocent has one."""
    here.fill(80)
    for number, worst in ((10, "kill"), (60, "eat")):
        (here.queue / f"{number:03d}-{worst}.scc").write_bytes(bad_file(GOOD, worst))

    first = run(here, "--max-attempts", "2")

    assert first.returncode == 0, first.stderr
    assert set(here.statuses.values()) == {"pass"}
    assert len(here.statuses) == 80
    assert attempts(here) == {"010-kill.scc": ("suspect", 1), "060-eat.scc": ("suspect", 1)}
    assert here.ask("SELECT DISTINCT attempt FROM records") == [(1,)]
    assert "died  060-eat.scc: out of memory: over 1024 MiB (attempt 1 of 2)" in first.stderr

    last = run(here, "--max-attempts", "2")

    assert last.returncode == 0, last.stderr
    assert reasons(here) == {
        "010-kill.scc": "not checked: died: SIGKILL, as the system does where memory runs out, 2 times alone",
        "060-eat.scc": "not checked: out of memory: over 1024 MiB, 2 times alone",
    }
    assert sum(status == "error" for status in here.statuses.values()) == 2


def test_a_file_that_hangs_is_a_dead_letter_that_says_so(here: Place) -> None:
    """Its time is its own: the chunk's others are checked in the same run."""
    here.fill(20)
    (here.queue / "late.scc").write_bytes(bad_file(GOOD, "late"))

    done = run(here, "--max-attempts", "1", "--asset-timeout", "30s")

    assert done.returncode == 0, done.stderr
    assert reasons(here) == {"late.scc": "not checked: hung: over 30 s, 1 times alone"}
    assert len(here.statuses) == 21


def test_attempts_are_of_one_content(here: Place) -> None:
    """New bytes start again, bad ones too; a good one ends it."""
    bad = here.queue / "bad.scc"
    bad.write_bytes(bad_file(GOOD, "kill"))
    options = ("--max-attempts", "2")
    run(here, *options)
    assert attempts(here) == {"bad.scc": ("suspect", 1)}
    bad.write_bytes(bad_file(GOOD + b"\n", "leave"))
    run(here, *options)
    assert attempts(here) == {"bad.scc": ("suspect", 1)}
    bad.write_bytes(GOOD)
    run(here, *options)
    assert (attempts(here), here.statuses) == ({}, {"bad.scc": "pass"})


def test_suspects_come_alone_one_by_one_and_before_the_rest(here: Place) -> None:
    """Both that a dead worker's chunk left are tried before what came since, and neither beside anything."""
    for name in ("a", "b"):
        (here.queue / f"{name}.scc").write_bytes(bad_file(GOOD, "kill"))
    run(here)
    (here.queue / "c.scc").write_bytes(GOOD)

    again = run(here)

    lines = [line.split(":")[0] for line in again.stderr.splitlines()]
    assert lines[:3] == ["died  a.scc", "died  b.scc", "pass  c.scc"]
    assert attempts(here) == {"a.scc": ("suspect", 2), "b.scc": ("suspect", 2)}, "once a run"


class Dying(StandIn):
    """Stands where the pool is; each chunk ends with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        raise self._error


ASSET = Asset(b"a.scc", Stat(1, 2, 3, 4))


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
@pytest.mark.parametrize(
    ("why", "attempt"), [("stopped", True), ("unreadable", True), ("changed", False), ("gone", False)]
)
async def test_a_last_death_counts_also_where_the_digest_cannot_be_had(
    here: Place,
    monkeypatch: pytest.MonkeyPatch,
    why: Literal["stopped", "unreadable", "changed", "gone"],
    attempt: bool,
) -> None:
    """It is no dead letter without its digest, but the attempt is not forgotten; other bytes are another matter."""
    left = Left(asset=ASSET, why=why, detail="")
    monkeypatch.setattr(runner, "digest", lambda *args, **kwargs: left)
    with runner_for(here, Dying(CheckDiedError("died: SIGSEGV"))) as running:
        endings = await running.placed([Task(ASSET, attempts=2)])
        await running.shut_down()
    died = Died(asset=ASSET, reason="died: SIGSEGV (attempt 3 of 3)")
    assert endings == [died if attempt else left]


@pytest.mark.anyio
@pytest.mark.real_time
@pytest.mark.backends("asyncio")
@pytest.mark.parametrize(
    ("drained", "why"), [(True, "the run was asked to end"), (False, "the run failed before its end")]
)
async def test_what_a_drain_keeps_from_the_workers_is_as_it_was(here: Place, drained: bool, why: str) -> None:
    """What was new is forgotten again, a suspect stays one, with the attempts that it has; so after a failure."""
    with runner_for(here, Dying(PoolClosedError())) as running:
        if drained:
            running.drain._on_signal(signal.SIGTERM, None)
        new = await running.placed([Task(ASSET), Task(ASSET)])
        suspect = await running.placed([Task(ASSET, attempts=2)])
        await running.shut_down()
    assert new == [Left(asset=ASSET, why="stopped", detail=why)] * 2
    assert suspect == []


# Programs that are the command, with one moment at which they get a signal themselves.
_AT = """
import os, signal, sys
from examples.recipes.caption_qc.job.drain import Drain
drain = Drain()
drain.install()
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import {module}
real = {module}.{name}
def strike(*args, **kwargs):
    if not drain.requested:
        os.kill(os.getpid(), signal.SIGTERM)
    return real(*args, **kwargs)
{module}.{name} = strike
sys.exit(main({arguments}, drain))
"""


@pytest.mark.parametrize(
    ("module", "name", "least", "most"),
    [
        ("queue_folder", "scan_queue", 0, 0),
        ("runner", "Runner", 0, 0),
        ("pool", "_started", 1, 32),
        ("runner", "Started", 0, 32),
    ],
)
def test_a_drain_at_the_start_ends_well(here: Place, module: str, name: str, least: int, most: int) -> None:
    """Before the scan, before the loop, at the first chunk, while a worker starts: exit 0, nothing half done."""
    here.fill(100)
    program = _AT.format(module=module, name=name, arguments=here.arguments("--workers", "2"))
    done = run_program(program)

    assert done.returncode == 0, done.stderr
    assert "drained before the end" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert least <= len(here.statuses) <= most
    assert here.ask("SELECT COUNT(*) FROM assets WHERE state != 'done'") == [(0,)]
    assert here.run().returncode == 0
    assert len(here.statuses) == 100


def test_a_drain_during_a_suspects_lone_check_is_no_attempt(here: Place) -> None:
    """The check outlives its share and is killed; it goes last next time, and has the attempts that it had."""
    bad = here.queue / "bad.scc"
    bad.write_bytes(bad_file(GOOD, "sleep"))
    run(here, "--asset-timeout", "0.5s")
    assert attempts(here) == {"bad.scc": ("suspect", 1)}
    program = _AT.format(
        module="pool",
        name="_submit",
        arguments=here.arguments("--drain-timeout", "1s", "--asset-timeout", "5m"),
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment("", CAPTION_BAD_FILES="1"),
        check=False,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    assert "drained before the end" in done.stderr
    assert attempts(here) == {"bad.scc": ("alone", 1)}


def test_a_drain_during_the_digest_of_a_large_file_leaves_it(here: Place) -> None:
    """It is not read to its end, is no file that can't be read, and waits for the next run."""
    with (here.queue / "large.scc").open("wb") as large:
        large.truncate(1 << 40)
    program = _AT.format(module="runner", name="digest", arguments=here.arguments("--asset-timeout", "5m"))

    done = run_program(program, timeout=50)

    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[0] == "left  large.scc: the run was asked to end"
    assert here.ask("SELECT COUNT(*) FROM records") == [(0,)]
    assert "caption_qc_scan_errors 0" in (here.state / "metrics.prom").read_text()


def test_two_signals_end_it_at_once_and_the_next_run_goes_on(here: Place) -> None:
    """Killed in the middle: nothing is half recorded, and what ran is looked at first."""
    here.fill(100)
    with here.held_run("--workers", "2") as (process, _):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait() in {130, 143}, "both wait at once, and Python takes the lower number first"
    assert 0 < len(here.statuses) < 100
    assert here.run().returncode == 0
    assert set(here.statuses.values()) == {"pass"}
    assert len(here.statuses) == 100
    assert not [path for path in here.state.rglob("*") if path.name.startswith(".")]


def test_a_worker_has_neither_the_lock_nor_the_ledger_open(here: Place) -> None:
    """What it inherits are its pipes: the lock is free when its holder is gone."""
    here.fill(60)
    with here.held_run("--workers", "2") as (process, _):
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        links = [link for worker in workers for link in Path(f"/proc/{worker}/fd").iterdir()]
        opened = [str(link.readlink()) for link in links if link.is_symlink()]
    assert len(workers) > 1
    assert not [name for name in opened if name.startswith(str(here.state))]
