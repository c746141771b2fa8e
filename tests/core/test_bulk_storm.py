"""Lists, maps and single callers at once, in random order: cancelled, left, failed, stopped.

The law: at every step the counts add up and no limit is passed; no item is seen twice; each list has its own results
in order; each map gives each result once; and at the end nobody is left waiting, and no task.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import Caller, Scene, assert_counts_add_up, open_scene
from virtual_time import VirtualEventLoop, run_virtual, settle

from async_batcher import AsyncBatcher, BatcherStopped

SEEDS = range(12)


class Backend(RecordingProcessor):
    """Takes a random time, fails now and then, and looks at the limits whenever it is called."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self.batcher: AsyncBatcher[Any, Any] | None = None
        self.limit = 0
        self.concurrency = 0

    def look(self) -> None:
        assert self.batcher is not None
        stats = self.batcher.stats()
        assert_counts_add_up(stats)
        assert stats.waiting <= self.limit
        assert self.running <= self.concurrency

    async def __call__(self, batch: list[Any]) -> list[Any]:
        self.look()
        sleep, fate = self._dice.choice([0.0, 0.001, 0.02]), self._dice.random()
        await anyio.sleep(sleep)
        if fate < 0.1:
            raise OSError(sorted(batch))
        await super().__call__(batch)
        return [ValueError(item) if item % 17 == 0 else item * 10 for item in batch]


class Storm:
    """Callers of all kinds, and what must hold for each."""

    def __init__(self, scene: Scene[AsyncBatcher[Any, Any]], dice: random.Random) -> None:
        self.scene = scene
        self.dice = dice
        self.callers: list[Caller] = []
        self._next_item = 1
        self.most_pulled = 0

    def step(self) -> None:
        kind = self.dice.choice(["list", "map", "map", "one", "cancel", "cancel task"])
        if kind == "list":
            self._start(partial(self._process_list, self._items(self.dice.randint(0, 40))))
        elif kind == "map":
            self._start(partial(self._iterate, self._items(self.dice.randint(0, 40))))
        elif kind == "one":
            self._start(partial(self._process_one, *self._items(1)))
        elif self.callers:
            caller = self.dice.choice(self.callers)
            (caller.cancel if kind == "cancel" else caller.cancel_task)()

    def check(self) -> None:
        for caller in self.callers:
            assert not caller.waits
            assert caller.error is None, caller.error

    def _start(self, call: Any) -> None:
        self.callers.append(self.scene.start(call))

    def _items(self, count: int) -> list[int]:
        first, self._next_item = self._next_item, self._next_item + count
        return list(range(first, self._next_item))

    async def _process_one(self, item: int) -> None:
        try:
            assert_of(item, await self.scene.batcher.process(item))
        except (OSError, ValueError, BatcherStopped) as error:
            assert_of(item, error)

    async def _process_list(self, items: list[int]) -> None:
        results = await self.scene.batcher.process_many(
            items, return_exceptions=True, max_pending=self.dice.choice([None, 1, 3, 10])
        )
        assert len(results) == len(items)
        for item, result in zip(items, results, strict=True):
            assert_of(item, result)

    async def _iterate(self, items: list[int]) -> None:
        """Iterate over some or all, with pauses, and see that nothing is pulled too far ahead."""
        limit, ordered = self.dice.choice([1, 3, 10]), self.dice.random() < 0.5
        stop_after = self.dice.randint(0, 60)
        pulled: list[int] = []
        source = self._arriving(items, pulled) if self.dice.random() < 0.5 else noted(items, pulled)
        given: list[Any] = []
        try:
            async with self.scene.batcher.map(
                source, ordered=ordered, max_pending=limit, return_exceptions=True
            ) as results:
                while len(given) < stop_after:
                    given.append(await anext(results))
                    assert len(pulled) - len(given) <= limit
                    await anyio.sleep(self.dice.choice([0.0, 0.0, 0.005]))
        except StopAsyncIteration:
            assert len(given) == len(items)
        if ordered:
            for item, result in zip(items, given, strict=False):
                assert_of(item, result)
        numbers = [result for result in given if isinstance(result, int)]
        assert len(set(numbers)) == len(numbers)

    async def _arriving(self, items: list[int], pulled: list[int]) -> AsyncIterator[int]:
        for item in items:
            await anyio.sleep(self.dice.choice([0.0, 0.0, 0.01]))
            pulled.append(item)
            yield item


def noted(items: list[int], pulled: list[int]) -> Iterator[int]:
    for item in items:
        pulled.append(item)
        yield item


def assert_of(item: int, outcome: Any) -> None:
    """Check that an outcome is this very item's."""
    match outcome:
        case ValueError():
            assert outcome.args == (item,)
        case OSError():
            assert item in outcome.args[0]
        case BatcherStopped():
            pass
        case _:
            assert outcome == item * 10


@pytest.mark.anyio
@pytest.mark.parametrize("seed", SEEDS)
async def test_storm(seed: int, anyio_backend_name: str) -> None:
    """Sixty random steps, then an end that is orderly or forced."""
    dice = random.Random(f"{seed} {anyio_backend_name}")  # noqa: S311  (the same storm in every run)
    backend = Backend(dice)
    backend.limit, backend.concurrency = dice.choice([3, 8, 100]), dice.choice([1, 2, 3])
    options = {"max_queue_size": backend.limit, "concurrency": backend.concurrency}
    async with open_scene(
        backend, max_batch_size=dice.choice([1, 2, 5]), on_full="wait", max_queue_time=0.003, **options
    ) as scene:
        backend.batcher = scene.batcher
        storm = Storm(scene, dice)
        for _ in range(60):
            storm.step()
            await (settle() if dice.random() < 0.3 else anyio.sleep(dice.choice([0.0, 0.001, 0.01])))
            backend.look()
        if dice.random() < 0.4:
            await scene.stop(force=dice.random() < 0.5)
        await scene.end_of(*storm.callers)
        storm.check()
    assert len(set(backend.seen)) == len(backend.seen), "an item was seen twice"


if sys.version_info >= (3, 12):

    def test_batches_that_run_eagerly() -> None:
        """With asyncio's eager tasks a batch may end inside the call that sends its last item."""

        async def fn(batch: list[int]) -> list[int]:
            return [item * 10 for item in batch]

        async def main() -> None:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            async with AsyncBatcher.from_callable(fn, max_batch_size=4, max_queue_time=0) as batcher:
                for pending in (None, 1, 3):
                    assert await batcher.process_many(range(103), max_pending=pending) == list(
                        range(0, 1030, 10)
                    )
                    for source in (range(23), arriving(23)):
                        async with batcher.map(source, max_pending=pending) as results:
                            assert [result async for result in results] == list(range(0, 230, 10))
                    async with batcher.map(arriving(23), max_pending=pending) as results:
                        assert await anext(results) == 0
                assert_counts_add_up(batcher.stats())

        async def arriving(count: int) -> AsyncIterator[int]:
            for item in range(count):
                yield item
                await anyio.sleep(0.001)

        run_virtual(main)

    def test_eager_batch_that_leaves_while_a_list_is_withdrawn_is_not_of_that_list() -> None:
        """The first to leave may start an overdue batch at once: none that is being withdrawn may be in it."""
        seen: list[int] = []

        async def fn(batch: list[int]) -> list[int]:
            seen.extend(batch)
            return batch

        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualEventLoop)
            loop.set_task_factory(asyncio.eager_task_factory)
            async with AsyncBatcher.from_callable(fn, max_batch_size=8, max_queue_time=5) as batcher:
                many = asyncio.ensure_future(batcher.process_many(range(4)))
                await settle()
                loop.set_time_aside(6)  # the loop was held up: the window is over, and the timer has not rung
                many.cancel()
                await settle()
                assert_counts_add_up(batcher.stats())
                assert seen == []

        run_virtual(main)
