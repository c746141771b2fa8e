"""`BoundedExporter`: observe never waits, each event is counted once, leaving ends within its budgets."""

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest
from virtual_time import settle

from examples.recipes.operations import BoundedExporter

pytestmark = pytest.mark.anyio


class Collector:
    """A monitoring client: it keeps what it got, may wait for a gate, and may fail at given events."""

    def __init__(
        self, gate: anyio.Event | None = None, errors: dict[int, BaseException] | None = None
    ) -> None:
        self.got: list[int] = []
        self.begun: list[int] = []
        self.gate = gate
        self.errors = errors or {}

    async def send(self, event: int) -> None:
        self.begun.append(event)
        if self.gate is not None:
            await self.gate.wait()
        await anyio.lowlevel.checkpoint()
        if event in self.errors:
            raise self.errors[event]
        self.got.append(event)


class Swallower:
    """A client that goes on, however often it is cancelled, until it is let go."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()
        self.ended = anyio.Event()

    async def send(self, event: int) -> None:
        try:
            while not self.let_go.is_set():
                if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
                    with suppress(asyncio.CancelledError):
                        await self.let_go.wait()
                else:
                    with anyio.CancelScope(shield=True):
                        await self.let_go.wait()
        finally:
            self.ended.set()

    @asynccontextmanager
    async def released(self) -> AsyncGenerator[Self]:
        """Let it go at the end, and see it end: nothing stays behind the test."""
        try:
            yield self
        finally:
            self.let_go.set()
            with anyio.CancelScope(shield=True):
                await self.ended.wait()


def counts(exporter: BoundedExporter[int]) -> tuple[int, int, int]:
    return exporter.sent, exporter.failed, exporter.dropped


async def test_sends_what_it_observes_in_order() -> None:
    """One worker sends one event after the other; leaving sends what still waits."""
    client = Collector()
    async with BoundedExporter(client.send) as exporter:
        for event in range(5):
            exporter.observe(event)
        assert client.begun == []
    assert client.got == [0, 1, 2, 3, 4]
    assert counts(exporter) == (5, 0, 0)


async def test_an_idle_worker_wakes_for_a_late_event() -> None:
    """A worker that went to sleep sends what comes an hour later, at once."""
    client = Collector()
    async with BoundedExporter(client.send) as exporter:
        for event in range(3):
            await anyio.sleep(3600)
            exporter.observe(event)
            await settle()
            assert client.got == list(range(event + 1))
    assert counts(exporter) == (3, 0, 0)


async def test_a_failed_send_is_counted_and_the_worker_lives(caplog: pytest.LogCaptureFixture) -> None:
    """Three events, the first of which fails: two are sent, one has failed; the failure is logged once."""
    client = Collector(errors={1: ValueError("down"), 2: OSError("down")})
    with caplog.at_level(logging.WARNING):
        async with BoundedExporter(client.send) as exporter:
            for event in range(1, 5):
                exporter.observe(event)
    assert client.got == [3, 4]
    assert counts(exporter) == (2, 2, 0)
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is not None


@pytest.mark.backends("asyncio")
async def test_a_send_that_cancels_itself_has_only_failed() -> None:
    """A `CancelledError` that `send` raises is its own failure; the worker lives."""
    client = Collector(errors={1: asyncio.CancelledError()})
    async with BoundedExporter(client.send) as exporter:
        for event in range(1, 4):
            exporter.observe(event)
    assert client.got == [2, 3]
    assert counts(exporter) == (2, 1, 0)


async def test_a_send_that_is_not_async_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    """A plain function as `send` fails with what to write, and leaving works."""
    seen: list[int] = []
    async with BoundedExporter[int](seen.append) as exporter:  # type: ignore[arg-type]
        exporter.observe(1)
    assert counts(exporter) == (0, 1, 0)
    assert "send must be an async function" in caplog.text


async def test_a_logging_handler_that_raises_does_not_end_the_worker() -> None:
    """Whatever logging does, the next event is sent."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no disk")

    logger, handler = logging.getLogger("examples.recipes.operations.bounded_exporter"), Broken()
    logger.addHandler(handler)
    try:
        client = Collector(errors={1: ValueError("down")})
        async with BoundedExporter(client.send) as exporter:
            exporter.observe(1)
            exporter.observe(2)
    finally:
        logger.removeHandler(handler)
    assert counts(exporter) == (1, 1, 0)


async def test_observe_never_waits_and_the_queue_is_bounded() -> None:
    """While a send hangs, 16 wait, one is under way and 83 of 100 are dropped, each at once."""
    client = Collector(gate=anyio.Event())
    async with BoundedExporter(client.send, max_events=16, send_timeout=60) as exporter:
        exporter.observe(0)
        await settle()
        start = anyio.current_time()
        for event in range(1, 100):
            exporter.observe(event)
        assert anyio.current_time() == start
        assert client.begun == [0]
        assert counts(exporter) == (0, 0, 83)
        assert client.gate is not None
        client.gate.set()
    assert client.got == list(range(17))
    assert counts(exporter) == (17, 0, 83)


async def test_a_late_send_is_cancelled_and_counts_as_failed() -> None:
    """The send deadline ends a send that hangs, and the next one begins."""
    client = Collector(gate=anyio.Event())
    async with BoundedExporter(client.send, send_timeout=2) as exporter:
        exporter.observe(1)
        exporter.observe(2)
        await anyio.sleep(1.9)
        assert client.begun == [1]
        await anyio.sleep(0.2)
        assert client.begun == [1, 2]
        assert counts(exporter) == (0, 1, 0)
        assert client.gate is not None
        client.gate.set()
    assert counts(exporter) == (1, 1, 0)


async def test_a_late_send_that_swallows_its_cancellation_still_counts_as_failed() -> None:
    """A send that returns, but only after its deadline, has failed; and no second is under way beside it."""
    swallower = Swallower()
    async with swallower.released(), BoundedExporter(swallower.send, send_timeout=1) as exporter:
        exporter.observe(1)
        exporter.observe(2)
        await anyio.sleep(5)
        assert counts(exporter) == (0, 0, 0)
        swallower.let_go.set()
    assert counts(exporter) == (1, 1, 0)


async def test_events_outside_its_lifetime_are_dropped() -> None:
    """Before it is entered and after it is left `observe` counts a drop and raises nothing."""
    client = Collector()
    exporter = BoundedExporter(client.send)
    exporter.observe(1)
    assert counts(exporter) == (0, 0, 1)
    async with exporter:
        exporter.observe(2)
    exporter.observe(3)
    assert client.got == [2]
    assert counts(exporter) == (1, 0, 2)


def test_observe_needs_no_event_loop() -> None:
    """Outside any loop it counts a drop, for a callback that is called at interpreter exit."""
    exporter = BoundedExporter(Collector().send)
    exporter.observe(1)
    assert counts(exporter) == (0, 0, 1)


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
    assert client.begun == []
    assert counts(exporter) == (0, 0, 1)


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


@pytest.mark.real_time
async def test_it_works_on_the_real_loops() -> None:
    """asyncio, uvloop and trio in real time: sent, late and swallowed, within the budgets."""
    swallower, client = Swallower(), Collector()
    async with swallower.released():

        async def send(event: int) -> None:
            await (client.send(event) if event < 2 else swallower.send(event))

        with anyio.fail_after(10):
            async with BoundedExporter(
                send, send_timeout=0.01, drain_timeout=0.01, cancel_timeout=0.01
            ) as exporter:
                for event in range(4):
                    exporter.observe(event)
        assert counts(exporter) == (2, 1, 1)


BAD_SECONDS: list[object] = [0, -1, float("nan"), float("inf"), True, "1", None, 10**400]


@pytest.mark.parametrize("value", BAD_SECONDS, ids=str)
@pytest.mark.parametrize("name", ["send_timeout", "drain_timeout", "cancel_timeout"])
def test_timeouts_are_positive_and_finite(name: str, value: object) -> None:
    """Anything else is a `ValueError` that names the option; `None` too, since each is a bound."""
    with pytest.raises(ValueError, match=f"{name} must be a finite number of seconds over 0"):
        BoundedExporter(Collector().send, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None, float("inf")], ids=str)
def test_max_events_is_a_whole_number_of_at_least_1(value: object) -> None:
    """Anything else is a `ValueError`."""
    with pytest.raises(ValueError, match="max_events must be a whole number of at least 1"):
        BoundedExporter(Collector().send, max_events=value)  # type: ignore[arg-type]


def test_a_send_that_cannot_be_called_is_refused() -> None:
    """The mistake is found where it was made."""
    with pytest.raises(TypeError, match="async function of one event"):
        BoundedExporter(None)  # type: ignore[arg-type]


def test_send_may_be_any_callable_that_gives_an_awaitable() -> None:
    """Partials and lambdas are no mistake."""
    made: list[Callable[[Any], Any]] = [
        functools.partial(Collector.send, Collector()),
        lambda event: Collector().send(event),
    ]
    for send in made:
        assert counts(BoundedExporter(send)) == (0, 0, 0)
