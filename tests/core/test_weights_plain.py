"""Weights of any kind of number add up exactly as far as they count: no batch is too heavy, no item half admitted."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import BatchEvent, ItemTooHeavy

pytestmark = pytest.mark.anyio

numpy: Any = pytest.importorskip("numpy")  # lengths out of an array are such numbers

CAP = 250
HEAVY = (200, 100, 100, 100, 1, 249, 1, 250, 0, 127, 128, 255, 3, 120, 120, 120)


class Count:
    """What counts as a whole number, and can do nothing else."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    def __int__(self) -> int:
        return self._value


KINDS: list[Callable[[int], Any]] = [
    numpy.uint8,
    numpy.int16,
    numpy.float16,
    numpy.array,
    Decimal,
    Fraction,
    Count,
    float,
]


def mixed(weight: int) -> Any:
    """Give each weight another kind, so that neighbours are never of one."""
    return KINDS[weight % len(KINDS)](weight)


kinds = pytest.mark.parametrize("kind", [*KINDS, mixed], ids=lambda kind: kind.__name__)


@kinds
@pytest.mark.parametrize("size", [None, 3])
async def test_no_batch_is_too_heavy_whatever_weigh_returns(kind: Any, size: int | None) -> None:
    """Neither a number that wraps round nor kinds that do not mix; what is too heavy is refused, and only that."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(weigh=int)
    async with open_scene(
        fn,
        weigh=kind,
        max_batch_weight=CAP,
        max_batch_size=size,
        max_queue_time=0,
        on_batch=events.append,
    ) as scene:
        fn.hold()
        await scene.process(1)
        callers = await scene.process(*HEAVY)
        callers[4].cancel()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.rejected) == (len(HEAVY), 1)
        callers[HEAVY.index(255)].failed(ItemTooHeavy)
        fn.release()
    fits = [weight for place, weight in enumerate(HEAVY) if weight <= CAP and place != 4]
    assert fn.seen == [1, *fits]
    assert max(fn.weights) <= CAP
    assert size is None or max(map(len, fn.batches)) <= size
    for batch, after in zip(fn.batches[1:], fn.batches[2:], strict=False):
        assert len(batch) == size or sum(batch) + after[0] > CAP, "a batch left behind what it had room for"
    assert [event.weight for event in events] == fn.weights
    assert {type(event.weight) for event in events} <= {int, float}


@kinds
async def test_weight_without_a_cap_adds_up_for_the_events(kind: Any) -> None:
    """And the size is kept: no item comes in by halves."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(weigh=int)
    async with open_scene(
        fn, weigh=kind, max_batch_size=2, max_queue_time=0, on_batch=events.append
    ) as scene:
        await scene.process(*HEAVY)
    assert fn.seen == list(HEAVY)
    assert max(map(len, fn.batches)) <= 2
    assert [event.weight for event in events] == fn.weights


async def test_true_and_false_weigh_one_and_nothing() -> None:
    """A bool is a whole number."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(fn, weigh=lambda item: item[0], max_batch_weight=2, max_queue_time=0) as scene:
        fn.hold()
        await scene.process((True, "first"))
        await scene.process(*[(flag, name) for name in "abc" for flag in (True, False)])
        fn.release()
    assert [sum(flag for flag, _ in batch) for batch in fn.batches] == [1, 2, 1]


NO_WEIGHTS = [
    10**400,
    2**53 + 1,
    -1,
    Decimal("1e400"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-0.1"),
    Fraction(-1, 3),
    Fraction(2**54),
    Fraction(10**400),
    numpy.int16(-1),
    numpy.float32("nan"),
    10**5000,
]
NO_NUMBERS = ["7", None, 1 + 0j, numpy.array([1, 2])]


@pytest.mark.parametrize("cap", [None, CAP])
@pytest.mark.parametrize(
    ("weight", "kind"),
    [*((weight, ValueError) for weight in NO_WEIGHTS), *((weight, TypeError) for weight in NO_NUMBERS)],
    ids=lambda value: type(value).__name__,
)
async def test_what_is_no_weight_is_refused_and_never_accepted(
    weight: Any, kind: type[Exception], cap: float | None
) -> None:
    """Its caller alone gets the error; those around it fill their batches as if it had not come."""
    weights = {3: weight, 2: 1.5, 4: Decimal(1)}
    fn = RecordingProcessor()
    async with open_scene(
        fn,
        weigh=lambda item: weights.get(item, 1),
        max_batch_weight=cap,
        max_batch_size=2,
        max_queue_time=0,
    ) as scene:
        fn.hold()
        callers = await scene.process(1, 2, 3, 4, 5, 6)
        callers[2].failed(kind)
        stats = scene.batcher.stats()
        assert (stats.accepted, stats.waiting, stats.running) == (5, 4, 1)
        fn.release()
        await scene.end_of(*callers)
        assert [caller.result for caller in callers if caller is not callers[2]] == [10, 20, 40, 50, 60]
        assert scene.batcher.stats().succeeded == 5
    assert fn.batches == [[1], [2, 4], [5, 6]]


async def test_heaviest_weights_add_up() -> None:
    """However many of the heaviest come: they add up without an error, and the size is kept."""
    fn = RecordingProcessor(lambda batch: batch)
    heaviest = [2**53, float(2**53), Decimal(2**53), Fraction(2**53), numpy.uint64(2**53)]
    async with open_scene(fn, weigh=lambda place: heaviest[place % 5], max_batch_size=7) as scene:
        assert await scene.batcher.process_many(range(100)) == list(range(100))
    assert max(map(len, fn.batches)) == 7
