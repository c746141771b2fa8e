"""The caption job on workers of a Dask cluster: the same run, whatever becomes of a worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD, Place, place
from caption_storm import assert_whole, command_with, deliver, ledger_rows, parquet_rows, whole_run
from dask_cluster import Cluster, Program, cluster

BAD = ("kill", "late", "eat", "raise", "leave")
ONE_LINE = ("pass", "warn", "fail", "error", "died", "left", "warning:", "checked ")


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, list[Program]]]:
    """A scheduler with two workers, one of them a nanny's, in whose processes bad files do their worst."""
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found, [found.worker({"CAPTION_BAD_FILES": "1"}, nanny=nanny) for nanny in (False, True)]


def places(folder: Path, *names: str) -> list[Place]:
    for name in names:
        (folder / name).mkdir()
    return [place(folder / name) for name in names]


def test_the_records_are_those_of_the_pool(
    tmp_path: Path, two_workers: tuple[Cluster, list[Program]]
) -> None:
    """Good and faulty files, odd names: the same rows in the ledger and in Parquet, and nothing on standard output."""
    pool, dask = places(tmp_path, "pool", "dask")
    for here in (pool, dask):
        deliver(here.queue, range(60))
    assert whole_run(pool).returncode == 0

    done = whole_run(dask, *two_workers[0].option)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert all(line.startswith(ONE_LINE) for line in done.stderr.splitlines())
    assert_whole(dask, ledger_rows(pool))
    assert done.stderr.splitlines()[-1].startswith("checked 60 of 60: ")


def test_a_file_that_ends_its_check_ends_no_worker_and_is_given_up_as_by_the_pool(
    tmp_path: Path, two_workers: tuple[Cluster, list[Program]]
) -> None:
    """It kills, hangs or eats memory in a process beside the worker: only its death alone counts, with its reason."""
    pool, dask = places(tmp_path, "pool", "dask")
    for here in (pool, dask):
        for worst in BAD:
            (here.queue / f"{worst}.scc").write_bytes(bad_file(GOOD, worst))
        here.fill(20)
    scheduler, workers = two_workers
    once = ("--max-attempts", "1")
    assert whole_run(pool, *once, CAPTION_BAD_FILES="1").returncode == 0

    done = whole_run(dask, *once, *scheduler.option)

    assert done.returncode == 0, done.stderr
    assert dask.statuses == pool.statuses
    letters = "SELECT asset_id, attempts, reason FROM dead_letters ORDER BY asset_id"
    assert dask.ask(letters) == pool.ask(letters)
    assert len(dask.ask(letters)) == len(BAD)
    assert [list(Path(f"/proc/{worker.pid}").glob("stat")) != [] for worker in workers] == [True, True]


def test_a_cluster_of_this_machine_gives_the_records_of_the_pool(tmp_path: Path) -> None:
    """`--scheduler local` starts one, and leaves nothing of it behind: no process, no file, no line."""
    pool, dask = places(tmp_path, "pool", "dask")
    for here in (pool, dask):
        deliver(here.queue, range(30))
    assert whole_run(pool).returncode == 0

    done = whole_run(dask, "--scheduler", "local", "--workers", "2", CAPTION_STORM="local")

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert all(line.startswith(ONE_LINE) for line in done.stderr.splitlines())
    assert_whole(dask, ledger_rows(pool))
    assert parquet_rows(dask) == parquet_rows(pool)


def test_a_fire_with_nothing_to_check_starts_no_cluster(tmp_path: Path) -> None:
    """So it needs no scheduler that answers."""
    here = place(tmp_path)

    done = command_with(*here.arguments("--scheduler", "tcp://127.0.0.1:1"))

    assert done.returncode == 0, done.stderr
