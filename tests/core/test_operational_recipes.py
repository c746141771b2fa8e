"""`Intake.process`: one caller's deadline, and what it says of sending again.

The other recipes' tests are in `tests/examples`: a file each for the intake's shutdown, the backend's deadline,
the exporter and the groups.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from blocking import PATIENCE
from intakes import _current, bad_timeouts, shout, through
from recording import RecordingProcessor
from scenes import assert_counts_add_up, open_scene

from async_batcher import (
    AsyncBatcher,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    ItemWithdrawn,
    QueueFull,
    TooManyGroups,
)
from examples.recipes.operations import Intake, ResponseDeadlineExceeded

pytestmark = pytest.mark.anyio


async def test_a_deadline_in_the_queue_withdraws_the_item() -> None:
    """While another batch runs: `withdrawn` is true, the place is free at once, the processor never sees it."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        running, late = await through(Intake(scene.batcher), scene, (1, None), (2, 0.05))
        await late.end()
        assert late.ended_at == pytest.approx(0.05)
        assert running.waits
        assert late.failed(ResponseDeadlineExceeded).withdrawn is True
        assert (scene.batcher.stats().waiting, scene.batcher.stats().withdrawn) == (0, 1)
        fn.release()
    assert fn.seen == [1]


async def test_a_deadline_in_line_withdraws_the_item() -> None:
    """Waiting for room is part of the wait: not accepted, and those behind it move up."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, on_full="wait") as scene:
        callers = await through(Intake(scene.batcher), scene, (1, None), (2, None), (3, 0.05), (4, None))
        await callers[2].end()
        assert callers[2].failed(ResponseDeadlineExceeded).withdrawn is True
        assert scene.batcher.stats().in_line == 1
        fn.release()
        await scene.end_of(*callers)
    assert fn.seen == [1, 2, 4]


async def test_a_deadline_in_a_running_batch_leaves_the_outcome_open() -> None:
    """`withdrawn` is false, the batch goes on, the siblings get their results, the result is dropped."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=3) as scene:
        callers = await through(Intake(scene.batcher), scene, (1, None), (2, 0.05), (3, 60))
        await callers[1].end()
        assert callers[1].failed(ResponseDeadlineExceeded).withdrawn is False
        fn.release()
        await scene.end_of(*callers)
        assert (callers[0].result, callers[2].result) == (10, 30)
    assert fn.batches == [[1, 2, 3]]
    assert (scene.batcher.stats().succeeded, scene.batcher.stats().abandoned) == (2, 1)


async def test_enqueue_and_response_deadlines_both_fire_while_the_backend_is_busy() -> None:
    """Each at its own time and as its own error."""
    fn = RecordingProcessor()
    fn.hold()
    options: dict[str, Any] = {"max_queue_size": 1, "on_full": "wait", "enqueue_timeout": 0.05}
    async with open_scene(fn, max_batch_size=1, **options) as scene:
        intake = Intake(scene.batcher)
        _, queued, in_line = await through(intake, scene, (1, None), (2, 0.08), (3, None))
        await scene.end_of(queued, in_line)
        in_line.failed(EnqueueTimeout)
        assert in_line.ended_at == pytest.approx(0.05)
        queued.failed(ResponseDeadlineExceeded)
        assert queued.ended_at == pytest.approx(0.08)
        fn.release()


async def test_the_processors_own_timeout_error_stays_what_it_is() -> None:
    """It is no deadline of ours, with and without one."""

    async def processor(items: list[int]) -> list[int]:
        raise TimeoutError("the driver's")

    async with open_scene(processor, max_batch_size=2) as scene:
        callers = await through(Intake(scene.batcher), scene, (1, None), (2, 60))
        await scene.end_of(*callers)
        assert [type(caller.failed(TimeoutError)) for caller in callers] == [TimeoutError] * 2


async def test_a_response_deadline_inside_the_processor_is_not_taken_for_this_one() -> None:
    """This item has been in its processor: a plain `TimeoutError`, which says nothing of sending again."""
    gate, seen = anyio.Event(), list[int]()

    async def busy(items: list[int]) -> list[int]:
        await gate.wait()
        return items

    async with open_scene(busy, max_batch_size=1) as inner:
        inner_intake = Intake(inner.batcher)
        await inner.process(0)

        async def processor(items: list[int]) -> list[int]:
            seen.extend(items)
            return [await inner_intake.process(item, response_timeout=1) for item in items]

        async with open_scene(processor) as scene:
            [caller] = await through(Intake(scene.batcher), scene, (1, 5))
            await caller.end()
        error = caller.failed(TimeoutError)
        assert not isinstance(error, ResponseDeadlineExceeded)
        assert isinstance(error.__cause__, ResponseDeadlineExceeded)
        assert seen == [1]
        gate.set()


async def test_a_stop_inside_the_processor_does_not_say_that_this_item_was_never_processed() -> None:
    """A batcher of the processor's own has stopped: `withdrawn` is false. This one's own stop stays true."""
    stopped = AsyncBatcher.from_callable(shout)
    await stopped.stop()
    fn = RecordingProcessor()

    async def processor(items: list[int]) -> list[int]:
        await fn(items)
        return [await stopped.process(item) for item in items]

    async with open_scene(processor, max_batch_size=1) as scene:
        intake = Intake(scene.batcher)
        [ran] = await through(intake, scene, (1, None))
        await ran.end()
        assert ran.failed(BatcherStopped).withdrawn is False
        assert isinstance(ran.failed(BatcherStopped).__cause__, BatcherStopped)
        fn.hold()
        running, waiting = await through(intake, scene, (2, None), (3, None))
        await scene.batcher.stop(force=True)
        await scene.end_of(running, waiting)
        assert [caller.failed(BatcherStopped).withdrawn for caller in (running, waiting)] == [False, True]
        assert [caller.failed(BatcherStopped).__cause__ for caller in (running, waiting)] == [None, None]
    assert fn.seen == [1, 2]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (QueueFull("full"), RuntimeError),
        (TooManyGroups("many"), RuntimeError),
        (ItemTooHeavy("heavy"), RuntimeError),
        (ItemWithdrawn("gone"), RuntimeError),
        (ItemExpired("old"), TimeoutError),
        (EnqueueTimeout("long"), TimeoutError),
        (ResponseDeadlineExceeded("late", withdrawn=True), TimeoutError),
        (ResponseDeadlineExceeded("late", withdrawn=False), TimeoutError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
@pytest.mark.parametrize("where", ["for the batch", "in an item's place"])
async def test_a_refusal_inside_the_processor_is_not_taken_for_this_batchers(
    raised: Exception, told: type[Exception], where: str
) -> None:
    """`QueueFull` of the processor's own backend: it would read "never accepted", of an item that was processed."""

    async def processor(items: list[int]) -> list[Any]:
        if where == "for the batch":
            raise raised
        return [raised if item == 1 else item for item in items]

    async with open_scene(processor, max_batch_size=2) as scene:
        one, two = await through(Intake(scene.batcher), scene, (1, None), (2, 60))
        await scene.end_of(one, two)
    refused = [one, two] if where == "for the batch" else [one]
    for caller in refused:
        error = caller.failed(told)
        assert type(error) is told
        assert isinstance(error.__cause__, type(raised))
        assert str(raised) in str(error)
    assert len(refused) == 2 or two.result == 2


async def test_a_refusal_of_this_batchers_own_stays_what_it_is() -> None:
    """A full queue, a line that is too long, an item too old or too heavy: never processed, and it says so."""
    fn = RecordingProcessor()
    fn.hold()
    for options, refusal in (({}, QueueFull), ({"on_full": "wait", "enqueue_timeout": 1}, EnqueueTimeout)):
        async with open_scene(fn, max_batch_size=1, max_queue_size=1, **options) as scene:
            *accepted, refused = await through(Intake(scene.batcher), scene, (1, None), (2, None), (3, 60))
            await refused.end()
            assert type(refused.failed(refusal)) is refusal
            fn.release()
            await scene.end_of(*accepted)
        fn.hold()
    assert fn.seen == [1, 2] * 2
    async with open_scene(fn, max_batch_size=1, expires_after=1, weigh=abs, max_batch_weight=9) as scene:
        running, old, heavy = await through(Intake(scene.batcher), scene, (1, None), (2, 60), (10, 60))
        assert type(heavy.failed(ItemTooHeavy)) is ItemTooHeavy
        await old.end()
        assert type(old.failed(ItemExpired)) is ItemExpired
        fn.release()
        await running.end()
    assert fn.seen == [1, 2, 1, 2, 1]


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("after", [-1e-10, 0, 1e-10], ids=["first", "together", "second"])
@pytest.mark.parametrize("where", ["line", "queue", "batch"])
async def test_an_outside_cancellation_wins_over_the_response_deadline(after: float, where: str) -> None:
    """In the same tick, wherever the item is: cancelled, and the item leaves as its caller's."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, on_full="wait") as scene:
        intake = Intake(scene.batcher)
        await scene.process(*range({"batch": 0, "queue": 1, "line": 2}[where]))
        caught: list[type[BaseException]] = []

        async def call() -> int:
            try:
                await intake.process(9, response_timeout=1)
            except BaseException as error:  # noqa: BLE001  whatever it is, it is what the test is about
                caught.append(type(error))
            return _current().cancelling()

        loop, now = asyncio.get_running_loop(), anyio.current_time()
        task = asyncio.create_task(call())
        loop.call_at(now + 1 + after, task.cancel)
        assert await task == 1
        assert caught == [asyncio.CancelledError]
        fn.release()
    assert (9 in fn.seen) is (where == "batch")


async def test_an_outer_scope_wins_over_the_response_deadline() -> None:
    """The same deadline outside ends the call as a cancellation; nothing is withdrawn twice."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        intake = Intake(scene.batcher)
        await scene.process(1)
        with anyio.move_on_after(1) as outer:
            await intake.process(2, response_timeout=1)
        assert outer.cancelled_caught
        assert scene.batcher.stats().withdrawn == 1
        fn.release()
    assert fn.seen == [1]


async def test_a_result_in_the_tick_of_the_deadline_is_a_result_or_a_deadline() -> None:
    """Never both, never a hang, and the counts add up."""
    gate = anyio.Event()

    async def processor(items: list[int]) -> list[int]:
        await gate.wait()
        return items

    async with open_scene(processor, max_batch_size=1) as scene:
        [caller] = await through(Intake(scene.batcher), scene, (1, 1))
        await anyio.sleep_until(1)
        gate.set()
        await caller.end()
        if caller.error is not None:
            assert caller.failed(ResponseDeadlineExceeded).withdrawn is False
    assert_counts_add_up(scene.batcher.stats())


@bad_timeouts
async def test_a_bad_response_timeout_is_refused_before_anything_happens(value: Any) -> None:
    """A `ValueError`; the item goes nowhere."""
    fn = RecordingProcessor()
    async with open_scene(fn) as scene:
        with pytest.raises(ValueError, match="response_timeout must be a finite number of seconds over 0"):
            await Intake(scene.batcher).process(1, response_timeout=value)
        assert scene.batcher.stats().accepted == 0


@pytest.mark.backends("asyncio")
async def test_a_refused_timeout_does_not_eat_a_cancellation() -> None:
    """The task was cancelled before: the `ValueError` comes, and the cancellation at the next wait."""
    intake = Intake(AsyncBatcher.from_callable(shout))

    async def call() -> None:
        _current().cancel()
        with pytest.raises(ValueError, match="response_timeout"):
            await intake.process(1, response_timeout=0)
        await anyio.sleep(1)

    task = asyncio.create_task(call())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


async def test_a_response_deadline_ends_the_wait_for_a_thread() -> None:
    """A sync processor blocks its thread: the caller's deadline fires all the same, and the thread goes on.

    Time is virtual, and here it stands still until the thread has the item: then it jumps to the deadline.
    """
    let_go, began = threading.Event(), threading.Event()

    def processor(items: list[int]) -> list[int]:
        began.set()
        let_go.wait(PATIENCE)
        return items

    with ThreadPoolExecutor(1) as pool:
        async with open_scene(processor, executor=pool, max_batch_size=1) as scene:
            [caller] = await through(Intake(scene.batcher), scene, (1, 0.1))
            assert began.wait(PATIENCE)
            await caller.end()
            assert caller.failed(ResponseDeadlineExceeded).withdrawn is False
            assert caller.ended_at == pytest.approx(0.1)
            let_go.set()
            pool.submit(int).result()  # behind it, so it has been told of
        assert scene.batcher.stats().abandoned == 1
