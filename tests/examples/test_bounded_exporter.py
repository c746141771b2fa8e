"""`BoundedExporter`: observe never waits, the queue is bounded, each event is counted once."""

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from monitoring_clients import Collector, Swallower, counts
from virtual_time import settle

from examples.recipes.operations import BoundedExporter

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


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


@pytest.mark.real_time
async def test_it_works_on_the_real_loops() -> None:
    """asyncio, uvloop and trio in real time: sent, swallowed and dropped, and leaving takes its budgets alone."""
    swallower, client = Swallower(), Collector()
    stuck = anyio.Event()
    async with swallower.released():

        async def send(event: int) -> None:
            if event < 2:
                await client.send(event)
            else:
                stuck.set()
                await swallower.send(event)

        with anyio.fail_after(30):
            async with BoundedExporter(
                send, send_timeout=60, drain_timeout=0.01, cancel_timeout=0.01
            ) as exporter:
                for event in range(4):
                    exporter.observe(event)
                await stuck.wait()
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
