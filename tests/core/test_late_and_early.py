"""A loop's clock is coarse, and a stop may be given up: neither makes a batcher spin or grow."""

import asyncio
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import VirtualEventLoop

from async_batcher import AsyncBatcher, ItemExpired

pytestmark = pytest.mark.anyio


class CoarseLoop(VirtualEventLoop):
    """Rings what is due within half a second."""

    def __init__(self) -> None:
        super().__init__()
        setattr(self, "_clock_resolution", 0.5)  # noqa: B010  (typeshed has it not)


async def process_with_an_early_ring(fn: RecordingProcessor, options: dict[str, Any]) -> tuple[Any, float]:
    """Process one item at 0, due at 1, while something wakes the loop at 0.75; say what came of it, and when."""
    loop = asyncio.get_running_loop()
    loop.call_at(0.75, lambda: None)
    async with AsyncBatcher.from_callable(fn, **options) as batcher:
        outcome: Any = (await asyncio.gather(batcher.process(1), return_exceptions=True))[0]
        ended_at = loop.time()
        fn.release()
    return outcome, ended_at


def test_window_that_ends_within_the_clocks_resolution_has_ended() -> None:
    """The timer rings early and is taken at its word: to set it again would spin until the clock gets there."""
    fn = RecordingProcessor()
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(process_with_an_early_ring(fn, {"max_queue_time": 1})) == (10, 0.75)


def test_item_that_expires_within_the_clocks_resolution_has_expired() -> None:
    """Likewise, though its window is longer."""
    fn = RecordingProcessor()
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        options = {"max_queue_time": 60, "expires_after": 1}
        outcome, ended_at = runner.run(process_with_an_early_ring(fn, options))
    assert isinstance(outcome, ItemExpired)
    assert ended_at == 0.75
    assert fn.batches == []


async def test_stops_that_are_given_up_leave_nothing_behind() -> None:
    """However often a stop times out, or is cancelled, beside a batch that hangs."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        await scene.process(1)
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await scene.batcher.stop(timeout=0.5)
            with anyio.move_on_after(0.5):
                await scene.batcher.stop()
        assert len(scene.batcher._runner._quiet_waiters) == 0
        fn.release()
        await scene.batcher.stop()
