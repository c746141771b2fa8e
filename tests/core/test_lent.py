"""What a caller or an owner lends stays theirs: a caller's context, a pool's threads, an item that is itself a list."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import anyio
import anyio.to_thread
import pytest
from blocking import PATIENCE, BlockingProcessor
from scenes import open_scene

from async_batcher import AsyncBatcher, BatcherStopped, BatchEvent

pytestmark = pytest.mark.anyio

SPAN: ContextVar[str] = ContextVar("SPAN", default="nobody's")


async def test_callers_context_is_what_it_was_after_its_item_was_processed() -> None:
    """H2: no caller is the parent of all: what the processor or the observer sets is not seen by any of them."""

    async def fn(batch: list[int]) -> list[str]:
        seen = [SPAN.get()] * len(batch)
        SPAN.set("the batch's")
        return seen

    def observe(_: BatchEvent) -> None:
        SPAN.set("the observer's")

    async def call(name: str) -> None:
        SPAN.set(name)
        assert await batcher.process(1) == "nobody's"
        assert SPAN.get() == name
        assert await (await batcher.submit(2)) == "nobody's"
        assert SPAN.get() == name
        assert await batcher.process_many([3, 4, 5]) == ["nobody's"] * 3
        assert SPAN.get() == name

    batcher: AsyncBatcher[int, str] = AsyncBatcher.from_callable(fn, max_batch_size=2, on_batch=observe)
    async with batcher, anyio.create_task_group() as group:
        group.start_soon(call, "one's")
        group.start_soon(call, "two's")
    assert SPAN.get() == "nobody's"


@pytest.mark.real_time
async def test_forced_stop_raises_nothing_into_the_threads_of_a_lent_pool() -> None:
    """O6: the call that runs in it goes on to its own end, and the pool serves its owner as before."""
    fn = BlockingProcessor()
    with ThreadPoolExecutor(1) as pool:
        async with open_scene(fn, max_batch_size=1, executor=pool) as scene:
            caller = scene.start_process(1)
            await fn.begun()
            (thread,) = fn.threads
            await scene.batcher.stop(force=True)
            await caller.end()
            assert caller.failed(BatcherStopped).withdrawn is False
            fn.release()
        assert await anyio.to_thread.run_sync(fn.ended.acquire, True, PATIENCE), "it never got to its end"
        after = pool.submit(sum, [1, 2])
        assert await anyio.to_thread.run_sync(after.result, PATIENCE) == 3
        assert {ident.ident for ident in pool._threads} == {thread}


async def test_size_counts_items_also_where_an_item_is_itself_a_list() -> None:
    """L3: three lists of a hundred rows are three items; what bounds the rows is their weight."""
    sizes: list[list[int]] = []

    async def fn(batch: list[list[int]]) -> list[int]:
        sizes.append([len(rows) for rows in batch])
        return [sum(rows) for rows in batch]

    rows = [1] * 100
    async with AsyncBatcher.from_callable(fn, max_batch_size=2) as batcher:
        assert await batcher.process_many([rows, rows, rows]) == [100, 100, 100]
    assert sizes == [[100, 100], [100]]
    sizes.clear()
    async with AsyncBatcher.from_callable(fn, max_batch_size=2, weigh=len, max_batch_weight=150) as weighing:
        assert await weighing.process_many([rows, rows, rows]) == [100, 100, 100]
    assert sizes == [[100], [100], [100]]
