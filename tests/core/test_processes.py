"""A sync processor in a process pool: results, errors, and a worker that dies (contract, `executor`)."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import anyio
import pytest
from blocking import PATIENCE
from scenes import open_scene
from sync_processors import by_first_item

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, pytest.mark.backends("asyncio", "trio")]


async def test_batch_runs_in_another_process_and_outlives_its_faults() -> None:
    """F1, F3, O3: an error, a `StopIteration`, what cannot be pickled, a killed worker: each caller is told."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        async with open_scene(by_first_item, executor=pool, max_batch_size=1) as scene:
            with anyio.fail_after(PATIENCE):
                assert await scene.batcher.process(5) == 15
                with pytest.raises(RuntimeError) as stopped:
                    await scene.batcher.process(0)
                assert isinstance(stopped.value.__cause__, StopIteration)
                with pytest.raises(LookupError, match="in another process"):
                    await scene.batcher.process(1)
                with pytest.raises((TypeError, AttributeError)):
                    await scene.batcher.process(lambda: "cannot be pickled")
                assert await scene.batcher.process(6) == 18
                for item in (2, 7):
                    with pytest.raises(BrokenProcessPool):
                        await scene.batcher.process(item)
        assert scene.batcher.stats().failed == 5
