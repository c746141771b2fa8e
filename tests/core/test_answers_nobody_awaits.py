"""What a thread answers with when there is nobody left to await it: thrown away in silence, whenever it comes.

A sync processor may hand back a coroutine, as a lambda does. If its loop has been closed meanwhile, that coroutine
is never begun; Python warns of it wherever it happens to be freed, which is in somebody else's code.
"""

import asyncio
import contextlib
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hand_executor import HandExecutor, Job
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherGroups, BatcherStopped


async def answer(batch: list[int]) -> list[int]:
    raise AssertionError(f"nobody awaits this for {batch}")


def hand_back(batch: list[int]) -> Any:
    return answer(batch)


def batcher_of(executor: HandExecutor) -> Any:
    return AsyncBatcher.from_callable(hand_back, executor=executor, max_batch_size=1)


def groups_of(executor: HandExecutor) -> Any:
    return BatcherGroups(
        lambda _key, batch: hand_back(batch),
        group_key=lambda item: item % 2,
        max_groups=2,
        executor=executor,
        max_batch_size=1,
    )


def leave_at_work(batcher: Any, executor: HandExecutor, *, forced: bool, ends: bool) -> None:
    """Close a loop on which a thread has a batch, or in whose last turn it `ends`, which comes too late."""

    async def begin() -> None:
        caller = asyncio.ensure_future(batcher.process(1))
        await settle()
        (job,) = executor.jobs
        job.begin()
        if forced:
            await batcher.stop(force=True)
            with contextlib.suppress(BatcherStopped):
                await caller

    def last_turn(_: object) -> None:
        loop.stop()
        if ends:
            executor.jobs[0].end()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # "Task was destroyed but it is pending"
    loop.create_task(begin()).add_done_callback(last_turn)
    loop.run_forever()
    loop.close()


@pytest.mark.parametrize("forced", [False, True], ids=["left in use", "stopped by force"])
@pytest.mark.parametrize("moment", ["last turn", "loop closed", "freed", "next loop"])
@pytest.mark.parametrize("build", [batcher_of, groups_of], ids=["batcher", "groups"])
def test_coroutine_of_a_thread_whose_loop_was_closed_is_thrown_away(
    build: Callable[[HandExecutor], Any], moment: str, *, forced: bool
) -> None:
    """Whether it comes in the loop's last turn, after that, after all else was freed, or on the next loop."""
    executor = HandExecutor()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batcher = build(executor)
        leave_at_work(batcher, executor, forced=forced, ends=moment == "last turn")
        (job,) = executor.jobs
        if moment == "next loop":
            with pytest.raises(RuntimeError, match=r"1 batch\(es\) running"):
                asyncio.run(batcher.stop())
        if moment == "freed":
            gone = weakref.ref(batcher)
            del batcher
            gc.collect()
            assert gone() is None
        job.end()
        coroutine = job.result()
        if moment == "next loop":
            asyncio.run(batcher.stop())
        batcher = None
        executor.jobs.clear()
        gc.collect()
        assert coroutine.cr_frame is None, "it has not been closed"


def test_coroutine_of_a_thread_whose_trio_run_was_over_is_thrown_away() -> None:
    """The same on trio, where leaving by force lets the thread go on."""
    executor = HandExecutor()

    async def main() -> None:
        async with batcher_of(executor) as batcher:
            await batcher.submit(1)
            await settle()
            executor.jobs[0].begin()
            await batcher.stop(force=True)

    trio.run(main)
    job: Job = executor.jobs[0]
    job.end()
    assert job.result().cr_frame is None
