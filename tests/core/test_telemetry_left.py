"""A batch whose thread outlives who waits for it: its span ends when its callers are told, once, and for good."""

import asyncio
import threading
from typing import Any, Self

import anyio
import pytest
from listening import address, assert_agrees, in_request, linked, listening
from opentelemetry.trace import StatusCode
from scenes import open_scene

from async_batcher import AsyncBatcher, BatcherStopped, BatchEvent

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]


class Hanging:
    """A processor in a thread, which hangs in its last call until it is let go, and then returns or raises."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.hangs, self.gate = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        self._outcomes = list(outcomes)

    def __call__(self, batch: list[int]) -> list[int]:
        self.sizes.append(len(batch))
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if not self._outcomes:
            self.hangs.set()
            self.gate.wait()
        if outcome is not None:
            raise outcome
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()


@pytest.mark.backends("asyncio", "trio")  # uvloop's clock may stand still meanwhile
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
async def test_forced_stop_ends_the_span_of_what_hangs_in_a_thread(
    calls: int, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the span of a split batch's call, while the thread still runs: what it comes to is told to `on_batch`."""
    last = ValueError() if fails else None
    hanging = Hanging(ValueError(), last) if calls == 2 else Hanging(last)
    events: list[BatchEvent] = []
    ended = anyio.Event()

    def listen(event: BatchEvent) -> None:
        events.append(event)
        ended.set()

    with hanging, listening() as heard:
        async with open_scene(hanging, max_batch_size=4, split_on=ValueError, on_batch=listen) as scene:
            callers = [scene.start(in_request(scene.batcher.process, item)) for item in range(4)]
            await anyio.to_thread.run_sync(hanging.hangs.wait)
            await scene.batcher.stop(force=True)
            await scene.end_of(*callers)
            assert not any(caller.failed(BatcherStopped).withdrawn for caller in callers)
            assert (heard.unended, events) == ([], [])
            assert_agrees(heard, scene.batcher.stats(), [4])
            hanging.gate.set()
            await ended.wait()
            assert_agrees(heard, scene.batcher.stats(), [4])
    (batch,) = heard.batches
    attributes = batch.attributes or {}
    assert attributes["error.type"] == "async_batcher.BatcherStopped"
    assert attributes["async_batcher.batch.abandoned"] == 4
    assert batch.status.status_code is StatusCode.ERROR
    assert sorted(linked(batch)) == sorted(address(heard.named(f"request {item}")) for item in range(4))
    assert [span.status.status_code for span in heard.parts] == [StatusCode.ERROR] * (calls - 1)
    assert [event.name for event in batch.events] == ["async_batcher.split"] * (calls - 1)
    (time,) = heard.points("async_batcher.processing.duration").values()
    assert 0 < time.sum < 60
    assert hanging.sizes == [4, 2][:calls]
    assert caplog.records == []


async def hang(batcher: AsyncBatcher[int, int], hanging: Hanging) -> list[asyncio.Task[Any]]:
    """Start two callers, and wait until their batch hangs."""
    callers = [asyncio.create_task(in_request(batcher.process, item)()) for item in (1, 2)]
    await asyncio.to_thread(hanging.hangs.wait)
    return callers


def close_over(batcher: AsyncBatcher[int, int], hanging: Hanging) -> None:
    """Close a loop on which a batch runs, and cancel nothing."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(hang(batcher, hanging))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.mark.backends("asyncio", "uvloop")
@pytest.mark.parametrize("calls", [1, 2])
async def test_end_of_a_run_ends_the_span_of_what_hangs_in_a_thread(calls: int) -> None:
    """At once, since the batcher may never be used again; and it is not told of twice when it is."""
    hanging = Hanging(*[ValueError() for _ in range(calls - 1)], None)
    with hanging, listening() as heard:
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            hanging, max_batch_size=2, split_on=ValueError
        )
        await asyncio.to_thread(asyncio.run, hang(batcher, hanging))
        assert heard.unended == []
        assert_agrees(heard, batcher.stats(), [2])
        (batch,) = heard.batches
        assert (batch.attributes or {})["error.type"] == "async_batcher.BatchCancelled"
        assert len(heard.parts) == calls - 1
    assert len(heard.ended) == len(heard.began)


@pytest.mark.backends("asyncio", "uvloop")
@pytest.mark.parametrize("calls", [1, 2])
async def test_next_use_after_a_closed_loop_ends_the_span_of_what_hangs_in_a_thread(calls: int) -> None:
    """Though it is refused while the thread has the slot."""
    hanging = Hanging(*[ValueError() for _ in range(calls - 1)], None)
    with hanging, listening() as heard:
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            hanging, max_batch_size=2, split_on=ValueError
        )
        await asyncio.to_thread(close_over, batcher, hanging)
        with pytest.raises(RuntimeError, match="in use on another event loop"):
            await batcher.process(3)
        assert [name for name in heard.unended if name.startswith("batch")] == []
        assert [len(batch.links) for batch in heard.batches] == [2]
        assert len(heard.parts) == calls - 1
