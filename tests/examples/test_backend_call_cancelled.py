"""`backend_call`, cancelled: once, by whom, and what becomes of the call's own cleanup."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest
from intakes import _current
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher
from examples.recipes.operations import BackendDeadlineExceeded, backend_call

pytestmark = pytest.mark.anyio


@pytest.mark.backends("asyncio")
async def test_on_asyncio_a_late_call_is_cancelled_once() -> None:
    """What it awaits in `finally` and on leaving an `async with` runs to its end, unshielded."""
    log: list[str] = []

    @contextlib.asynccontextmanager
    async def connection() -> AsyncGenerator[None]:
        log.append("borrowed")
        try:
            yield
        finally:
            await asyncio.sleep(1)
            await anyio.sleep(1)
            log.append("given back")

    async def backend(items: list[int]) -> list[int]:
        try:
            async with connection():
                await asyncio.sleep(60)
        finally:
            await anyio.sleep(1)
            log.append("closed")
        return items

    with pytest.raises(BackendDeadlineExceeded):
        await backend_call(backend, [1], timeout=2)
    assert log == ["borrowed", "given back", "closed"]
    assert anyio.current_time() == pytest.approx(5)
    assert _current().cancelling() == 0


@pytest.mark.backends("asyncio")
async def test_on_asyncio_a_call_that_goes_on_hears_of_it_once() -> None:
    """It is not cancelled in every turn of the loop; what it returns in the end counts."""
    heard: list[float] = []

    async def backend(items: list[int]) -> list[int]:
        while anyio.current_time() < 10:
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                heard.append(anyio.current_time())
        return items

    assert await backend_call(backend, [1], timeout=1) == [1]
    assert heard == [1]
    assert _current().cancelling() == 0


async def test_what_the_call_shields_delays_its_cancellation_and_does_not_lose_it() -> None:
    """A deadline of its own that passes behind that shield is not taken for the cancellation."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(3) as own:
                await anyio.sleep(60)
            assert own.cancelled_caught
            await anyio.sleep(1)
            log.append("committed")
        await anyio.sleep(60)
        return items

    with pytest.raises(BackendDeadlineExceeded):
        await backend_call(backend, [1], timeout=1)
    assert log == ["committed"]
    assert anyio.current_time() == pytest.approx(4)


async def _in_a_task() -> None:
    await asyncio.create_task(asyncio.sleep(60))


async def _in_a_task_that_raises_a_cancellation_of_its_own() -> None:
    async def driver() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise asyncio.CancelledError from None

    await asyncio.create_task(driver())


async def _in_a_gather() -> None:
    await asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))


async def _in_a_timeout() -> None:
    async with asyncio.timeout(60):
        await asyncio.sleep(60)


async def _in_a_task_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize(
    "wait",
    [
        anyio.sleep_forever,
        _in_a_task,
        _in_a_task_that_raises_a_cancellation_of_its_own,
        _in_a_gather,
        _in_a_timeout,
        _in_a_task_group,
    ],
)
@pytest.mark.parametrize("after", [None, -1e-10, 0, 1e-10], ids=["alone", "first", "together", "second"])
async def test_its_cleanup_is_cut_by_no_second_cancellation(
    after: float | None, wait: Callable[[], Awaitable[None]]
) -> None:
    """Whatever the call waits for, and where its task is cancelled in the very tick of the deadline too."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        try:
            await wait()
        finally:
            await asyncio.sleep(1)
            log.append("rolled back")
            await anyio.sleep(1)
            log.append("given back")
        return items

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(backend_call(backend, [1], timeout=1))
    if after is not None:
        loop.call_at(1 + after, task.cancel)
    with pytest.raises(BackendDeadlineExceeded if after is None else asyncio.CancelledError):
        await task
    assert log == ["rolled back", "given back"]
    assert task.cancelling() == (0 if after is None else 1)


@pytest.mark.backends("asyncio")
async def test_a_native_timeout_behind_the_calls_shield_is_not_taken_for_the_deadline() -> None:
    """`asyncio.timeout` ends what the call shields, after the deadline: that is still to come, and comes."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        with anyio.CancelScope(shield=True), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.sleep(60)
        log.append("committed")
        await asyncio.sleep(60)
        return items

    with pytest.raises(BackendDeadlineExceeded):
        await backend_call(backend, [1], timeout=1)
    assert log == ["committed"]
    assert anyio.current_time() == pytest.approx(3)


@pytest.mark.real_time
async def test_it_works_on_the_real_loops() -> None:
    """asyncio, uvloop and trio in real time: late, cleaned up, and the slot is free for the next."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        try:
            await anyio.sleep(60 if items == [1] else 0)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            log.append("cleaned up")
        return items

    async def processor(items: list[int]) -> list[int]:
        return await backend_call(backend, items, timeout=0.01 if items == [1] else 60)

    async with AsyncBatcher.from_callable(processor, max_queue_time=0) as batcher:
        with pytest.raises(BackendDeadlineExceeded):
            await batcher.process(1)
        assert await batcher.process(2) == 2
    assert log == ["cleaned up"] * 2


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("natively", [True, False], ids=["a task", "a scope"])
async def test_a_cancellation_from_outside_during_the_cleanup_wins(*, natively: bool) -> None:
    """A second, native one ends the cleanup, as it ends any; a scope's waits for it; both are the outcome."""
    log: list[str] = []

    async def backend(items: list[int]) -> list[int]:
        try:
            await anyio.sleep(60)
        finally:
            await anyio.sleep(2)
            log.append("cleaned up")
        return items

    async def call() -> None:
        with anyio.CancelScope() as outer:
            asyncio.get_running_loop().call_later(2, _current().cancel if natively else outer.cancel)
            await backend_call(backend, [1], timeout=1)
        assert outer.cancelled_caught

    task = asyncio.create_task(call())
    await asyncio.wait([task])
    assert task.cancelled() is natively
    assert log == ([] if natively else ["cleaned up"])
    assert anyio.current_time() == pytest.approx(2 if natively else 3)


@pytest.mark.backends("asyncio")
async def test_nothing_is_kept_of_a_call_that_has_ended() -> None:
    """Late, failed or gone on: its items are free at once, and not when garbage is next collected."""

    class Items(list[int]):
        """A list that can be referred to weakly."""

    async def failing(items: list[int]) -> list[int]:
        raise ValueError

    async def going_on(items: list[int]) -> list[int]:
        with contextlib.suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        return []

    gc.disable()
    try:
        for backend in (_forever, failing, going_on):
            items = Items()
            left = weakref.ref(items)
            with contextlib.suppress(BackendDeadlineExceeded, ValueError):
                await backend_call(backend, items, timeout=1)
            del items
            await anyio.sleep(1)
            assert left() is None
    finally:
        gc.enable()


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("after", [-1e-10, 0, 1e-10], ids=["first", "together", "second"])
@pytest.mark.parametrize("swallow", [False, True], ids=["cooperative", "cleans up"])
async def test_an_outside_cancellation_in_the_same_tick_wins(after: float, *, swallow: bool) -> None:
    """Whoever comes first in that tick, the task is cancelled, and `cancelling()` counts the one outside."""
    caught: list[BaseException] = []

    async def backend(items: list[int]) -> list[int]:
        try:
            await anyio.sleep_forever()
        finally:
            if swallow:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
        return items

    async def call() -> int:
        try:
            await backend_call(backend, [1], timeout=1)
        except BaseException as error:  # noqa: BLE001  whatever it is, it is what the test is about
            caught.append(error)
        return _current().cancelling()

    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualEventLoop)
    task = asyncio.create_task(call())
    loop.call_at(1 + after, task.cancel)
    assert await task == 1
    assert [type(error) for error in caught] == [asyncio.CancelledError]


@pytest.mark.backends("asyncio")
async def test_the_deadline_leaves_cancelling_balanced() -> None:
    """After the deadline the task counts as cancelled as often as before: not at all, or once."""

    async def call() -> int:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            with pytest.raises(BackendDeadlineExceeded):
                await backend_call(_forever, [1], timeout=1)
        return _current().cancelling()

    with pytest.raises(BackendDeadlineExceeded):
        await backend_call(_forever, [1], timeout=1)
    assert _current().cancelling() == 0
    task = asyncio.create_task(call())
    await settle()
    task.cancel()
    assert await task == 1


async def test_an_outer_scope_of_the_same_tick_wins() -> None:
    """An outer scope with the same deadline ends the call as a cancellation of its own."""
    with anyio.move_on_after(1) as outer:
        await backend_call(_forever, [1], timeout=1)
    assert outer.cancelled_caught
    with anyio.move_on_after(1) as outer:
        await backend_call(_forever, [1], timeout=60)
    assert outer.cancelled_caught


async def _forever(items: list[int]) -> list[int]:
    await anyio.sleep_forever()
    return items
