"""Items expire in time on a later event loop too, whose clock may be earlier, later, or the other library's."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from recording import RecordingProcessor
from scenes import enter_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher, ItemExpired

Batcher = AsyncBatcher[Any, Any]
Main = Callable[[], Coroutine[Any, Any, None]]


def on_asyncio(start: float, main: Main) -> None:
    """Run on a loop whose clock begins then."""

    def new_loop() -> VirtualEventLoop:
        loop = VirtualEventLoop()
        loop.set_time_aside(start)
        return loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def on_trio(start: float, main: Main) -> None:
    """Run on trio, whose clock is moved to then at once."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def begin() -> None:
        clock.jump(start)
        await main()

    trio.run(begin, clock=clock)


async def delivered(batcher: Batcher) -> None:
    """Leave nothing but what the clock of this loop was."""
    async with anyio.create_task_group() as group:
        for item in range(3):
            group.start_soon(partial(batcher.process, item, expires_after=50))


async def expires(batcher: Batcher, fn: RecordingProcessor, seconds: float) -> None:
    """Have items wait behind a busy backend: each must expire at its time, and one that is in time be served."""
    fn.hold()
    # `stop` is for good, so the batcher of a next loop is left by itself where it needs no block.
    async with anyio.create_task_group() as group:
        group.start_soon(batcher.process, 0)
        await settle()
        before = anyio.current_time()
        ends: list[float] = []
        for share in (1, 2):
            group.start_soon(expire, batcher, seconds * share, ends)
            await settle()
        group.start_soon(partial(batcher.process, "in time", expires_after=4 * seconds))
        await anyio.sleep(3 * seconds)
        assert ends == pytest.approx([before + seconds, before + 2 * seconds])
        fn.release()
    assert fn.seen[-1] == "in time"


async def expire(batcher: Batcher, seconds: float, ends: list[float]) -> None:
    with pytest.raises(ItemExpired):
        await batcher.process("late", expires_after=seconds)
    ends.append(anyio.current_time())


def new_batcher(**options: Any) -> tuple[RecordingProcessor, Batcher]:
    fn = RecordingProcessor(lambda batch: batch)
    return fn, AsyncBatcher.from_callable(fn, max_queue_time=0, **options)


starts = pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1000), (1000, 0), (1000, 20), (10, 1e6)])


@starts
@pytest.mark.parametrize("seconds", [0.5, 3000])
@pytest.mark.parametrize("key", [None, lambda item: item])
def test_items_expire_in_time_on_the_next_loop(first: float, second: float, seconds: float, key: Any) -> None:
    """What was delivered on the first is no reason to look at the clock of the second too late."""
    fn, batcher = new_batcher(coalesce_key=key)
    on_asyncio(first, lambda: delivered(batcher))
    on_asyncio(second, lambda: expires(batcher, fn, seconds))
    assert batcher.stats().expired == 2


@starts
def test_items_expire_in_time_after_some_expired_on_an_earlier_loop(first: float, second: float) -> None:
    """And on the third."""
    fn, batcher = new_batcher()
    for start in (first, second, first):
        on_asyncio(start, lambda: expires(batcher, fn, 10))
    assert batcher.stats().expired == 6


async def left_waiting(batcher: Batcher, fn: RecordingProcessor, tasks: list[Any]) -> None:
    """Leave one that runs and others that would expire later."""
    fn.hold()
    for item in range(3):
        tasks.append(asyncio.ensure_future(batcher.process(item, expires_after=100)))
        await settle()


@starts
def test_items_expire_in_time_after_a_loop_that_was_closed_with_others_waiting(
    first: float, second: float
) -> None:
    """Those it left behind never come up on the next, and their times are not looked at there."""
    fn, batcher = new_batcher()
    tasks: list[Any] = []
    on_asyncio(first, lambda: left_waiting(batcher, fn, tasks))
    on_asyncio(second, lambda: expires(batcher, fn, 10))
    assert batcher.stats().expired == 2


@starts
def test_window_is_in_time_on_the_next_loop(first: float, second: float) -> None:
    """As an age, it is reckoned by the clock of the loop that runs, and the age does not end before it."""

    async def waits() -> None:
        start = anyio.current_time()
        assert await batcher.process(1) == 1
        assert anyio.current_time() == pytest.approx(start + 5)

    batcher: Batcher = AsyncBatcher.from_callable(
        RecordingProcessor(lambda batch: batch), max_queue_time=5, expires_after=7
    )
    on_asyncio(first, waits)
    on_asyncio(second, waits)


@starts
def test_items_expire_in_time_on_trio_after_asyncio(first: float, second: float) -> None:
    """A loop of the other library's is a next one too; there a batcher works inside its block."""

    async def in_block() -> None:
        async with enter_scene(batcher):
            await expires(batcher, fn, 30)

    fn, batcher = new_batcher()
    on_asyncio(first, lambda: delivered(batcher))
    on_trio(second, in_block)
    assert batcher.stats().expired == 2


class Ringing(VirtualEventLoop):
    """Notes when it is to ring."""

    def __init__(self) -> None:
        super().__init__()
        self.rings: list[float] = []

    def call_at(self, when: float, *args: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.rings.append(when)
        return super().call_at(when, *args, **more)


def test_times_of_an_earlier_loop_are_no_reason_to_wake_another() -> None:
    """Also where that one is still open: nobody who waited there waits here."""
    _, batcher = new_batcher()
    earlier, loop = VirtualEventLoop(), Ringing()
    earlier.run_until_complete(delivered(batcher))
    loop.run_until_complete(batcher.process(1))
    assert loop.rings == []
    loop.run_until_complete(delivered(batcher))
    assert loop.rings, "here one is wanted, and it is heard"
    earlier.close()
    loop.close()


@starts
def test_items_expire_in_time_on_two_loops_in_turns(first: float, second: float) -> None:
    """Both stay open, and each has its own clock."""
    fn, batcher = new_batcher()
    loops = VirtualEventLoop(), VirtualEventLoop()
    for loop, start in zip(loops, (first, second), strict=True):
        loop.set_time_aside(start)
    for loop in (*loops, *loops):
        loop.run_until_complete(expires(batcher, fn, 10))
        loop.run_until_complete(delivered(batcher))
    assert batcher.stats().expired == 8
    for loop in loops:
        loop.close()
