"""`on_batch`: told of every batch, never in the way of a result (contract, rules 9 and 13)."""

import dataclasses
import logging
from typing import Any

import anyio
import pytest
import trio
from recording import RecordingProcessor, raises, returns
from scenes import open_scene
from trio.testing import MockClock
from virtual_time import run_virtual, settle

from async_batcher import AsyncBatcher, BatchEvent

pytestmark = pytest.mark.anyio


async def test_event_says_what_the_batch_was() -> None:
    """One event a batch, with sizes and times in seconds, and no payload."""
    events: list[BatchEvent] = []

    async def slow(batch: list[str]) -> list[str]:
        await anyio.sleep(2)
        return batch

    async with open_scene(
        slow, max_batch_size=8, max_queue_time=1, name="mine", on_batch=events.append
    ) as scene:
        await scene.process("secret one")
        await anyio.sleep(0.5)
        await scene.process("secret two")
        await anyio.sleep(5)
    (event,) = events
    assert (event.name, event.reason, event.size) == ("mine", "due", 2)
    assert event.oldest_queue_seconds == pytest.approx(1)
    assert event.mean_queue_seconds == pytest.approx(0.75)
    assert event.processing_seconds == pytest.approx(2)
    assert (event.succeeded, event.failed, event.abandoned, event.error_type) == (2, 0, 0, None)
    assert "secret" not in repr(event)


async def test_reason_says_why_the_batch_left() -> None:
    """Full, due at its window's end, or drained by the stop."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_time=1, on_batch=events.append) as scene:
        await scene.process(1, 2)
        await scene.process(3)
        await anyio.sleep(2)
        await scene.process(4)
    assert [event.reason for event in events] == ["full", "due", "drain"]


async def test_event_of_a_failed_batch_names_the_error() -> None:
    """The type's name, never the message: it may hold a payload."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    fn.script.extend([raises(ValueError("secret")), returns([1]), raises(OSError(2, "secret"))])
    async with open_scene(fn, max_batch_size=2, on_batch=events.append) as scene:
        await scene.process(1, 2, 3, 4, 5, 6)
    assert [(event.succeeded, event.failed) for event in events] == [(0, 2)] * 3
    kinds = [event.error_type or "" for event in events]
    assert [kind.rpartition(".")[2] for kind in kinds] == [
        "ValueError",
        "ResultMismatch",
        "FileNotFoundError",
    ]
    assert "secret" not in repr(events)


async def test_event_counts_those_who_left() -> None:
    """Abandoned: gone while the batch ran; withdrawn items are in no batch."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=3, max_queue_time=1, on_batch=events.append) as scene:
        (before,) = await scene.process(0)
        before.cancel()
        await settle()
        callers = await scene.process(1, 2, 3)
        callers[0].cancel()
        await settle()
        fn.release()
    (event,) = events
    assert (event.size, event.succeeded, event.failed, event.abandoned) == (3, 2, 0, 1)


async def test_event_of_a_forced_stop() -> None:
    """A batch that was cut short is told as well: nobody succeeded."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, on_batch=events.append) as scene:
        await scene.process(1, 2)
        await scene.batcher.stop(force=True)
    assert [(event.size, event.succeeded) for event in events] in ([], [(2, 0)])


async def test_events_agree_with_the_counts() -> None:
    """Over many batches the events' sums are the stats'."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor(lambda batch: [ValueError() if item % 5 == 0 else item for item in batch])
    async with open_scene(
        fn, max_batch_size=3, max_queue_time=0, concurrency=2, on_batch=events.append
    ) as scene:
        submissions = [await scene.batcher.submit(item) for item in range(50)]
        submissions[-1].withdraw()
    stats = scene.batcher.stats()
    assert stats.batches == len(events) == len(fn.batches)
    assert stats.succeeded == sum(event.succeeded for event in events)
    assert stats.failed == sum(event.failed for event in events)
    assert sum(event.size for event in events) == len(fn.seen) == 49


async def test_values_are_frozen_dataclasses() -> None:
    """`dataclasses.asdict` works, nothing can be set, and there is no `__dict__`."""
    events: list[BatchEvent] = []
    async with open_scene(RecordingProcessor(), max_batch_size=1, on_batch=events.append) as scene:
        await scene.process(1)
    for value in (events[0], scene.batcher.stats()):
        assert isinstance(dataclasses.asdict(value), dict)
        assert not hasattr(value, "__dict__")
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.succeeded = 5  # type: ignore[misc]


async def test_observer_that_raises_touches_no_result_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """N6: callers get their results, the counts stand, and the log has one line, without a payload."""
    calls = 0

    def on_batch(event: BatchEvent) -> None:
        nonlocal calls
        calls += 1
        raise LookupError("the hook's own")

    fn = RecordingProcessor()
    with caplog.at_level(logging.DEBUG, logger="async_batcher"):
        async with open_scene(fn, max_batch_size=1, on_batch=on_batch) as scene:
            callers = await scene.process("secret", "secret", "secret")
            assert [caller.result for caller in callers] == ["secret" * 10] * 3
    assert calls == 3
    records = [record for record in caplog.records if record.name.split(".")[0] == "async_batcher"]
    assert len(records) == 1
    assert records[0].levelno >= logging.WARNING
    assert "secret" not in caplog.text
    assert "the hook's own" in caplog.text
    assert scene.batcher.stats().succeeded == 3


@pytest.mark.parametrize("error", [StopIteration(), RuntimeError("x"), GeneratorExit(), TimeoutError()])
async def test_whatever_an_observer_raises_leaves_nobody_waiting(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """N6, F2: any kind of error; the batches go on, and stop returns."""

    def on_batch(event: BatchEvent) -> None:
        raise error

    async with open_scene(RecordingProcessor(), max_batch_size=1, on_batch=on_batch) as scene:
        assert await scene.batcher.process(1) == 10
        assert await scene.batcher.process(2) == 20


@pytest.mark.parametrize("run", ["asyncio", "trio"])
def test_observer_that_ends_the_program_ends_it(run: str) -> None:
    """Rule 9: `SystemExit` goes on, once, and after the callers have their results."""
    results: list[int] = []
    error = SystemExit(3)

    def on_batch(event: BatchEvent) -> None:
        raise error

    async def main() -> None:
        built: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            RecordingProcessor(), max_batch_size=1, on_batch=on_batch
        )
        async with built as batcher:
            submission = await batcher.submit(1)
            try:
                await anyio.sleep(60)
            finally:
                results.append(await submission)

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - its kind is asked for below
        run_virtual(main) if run == "asyncio" else trio.run(main, clock=MockClock(autojump_threshold=0))
    found = caught.value
    while isinstance(found, BaseExceptionGroup):
        (found,) = found.exceptions
    assert found is error
    assert results == [10]


async def test_observer_runs_after_its_batch_has_given_the_slot_back() -> None:
    """Rule 3: its callers are settled, and the next batch has the slot already."""
    seen: list[tuple[int, int, int]] = []

    def on_batch(event: BatchEvent) -> None:
        stats = scene.batcher.stats()
        seen.append((stats.running, stats.succeeded, stats.waiting))

    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, on_batch=on_batch) as scene:
        await scene.process(1, 2)
        fn.release(0)
        await settle()
        assert seen == [(1, 1, 0)]
        fn.release()
    assert seen == [(1, 1, 0), (0, 2, 0)]


async def test_coroutine_that_a_plain_observer_returns_is_no_warning() -> None:
    """N7: a sync callable that hands back a coroutine, as a lambda may, leaves no "never awaited"."""

    async def observe(event: BatchEvent) -> None: ...

    async with open_scene(
        RecordingProcessor(),
        max_batch_size=1,
        on_batch=lambda event: observe(event),  # noqa: PLW0108
    ) as scene:
        assert await scene.batcher.process(1) == 10


async def test_nothing_of_a_payload_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Rule 12: through failures, mismatches, withdrawals and stops no item or result is in the log."""
    fn = RecordingProcessor()
    fn.script.extend([raises(ValueError("secret")), returns(["secret"] * 5)])
    with caplog.at_level(logging.DEBUG):
        async with open_scene(fn, max_batch_size=2, max_queue_time=0.1) as scene:
            await scene.process("secret", "secret", "secret", "secret")
            (caller,) = await scene.process("secret")
            caller.cancel()
            await settle()
            await scene.process("secret")
            await scene.batcher.stop(force=True)
    assert "secret" not in caplog.text


async def test_no_observer_is_no_cost_of_correctness() -> None:
    """Without `on_batch` batches count all the same."""
    options: dict[str, Any] = {"on_batch": None, "name": None}
    async with open_scene(RecordingProcessor(), max_batch_size=1, **options) as scene:
        await scene.process(1)
    assert scene.batcher.stats().batches == 1
