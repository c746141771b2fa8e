"""`backend_call`: its deadline ends one call, and only its own deadline is one."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from virtual_time import VirtualEventLoop

from async_batcher import AsyncBatcher
from examples.recipes.operations import BackendDeadlineExceeded, backend_call

pytestmark = pytest.mark.anyio


BAD_TIMEOUTS = [0, 0.0, -1, float("nan"), float("inf"), float("-inf"), True, False, "1", 10**400, [1]]


class Refusing:
    """What must never be reached: it counts the calls that reach it all the same."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, items: Any) -> Any:
        self.calls += 1
        return items


async def double(items: list[int]) -> list[int]:
    await anyio.lowlevel.checkpoint()
    return [item * 2 for item in items]


async def test_a_call_in_time_returns_its_result() -> None:
    """With a timeout, with none, and with one that is far beyond any clock."""
    for timeout in (1, 0.5, None, 1e300, sys.float_info.max):
        assert await backend_call(double, [1, 2], timeout=timeout) == [2, 4]


@pytest.mark.backends("asyncio")
async def test_a_call_in_time_leaves_no_timer_behind() -> None:
    """However far away its deadline is."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualEventLoop)
    await backend_call(double, [1], timeout=86400)
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


async def test_a_late_call_is_cancelled_and_its_cleanup_waited_for() -> None:
    """`BackendDeadlineExceeded` comes once the call has really ended, and leaves the task as it was."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            log.append("cleaned up")
        return items

    with pytest.raises(BackendDeadlineExceeded, match="within 2 s"):
        await backend_call(backend, [1], timeout=2)
    assert log == ["cleaned up"]
    assert anyio.current_time() == pytest.approx(5)
    await anyio.sleep(1)  # nothing of the deadline is left behind


async def test_the_backends_own_timeout_error_passes_unchanged() -> None:
    """Raised before the deadline, or instead of the cancellation that it brings: it is the very object."""
    own = TimeoutError("the driver's")

    async def at_once(items: list[int]) -> list[int]:
        raise own

    async def when_cancelled(items: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise own from None
        return items

    for backend in (at_once, when_cancelled):
        with pytest.raises(TimeoutError) as raised:
            await backend_call(backend, [1], timeout=1)
        assert raised.value is own


async def test_a_call_that_ends_in_spite_of_its_cancellation_gives_its_result() -> None:
    """The backend committed in its cleanup: the result counts, though the deadline has passed."""

    async def backend(items: list[int]) -> list[int]:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(5)
        return items

    assert await backend_call(backend, [1], timeout=1) == [1]


async def test_a_late_call_ends_its_own_tasks_too() -> None:
    """A task group inside the call is cancelled as a whole, and waited for."""
    ended: list[int] = []

    async def child(number: int) -> None:
        try:
            await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(number)
            ended.append(number)

    async def backend(items: list[int]) -> list[int]:
        async with anyio.create_task_group() as group:
            for number in items:
                group.start_soon(child, number)
        return items

    with pytest.raises(BackendDeadlineExceeded):
        await backend_call(backend, [1, 2], timeout=1)
    assert ended == [1, 2]
    assert anyio.current_time() == pytest.approx(3)


async def test_any_awaitable_is_a_call() -> None:
    """Not only coroutines: what `fn` returns is awaited as `await` does, and its errors pass."""

    class Call:
        def __init__(self, items: list[int]) -> None:
            self._items = items

        def __await__(self) -> Generator[Any, Any, list[int]]:
            yield from anyio.lowlevel.checkpoint().__await__()
            if not self._items:
                raise LookupError
            return self._items

    assert await backend_call(Call, [1], timeout=1) == [1]
    with pytest.raises(LookupError):
        await backend_call(Call, [], timeout=1)


async def test_a_deadline_of_the_backends_own_scope_is_the_backends() -> None:
    """`fail_after` inside the call, in the same tick as ours: one of the two, and never a hang."""

    async def backend(items: list[int]) -> list[int]:
        with anyio.fail_after(0.5):
            await anyio.sleep_forever()
        return items

    with pytest.raises(TimeoutError) as raised:
        await backend_call(backend, [1], timeout=1)
    assert type(raised.value) is TimeoutError


@pytest.mark.parametrize("value", BAD_TIMEOUTS, ids=lambda value: repr(value)[:9])
async def test_a_bad_backend_timeout_is_refused_before_the_call(value: Any) -> None:
    """A `ValueError`, and the backend never hears of it."""
    backend = Refusing()
    with pytest.raises(ValueError, match="timeout must be a finite number of seconds over 0, or None"):
        await backend_call(backend, [1], timeout=value)
    assert backend.calls == 0


async def test_a_sync_backend_is_refused_with_the_way_out() -> None:
    """Nothing could cancel it."""
    with pytest.raises(TypeError, match="give a sync processor to the batcher as it is"):
        await backend_call(sorted, [1], timeout=1)  # type: ignore[arg-type]


async def test_every_caller_of_a_late_batch_hears_of_it_by_its_own_copy() -> None:
    """The deadline reaches each caller as `BackendDeadlineExceeded`; the slot is free for the next batch."""
    backends: list[Callable[[list[int]], Awaitable[Sequence[int]]]] = [_forever, double]
    errors: list[BackendDeadlineExceeded] = []

    async def processor(items: list[int]) -> Sequence[int]:
        return await backend_call(backends.pop(0), items, timeout=1)

    async def caller(batcher: AsyncBatcher[int, int], item: int) -> None:
        with pytest.raises(BackendDeadlineExceeded) as raised:
            await batcher.process(item)
        errors.append(raised.value)

    async with AsyncBatcher.from_callable(processor, max_batch_size=3) as batcher:
        async with anyio.create_task_group() as group:
            for item in (1, 2, 3):
                group.start_soon(caller, batcher, item)
        assert len({id(error) for error in errors}) == 3
        assert await batcher.process(4) == 8


async def _forever(items: list[int]) -> list[int]:
    await anyio.sleep_forever()
    return items
