"""An item that is alone where a slot is free and there is no window: it leaves as it comes, by a way of its own.

The rules are those of the long way in, so here each is asked of the short one: `max_queue_time=0`, nobody else there.
"""

import asyncio
from typing import Any

import pytest
from collector_model import Wait
from complaints import Complaints, event_loop
from recording import RecordingProcessor
from scenes import assert_counts_add_up, assert_nothing_left, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, BatchEvent
from async_batcher._collector import Collector
from async_batcher._options import Options

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "due"), ({"max_batch_size": 1}, "full"), ({"max_queue_size": 1}, "full")],
    ids=["due", "full at its size", "full, as the queue is"],
)
async def test_lone_item_says_why_it_left(options: dict[str, Any], reason: str) -> None:
    """As any batch of one: it is full where one item fills it, or the queue; else its window of nothing is over."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, on_batch=events.append, **options) as scene:
        assert await scene.batcher.process(1) == 10
        await settle()
        (event,) = events
        assert (event.reason, event.size, event.succeeded) == (reason, 1, 1)
        assert event.oldest_queue_seconds == event.mean_queue_seconds == 0
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.succeeded, stats.batches) == (1, 1, 1)
        assert_nothing_left(stats)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_lone_items_take_the_slots_there_are(concurrency: int) -> None:
    """Each takes one; who comes behind them waits, and shares the next batch."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_queue_time=0, concurrency=concurrency) as scene:
        callers = await scene.process(*range(5))
        stats = scene.batcher.stats()
        assert (stats.running, stats.waiting) == (concurrency, 5 - concurrency)
        fn.release()
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == [0, 10, 20, 30, 40]
    assert fn.batches == [*([item] for item in range(concurrency)), list(range(concurrency, 5))]


async def test_lone_item_waits_where_there_is_a_window() -> None:
    """A slot is free, and it is alone: company may come still."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=5) as scene:
        callers = [scene.start_process(item) for item in range(2)]
        await scene.end_of(*callers)
    assert fn.batches == [[0, 1]]


async def test_lone_item_is_refused_by_a_stopped_batcher() -> None:
    """Nothing waits, and a slot is free; it is not accepted all the same."""
    async with open_scene(RecordingProcessor(), max_queue_time=0) as scene:
        assert await scene.batcher.process(1) == 10
        await scene.batcher.stop()
        with pytest.raises(BatcherStopped):
            await scene.batcher.process(2)
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.rejected) == (1, 1)


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves at once"])
async def test_caller_of_a_lone_item_may_leave(leaves: bool) -> None:
    """Before its batch has begun, the processor never sees it; and who comes next is served either way."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0) as scene:
        submission = await scene.batcher.submit(1)
        assert submission.withdraw() is True
        if not leaves:
            await settle()
        assert await scene.batcher.process(2) == 20
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.withdrawn, stats.succeeded, stats.batches) == (2, 1, 1, 1)
    assert fn.batches == [[2]]


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
async def test_loop_that_starts_no_task_costs_a_lone_item_no_slot(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller is told what the loop raised; the slot is free for the next."""
    batcher = AsyncBatcher[int, int].from_callable(RecordingProcessor(), max_queue_time=0)
    loop = asyncio.get_running_loop()

    def fails(coroutine: Any, **_: object) -> None:
        raise error("no task")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "create_task", fails)
        with pytest.raises(error, match="no task"):
            await batcher.process(1)
    assert await batcher.process(2) == 20
    stats = batcher.stats()
    assert_counts_add_up(stats)
    assert (stats.accepted, stats.succeeded, stats.running) == (2, 1, 0)
    await batcher.stop()


@pytest.mark.backends("asyncio")
async def test_lone_item_costs_the_loop_two_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of its batch's task, and its caller woken: a batch that ended by itself tells the loop nothing more."""
    batcher = AsyncBatcher[int, int].from_callable(RecordingProcessor(), max_queue_time=0)
    assert await batcher.process(1) == 10
    await settle()
    loop = asyncio.get_running_loop()
    heard: list[Any] = []
    call_soon = loop.call_soon

    def counted(callback: Any, *args: Any, **how: Any) -> asyncio.Handle:
        heard.append(callback)
        return call_soon(callback, *args, **how)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon", counted)
        assert await batcher.process(2) == 20
    assert len(heard) == 2, heard
    await batcher.stop()


def test_what_is_noted_of_a_lone_caller_goes_with_its_batch() -> None:
    """As of any other: a tracer finds it there."""
    collector = Collector(Options(max_queue_time=0))
    waiter, note = Wait("caller"), object()
    batch = collector.take_lone(1, waiter, 0.0, note)
    assert batch is not None
    assert list(batch.remembered()) == [note]


def test_batch_that_ends_the_program_is_not_complained_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of an item alone too: it goes through the loop once, and nobody logs that its task raised."""
    complaints = Complaints(caplog)

    async def ends(_: list[int]) -> list[int]:
        raise SystemExit(3)

    batcher = AsyncBatcher[int, int].from_callable(ends, max_queue_time=0)
    with event_loop(complaints, tidy=True) as loop, pytest.raises(SystemExit):
        loop.run_until_complete(batcher.process(1))
    complaints.check_there_are_none()
