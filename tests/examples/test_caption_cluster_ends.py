"""Ends of a run on Dask: a drain, Ctrl-C and SIGKILL leave no process behind and nothing undone for good."""

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from caption_bad_files import bad_file
from caption_runs import COMMAND, ENVIRONMENT, GOOD, ROOT, Place, place
from caption_storm import AT_ONCE, ends_within, environment, living, whole_run
from dask_cluster import Gate, cluster, gate

LOCAL = ("--scheduler", "local", "--workers", "1")


@pytest.fixture
def here(tmp_path: Path) -> Place:
    """Give a queue whose oldest file waits in a gate when it is checked."""
    found = place(tmp_path)
    found.fill(40)
    (found.queue / "gated.scc").write_bytes(bad_file(GOOD, "gate"))
    os.utime(found.queue / "gated.scc", (0, 0))
    return found


@pytest.fixture
def door(here: Place) -> Gate:
    return gate(here.state.parent)


class Begun:
    """A run in a session of its own, by whose marker all of its processes are known."""

    def __init__(self, here: Place, door: Gate, *options: str) -> None:
        self.marker = secrets.token_hex(8)
        self.scratch = here.state.parent / "tmp"
        self.scratch.mkdir()
        self.process = subprocess.Popen(
            [*COMMAND, *here.arguments(*options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(
                self.marker, CAPTION_BAD_FILES="1", CAPTION_GATE=str(door.path), TMPDIR=str(self.scratch)
            ),
            start_new_session=True,
        )

    def ended(self) -> str:
        """Wait for its end, and see that nothing is left of it: no process, no file, no line of another's."""
        out, err = self.process.communicate()
        said = err.decode()
        until = monotonic() + AT_ONCE
        while others := living(self.marker):
            assert monotonic() < until, f"processes outlived the run: {others}"
            ends_within(others[0], until - monotonic())
        assert list(self.scratch.rglob("*")) == []
        assert out == b"", out
        return said


@pytest.fixture
def begun(here: Place, door: Gate, request: pytest.FixtureRequest) -> Iterator[Begun]:
    run = Begun(here, door, *LOCAL, *getattr(request, "param", ()))
    try:
        yield run
    finally:
        run.process.kill()
        for pipe in (run.process.stdout, run.process.stderr):
            assert pipe is not None
            pipe.close()
        run.process.wait()


def assert_the_next_run_ends_it(here: Place) -> None:
    done = whole_run(here)  # Without the gate, so it passes, but for the line that it stood in.
    assert done.returncode == 0, done.stderr
    assert [name for name, status in here.statuses.items() if status != "pass"] == ["gated.scc"]
    assert here.ask("SELECT DISTINCT state FROM assets") == [("done",)]
    assert len(here.statuses) == 41


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_lets_what_runs_end(
    here: Place, door: Gate, begun: Begun, number: signal.Signals
) -> None:
    """The workers take neither: their chunks are recorded, the rest is left, the code is 0."""
    with door.held():
        os.killpg(begun.process.pid, number)
        for pid in living(begun.marker):
            if pid != begun.process.pid:  # A service manager signals all there is.
                os.kill(pid, number)
    said = begun.ended()

    assert begun.process.returncode == 0, said
    assert "drained before the end" in said.splitlines()[-1]
    assert "warning" not in said
    assert 0 < len(here.statuses) < 41
    assert here.ask("SELECT DISTINCT state FROM assets") == [("done",)]
    assert_the_next_run_ends_it(here)


@pytest.mark.parametrize("begun", [("--drain-timeout", "6s")], ids=["6s"], indirect=True)
def test_what_outlives_a_drain_is_killed_and_stays_suspect(here: Place, door: Gate, begun: Begun) -> None:
    """The check goes on for ever, the run ends within its budget, and the next begins with what ran."""
    with door.held() as held:
        os.kill(begun.process.pid, signal.SIGTERM)
        began = monotonic()
        said = begun.ended()
        held.await_death()

    assert begun.process.returncode == 0, said
    assert monotonic() - began < 6 + AT_ONCE
    assert ("running",) in here.ask("SELECT state FROM assets WHERE asset_id = 'gated.scc'")
    assert_the_next_run_ends_it(here)


def test_nothing_of_a_local_cluster_outlives_a_driver_that_is_killed(
    here: Place, door: Gate, begun: Begun
) -> None:
    """Not the scheduler, no worker, no check that goes on, no file of theirs."""
    with door.held() as held:
        assert len(living(begun.marker)) >= 4
        os.kill(begun.process.pid, signal.SIGKILL)
        said = begun.ended()
        held.await_death()

    assert said == ""
    assert_the_next_run_ends_it(here)


def test_nothing_of_a_local_cluster_outlives_its_own_program_that_is_killed(
    here: Place, door: Gate, begun: Begun
) -> None:
    """As the kernel does where memory is short: the run ends, and takes away what that could not."""
    with door.held() as held:
        (program,) = (pid for pid in living(begun.marker) if os.getsid(pid) == pid != begun.process.pid)
        os.kill(program, signal.SIGKILL)
        said = begun.ended()
        held.await_death()

    assert begun.process.returncode == 69, said
    assert_the_next_run_ends_it(here)


def test_a_drain_while_a_cluster_has_no_worker_ends_at_once(tmp_path: Path) -> None:
    """Nothing was begun, so nothing is waited for; the summary says that it was drained."""
    here = place(tmp_path)
    here.fill(3)
    (tmp_path / "cluster").mkdir()
    with (
        cluster(tmp_path / "cluster") as dask,
        subprocess.Popen(
            [*COMMAND, *here.arguments(*dask.option)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=ENVIRONMENT,
        ) as run,
    ):
        dask.scheduler.await_client()
        run.terminate()
        out, err = run.communicate()

    assert (run.returncode, out) == (0, b""), err.decode()
    assert err.decode().startswith("nothing checked: 3 assets seen so far; drained"), err.decode()
    assert here.ask("SELECT * FROM assets") == []
