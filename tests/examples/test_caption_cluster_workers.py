"""Workers of a Dask cluster that are killed, leave, come late or can't check, while the caption job runs on them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD, ROOT, Place, place
from caption_storm import environment, started, whole_run
from dask_cluster import Cluster, Gate, cluster, gate

GATED = "000.scc"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster") as found:
        yield found


def fill(here: Place, number: int = 8) -> Gate:
    """Deliver some good files and one whose check waits in a gate, which is returned."""
    (here.queue / GATED).write_bytes(bad_file(GOOD, "gate"))
    os.utime(here.queue / GATED, (0, 0))  # The oldest comes first.
    for name in range(1, number):
        (here.queue / f"{name:03d}.scc").write_bytes(GOOD + b"\n" * name)
    return gate(here.state.parent)


def gated(door: Gate) -> dict[str, str]:
    """Give the environment of a worker whose checks do their worst."""
    return {"CAPTION_BAD_FILES": "1", "CAPTION_GATE": str(door.path)}


def ended(run: subprocess.Popen[bytes]) -> str:
    """Wait for a run that ends well, and return what it said."""
    out, err = run.communicate()
    assert (run.returncode, out) == (0, b""), err.decode()
    return err.decode()


def assert_all_passed_once(here: Place, number: int = 8) -> None:
    assert here.statuses == {GATED: "fail"} | {f"{name:03d}.scc": "pass" for name in range(1, number)}
    assert here.ask("SELECT DISTINCT state FROM assets") == [("done",)]


@pytest.mark.parametrize("nanny", [False, True], ids=["alone", "with a nanny"])
def test_what_a_killed_worker_had_is_checked_again_alone(here: Place, dask: Cluster, *, nanny: bool) -> None:
    """Dask tries none of it again, though a nanny brings the worker back: one death, nothing lost, nothing twice."""
    door = fill(here)
    victim = dask.worker(gated(door), nanny=nanny)
    with started(here, *dask.option) as run:
        with door.held() as held:
            assert here.ask("SELECT DISTINCT state FROM assets") == [("running",)]
            if not nanny:
                dask.worker(gated(door))
            os.kill(victim.pid, signal.SIGKILL)
            held.await_death()
        with door.held():  # Checked for the second time, and the last.
            assert here.ask("SELECT asset_id FROM assets WHERE state = 'alone'") == [(GATED,)]
        said = ended(run)

    assert said.startswith(
        "warning: a worker died: its worker was lost; checked again at the end, one by one: 8 assets"
    )
    assert_all_passed_once(here)


def test_a_file_that_is_alone_when_its_worker_dies_has_had_an_attempt(here: Place, dask: Cluster) -> None:
    """Twice is the chunk's death and its own: then it is a dead letter, and the others have passed."""
    door = fill(here)
    victims = [dask.worker(gated(door))]
    with started(here, "--max-attempts", "1", *dask.option) as run:
        for _ in range(2):
            with door.held() as held:
                victims.append(dask.worker(gated(door)))
                os.kill(victims[-2].pid, signal.SIGKILL)
                held.await_death()
        ended(run)

    assert here.ask("SELECT asset_id, attempts, reason FROM dead_letters") == [
        (GATED, 1, "died: its worker was lost")
    ]
    assert [status for _, status in sorted(here.statuses.items())] == ["error", *["pass"] * 7]


def test_what_a_worker_has_that_leaves_in_good_order_goes_to_another(here: Place, dask: Cluster) -> None:
    """It was retired, so nothing that it had is suspect: the next worker checks the same chunk."""
    door = fill(here)
    first = dask.worker(gated(door))
    with started(here, *dask.option) as run:
        with door.held() as held:
            dask.worker(gated(door))
            dask.scheduler.retire(first)
            held.await_death()
        with door.held():
            assert here.ask("SELECT DISTINCT state FROM assets") == [("running",)]
        said = ended(run)

    assert "warning" not in said
    assert_all_passed_once(here)


def test_what_a_worker_has_that_ends_itself_goes_to_another_and_the_scheduler_is_not_idle(
    here: Place, dask: Cluster
) -> None:
    """Dask tells of it as of a death, and calls a scheduler idle whose workers have no tasks: neither is so here."""
    door = fill(here)
    first = dask.worker(gated(door))
    with started(here, *dask.option) as run:
        with door.held() as held:
            dask.scheduler.await_client()
            assert dask.scheduler.idle_since() == "None"
            dask.worker(gated(door))
            first.close()
            held.await_death()
        with door.held():
            assert here.ask("SELECT DISTINCT state FROM assets") == [("running",)]
        said = ended(run)

    assert "warning" not in said
    assert_all_passed_once(here)


def test_a_run_waits_for_a_worker_that_comes_late(here: Place, dask: Cluster) -> None:
    """With none there it waits; the first that joins gets the work."""
    here.fill(3)
    with started(here, *dask.option) as run:
        dask.scheduler.await_client()
        dask.worker()
        ended(run)

    assert set(here.statuses.values()) == {"pass"}


def test_only_what_was_given_to_a_worker_is_written_down_as_running(here: Place, dask: Cluster) -> None:
    """Two chunks a worker, and no more: so no more than those can become suspect."""
    door = fill(here, 200)
    dask.worker(gated(door))
    with started(here, *dask.option) as run:
        with door.held():
            dask.scheduler.await_client()
            running = here.ask("SELECT COUNT(*) FROM assets")
        ended(run)

    assert running[0][0] <= 2 * 16
    assert_all_passed_once(here, 200)


OTHER_VERSION = "import examples.recipes.caption_qc.job as job; job.TOOL_VERSION = '0.0.1'"
WITHOUT_THE_JOB = "sys.modules['examples'] = None"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (OTHER_VERSION, "it has another checkout: 0.0.1 ("),
        (WITHOUT_THE_JOB, "it has not this job: ModuleNotFoundError("),
    ],
    ids=["another version", "no checkout"],
)
def test_a_worker_that_has_other_checks_or_none_is_left_out_by_name(
    here: Place, dask: Cluster, before: str, why: str
) -> None:
    """With no other the run ends with 78 and has begun nothing; beside one that can check it is a warning."""
    here.fill(3)
    unfit = dask.worker(before=before)

    refused = whole_run(here, *dask.option)

    last = refused.stderr.splitlines()[-1]
    assert refused.returncode == 78, refused.stderr
    assert last.startswith(f"caption_qc: no worker can check: {unfit.address}: {why}")
    assert "give scheduler and workers the checkout" in last
    assert here.ask("SELECT * FROM assets") == []

    dask.worker()
    done = whole_run(here, *dask.option)

    assert done.returncode == 0, done.stderr
    assert f"warning: a worker is left out: {unfit.address}: {why}" in done.stderr
    assert set(here.statuses.values()) == {"pass"}


IMPATIENT = """
import sys
from examples.recipes.caption_qc import cli
from examples.recipes.caption_qc.job import cluster
from examples.recipes.caption_qc.job.drain import Drain
cluster.WORKER_SECONDS = 0.2
sys.exit(cli.main(sys.argv[1:], Drain()))
"""


def test_a_cluster_without_workers_is_waited_for_no_longer_than_its_bound(here: Place, dask: Cluster) -> None:
    """Then the run ends with 69, says what to do, and has begun nothing."""
    here.fill(3)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPATIENT, *here.arguments(*dask.option)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(""),
        check=False,
    )

    assert done.returncode == 69
    found = f"caption_qc: the scheduler {dask.scheduler.address} has had no worker for 0.2 s"
    assert done.stderr == f"{found}; start some, then run again\n"
    assert here.ask("SELECT * FROM assets") == []
