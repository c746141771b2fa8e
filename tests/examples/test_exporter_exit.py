"""`BoundedExporter`, left: within its budgets, with each event counted once, whatever is cancelled."""

import asyncio

import anyio
import anyio.lowlevel
import pytest
from monitoring_clients import Collector, Swallower, counts
from virtual_time import settle

from examples.recipes.operations import BoundedExporter
from examples.recipes.operations.bounded_exporter import _Sending

pytestmark = pytest.mark.anyio


async def test_leaving_gives_up_after_the_drain_timeout() -> None:
    """A client that hangs: after `drain_timeout` its send is cancelled and failed, the rest is dropped."""
    client = Collector(gate=anyio.Event())
    start = anyio.current_time()
    async with BoundedExporter(client.send, send_timeout=60, drain_timeout=3, cancel_timeout=1) as exporter:
        for event in range(4):
            exporter.observe(event)
    assert anyio.current_time() - start == pytest.approx(3)
    assert counts(exporter) == (0, 1, 3)


async def test_leaving_drains_through_late_sends() -> None:
    """While the drain lasts each send has its own deadline."""
    client = Collector(gate=anyio.Event())
    start = anyio.current_time()
    async with BoundedExporter(client.send, send_timeout=1, drain_timeout=2.5) as exporter:
        for event in range(5):
            exporter.observe(event)
    assert anyio.current_time() - start == pytest.approx(2.5)
    assert counts(exporter) == (0, 3, 2)


async def test_a_send_that_swallows_cancellation_costs_the_cancel_timeout() -> None:
    """Leaving waits `drain_timeout`, then `cancel_timeout`, and returns; the send is counted as failed."""
    swallower = Swallower()
    async with swallower.released():
        start = anyio.current_time()
        async with BoundedExporter(
            swallower.send, send_timeout=60, drain_timeout=3, cancel_timeout=2
        ) as exporter:
            exporter.observe(1)
            exporter.observe(2)
        assert anyio.current_time() - start == pytest.approx(5)
        assert not swallower.ended.is_set()
        assert counts(exporter) == (0, 1, 1)
    assert counts(exporter) == (0, 1, 1)


async def test_a_send_that_was_cut_short_at_the_end_has_failed_whatever_came_of_it() -> None:
    """One that swallows its cancellation and returns, at once or a little later, was still under way."""
    for seconds in (0, 0.5):
        tidied = 0

        async def send(event: int, seconds: float = seconds) -> None:
            nonlocal tidied
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(seconds)
                tidied += 1

        async with BoundedExporter(send, send_timeout=60, drain_timeout=1, cancel_timeout=1) as exporter:
            exporter.observe(1)
        assert tidied == 1
        assert counts(exporter) == (0, 1, 0)


async def test_an_event_that_send_never_saw_is_dropped() -> None:
    """The end comes between the worker that took it and the first step of its send."""
    client = Collector()
    exporter = BoundedExporter(client.send)
    with anyio.CancelScope() as scope:
        async with exporter:
            exporter.observe(1)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    # On trio it is up to the dice whether the send gets to its first step.
    assert counts(exporter) == ((0, 1, 0) if client.begun else (0, 0, 1))


async def test_a_send_that_is_cut_short_before_its_first_step_never_begins() -> None:
    """On trio too, where a task that was cancelled before it ran runs all the same, to its first wait."""
    client = Collector()
    sending = _Sending(client.send, 1)
    sending.cut_short()
    await sending.task.ended.wait()
    assert client.begun == []
    assert not sending.begun


async def test_a_send_that_returned_before_it_was_cut_short_was_in_time() -> None:
    """The end comes in the tick in which `send` returned, before the worker has counted it."""
    client = Collector()
    sending = _Sending(client.send, 1)
    await sending.task.ended.wait()
    sending.cut_short()
    assert client.got == [1]
    assert not sending.late


@pytest.mark.backends("asyncio")
async def test_a_stranger_cancels_a_send_that_has_not_begun() -> None:
    """It was never given to `send`: dropped, and the worker goes on to the next."""
    client = Collector()
    async with BoundedExporter(client.send) as exporter:
        exporter.observe(1)
        exporter.observe(2)
        await asyncio.sleep(0)
        assert exporter._sending is not None
        for task in asyncio.all_tasks():
            if "_Sending" in repr(task):
                task.cancel()
    assert client.got == [2]
    assert counts(exporter) == (1, 0, 1)


async def test_leaving_by_an_exception_drains() -> None:
    """An exception in the body passes, after the drain."""
    client = Collector()
    exporter = BoundedExporter(client.send)

    async def use() -> None:
        async with exporter:
            exporter.observe(1)
            raise ValueError("body")

    with pytest.raises(ValueError, match="body"):
        await use()
    assert counts(exporter) == (1, 0, 0)


async def test_leaving_by_cancellation_does_not_drain() -> None:
    """A cancelled body: the send under way is cancelled at once, what waits is dropped, all is counted."""
    client = Collector(gate=anyio.Event())
    exporter = BoundedExporter(client.send, send_timeout=60, drain_timeout=60)
    with anyio.move_on_after(1) as scope:
        async with exporter:
            for event in range(4):
                exporter.observe(event)
            await anyio.sleep(60)
    assert scope.cancelled_caught
    assert anyio.current_time() == pytest.approx(1)
    assert counts(exporter) == (0, 1, 3)


async def test_cancelled_while_it_drains_it_gives_up_at_once() -> None:
    """A cancellation during the drain ends it: failed and dropped, and the cancellation goes on."""
    client = Collector(gate=anyio.Event())
    exporter = BoundedExporter(client.send, send_timeout=60, drain_timeout=60)
    with anyio.move_on_after(1) as scope:
        async with exporter:
            for event in range(4):
                exporter.observe(event)
    assert scope.cancelled_caught
    assert anyio.current_time() == pytest.approx(1)
    assert counts(exporter) == (0, 1, 3)


async def test_cancelled_with_a_send_that_swallows_it_leaving_costs_the_cancel_timeout() -> None:
    """A cancelled body and a client that goes on: `cancel_timeout`, and no longer."""
    swallower = Swallower()
    async with swallower.released():
        exporter = BoundedExporter(swallower.send, send_timeout=60, drain_timeout=60, cancel_timeout=2)
        with anyio.move_on_after(1) as scope:
            async with exporter:
                exporter.observe(1)
                await anyio.sleep(60)
        assert scope.cancelled_caught
        assert anyio.current_time() == pytest.approx(3)
        assert counts(exporter) == (0, 1, 0)


@pytest.mark.backends("asyncio")
async def test_cancelled_twice_it_leaves_at_once_and_counts() -> None:
    """A second native cancellation, during `cancel_timeout`, is obeyed, and every event is counted."""
    swallower = Swallower()
    async with swallower.released():
        exporter = BoundedExporter(swallower.send, send_timeout=60, drain_timeout=60, cancel_timeout=50)

        async def use() -> None:
            async with exporter:
                exporter.observe(1)
                exporter.observe(2)
                await anyio.sleep(60)

        task = asyncio.create_task(use())
        await anyio.sleep(1)
        task.cancel()
        await anyio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert anyio.current_time() == pytest.approx(2)
        assert counts(exporter) == (0, 1, 1)
    assert counts(exporter) == (0, 1, 1)


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("begun", [True, False], ids=["sending", "not begun"])
async def test_somebody_cancels_every_task_and_the_counts_still_hold(*, begun: bool) -> None:
    """As the end of `asyncio.run` does: worker and send are cancelled by a stranger, and leaving returns."""
    client = Collector(gate=anyio.Event())
    own = asyncio.current_task()
    async with BoundedExporter(client.send) as exporter:
        for event in range(4):
            exporter.observe(event)
        if begun:
            await settle()
        for task in asyncio.all_tasks() - {own}:
            if "_Detached" in repr(task) or "BoundedExporter" in repr(task) or "_Sending" in repr(task):
                task.cancel()
        await settle()
        exporter.observe(4)
    assert sum(counts(exporter)) == 5
    assert exporter.sent == 0


@pytest.mark.parametrize("order", [KeyboardInterrupt, SystemExit])
async def test_an_order_to_end_is_raised_by_the_exit(order: type[BaseException]) -> None:
    """`KeyboardInterrupt` and `SystemExit` of a send end the worker and reach the owner; all is counted."""
    client = Collector(errors={1: order()})
    exporter = BoundedExporter(client.send)

    async def use() -> None:
        async with exporter:
            exporter.observe(1)
            exporter.observe(2)
            await settle()
            exporter.observe(3)

    with pytest.raises(order):
        await use()
    assert counts(exporter) == (0, 1, 2)


@pytest.mark.backends("trio")
async def test_an_order_to_end_in_a_group_is_raised_by_the_exit_too() -> None:
    """Trio's task groups wrap it: the group is raised, and nothing is sent behind it."""

    async def order() -> None:
        raise KeyboardInterrupt

    async def send(_: int) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(order)

    exporter = BoundedExporter(send)

    async def use() -> None:
        async with exporter:
            exporter.observe(1)
            exporter.observe(2)
            await settle()

    with pytest.raises(BaseExceptionGroup) as raised:
        await use()
    assert raised.value.subgroup(KeyboardInterrupt) is not None
    assert counts(exporter) == (0, 1, 1)


async def test_it_serves_one_async_with() -> None:
    """A second entry is refused with the way out."""
    exporter = BoundedExporter(Collector().send)
    async with exporter:
        pass
    with pytest.raises(RuntimeError, match="build a new one"):
        await exporter.__aenter__()


async def test_leaving_wakes_an_idle_worker() -> None:
    """A worker that sleeps ends at once: no budget is spent on one that has nothing to do."""
    async with BoundedExporter(Collector().send) as exporter:
        exporter.observe(1)
        await settle()
    assert anyio.current_time() == 0
    assert counts(exporter) == (1, 0, 0)


async def test_left_at_once_it_takes_no_time() -> None:
    """Entered and left in one tick, empty, with an event, or cancelled: no budget is spent."""
    client = Collector()
    async with BoundedExporter(client.send):
        pass
    async with BoundedExporter(client.send) as full:
        full.observe(1)
    with anyio.CancelScope() as scope:
        async with BoundedExporter(client.send) as cancelled:
            cancelled.observe(2)
            scope.cancel()
    assert anyio.current_time() == 0
    assert counts(full) == (1, 0, 0)
    assert sum(counts(cancelled)) == 1
