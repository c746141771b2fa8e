"""What happens in the last turn of a loop that is then closed is counted, and holds nothing on the next."""

import asyncio
import gc
from typing import Any

import pytest
from holding import Holding
from scenes import assert_nothing_left
from virtual_time import run_virtual

from async_batcher import AsyncBatcher, BatcherGroups
from async_batcher._queue import Row


def cancel_in_the_last_turn(batcher: "AsyncBatcher[int, int] | BatcherGroups[Any, int, int]") -> None:
    """Cancel a caller of a running batch so late that its task never has its turn."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # "Task was destroyed but it is pending"
    caller = loop.create_task(batcher.process(1))
    for _ in range(5):
        loop.run_until_complete(asyncio.sleep(0))

    def last_turn() -> None:
        caller.cancel()
        loop.stop()

    assert batcher.stats().running == 1
    loop.call_soon(last_turn)
    loop.run_forever()
    loop.close()


def test_caller_cancelled_in_the_last_turn_does_not_run_for_ever() -> None:
    """On the next loop nothing is left of it but a count."""
    fn = Holding()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1)
    cancel_in_the_last_turn(batcher)
    fn.held = False
    assert run_virtual(lambda: batcher.process(2)) == 20
    assert_nothing_left(batcher.stats())


def test_group_of_a_caller_cancelled_in_the_last_turn_makes_room() -> None:
    """Its key is not in use on the next loop."""
    fn = Holding()
    groups: BatcherGroups[int, int, int] = BatcherGroups(
        fn.serve, group_key=lambda item: item, max_groups=1, max_batch_size=1
    )
    cancel_in_the_last_turn(groups)
    fn.held = False
    assert run_virtual(lambda: groups.process(2)) == 20
    assert_nothing_left(groups.stats())


def test_callers_of_a_closed_loop_may_be_thrown_away_in_the_middle_of_an_admission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage collector runs where it likes: what it throws away changes nothing on the next loop."""
    fn = Holding()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=2, max_queue_time=1)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # "Task was destroyed but it is pending"
    callers = [loop.create_task(batcher.process(number)) for number in range(8)]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    new_tail = Row._new_tail

    def collect_and_renew(row: Row) -> None:
        callers.clear()
        gc.collect()
        new_tail(row)

    async def use() -> None:
        assert await batcher.process(1) == 10
        monkeypatch.setattr(Row, "_new_tail", collect_and_renew)
        results = await asyncio.gather(*(batcher.process(number) for number in range(2, 9)))
        assert results == list(range(20, 90, 10))

    fn.held = False
    gc.disable()
    try:
        run_virtual(use)
    finally:
        gc.enable()
    assert_nothing_left(batcher.stats())
