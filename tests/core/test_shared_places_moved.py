"""A shared place that moves: it tops up an earlier batch, in which somebody left, and those who share it go with it."""

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import ItemExpired

pytestmark = pytest.mark.anyio


async def test_place_that_tops_up_a_batch_gives_each_of_its_callers_the_result() -> None:
    """Also where nobody in that batch shared a place before it came."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(
        fn, max_batch_size=2, max_queue_time=0, coalesce_key=lambda item: item if item > 2 else None
    ) as scene:
        running, one, two, three, again = await scene.process(0, 1, 2, 3, 3)
        two.cancel()
        await settle()
        fn.release()
        await scene.end_of(running, one, three, again)
        assert [caller.result for caller in (running, one, three, again)] == [0, 10, 30, 30]
    assert fn.batches == [[0], [1, 3]]


async def test_who_expired_never_ran_though_the_place_moved_and_ran_for_others() -> None:
    """An expired caller is told that sending again is safe; its submission goes on saying so."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, coalesce_key=lambda item: item) as scene:
        batcher = scene.batcher
        await batcher.submit(0)
        await settle()
        await batcher.submit(1)
        two = await batcher.submit(2)
        hasty = await batcher.submit(3, expires_after=0.5)
        other = await batcher.submit(3)
        await anyio.sleep(1)
        assert two.withdraw()
        fn.release()
        assert await other == 30
        with pytest.raises(ItemExpired):
            await hasty
        assert hasty.withdraw()
    assert fn.batches == [[0], [1, 3]]
