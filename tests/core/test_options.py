"""Options are validated when the batcher is built, and the message says what to write (contract, the table)."""

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
import numpy as np
import pytest
from recording import RecordingProcessor
from scenes import Caller, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchEvent


async def processor(batch: list[int]) -> list[int]:
    return batch


def sync_processor(batch: list[int]) -> list[int]:
    return batch


def build(**options: Any) -> AsyncBatcher[int, int]:
    return AsyncBatcher.from_callable(options.pop("processor", processor), **options)


COUNTS = ("max_batch_size", "max_queue_size", "concurrency")


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, -(10**30)])
def test_count_below_one_is_refused(name: str, value: int) -> None:
    """I7: zero would admit nothing for ever: a `ValueError` that names the option, the value and the way out."""
    with pytest.raises(ValueError, match=name) as caught:
        build(**{name: value})
    assert str(value) in str(caught.value)
    assert "None" in str(caught.value)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "value", [True, False, 1.0, 2.5, math.nan, math.inf, "8", b"8", [8], Decimal(8), object()]
)
def test_count_that_is_no_int_is_refused(name: str, value: Any) -> None:
    """I7, K2: a bool, a float, a text: a `TypeError` that names the option and what was found."""
    with pytest.raises(TypeError, match=name) as caught:
        build(**{name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [1, 10**30, None])
def test_count_from_one_and_none_are_taken(name: str, value: int | None) -> None:
    """One is the least; `None` is no limit."""
    assert build(**{name: value}).stats().accepted == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, -1])
def test_time_out_of_bounds_is_refused(value: float) -> None:
    """K2: NaN, infinity and what is below zero: a `ValueError` that names the option and the value."""
    for name, more in (("max_queue_time", {}), ("enqueue_timeout", {"on_full": "wait"})):
        with pytest.raises(ValueError, match=name) as caught:
            build(**{name: value}, **more)
        assert str(value) in str(caught.value)


@pytest.mark.parametrize("value", [True, False, "1", b"1", [1], object(), 1j])
def test_time_that_is_no_number_is_refused(value: Any) -> None:
    """K2: a bool or a text is no time: a `TypeError`."""
    for name, more in (("max_queue_time", {}), ("enqueue_timeout", {"on_full": "wait"})):
        with pytest.raises(TypeError, match=name):
            build(**{name: value}, **more)


def test_window_is_never_none() -> None:
    """`max_queue_time=None` would wait for ever: refused, with what to write."""
    with pytest.raises((TypeError, ValueError), match="max_queue_time"):
        build(max_queue_time=None)


def test_enqueue_timeout_of_zero_is_refused() -> None:
    """A budget of nothing is `on_full="reject"`: the message says so."""
    with pytest.raises(ValueError, match="enqueue_timeout"):
        build(on_full="wait", enqueue_timeout=0)


@pytest.mark.parametrize("value", [0, 0.0, 1, 1e-9, 1e300])
def test_window_from_zero_is_taken(value: float) -> None:
    """K2: zero leaves at once; a huge one is taken as it is."""
    assert build(max_queue_time=value).stats().accepted == 0


@pytest.mark.parametrize("value", ["block", "", "WAIT", None, True, 1, ["wait"]])
def test_unknown_policy_is_refused(value: Any) -> None:
    """`on_full` is one of two words, and the message says which."""
    with pytest.raises((TypeError, ValueError), match="on_full") as caught:
        build(on_full=value)
    assert "reject" in str(caught.value)
    assert "wait" in str(caught.value)


@pytest.mark.parametrize("name", ["max_batchsize", "batch_size", "timeout", "max_queue_times", "loop", "x"])
def test_unknown_option_is_refused(name: str) -> None:
    """A name that does not exist: a `TypeError` that names it."""
    with pytest.raises(TypeError, match=name):
        build(**{name: 3})


def test_unknown_option_names_the_one_that_was_meant() -> None:
    """A slip of the pen gets the right spelling back."""
    with pytest.raises(TypeError, match="max_batch_size"):
        build(max_batchsize=3)


@pytest.mark.parametrize("more", [{}, {"on_full": "reject"}])
def test_enqueue_timeout_without_waiting_is_refused(more: dict[str, str]) -> None:
    """Options that contradict each other: the message names both, and what to write."""
    with pytest.raises(ValueError, match="enqueue_timeout") as caught:
        build(enqueue_timeout=1.0, **more)
    assert 'on_full="wait"' in str(caught.value)


@pytest.mark.parametrize(
    "asynchronous",
    [processor, functools.partial(processor), RecordingProcessor()],
    ids=["def", "partial", "object"],
)
def test_executor_for_an_async_processor_is_refused(asynchronous: Any) -> None:
    """It would never be used: a `ValueError` or `TypeError` when built, however the processor is dressed."""
    with ThreadPoolExecutor(1) as pool, pytest.raises((TypeError, ValueError), match="executor") as caught:
        build(processor=asynchronous, executor=pool)
    assert "async" in str(caught.value)


def test_executor_for_an_async_subclass_is_refused() -> None:
    """The same for a subclass with an async `process_batch`."""

    class Embedder(AsyncBatcher[int, int]):
        async def process_batch(self, batch: list[int]) -> list[int]:
            return batch

    with ThreadPoolExecutor(1) as pool, pytest.raises((TypeError, ValueError), match="executor"):
        Embedder(executor=pool)


@pytest.mark.parametrize("value", [3, "pool", object(), ThreadPoolExecutor, True, list])
def test_executor_that_is_none_is_refused(value: Any) -> None:
    """It must be a `concurrent.futures.Executor`: not its class, not a number."""
    with pytest.raises(TypeError, match="executor"):
        build(processor=sync_processor, executor=value)


async def async_observer(event: BatchEvent) -> None: ...


class AsyncObserver:
    async def __call__(self, event: BatchEvent) -> None: ...

    async def observe(self, event: BatchEvent) -> None: ...


@pytest.mark.parametrize(
    "observer",
    [async_observer, functools.partial(async_observer), AsyncObserver(), AsyncObserver().observe],
    ids=["function", "partial", "object", "method"],
)
def test_async_observer_is_refused(observer: Any) -> None:
    """N7: nobody would await it: a `TypeError` when built, however it is dressed."""
    with pytest.raises(TypeError, match="on_batch"):
        build(on_batch=observer)


@pytest.mark.parametrize("value", [3, "print", True, object(), []])
def test_observer_that_cannot_be_called_is_refused(value: Any) -> None:
    """A callback is a callable."""
    with pytest.raises(TypeError, match="on_batch"):
        build(on_batch=value)


@pytest.mark.parametrize("value", [3, b"name", True, object(), ["name"]])
def test_name_that_is_no_text_is_refused(value: Any) -> None:
    """A label is a string."""
    with pytest.raises(TypeError, match="name"):
        build(name=value)


def test_options_are_read_only() -> None:
    """L4: what was validated when built stays so."""
    batcher = build()
    for name in (*COUNTS, "max_queue_time", "on_full", "enqueue_timeout", "name"):
        with pytest.raises(AttributeError):
            setattr(batcher, name, 5)


@pytest.mark.anyio
async def test_defaults_are_those_of_the_table() -> None:
    """64 a batch, one batch at once, a window of 10 ms."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn) as scene:
        await scene.process("alone")
        await anyio.sleep(0.0099)
        assert fn.batches == []
        await anyio.sleep(0.0002)
        assert fn.batches == [["alone"]]
        for item in range(65):
            await scene.batcher.submit(item)
        await anyio.sleep(1)
        assert fn.running == 1
        fn.release()
        await settle()
    assert [len(batch) for batch in fn.batches] == [1, 64, 1]


@pytest.mark.parametrize("value", [np.int64(4), np.int32(4)])
def test_count_of_numpy_is_taken_or_refused_by_name(value: Any) -> None:
    """An integer of another library is an integer or a `TypeError`, never a surprise later."""
    try:
        assert build(max_batch_size=value).stats().accepted == 0
    except TypeError as error:
        assert "max_batch_size" in str(error)  # noqa: PT017 - both ways are right


@pytest.mark.parametrize("value", [np.float64(0.5), Fraction(1, 2), Decimal("0.5")])
def test_time_of_another_kind_is_taken_or_refused_by_name(value: Any) -> None:
    """The same for times."""
    try:
        assert build(max_queue_time=value).stats().accepted == 0
    except TypeError as error:
        assert "max_queue_time" in str(error)  # noqa: PT017 - both ways are right


@pytest.mark.anyio
@pytest.mark.parametrize("window", [1e9 - 1, 1e300])
async def test_huge_window_is_no_trouble_for_the_loop(window: float) -> None:
    """K2: a window that no timer can hold does not break the queue: the stop sends what waits."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=window) as scene:
        (caller,) = await scene.process(1)
    assert caller.result == 10


@pytest.mark.anyio
@pytest.mark.real_time
async def test_huge_times_are_no_trouble_for_a_real_loop() -> None:
    """K2: neither asyncio nor uvloop nor trio chokes on a timer, for the window and for the line."""
    for seconds in (1e6, 1e12, 1e300):
        fn = RecordingProcessor()
        fn.hold()
        async with open_scene(
            fn,
            max_batch_size=1,
            max_queue_size=1,
            on_full="wait",
            max_queue_time=seconds,
            enqueue_timeout=seconds,
        ) as scene:
            callers = await scene.process(1, 2, 3)
            fn.release()
            await scene.end_of(*callers)
        async with open_scene(fn, max_queue_time=seconds) as scene:
            (caller,) = await scene.process(4)
            with pytest.raises(TimeoutError):
                await wait_a_little(caller)
        assert caller.result == 40


async def wait_a_little(caller: Caller) -> None:
    with anyio.fail_after(0.001):
        await caller.end()


@pytest.mark.anyio
async def test_everything_after_the_item_is_keyword_only() -> None:
    """No second positional argument is taken for an option by accident."""
    async with open_scene(RecordingProcessor()) as scene:
        for call in (scene.batcher.process, scene.batcher.submit):
            with pytest.raises(TypeError):
                await call(1, 2)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            await scene.batcher.stop(True)  # type: ignore[call-arg]


@pytest.mark.anyio
@pytest.mark.parametrize("value", [math.nan, -1, "1", True])
async def test_bad_timeout_of_stop_is_refused_and_stops_nothing(value: Any) -> None:
    """A `ValueError` or `TypeError` that names it; the batcher works on."""
    async with open_scene(RecordingProcessor()) as scene:
        with pytest.raises((TypeError, ValueError), match="timeout"):
            await scene.batcher.stop(timeout=value)
        assert await scene.batcher.process(1) == 10
