"""A worker that can't be started for want of threads: said at once, and one start takes nothing from another."""

from __future__ import annotations

import asyncio
import multiprocessing.queues
import threading
from typing import TYPE_CHECKING, NoReturn

import pytest
from caption_runs import GOOD

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import pool as pool_module
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.pool import Pool
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.worker import Orders

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, pytest.mark.backends("asyncio")]
# Turns of the loop, more than any start would take to begin.
MANY_TURNS = 50


@pytest.fixture
def asset(tmp_path: Path) -> Asset:
    (tmp_path / "a.scc").write_bytes(GOOD)
    return Asset(b"a.scc", stat_of((tmp_path / "a.scc").stat()))


def pool_of(workers: int, queue: Path) -> Pool:
    return Pool(workers, Orders(queue=FolderQueue(queue), profile=load("house"), asset_timeout=30.0))


async def test_an_executors_thread_that_is_refused_one_is_heard(
    tmp_path: Path, asset: Asset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the time that a worker has to start in, which has no end here; whoever heard before hears again."""

    def refused(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool_module, "START_SECONDS", 1e6)
    monkeypatch.setattr(multiprocessing.queues.Queue, "_start_thread", refused)
    before = threading.excepthook
    pool = pool_of(1, tmp_path)
    try:
        with pytest.raises(JobError, match=r"no worker process starts \(can't start new thread\)") as error:
            await pool.check([asset])
        assert error.value.code == Exit.IO_ERROR
        assert threading.excepthook is before
    finally:
        pool.kill()


async def test_what_else_a_thread_dies_of_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the start."""
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda ended: told.append(str(ended.exc_value)))

    def die() -> NoReturn:
        raise RuntimeError("another")

    with pool_module._ends_of_threads() as refused:
        thread = threading.Thread(target=die)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        assert (told, refused.done()) == (["another"], False)


async def test_workers_are_started_one_by_one(
    tmp_path: Path, asset: Asset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one has seen to be there is not taken by another that looks at the same time."""
    begun: list[asyncio.Event] = []

    async def start() -> NoReturn:
        begun.append(asyncio.Event())
        await begun[-1].wait()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool_module, "_start", start)
    pool = pool_of(2, tmp_path)
    checks = [asyncio.ensure_future(pool.check([asset])) for _ in range(2)]
    for number in (1, 2):
        for _ in range(MANY_TURNS):
            await asyncio.sleep(0)
        assert len(begun) == number
        begun[-1].set()
    for check in checks:
        with pytest.raises(JobError):
            await check
