"""What the driver decides of a cluster's workers, in virtual time: the way to them is the tests' own."""

import asyncio
import contextlib
import os
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from virtual_time import settle

from examples.recipes.caption_qc import check as checker
from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import cluster as driver
from examples.recipes.caption_qc.job.cluster import WORKER_SECONDS, Cluster
from examples.recipes.caption_qc.job.cluster_task import Greeting, Refused, Unable, fingerprint, greet
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.pool import TRIP_SECONDS, CheckDiedError
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.worker import Orders

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]
CHECK_SECONDS = 10.0


async def never() -> Any:
    await asyncio.Event().wait()


async def good(address: str) -> Greeting:
    return Greeting(address, fingerprint())


class Way:
    """Stands where Dask's client does. Mutable state: what each worker does when it is asked, and who listens."""

    status = "running"

    def __init__(self) -> None:
        self.greets: dict[str, Callable[[], Awaitable[Any]]] = {}
        self.checks: dict[str, Callable[[], Awaitable[Any]]] = {}
        self.listens: dict[str, Callable[[tuple[float, Any]], None]] = {}
        self.broken = asyncio.Event()

    def subscribe_topic(self, topic: str, handler: Callable[[tuple[float, Any]], None]) -> None:
        self.listens[topic] = handler

    def unsubscribe_topic(self, topic: str) -> None:
        del self.listens[topic]

    def tell(self, topic: str, **event: object) -> None:
        self.listens[topic]((0.0, event))

    async def run(self, function: object, *_: object, workers: list[str], on_error: str) -> dict[str, object]:
        assert on_error == "return"
        asked = self.greets if function is greet else self.checks
        try:
            return {workers[0]: await asked[workers[0]]()}
        except OSError as error:
            return {workers[0]: error}

    async def close(self, _: float) -> None:
        """Close what there is not."""


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Way:
    found = Way()

    async def connect(_: str) -> Way:
        return found

    async def workers_of(_: Way) -> list[str]:
        return list(found.greets)

    async def held(_: Way) -> None:
        await found.broken.wait()

    for name, function in (("connect", connect), ("workers_of", workers_of), ("held", held)):
        monkeypatch.setattr(driver, name, function)
    return found


@contextlib.asynccontextmanager
async def driving(folder: Path) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """Yield a driver whose connection is open, and what it says."""
    said: list[str] = []
    orders = Orders(queue=FolderQueue(folder), profile=load("house"), asset_timeout=CHECK_SECONDS)
    driven = Cluster("tcp://scheduler:1", 64, orders, said.append, local=None)
    try:
        await driven.open()
        yield driven, said
    finally:
        await driven.end()


async def checked(cluster: Cluster) -> list[Any]:
    """Check a chunk, whose assets no worker here looks at."""
    async with cluster.place() as check:
        return await check([None])  # type: ignore[list-item]


async def test_a_worker_that_can_start_no_process_beside_a_silent_one_ends_the_run_within_the_bound(
    way: Way, tmp_path: Path
) -> None:
    """The only one with places is left out, the other never answers its greeting: 78, and no wait for ever."""
    way.greets = {"unable": partial(good, "unable"), "silent": never}

    async def unable() -> bytes:
        return pickle.dumps(Unable("no worker process starts"))

    way.checks = {"unable": unable}
    async with driving(tmp_path) as (driven, said):
        began = asyncio.get_running_loop().time()

        with pytest.raises(JobError, match="no worker can check: unable: no worker process starts") as ended:
            await checked(driven)

        assert ended.value.code == Exit.BAD_CONFIG
        assert asyncio.get_running_loop().time() - began == pytest.approx(WORKER_SECONDS)
        assert said == ["a worker is left out: unable: no worker process starts"]


async def test_what_a_worker_raises_in_its_greeting_is_told_and_a_lost_way_is_not(
    way: Way, tmp_path: Path
) -> None:
    """A file that it can't read has a number of the system's; Dask's own errors have none, and the worker leaves."""

    async def unreadable() -> Any:
        raise PermissionError(13, "Permission denied", "examples/cli.py")

    async def lost() -> Any:
        raise OSError("Timed out trying to connect")

    way.greets = {"gone": lost, "unreadable": unreadable}
    async with driving(tmp_path) as (_, said):
        await settle()

        assert said == ["a worker is left out: unreadable: it has not this job: Permission denied"]


async def test_a_worker_that_says_that_it_closes_hands_its_chunk_to_another(way: Way, tmp_path: Path) -> None:
    """What Dask tells of its end afterwards is what it tells of a death: it is none."""

    async def answers() -> bytes:
        return pickle.dumps([])

    way.greets = {"first": partial(good, "first")}
    way.checks = {"first": never, "second": answers}
    async with driving(tmp_path) as (driven, said):
        chunk = asyncio.ensure_future(checked(driven))
        await settle()

        way.tell("first", action="closing-worker", reason="signal-15")
        way.tell("all", action="remove-worker", worker="first", expected=False)
        way.greets["second"] = partial(good, "second")
        way.tell("all", action="add-worker", worker="second")

        assert await chunk == []
        assert said == []


async def test_a_worker_that_is_gone_without_a_word_has_died(way: Way, tmp_path: Path) -> None:
    """Its chunk is suspect, as it is where a file took the worker along."""

    async def refuses() -> bytes:
        return pickle.dumps(Refused())

    way.greets = {"first": partial(good, "first")}
    way.checks = {"first": refuses}
    async with driving(tmp_path) as (driven, _):
        chunk = asyncio.ensure_future(checked(driven))
        await settle()

        way.tell("all", action="remove-worker", worker="first", expected=False)

        with pytest.raises(CheckDiedError, match="its worker was lost"):
            await chunk


async def test_a_worker_that_stood_still_is_given_chunks_again_when_it_goes_on(
    way: Way, tmp_path: Path
) -> None:
    """It is given up when its time is over, and greeted anew; its answer to that brings it back."""
    goes_on = asyncio.Event()
    way.greets, way.checks = {"first": partial(good, "first")}, {"first": never}
    async with driving(tmp_path) as (driven, _):

        async def later() -> Greeting:
            await goes_on.wait()
            return await good("first")

        async def answers() -> bytes:
            return pickle.dumps([])

        chunk = asyncio.ensure_future(checked(driven))
        await settle()
        way.greets["first"] = later
        with pytest.raises(
            CheckDiedError, match=f"no answer from its worker within {CHECK_SECONDS + TRIP_SECONDS:g} s"
        ):
            await chunk

        way.checks["first"] = answers
        goes_on.set()
        assert await checked(driven) == []


async def test_an_answer_that_is_there_is_read_before_time_is_called_over(way: Way, tmp_path: Path) -> None:
    """This machine stood still for an hour: all timers are due at once, and the answer takes a moment to be read."""
    loop = asyncio.get_running_loop()

    async def answers() -> bytes:
        await asyncio.sleep(CHECK_SECONDS + 1)  # Time passed as a whole, then some turns of the loop.
        await settle()
        return pickle.dumps([])

    way.greets, way.checks = {"first": partial(good, "first")}, {"first": answers}
    async with driving(tmp_path) as (driven, _):
        began = loop.time()

        assert await checked(driven) == []
        assert loop.time() - began < CHECK_SECONDS + TRIP_SECONDS


async def test_a_connection_that_breaks_while_nobody_is_asked_ends_the_run(way: Way, tmp_path: Path) -> None:
    """Dask would come back to a scheduler that was started anew, and never hear of its workers."""
    async with driving(tmp_path) as (driven, _):
        wait = asyncio.ensure_future(checked(driven))
        await settle()

        began = asyncio.get_running_loop().time()
        way.status = "connecting"
        way.broken.set()

        with pytest.raises(JobError, match="the scheduler tcp://scheduler:1 went away") as ended:
            await wait
        assert ended.value.code == Exit.UNREACHABLE
    assert asyncio.get_running_loop().time() == began  # Not when the bound has come.


async def test_what_is_no_file_does_not_count_in_what_a_checkout_checks_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's dangling link, a pipe and what can't be read are passed over; each file's name and bytes count."""
    (tmp_path / "check").mkdir()
    (tmp_path / "cli.py").write_bytes(b"pass")
    monkeypatch.setattr(checker, "__file__", str(tmp_path / "check" / "__init__.py"))
    before = fingerprint.__wrapped__()

    (tmp_path / ".#cli.py").symlink_to("me@here.1:2")
    (tmp_path / "unreadable.py").symlink_to("/proc/self/mem")
    os.mkfifo(tmp_path / "pipe.py")
    assert fingerprint.__wrapped__() == before

    (tmp_path / "cli.py").write_bytes(b"pass\n")
    assert fingerprint.__wrapped__() != before
