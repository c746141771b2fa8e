"""The tests' own ground: virtual time jumps, settles without passing, and fails instead of hanging."""

import asyncio
import threading
import time

import anyio
import pytest
import trio
from blocking import PATIENCE
from virtual_time import VirtualEventLoop, run_virtual, settle

pytestmark = pytest.mark.anyio


async def test_sleep_takes_virtual_seconds_and_no_real_ones() -> None:
    """The clock jumps to the next timer, by exactly so much."""
    real, start = time.perf_counter(), anyio.current_time()
    await anyio.sleep(3600)
    assert anyio.current_time() - start == pytest.approx(3600, abs=1e-6)
    assert time.perf_counter() - real < 3600


async def test_timers_ring_in_their_order() -> None:
    """Sleepers wake in the order of their deadlines, each at its own time."""
    start, woke = anyio.current_time(), list[tuple[int, float]]()

    async def sleeper(seconds: int) -> None:
        await anyio.sleep(seconds)
        woke.append((seconds, anyio.current_time() - start))

    async with anyio.create_task_group() as group:
        for seconds in (3, 1, 2):
            group.start_soon(sleeper, seconds)
    assert [seconds for seconds, _ in woke] == [1, 2, 3]
    assert [at for _, at in woke] == pytest.approx([1, 2, 3])


async def test_settle_runs_what_is_ready_and_lets_no_time_pass() -> None:
    """A chain of fifty turns ends before `settle` returns; a sleeper does not."""
    start, done = anyio.current_time(), list[str]()

    async def chain() -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        done.append("chain")

    async def sleeper() -> None:
        await anyio.sleep(0.001)
        done.append("sleeper")

    async with anyio.create_task_group() as group:
        group.start_soon(chain)
        group.start_soon(sleeper)
        await settle()
        assert done == ["chain"]
        assert anyio.current_time() == start


def test_a_wait_that_nobody_ends_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no timer and no thread the loop raises instead of waiting for ever."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(VirtualEventLoop, "real_patience", 0.01)
    with pytest.raises(RuntimeError, match="no timer is armed"):
        run_virtual(main)


def test_a_thread_can_wake_the_loop() -> None:
    """`call_soon_threadsafe` comes through the loop's own pipe, and is waited for while a thread lives."""

    async def main() -> str:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[str] = loop.create_future()
        go = threading.Event()
        thread = threading.Thread(
            target=lambda: go.wait() and loop.call_soon_threadsafe(woken.set_result, "by a thread")
        )
        thread.start()
        loop.call_soon(go.set)
        try:
            return await woken
        finally:
            thread.join()

    assert run_virtual(main) == "by a thread"


def test_threads_of_the_loop_end_with_it_however_long_that_takes() -> None:
    """The end of a run waits for its executor's threads in real time: the limit that asyncio has would ring at once."""
    gate, limits = threading.Event(), list[float | None]()

    class Watched(VirtualEventLoop):
        def _when_quiet(self, timeout: float | None) -> bool:
            limits.append(timeout)
            if timeout is None:  # the loop has nothing left but to wait for a thread
                gate.set()
            return super()._when_quiet(timeout)

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, gate.wait, PATIENCE)

    with asyncio.Runner(loop_factory=Watched) as runner:
        runner.run(main())
    assert gate.is_set(), "the run was over while its thread worked"
    assert set(limits) == {None}


def test_timers_beyond_a_day_and_beyond_the_floats_steps_ring() -> None:
    """A timer beyond the selector's longest wait ends, and a nanosecond's at a time with coarser steps."""

    async def main() -> float:
        await asyncio.sleep(1e6)
        await asyncio.sleep(1e-9)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) >= 1e6


async def test_each_test_begins_at_zero() -> None:
    """Clocks are fresh: no test inherits another's time."""
    assert anyio.current_time() == 0.0


@pytest.mark.real_time
async def test_real_time_is_real(anyio_backend_name: str) -> None:
    """A test that says so runs on the three real loops."""
    if anyio_backend_name == "trio":
        assert trio.lowlevel.in_trio_run()
    else:
        assert not isinstance(asyncio.get_running_loop(), VirtualEventLoop)


@pytest.mark.backends("trio")
async def test_the_named_backends_only(anyio_backend_name: str) -> None:
    """`backends` leaves the others out."""
    assert anyio_backend_name == "trio"
