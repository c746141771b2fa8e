"""`@batched` on functions: what it makes of one, and that it is an ordinary batcher behind it."""

import asyncio
import contextvars
import copy
import functools
import inspect
import multiprocessing
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor, ten_times
from scenes import enter_scene
from virtual_time import run_virtual

from async_batcher import AsyncBatcher, BatcherStopped, QueueFull, batched

pytestmark = pytest.mark.anyio

request_id = contextvars.ContextVar("request_id", default="none")


@batched(max_batch_size=3, max_queue_time=0.5)
async def lengths(texts: list[str]) -> list[int]:
    """Measure texts."""
    return [len(text) for text in texts]


@batched
def triples(numbers: list[int]) -> list[int]:
    return [number * 3 for number in numbers]


@pytest.fixture(autouse=True, scope="module")
def _threads_end_here() -> Iterator[None]:
    """Stop the one that is the module's own and has a thread, which would idle as long as the module is there."""
    yield
    asyncio.run(triples.batcher.stop())


async def test_calls_share_a_batch() -> None:
    """A function of a list is called with one item at a time, and gets them together."""
    fn = RecordingProcessor(lambda texts: [text.upper() for text in texts])
    shout = batched(fn, max_batch_size=2)
    async with enter_scene(shout.batcher) as scene:
        callers = [scene.start(functools.partial(shout, text)) for text in "abc"]
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == ["A", "B", "C"]
    assert sorted(map(len, fn.batches)) == [1, 2]


@pytest.mark.parametrize("decorate", [batched, batched(), batched(max_batch_size=64)])
async def test_decorator_is_used_bare_or_with_options(decorate: Any) -> None:
    """`@batched`, `@batched()` and `@batched(option=...)` do the same."""

    async def double_all(numbers: list[int]) -> list[int]:
        return [number * 2 for number in numbers]

    double = decorate(double_all)
    async with double.batcher:
        assert await double(4) == 8


async def test_options_are_those_of_the_batcher() -> None:
    """Each option reaches the batcher behind it."""
    fn, events = RecordingProcessor(), list[Any]()
    held = batched(max_batch_size=1, max_queue_size=1, on_batch=events.append, name="held")(fn)
    async with enter_scene(held.batcher) as scene:
        fn.hold()
        await scene.process(1, 2)
        with pytest.raises(QueueFull):
            await held(3)
        fn.release()
    assert [(event.name, event.size) for event in events] == [("held", 1), ("held", 1)]


@pytest.mark.real_time
async def test_sync_function_runs_in_a_thread() -> None:
    """A sync function does not hold up the loop."""
    threads = []

    @batched
    def here(items: list[int]) -> list[int]:
        threads.append(threading.get_ident())
        return items

    async with here.batcher:
        assert await here(1) == 1
    assert threads != [threading.get_ident()]


async def test_cancelled_call_leaves_the_queue() -> None:
    """It is `process` and nothing besides: who leaves while waiting is not processed."""
    fn = RecordingProcessor()
    call = batched(fn, max_queue_time=5)
    async with enter_scene(call.batcher) as scene:
        caller = scene.start(functools.partial(call, 1))
        await scene.process(2)
        caller.cancel()
    assert fn.batches == [[2]]


async def test_stopped_function_refuses() -> None:
    """`stop` of its batcher is final."""
    call = batched(RecordingProcessor())
    async with call.batcher:
        assert await call(1) == 10
    with pytest.raises(BatcherStopped):
        await call(2)


def test_function_of_a_module_is_used_in_one_loop_after_another() -> None:
    """Decorated at import, with no loop there, it is bound to none for good."""
    for _ in range(2):
        assert run_virtual(functools.partial(_gathered, lengths, "a", "bbb")) == [1, 3]
        assert asyncio.run(_gathered(triples, 1, 2)) == [3, 6]


async def _gathered(function: Callable[[Any], Awaitable[Any]], *items: Any) -> list[Any]:
    return await asyncio.gather(*map(function, items))


async def test_context_is_that_of_the_decoration() -> None:
    """No caller's context leaks into a batch, the first one's least of all."""
    seen = []

    @batched(max_batch_size=1)
    async def look(items: list[int]) -> list[int]:
        seen.append(request_id.get())
        return items

    request_id.set("of the caller")
    async with look.batcher:
        await look(1)
    assert seen == ["none"]


def test_name_and_documentation_stay() -> None:
    """It looks as the function did, but for its one item and its types, which are of a list."""
    assert lengths.__name__ == "lengths"  # type: ignore[attr-defined]
    assert lengths.__doc__ == "Measure texts."
    assert lengths.__module__ == __name__
    assert str(inspect.signature(lengths)) == "(item, /)"
    assert lengths.__wrapped__.__annotations__["texts"] == list[str]
    assert "texts" not in getattr(lengths, "__annotations__", {})
    assert repr(lengths) == "<batched lengths>"


def test_what_asks_for_async_callables_finds_one() -> None:
    """Frameworks that look at `__call__` await it."""
    assert inspect.iscoroutinefunction(lengths.__call__)


@pytest.mark.parametrize("function", [lengths, triples], ids=repr)
def test_function_is_copied_and_pickled_by_its_name(function: Any) -> None:
    """As functions are: what refers to one may be copied, or sent to another process."""
    assert copy.copy(function) is copy.deepcopy(function) is function
    assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes


@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_sync_function_runs_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name there is the decorated one's, behind which the process finds the function."""
    # Spawned: a fork copies what other threads hold at that moment.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        in_process = batched(executor=executor)(triples.__wrapped__)
        monkeypatch.setitem(globals(), "triples", in_process)
        async with in_process.batcher:
            assert await in_process(3) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be at least 1"),
        ({"batch_size": 8}, "no option is called batch_size"),
        ({"enqueue_timeout": 1.0}, "on_full"),
    ],
)
def test_options_are_checked_at_decoration(options: Any, message: str) -> None:
    """Not at the first call."""

    async def function(items: list[int]) -> list[int]:
        return items

    class Service:
        async def method(self, items: list[int]) -> list[int]:
            return items

    for decorated in (function, Service.method):
        with pytest.raises((TypeError, ValueError), match=message):
            batched(**options)(decorated)


async def takes_nothing() -> list[int]:
    return []


async def takes_three(one: int, two: int, items: list[int]) -> list[int]:
    return items


async def needs_an_option(items: list[int], *, model: str) -> list[int]:
    return items


@pytest.mark.parametrize("function", [takes_nothing, takes_three, needs_an_option])
def test_function_of_anything_else_is_refused(function: Any) -> None:
    """It could only fail at its first batch: the message says what was found and what to write."""
    with pytest.raises(TypeError, match=rf"{function.__name__}\(.*functools\.partial"):
        batched(function)


@pytest.mark.parametrize("nothing", [3, None, "name", [ten_times]])
def test_what_cannot_be_called_is_refused(nothing: Any) -> None:
    """`@batched(32)` is what one tries first."""
    with pytest.raises(TypeError, match="processor must be a function"):
        batched(nothing)


def test_options_are_given_by_name() -> None:
    """A second function, or a number without a name, is refused with what it was."""
    decorate: Any = batched
    with pytest.raises(TypeError, match=r"options by their names; got \[32\]"):
        decorate(takes_nothing, 32)


async def test_partials_and_objects_are_decorated() -> None:
    """Whatever may be a processor may be decorated, with a name or without."""

    async def scaled(scale: int, items: list[int]) -> list[int]:
        return [scale * item for item in items]

    for processor in (functools.partial(scaled, 3), RecordingProcessor(lambda items: [3 * i for i in items])):
        triple = batched(processor)
        async with triple.batcher:
            assert await triple(2) == 6
        assert "batched" in repr(triple)


def test_builtin_that_does_not_tell_its_signature_is_a_function() -> None:
    """Nothing is known against it."""
    with pytest.raises(ValueError, match="signature"):
        inspect.signature(max)
    untold: Any = batched(max)
    assert isinstance(untold.batcher, AsyncBatcher)


async def test_batcher_behind_it_is_one_and_the_same() -> None:
    """Whatever `AsyncBatcher` can is reached by it."""
    assert isinstance(lengths.batcher, AsyncBatcher)
    assert lengths.batcher is lengths.batcher
    function = batched(RecordingProcessor())
    async with function.batcher as batcher:
        submission = await batcher.submit(1)
        assert await submission == 10
        assert function.batcher.stats().succeeded == 1
        await anyio.lowlevel.checkpoint()
