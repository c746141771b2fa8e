"""Whoever waits for a slot is served when it comes back, whatever happened as its batch's callers were told."""

import anyio
import pytest
from own_faults import FAULTS, faulty
from recording import RecordingProcessor
from virtual_time import settle

from async_batcher import AsyncBatcher, _serving
from async_batcher._serving import Serving

pytestmark = pytest.mark.anyio

PATIENCE = 1000


@pytest.mark.backends("asyncio")  # on trio a fault in a system task ends the run, and rightly
@pytest.mark.parametrize("error", FAULTS)
@pytest.mark.parametrize("fault", ["telling the rest", "telling an error"])
@pytest.mark.parametrize("waiting", [1, 3])
async def test_those_who_wait_go_on_whatever_telling_the_rest_raises(
    error: type[BaseException], fault: str, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is ours; those who wait for the slot are served all the same."""
    fn = RecordingProcessor(lambda batch: batch)
    fn.hold()
    batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(fn, max_batch_size=1, max_queue_time=0)
    await batcher.submit(0)
    await fn.begun(1)
    behind = [await batcher.submit(item) for item in range(1, 1 + waiting)]
    with monkeypatch.context() as patch:
        patch.setattr(_serving, "deliver", faulty(RuntimeError))
        if fault == "telling the rest":
            patch.setattr(Serving, "_tell_rest", faulty(error))
        else:
            patch.setattr(_serving, "deliver_error", faulty(error))
        fn.release(0)
        await settle()
    fn.release()
    with anyio.fail_after(PATIENCE):
        assert [await submission for submission in behind] == list(range(1, 1 + waiting))
        assert await batcher.process(9) == 9
        await batcher.stop()
