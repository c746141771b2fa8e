"""Weights: a batch is never too heavy, order is kept, and what no batch could hold is refused at the door."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchEvent, ItemTooHeavy

pytestmark = pytest.mark.anyio


def itself(item: float) -> float:
    return item


async def test_batch_is_full_at_its_weight() -> None:
    """It leaves at once when it weighs what it may, and says so."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(weigh=itself)
    async with open_scene(
        fn, weigh=itself, max_batch_weight=10, max_queue_time=60, on_batch=events.append
    ) as scene:
        await scene.process(4, 6)
    assert fn.batches == [[4, 6]]
    assert [(event.reason, event.weight, event.size) for event in events] == [("weight", 10, 2)]


async def test_item_that_does_not_fit_waits_for_the_next_batch_and_is_not_overtaken() -> None:
    """The 7 does not fit behind the 4; the 3 would, and stays behind it all the same."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(weigh=itself)
    async with open_scene(
        fn, weigh=itself, max_batch_weight=10, max_queue_time=1, on_batch=events.append
    ) as scene:
        await scene.process(4)
        await scene.process(7)
        assert fn.batches == [[4]]
        await scene.process(3)
    assert fn.batches == [[4], [7, 3]]
    assert [event.reason for event in events] == ["weight", "weight"]


@pytest.mark.parametrize("leaving", [[0], [1], [0, 1], [0, 2], [1, 3], [0, 1, 2, 3]])
async def test_holes_are_filled_from_behind_as_far_as_the_weight_allows(leaving: list[int]) -> None:
    """While the backend is busy some leave: what is left goes in order, each batch as heavy as it may be."""
    fn = RecordingProcessor(weigh=itself)
    weights = [5, 4, 3, 6, 2, 2, 8, 1]
    async with open_scene(fn, weigh=itself, max_batch_weight=10, max_queue_time=0) as scene:
        fn.hold()
        await scene.process(10)
        callers = await scene.process(*weights)
        for place in leaving:
            callers[place].cancel()
        await settle()
        fn.release()
    left = [weight for place, weight in enumerate(weights) if place not in leaving]
    assert fn.seen == [10, *left]
    assert max(fn.weights) <= 10
    for batch, after in zip(fn.batches[1:], fn.batches[2:], strict=False):
        assert sum(batch) + after[0] > 10, "a batch left behind what it had room for"


async def test_weights_and_sizes_hold_together() -> None:
    """Whatever is reached first ends a batch."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(weigh=itself)
    async with open_scene(
        fn, weigh=itself, max_batch_weight=10, max_batch_size=3, max_queue_time=0, on_batch=events.append
    ) as scene:
        fn.hold()
        await scene.process(10)
        await scene.process(1, 1, 1, 9, 1, 1, 1)
        fn.release()
    assert fn.batches == [[10], [1, 1, 1], [9, 1], [1, 1]]
    assert [event.reason for event in events] == ["weight", "full", "weight", "drain"]


async def test_too_heavy_item_is_refused_and_never_accepted() -> None:
    """No batch could hold it; those beside it are served."""
    fn = RecordingProcessor(weigh=itself)
    async with open_scene(fn, weigh=itself, max_batch_weight=10) as scene:
        heavy, light = await scene.process(10.5, 10)
        error = heavy.failed(ItemTooHeavy)
        assert "weighs 10.5" in str(error)
        assert "max_batch_weight is 10" in str(error)
        assert light.result == 100
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.rejected) == (1, 1)


async def test_weights_of_floats_never_add_up_to_too_much() -> None:
    """A tenth more often than ten times, some of them withdrawn on the way."""
    fn = RecordingProcessor(weigh=itself)
    async with open_scene(fn, weigh=itself, max_batch_weight=1.0, max_queue_time=0) as scene:
        fn.hold()
        await scene.process(1.0)
        callers = await scene.process(*[0.1] * 60)
        for caller in callers[::7]:
            caller.cancel()
        await settle()
        fn.release()
    assert len(fn.seen) == 1 + 60 - 9
    assert all(sum(map(Fraction, batch)) <= 1 + Fraction(1, 10**15) for batch in fn.batches)
    assert all(sum(batch) <= 1.0 for batch in fn.batches)


async def test_weight_without_a_cap_is_told_and_caps_nothing() -> None:
    """Events have it; a batch is as large as it may be."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    async with open_scene(fn, weigh=itself, max_batch_size=3, on_batch=events.append) as scene:
        await scene.process(100, 200, 300)
    assert [event.weight for event in events] == [600]


async def test_batch_without_weights_has_none() -> None:
    """Zero would be a weight."""
    events: list[BatchEvent] = []
    async with open_scene(RecordingProcessor(), on_batch=events.append) as scene:
        await scene.process(1)
    assert [event.weight for event in events] == [None]


@pytest.mark.parametrize(
    ("weight", "kind"),
    [(-1, ValueError), (math.nan, ValueError), (math.inf, ValueError), ("7", TypeError), (None, TypeError)],
)
async def test_weight_that_is_none_reaches_its_caller_alone(weight: Any, kind: type[Exception]) -> None:
    """It is told what `weigh` returned; later items are served."""
    weights = {1: weight}
    fn = RecordingProcessor()
    async with open_scene(fn, weigh=lambda item: weights.get(item, 1), max_batch_weight=5) as scene:
        bad, good = await scene.process(1, 2)
        assert f"weigh returned {weight!r}" in str(bad.failed(kind))
        await scene.end_of(good)
        assert good.result == 20
    assert fn.seen == [2]


@pytest.mark.parametrize(
    "weight",
    [Fraction(10**400), 10**400, 10**5000, Decimal("1e400"), -(10**5000)],
    ids=["fraction", "int", "long int", "decimal", "negative"],
)
async def test_weight_beyond_all_bounds_says_what_was_wanted(weight: Any) -> None:
    """However long it would be to write."""
    fn = RecordingProcessor()
    async with open_scene(fn, weigh=lambda _item: weight) as scene:
        (caller,) = await scene.process(1)
        told = str(caller.failed(ValueError))
        assert "it must return a number from 0 to" in told
        assert len(told) < 200


async def test_weigh_that_raises_reaches_its_caller_alone() -> None:
    """F2: a user's function never breaks the machinery."""

    def weigh(item: int) -> int:
        return 12 // item

    fn = RecordingProcessor()
    async with open_scene(fn, weigh=weigh, max_batch_weight=12) as scene:
        bad, good = await scene.process(0, 2)
        bad.failed(ZeroDivisionError)
        await scene.end_of(good)
        assert good.result == 20


async def test_item_is_weighed_once() -> None:
    """However long it stands in line, and wherever it sits."""
    asked: list[int] = []

    def weigh(item: int) -> int:
        asked.append(item)
        return item

    fn = RecordingProcessor()
    async with open_scene(
        fn, weigh=weigh, max_batch_weight=10, max_queue_size=2, on_full="wait", max_queue_time=0
    ) as scene:
        fn.hold()
        callers = await scene.process(10, 6, 6, 6, 6)
        callers[1].cancel()
        await settle()
        fn.release()
        await scene.end_of(*callers)
    assert asked == [10, 6, 6, 6, 6]
    assert fn.batches == [[10], [6], [6], [6]]


def test_cap_without_a_scale_is_refused() -> None:
    """It contradicts itself, and is told what to write."""
    with pytest.raises(ValueError, match="weigh=len"):
        AsyncBatcher.from_callable(RecordingProcessor(), max_batch_weight=5)


@pytest.mark.parametrize("cap", [0, -1, math.nan, math.inf, True, "5"])
def test_cap_that_is_no_weight_is_refused(cap: Any) -> None:
    """When the batcher is built, naming what was given."""
    with pytest.raises((TypeError, ValueError), match="max_batch_weight must be a finite number over 0"):
        AsyncBatcher.from_callable(RecordingProcessor(), weigh=len, max_batch_weight=cap)


async def test_weight_that_gathered_while_the_backend_was_busy_is_full() -> None:
    """Each item came by the short way, that it changed no decision then: all of them weigh when the slot comes free."""
    fn = RecordingProcessor()
    fn.hold()
    events: list[BatchEvent] = []
    async with open_scene(
        fn, weigh=itself, max_batch_weight=9, max_queue_time=50, on_batch=events.append
    ) as scene:
        first = await scene.process(9)
        waiting = await scene.process(2, 3, 4, 9, 1)
        assert (scene.batcher.stats().running, scene.batcher.stats().waiting) == (1, 5)
        started = anyio.current_time()
        fn.release()
        await scene.end_of(*first, *waiting[:4])
        assert anyio.current_time() == started, "what was full waited for its window"
        await scene.end_of(waiting[4])
        assert anyio.current_time() > started
    assert fn.batches == [[9], [2, 3, 4], [9], [1]]
    assert [(event.weight, event.reason) for event in events] == [
        (9, "weight"),
        (9, "weight"),
        (9, "weight"),
        (1, "due"),
    ]
