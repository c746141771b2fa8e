"""`process_many` that ends early: cancelled, by its own source, by items that are refused, by a stop."""

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from recording import RecordingProcessor, raises, ten_times
from scenes import Scene, assert_counts_add_up, enter_scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped
from async_batcher._batcher import FunctionBatcher

pytestmark = pytest.mark.anyio


async def test_cancelled_list_withdraws_what_waits() -> None:
    """What runs is abandoned, what waits is withdrawn, and the rest is never sent; others notice nothing."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(100)))
        await settle()
        (other,) = await scene.process(500)
        many.cancel()
        await settle()
        assert many.was_cancelled
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.withdrawn, stats.abandoned, stats.waiting) == (5, 2, 2, 1)
        assert_counts_add_up(stats)
        fn.release()
        await other.end()
        assert other.result == 5000
    assert fn.batches == [[0, 1], [500]]


async def test_list_cancelled_in_line_leaves_the_line() -> None:
    """The item at the door was never accepted, and its place in the line goes to the next."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        await scene.process("x", "y")
        many = scene.start(partial(scene.batcher.process_many, ["a", "b"]))
        await settle()
        (behind,) = await scene.process("z")
        assert scene.batcher.stats().in_line == 2
        many.cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.in_line, stats.accepted, stats.withdrawn) == (1, 2, 0)
        fn.release()
        await behind.end()
    assert fn.seen == ["x", "y", "z"]


async def test_cancelled_in_the_tick_in_which_its_item_gets_a_place() -> None:
    """The place is given back, and the processor never sees the item."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0) as scene:
        await scene.process("x")
        waits = await scene.batcher.submit("y")
        many = scene.start(partial(scene.batcher.process_many, ["a", "b"], max_pending=2))
        await settle()
        assert scene.batcher.stats().in_line == 1
        waits.withdraw()
        many.cancel_task()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.waiting, stats.in_line, stats.withdrawn) == (0, 0, 2)
        assert_counts_add_up(stats)
        fn.release()
    assert fn.seen == ["x"]


async def test_cancelled_in_the_tick_in_which_a_batch_ends() -> None:
    """A result on the way does not keep it: it ends as cancelled, and nothing more is sent."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(100)))
        await settle()
        fn.release(0)
        many.cancel_task()
        await settle()
        assert many.was_cancelled
        assert_counts_add_up(scene.batcher.stats())
        assert scene.batcher.stats().accepted <= 6
        fn.release()
    assert fn.seen in ([0, 1], [0, 1, 2, 3])


async def test_withdrawing_starts_no_batch_of_what_is_withdrawn() -> None:
    """The first to be withdrawn lets an overdue batch leave: none of the others may be in it."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=5) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(4)))
        await settle()

        def cancel_when_due() -> None:
            many.cancel_task()

        await anyio.sleep(5)  # the timer and this one ring together
        cancel_when_due()
        await settle()
        stats = scene.batcher.stats()
        assert stats.withdrawn + stats.abandoned + stats.succeeded == 4
        assert_counts_add_up(stats)
        assert len(fn.seen) == stats.abandoned + stats.succeeded


async def test_source_that_raises_ends_the_job() -> None:
    """What waits is withdrawn, what runs is abandoned, and the source's own error is raised."""
    fn = RecordingProcessor()
    fn.hold()

    def items() -> Iterator[int]:
        yield from range(5)
        raise LookupError("the source")

    async with open_scene(fn, max_batch_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, items(), max_pending=4))
        await settle()
        fn.release(0)
        await settle()
        many.failed(LookupError)
        stats = scene.batcher.stats()
        assert (stats.waiting, stats.withdrawn + stats.abandoned + stats.succeeded) == (0, 4)
        fn.release()
    assert 4 not in fn.seen


async def test_source_that_raises_at_once() -> None:
    """Nothing was sent, and nothing is left."""

    def fail(_: int) -> int:
        raise LookupError("the source")

    fn = RecordingProcessor()
    async with open_scene(fn) as scene:
        with pytest.raises(LookupError):
            await scene.batcher.process_many(map(fail, [1]))
        assert scene.batcher.stats().accepted == 0


async def test_stop_drains_what_was_sent_and_refuses_the_rest() -> None:
    """An orderly stop half-way: the rest fails with `BatcherStopped`, each item its own."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(8), return_exceptions=True))
        await settle()
        await scene.stop()
        fn.release()
        await many.end()
        results = many.result
        assert results[:4] == [0, 10, 20, 30]
        assert all(type(result) is BatcherStopped and result.withdrawn for result in results[4:])
        assert len(results) == 8
    assert fn.seen == [0, 1, 2, 3]


async def test_forced_stop_tells_every_item() -> None:
    """What ran has `withdrawn` false, what waited or was never sent has it true."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(10), max_pending=8))
        await settle()
        await scene.stop(force=True)
        await many.end()
        group = many.failed(ExceptionGroup)
        assert str(group) == "10 of 10 items failed (10 sub-exceptions)"
        assert [error.withdrawn for error in group.exceptions if isinstance(error, BatcherStopped)] == [
            False,
            False,
            *[True] * 8,
        ]
        assert_counts_add_up(scene.batcher.stats())


async def test_stopped_batcher_refuses_a_list_at_once() -> None:
    """Nothing of it was accepted: it is told as one item is."""
    async with open_scene(RecordingProcessor()) as scene:
        await scene.batcher.stop()
        with pytest.raises(BatcherStopped):
            await scene.batcher.process_many([1, 2])


async def test_stop_with_a_long_list_lets_the_loop_go_round() -> None:
    """Even when every item is refused at once, other tasks run between the portions."""
    fn = RecordingProcessor()
    fn.hold()
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while many.waits:
            rounds += 1
            await anyio.lowlevel.checkpoint()

    async with open_scene(fn, max_batch_size=1) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(200), return_exceptions=True))
        await settle()
        await scene.stop()
        fn.release()
        await scene.start(count).end()
        assert len(many.result) == 200
    assert rounds > 20


async def test_processor_that_calls_its_own_batcher_is_refused() -> None:
    """With no slot left it would wait for itself."""

    async def fn(batch: list[int]) -> list[Any]:
        return await batcher.process_many(batch)

    async with open_scene(fn, max_batch_size=1) as scene:
        batcher = scene.batcher
        with pytest.raises(RuntimeError, match="own batcher"):
            await batcher.process(1)


async def test_processor_with_a_slot_left_may_process_a_list() -> None:
    """A second slot serves it."""
    inner = RecordingProcessor()

    async def fn(batch: list[int]) -> list[Any]:
        if batch == [100]:
            return [await batcher.process_many([1, 2, 3])]
        await inner(batch)
        return ten_times(batch)

    async with open_scene(fn, max_batch_size=1, concurrency=2) as scene:
        batcher = scene.batcher
        assert await batcher.process(100) == [10, 20, 30]


async def test_keeps_nothing_when_it_has_ended() -> None:
    """Neither an idle batcher nor the error that was raised keeps items or results alive."""

    class Payload:
        pass

    alive: weakref.WeakSet[Payload] = weakref.WeakSet()

    def payload() -> Payload:
        made = Payload()
        alive.add(made)
        return made

    async def fn(batch: list[Any]) -> list[Any]:
        return [ValueError("no") if index % 2 else payload() for index, _ in enumerate(batch)]

    async def answers(batch: list[Any]) -> list[Any]:
        return [payload() for _ in batch]

    gc.disable()  # a circle would be found by its absence
    try:
        async with open_scene(fn, max_batch_size=4) as scene, open_scene(answers, max_batch_size=4) as other:
            plain = other.batcher
            with pytest.raises(ExceptionGroup) as caught:
                await scene.batcher.process_many(payload() for _ in range(16))
            await settle()
            assert len(caught.value.exceptions) == 8
            assert len(alive) == 0
            await plain.process_many(payload() for _ in range(16))
            await settle()
            assert len(alive) == 0
    finally:
        gc.enable()


async def processed_in_time(scene: Scene[AsyncBatcher[int, int]]) -> list[int]:
    with anyio.fail_after(1):
        return await scene.batcher.process_many(range(100))


async def test_timeout_around_a_list_leaves_the_batcher_usable() -> None:
    """The usual way in which it is cancelled: and the next list is served."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=4) as scene:
        with pytest.raises(TimeoutError):
            await processed_in_time(scene)
        fn.release()
        assert await scene.batcher.process_many(range(9)) == ten_times(range(9))


async def test_error_of_one_batch_is_not_the_end_of_the_others() -> None:
    """A failed batch half-way: all that comes after is processed."""
    fn = RecordingProcessor()
    fn.script.append(raises(OSError("backend")))
    async with open_scene(fn, max_batch_size=2) as scene:
        with pytest.raises(ExceptionGroup) as caught:
            await scene.batcher.process_many(range(6))
        assert [type(error) for error in caught.value.exceptions] == [OSError, OSError]
    assert fn.seen == list(range(6))


class SlotThatIsLeftSlowly:
    """A shared slot that is entered at once, and given back only when the test says."""

    def __init__(self) -> None:
        self.gate = anyio.Event()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        await self.gate.wait()


async def test_forced_stop_while_a_delivered_batch_gives_its_slot_back() -> None:
    """Items that were sent later have nothing to do with a batch that is settled and has not ended yet."""
    fn, slots = RecordingProcessor(), SlotThatIsLeftSlowly()
    batcher: AsyncBatcher[int, int] = FunctionBatcher(fn, {"max_batch_size": 1, "concurrency": 8}, slots)
    async with enter_scene(batcher, fn) as scene:
        many = scene.start(partial(batcher.process_many, range(20), max_pending=2))
        await settle()
        assert len(fn.batches) == 8, "the slots are all taken"
        assert_counts_add_up(batcher.stats())
        stop = await scene.stop(force=True)
        slots.gate.set()
        await scene.end_of(many, stop)
        group = many.failed(ExceptionGroup)
        assert len(group.exceptions) == 12
        assert_counts_add_up(batcher.stats())
        assert (batcher.stats().succeeded, batcher.stats().stopped) == (8, 2)
