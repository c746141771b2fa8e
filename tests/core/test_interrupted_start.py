"""What ends the program may come just as a batch is started: its callers are told, and its slot comes back."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from recording import RecordingProcessor
from scenes import assert_counts_add_up
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher, BatchAborted

Coroutine = Any


def interrupting_once() -> Callable[[asyncio.AbstractEventLoop, Coroutine], asyncio.Task[Any]]:
    """Make a task factory that is interrupted as it makes the first task of a batch."""
    interrupted = False

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Coroutine, **more: Any) -> asyncio.Task[Any]:
        nonlocal interrupted
        if coroutine.__qualname__ == "Serving._live" and not interrupted:
            interrupted = True
            coroutine.close()
            raise KeyboardInterrupt
        return asyncio.Task(coroutine, loop=loop, **more)

    return factory


@pytest.mark.parametrize("window", [0, 1])
def test_an_interrupt_instead_of_a_batchs_task_takes_no_slot(window: float) -> None:
    """All callers of the batch are told, what comes next is served, and stopping ends."""
    loop = VirtualEventLoop()
    loop.set_task_factory(interrupting_once())
    fn = RecordingProcessor()
    batcher = AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=window)
    callers = [loop.create_task(batcher.process(number)) for number in range(2)]
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.gather(*callers))

    async def afterwards() -> list[Any]:
        await settle()
        assert await batcher.process(9) == 90
        await batcher.stop()
        return await asyncio.gather(*callers, return_exceptions=True)

    try:
        outcomes = loop.run_until_complete(afterwards())
    finally:
        loop.close()
    assert all(isinstance(outcome, BatchAborted | KeyboardInterrupt | int) for outcome in outcomes)
    stats = batcher.stats()
    assert (stats.waiting, stats.running) == (0, 0)
    assert_counts_add_up(stats)


class _Interrupted:
    """Listens never: it is interrupted as it is asked."""

    awake = False

    def listens(self) -> bool:
        raise KeyboardInterrupt


def test_an_interrupt_of_the_witness_takes_no_slot() -> None:
    """A lone item has left the queue already as the witness is asked: its slot comes back with it."""
    loop = VirtualEventLoop()
    fn = RecordingProcessor()
    batcher = AsyncBatcher.from_callable(fn, max_queue_time=0)
    witness = batcher._runner.witness
    batcher._runner.watch(_Interrupted())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(batcher.process(1))
    assert witness is not None
    batcher._runner.watch(witness)

    async def afterwards() -> None:
        assert await batcher.process(2) == 20
        await batcher.stop()

    try:
        loop.run_until_complete(afterwards())
    finally:
        loop.close()
    assert fn.batches == [[2]]
    assert_counts_add_up(batcher.stats())
