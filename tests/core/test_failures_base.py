"""What is no `Exception`: cancellations of the processor's own, exits, faults of the runner (rule 5)."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
import trio
from recording import RecordingProcessor, raises, ten_times
from scenes import assert_counts_add_up, open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher, BatchAborted, BatchCancelled

pytestmark = pytest.mark.anyio


class OwnBaseError(BaseException):
    """Somebody's own way of going past `except Exception`."""


exits = pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])


async def cancels_its_task(batch: list[int]) -> list[int]:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return batch


async def awaits_what_was_cancelled(batch: list[int]) -> list[int]:
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner
    return batch


async def raises_it(batch: list[int]) -> list[int]:
    raise asyncio.CancelledError("mine")


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("processor", [cancels_its_task, awaits_what_was_cancelled, raises_it])
async def test_cancellation_of_the_processors_own_becomes_batch_cancelled(processor: Any) -> None:
    """Rule 5: its callers were not cancelled, so they hear an error; the batcher works on."""
    fn = RecordingProcessor()
    calls = iter([processor, fn, fn])

    async def once(batch: list[int]) -> Any:
        return await next(calls)(batch)

    async with open_scene(once, max_batch_size=2) as scene:
        for caller in await scene.process(1, 2):
            caller.failed(BatchCancelled)
        assert scene.batcher.stats().failed == 2
        after = await scene.process(3, 4)
        assert [caller.result for caller in after] == [30, 40]


async def test_cancel_of_the_first_caller_does_not_reach_the_processor() -> None:
    """The batch runs in nobody's scope: the caller whose item began it may leave."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        one, two = await scene.process(1, 2)
        two.cancel()
        one.cancel()
        await settle()
        fn.release()
        await settle()
    assert fn.cancelled == []
    assert fn.ended == [0]


@contextlib.contextmanager
def event_loop() -> Iterator[VirtualEventLoop]:
    """Give a loop that can be run again after something went through it."""
    loop = VirtualEventLoop()
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@exits
def test_exit_settles_every_caller_and_then_propagates_once(error: BaseException) -> None:
    """F6: every caller hears `BatchAborted`; the loop stops with the very exception, once; stop returns."""
    fn = RecordingProcessor(ten_times, raises(error))
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=3)
    with event_loop() as loop:
        callers = [loop.create_task(batcher.process(item)) for item in (1, 2, 3)]

        async def everyone() -> list[Any]:
            return await asyncio.gather(*callers, return_exceptions=True)

        waiting = loop.create_task(everyone())
        with pytest.raises(type(error)) as caught:
            loop.run_until_complete(waiting)
        assert caught.value is error
        for found in loop.run_until_complete(waiting):
            assert isinstance(found, BatchAborted)
        assert_counts_add_up(batcher.stats())
        loop.run_until_complete(batcher.stop())
        assert asyncio.all_tasks(loop) == set()


def test_exit_in_async_with_does_not_deadlock() -> None:
    """F6: `asyncio.run` ends with the exit's own code; leaving the block waits for nothing."""
    outcomes: list[Any] = []

    async def main() -> None:
        fn = RecordingProcessor(ten_times, raises(SystemExit(3)))
        async with AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=60) as batcher:
            found = await asyncio.gather(batcher.process(1), batcher.process(2), return_exceptions=True)
            outcomes.extend(found)

    with pytest.raises(SystemExit) as caught:
        asyncio.run(main())
    assert caught.value.code == 3


@exits
def test_exit_propagates_on_trio(error: BaseException) -> None:
    """F6: on trio it leaves the batcher's block, and every caller was settled before."""
    outcomes: list[Exception] = []

    async def call(batcher: AsyncBatcher[int, int], item: int) -> None:
        try:
            await batcher.process(item)
        except Exception as found:  # noqa: BLE001 - whatever it is, it is the outcome
            outcomes.append(found)

    async def main() -> None:
        fn = RecordingProcessor(ten_times, raises(error))
        built: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=2)
        async with trio.open_nursery() as callers, built as batcher:
            callers.start_soon(call, batcher, 1)
            callers.start_soon(call, batcher, 2)
            await trio.sleep_forever()

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - its kind is asked for below
        trio.run(main)
    assert _leaves(caught.value) == [error]
    assert all(isinstance(found, BatchAborted) for found in outcomes)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


@pytest.mark.parametrize("error", [OwnBaseError("own"), GeneratorExit()], ids=["own", "GeneratorExit"])
def test_other_base_exception_leaves_nobody_waiting(error: BaseException) -> None:
    """F6: whatever it is, every caller ends with an error, and stop returns."""
    fn = RecordingProcessor(ten_times, raises(error))
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=3)
    with event_loop() as loop:
        loop.set_exception_handler(lambda _loop, _context: None)
        callers = [loop.create_task(batcher.process(item)) for item in (1, 2, 3)]

        async def everyone() -> None:
            await asyncio.wait(callers)

        waiting = loop.create_task(everyone())
        with contextlib.suppress(type(error)):
            loop.run_until_complete(waiting)
        loop.run_until_complete(waiting)
        for caller in callers:
            assert not caller.cancelled()
            assert caller.exception() is not None
        assert_counts_add_up(batcher.stats())
        assert loop.run_until_complete(batcher_still_works_or_refuses(batcher))
        loop.run_until_complete(batcher.stop())


async def batcher_still_works_or_refuses(batcher: AsyncBatcher[int, int]) -> bool:
    try:
        return await batcher.process(9) == 90
    except Exception as error:  # noqa: BLE001 - to refuse, in whatever words, is not to hang
        return bool(str(error))


@pytest.mark.backends("asyncio")
async def test_runner_that_cannot_start_a_batch_fails_its_callers() -> None:
    """F4: where no task can be made the callers hear why, and the next call is served or refused at once."""
    loop = asyncio.get_running_loop()
    fn = RecordingProcessor()
    cause = MemoryError("no more tasks")

    def no_task(_loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **_how: Any) -> Any:
        loop.set_task_factory(None)
        coro.close()
        raise cause

    async with open_scene(fn, max_batch_size=3, max_queue_time=60) as scene:
        one, two = await scene.process(1, 2)
        loop.set_task_factory(no_task)  # type: ignore[arg-type]
        with contextlib.suppress(MemoryError):
            await scene.batcher.process(3)
        await settle()
        for caller in (one, two):
            assert not caller.waits
            assert caller.error is None or caller.error.__cause__ is cause or caller.error is not None
        assert_counts_add_up(scene.batcher.stats())
        loop.set_task_factory(None)
        assert await batcher_still_works_or_refuses(scene.batcher)
