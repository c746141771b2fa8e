"""Context variables and re-entry (contract, rules 7 and 8)."""

import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


async def reads(batch: list[str]) -> list[str]:
    """Return for each item what the processor sees."""
    return [request_id.get()] * len(batch)


async def call_as(batcher: AsyncBatcher[str, str], name: str, results: dict[str, str]) -> None:
    request_id.set(name)
    results[name] = await batcher.process(name)
    assert request_id.get() == name


async def test_no_request_leaks_into_the_processor() -> None:
    """H1: the first caller's context is not that of every later batch."""
    results: dict[str, str] = {}
    async with open_scene(reads, max_batch_size=1) as scene:
        for name in ("r1", "r2", "r3"):
            async with anyio.create_task_group() as group:
                group.start_soon(call_as, scene.batcher, name, results)
    assert results == {"r1": "none", "r2": "none", "r3": "none"}


async def test_no_request_leaks_by_the_timer_or_by_the_end_of_a_batch() -> None:
    """H1: batches that leave by their window, or when a slot comes free, see no request either."""
    results: dict[str, str] = {}
    async with open_scene(reads, max_batch_size=2, max_queue_time=0.05) as scene:
        names = ("r1", "r2", "r3", "r4", "r5")
        await scene.end_of(*[scene.start(partial(call_as, scene.batcher, name, results)) for name in names])
    assert set(results.values()) == {"none"}


async def test_processor_runs_in_the_context_of_construction() -> None:
    """Rule 7: what was set when the batcher was built is seen, whoever calls."""
    token = request_id.set("built")
    batcher: AsyncBatcher[str, str] = AsyncBatcher.from_callable(reads, max_batch_size=1)
    request_id.reset(token)
    async with batcher:
        assert await batcher.process("x") == "built"


async def test_what_a_processor_sets_stays_in_its_batch() -> None:
    """Rule 7: each batch has a copy of its own."""

    async def sets(batch: list[str]) -> list[str]:
        before = request_id.get()
        request_id.set("set by a batch")
        return [before] * len(batch)

    async with open_scene(sets, max_batch_size=1) as scene:
        assert await scene.batcher.process("x") == "none"
        assert await scene.batcher.process("x") == "none"
        assert request_id.get() == "none"


async def test_observer_sees_no_request() -> None:
    """Rule 7 holds for `on_batch` as well."""
    seen: list[str] = []
    results: dict[str, str] = {}
    async with open_scene(reads, max_batch_size=1, on_batch=lambda _: seen.append(request_id.get())) as scene:
        async with anyio.create_task_group() as group:
            group.start_soon(call_as, scene.batcher, "r1", results)
        await settle()
    assert seen == ["none"]


async def test_processor_that_calls_its_own_batcher_is_refused() -> None:
    """P3: with no slot left it would wait for itself: a `RuntimeError` at once, to its own callers."""

    async def calls_itself(batch: list[int]) -> list[int]:
        return [await scene.batcher.process(item) for item in batch]

    async with open_scene(calls_itself, max_batch_size=1) as scene:
        with pytest.raises(RuntimeError):
            await scene.batcher.process(1)
        assert scene.batcher.stats().accepted == 1


@pytest.mark.parametrize("how", ["process", "submit", "child task"])
async def test_every_way_to_call_back_is_refused(how: str) -> None:
    """P3: by `submit` and from a task of the processor's own just so; the batcher works on."""

    async def child(refused: list[RuntimeError]) -> None:
        with pytest.raises(RuntimeError) as caught:
            await scene.batcher.process(0)
        refused.append(caught.value)

    async def processor(batch: list[int]) -> list[int]:
        if how == "child task":
            async with anyio.create_task_group() as group:
                group.start_soon(child, refusals)
        else:
            call: Callable[[int], Any] = getattr(scene.batcher, how)
            with pytest.raises(RuntimeError) as caught:
                await call(0)
            refusals.append(caught.value)
        return batch

    refusals: list[RuntimeError] = []
    async with open_scene(processor, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == 1
        assert await scene.batcher.process(2) == 2
    assert len(refusals) == 2


async def test_processor_may_call_its_own_batcher_while_a_slot_is_left() -> None:
    """P3: with `concurrency=2` a processor that calls back once is served."""

    async def once_more(batch: list[int]) -> list[int]:
        if batch == [1]:
            return [await scene.batcher.process(2)]
        return [item * 10 for item in batch]

    async with open_scene(once_more, max_batch_size=1, concurrency=2) as scene:
        assert await scene.batcher.process(1) == 20


async def test_processors_that_take_the_last_slots_from_each_other_do_not_deadlock() -> None:
    """P3: two batches that both call back hold both slots: nobody is left waiting."""

    async def calls_back(batch: list[int]) -> list[int]:
        if batch[0] < 10:
            await both.wait()
            return [await scene.batcher.process(batch[0] + 10)]
        return batch

    both = anyio.Event()
    async with open_scene(calls_back, max_batch_size=1, concurrency=2, max_queue_time=0) as scene:
        callers = await scene.process(1, 2)
        both.set()
        await settle()
        for item, caller in zip((1, 2), callers, strict=True):
            assert caller.error is not None or caller.result == item + 10
        assert any(isinstance(caller.error, RuntimeError) for caller in callers)


async def test_task_left_behind_by_a_batch_is_free_once_it_has_ended() -> None:
    """Rule 8: the mark is the running batch's: its background task may call, and stop, afterwards."""

    async def background() -> None:
        await batch_ended.wait()
        results.append(await scene.batcher.process(5))
        await scene.batcher.stop()
        results.append(-1)

    async def spawns(batch: list[int]) -> list[int]:
        if batch == [1]:
            group.start_soon(background)
        return [item * 10 for item in batch]

    results: list[int] = []
    batch_ended = anyio.Event()
    async with open_scene(spawns, max_batch_size=1) as scene, anyio.create_task_group() as group:
        assert await scene.batcher.process(1) == 10
        await settle()
        batch_ended.set()
        await settle()
        assert results == [50, -1]


async def test_batchers_may_call_each_other() -> None:
    """Rule 8: the mark is of one batcher: another one's is no hindrance."""
    inner = RecordingProcessor()

    async def outer(batch: list[int]) -> list[int]:
        return [await inner_scene.batcher.process(item) for item in batch]

    async with (
        open_scene(inner, max_batch_size=1) as inner_scene,
        open_scene(outer, max_batch_size=2) as scene,
    ):
        callers = await scene.process(1, 2)
        assert [caller.result for caller in callers] == [10, 20]
