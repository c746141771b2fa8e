"""One span a batch: a root, linked to the spans of its callers, which are told of it."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from listening import Heard, address, fresh, in_request, linked, listening, ours, request, set_up, told_of
from opentelemetry import metrics, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind, StatusCode
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import (
    AsyncBatcher,
    BatcherGroups,
    BatcherStopped,
    ItemExpired,
    _providers,
    _telemetry,
    batched,
)

pytestmark = pytest.mark.anyio


async def backend(batch: list[Any]) -> list[Any]:
    """Answer inside a span of its own, as an instrumented client does."""
    with trace.get_tracer("backend").start_as_current_span("backend"):
        await anyio.lowlevel.checkpoint()
    return batch


async def process(batcher: AsyncBatcher[Any, Any], *items: Any) -> None:
    """Process these, each in a request of its own."""
    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(in_request(batcher.process, item))


async def test_batch_has_a_span_of_its_own_linked_to_every_caller() -> None:
    """A root, kind INTERNAL, that says what batch it was; one goes from it to each request, and back."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=3, name="embeddings") as batcher:
            await process(batcher, 1, 2, 3)
    (batch,) = heard.batches
    requests = [heard.named(f"request {item}") for item in (1, 2, 3)]
    assert (batch.name, batch.kind, batch.parent, batch.status.status_code) == (
        "batch embeddings",
        SpanKind.INTERNAL,
        None,
        StatusCode.UNSET,
    )
    assert sorted(linked(batch)) == sorted(map(address, requests))
    assert [told_of(each) for each in requests] == [[address(batch)]] * 3
    attributes = dict(batch.attributes or {})
    assert attributes.pop("async_batcher.queue.oldest_seconds") == 0
    assert attributes.pop("async_batcher.queue.mean_seconds") == 0
    assert attributes == {
        "async_batcher.name": "embeddings",
        "async_batcher.batch.reason": "full",
        "async_batcher.batch.size": 3,
        "async_batcher.batch.callers": 3,
        "async_batcher.batch.succeeded": 3,
        "async_batcher.batch.failed": 0,
        "async_batcher.batch.abandoned": 0,
    }
    assert heard.unended == []


async def test_callers_traces_stay_whole_and_the_backend_is_in_none_of_them() -> None:
    """The backend's own spans are the batch's children; a request's trace has what the request did."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=2) as batcher:
            await process(batcher, 1, 2)
    (batch,), called = heard.batches, heard.named("backend")
    assert called.parent is not None
    assert (called.parent.trace_id, called.parent.span_id) == address(batch)
    for item in (1, 2):
        trace_id, _ = address(heard.named(f"request {item}"))
        assert [span.name for span in heard.ended if address(span)[0] == trace_id] == [f"request {item}"]


async def test_batcher_that_is_built_in_a_request_is_in_no_trace_of_its() -> None:
    """The context in which it was built is the processor's, but for that span."""
    with listening() as heard:
        with request("builds"):
            batcher = AsyncBatcher.from_callable(backend, max_batch_size=1)
        async with batcher:
            await process(batcher, 1)
    (batch,) = heard.batches
    assert batch.parent is None
    assert address(heard.named("backend"))[0] == address(batch)[0]
    assert address(batch)[0] != address(heard.named("builds"))[0]


async def test_caller_that_is_not_sampled_is_not_linked() -> None:
    """Its span is nowhere to be found; the others are linked, and the batch is the sampler's own decision."""
    off = ParentBased(ALWAYS_ON, local_parent_not_sampled=ALWAYS_OFF)
    with listening(sampler=off) as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=2) as batcher:

            async def unsampled() -> None:
                nobody = trace.NonRecordingSpan(trace.SpanContext(5, 5, is_remote=False))
                with trace.use_span(nobody):
                    await batcher.process(2)

            async with anyio.create_task_group() as group:
                group.start_soon(in_request(batcher.process, 1))
                group.start_soon(unsampled)
    (batch,) = heard.batches
    assert linked(batch) == [address(heard.named("request 1"))]
    assert (batch.attributes or {})["async_batcher.batch.callers"] == 2


async def test_nobody_is_told_of_a_batch_that_is_not_sampled() -> None:
    """A way to a span that is nowhere leads nowhere."""

    class NoBatches(ParentBased):
        def should_sample(self, *asked: Any, **named: Any) -> Any:
            sampler = ALWAYS_OFF if asked[2].startswith("batch") else ALWAYS_ON
            return sampler.should_sample(*asked, **named)

    with listening(sampler=NoBatches(ALWAYS_ON)) as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=1) as batcher:
            await process(batcher, 1)
    assert heard.batches == []
    assert told_of(heard.named("request 1")) == []


async def test_sampler_sees_the_links_when_the_batch_begins() -> None:
    """So that one may sample a batch for its callers' sake."""
    seen: list[int] = []

    class Links(ParentBased):
        def should_sample(self, *asked: Any, **named: Any) -> Any:
            _, _, name, *_ = asked
            if name.startswith("batch"):
                seen.append(len(named.get("links") or asked[5]))
            return ALWAYS_ON.should_sample(*asked, **named)

    with listening(sampler=Links(ALWAYS_ON)):
        async with AsyncBatcher.from_callable(backend, max_batch_size=3) as batcher:
            await process(batcher, 1, 2, 3)
    assert seen == [3]


@pytest.mark.parametrize("way", ["process_many", "map", "submit"])
async def test_caller_of_many_items_is_linked_once_a_batch(way: str) -> None:
    """And told once of each batch."""

    async def call(_: str) -> None:
        match way:
            case "process_many":
                assert await batcher.process_many(range(6)) == list(range(6))
            case "map":
                async with batcher.map(range(6)) as results:
                    assert [result async for result in results] == list(range(6))
            case _:
                submissions = [await batcher.submit(item) for item in range(6)]
                assert [await submission for submission in submissions] == list(range(6))

    with listening() as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=3, max_queue_time=0.01) as batcher:
            await in_request(call, way)()
    (of,) = (heard.named(f"request {way}"),)
    assert {tuple(linked(batch)) for batch in heard.batches} == {(address(of),)}
    assert sorted(told_of(of)) == sorted(map(address, heard.batches))
    assert sum((batch.attributes or {})["async_batcher.batch.size"] for batch in heard.batches) == 6  # type: ignore[misc]


async def test_all_who_share_a_place_are_linked_and_told() -> None:
    """One item, three callers."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(
            backend, coalesce_key=lambda _: "same", max_queue_time=1
        ) as batcher:
            await process(batcher, 1, 2, 3)
    (batch,) = heard.batches
    requests = [heard.named(f"request {item}") for item in (1, 2, 3)]
    assert sorted(linked(batch)) == sorted(map(address, requests))
    assert [told_of(each) for each in requests] == [[address(batch)]] * 3
    attributes = batch.attributes or {}
    assert (attributes["async_batcher.batch.size"], attributes["async_batcher.batch.callers"]) == (1, 3)


async def test_who_is_not_in_the_batch_is_neither_linked_nor_told() -> None:
    """Cancelled, withdrawn, expired while they waited: their own spans end without it."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=10, max_queue_time=0) as scene:
            fn.hold()
            await scene.process(0)
            callers = [scene.start(in_request(scene.batcher.process, item)) for item in (1, 2)]
            await settle()
            callers[0].cancel()
            with request("withdraws"):
                assert (await scene.batcher.submit(3)).withdraw()
            too_old = scene.start(in_request(lambda item: scene.batcher.process(item, expires_after=1), 4))
            await settle()
            await anyio.sleep(2)
            fn.release()
            await scene.end_of(*callers, too_old)
            too_old.failed(ItemExpired)
    assert fn.batches == [[0], [2]]
    assert [linked(batch) for batch in heard.batches] == [[], [address(heard.named("request 2"))]]
    gone = [heard.named(name) for name in ("request 1", "withdraws", "request 4")]
    assert [told_of(each) for each in gone] == [[], [], []]
    assert heard.unended == []


async def test_caller_that_leaves_a_running_batch_is_one_of_its_callers() -> None:
    """It was in it: linked, told, and counted as abandoned."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=2) as scene:
            fn.hold()
            callers = [scene.start(in_request(scene.batcher.process, item)) for item in (1, 2)]
            await settle()
            callers[0].cancel()
            await settle()
            fn.release()
    (batch,) = heard.batches
    assert len(batch.links) == 2
    assert told_of(heard.named("request 1")) == [address(batch)]
    assert (batch.attributes or {})["async_batcher.batch.abandoned"] == 1


async def test_span_that_has_ended_before_the_batch_is_linked_and_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An event would be a warning in the log."""
    with listening() as heard:
        async with AsyncBatcher.from_callable(backend, max_queue_time=1) as batcher:
            with request("leaves early"):
                submission = await batcher.submit(1)
            assert await submission == 1
    (batch,) = heard.batches
    early = heard.named("leaves early")
    assert (linked(batch), told_of(early)) == ([address(early)], [])
    assert caplog.records == []


async def test_failed_batch_says_of_which_type_and_no_more() -> None:
    """Status ERROR and `error.type` by the conventions; neither the error's text nor an item leaves."""

    async def fail(batch: list[str]) -> None:
        raise KeyError(batch[0])

    with listening() as heard:
        async with AsyncBatcher.from_callable(fail, max_batch_size=1, name="failing") as batcher:
            with pytest.raises(KeyError):
                await in_request(batcher.process, "s3cret")()
        (batch,) = heard.batches
        assert batch.status.status_code is StatusCode.ERROR
        assert batch.status.description is None
        assert (batch.attributes or {})["error.type"] == "KeyError"
        assert [event.name for event in batch.events] == []
        heard.ended.remove(heard.named("request s3cret"))
        assert "s3cret" not in heard.text()
        durations = heard.points("async_batcher.processing.duration")
        assert [dict(of).get("error.type") for of in durations] == ["KeyError"]
        assert [dict(of).get("error.type") for of in heard.points("async_batcher.batch.size")] == [None]


async def test_errors_of_single_items_are_no_error_of_the_batch() -> None:
    """They are counted in its span."""

    async def partly(batch: list[int]) -> list[Any]:
        return [LookupError(), *batch[1:]]

    with listening() as heard:
        async with open_scene(partly, max_batch_size=3) as scene:
            await scene.process(1, 2, 3)
    (batch,) = heard.batches
    attributes = batch.attributes or {}
    assert batch.status.status_code is StatusCode.UNSET
    assert (attributes["async_batcher.batch.failed"], attributes["async_batcher.batch.succeeded"]) == (1, 2)
    assert "error.type" not in attributes


async def test_calls_of_a_split_batch_are_its_children() -> None:
    """What the backend does in one of them is that one's child; the batch says that it was split."""

    async def picky(batch: list[int]) -> list[int]:
        await backend(batch)
        if 3 in batch:
            raise ValueError(batch)
        return batch

    with listening() as heard:
        async with open_scene(
            picky, max_batch_size=4, max_queue_time=1, split_on=ValueError, name="n"
        ) as scene:
            await scene.process(1, 2, 3, 4)
    (batch,), parts = heard.batches, heard.parts
    told = [((part.attributes or {})["async_batcher.batch.size"], part.status.status_code) for part in parts]
    assert told == [
        (2, StatusCode.UNSET),
        (2, StatusCode.ERROR),
        (1, StatusCode.ERROR),
        (1, StatusCode.UNSET),
    ]
    assert {part.name for part in parts} == {"batch part n"}
    assert {part.parent and part.parent.span_id for part in parts} == {address(batch)[1]}
    calls = [span.parent and span.parent.span_id for span in heard.ended if span.name == "backend"]
    assert calls == [address(batch)[1], *(address(part)[1] for part in parts)]
    (event,) = batch.events
    assert (event.name, dict(event.attributes or {})) == ("async_batcher.split", {"error.type": "ValueError"})
    assert batch.status.status_code is StatusCode.UNSET
    assert heard.unended == []


async def test_after_a_split_the_batch_is_current_again() -> None:
    """What `on_batch` does is no child of the last call."""
    current: list[trace.Span] = []

    async def picky(batch: list[int]) -> list[int]:
        if 2 in batch:
            raise ValueError(batch)
        return batch

    def listen(_: object) -> None:
        current.append(trace.get_current_span())

    with listening() as heard:
        async with open_scene(picky, max_batch_size=2, split_on=ValueError, on_batch=listen) as scene:
            await scene.process(1, 2)
    assert list(map(address, current)) == list(map(address, heard.batches))


async def test_forced_stop_ends_the_spans_of_what_runs() -> None:
    """Whoever waited is in none of them."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=1) as scene:
            fn.hold()
            for item in (1, 2):
                scene.start(in_request(scene.batcher.process, item))
            await settle()
            await scene.batcher.stop(force=True)
    (batch,) = heard.batches
    assert linked(batch) == [address(heard.named("request 1"))]
    assert batch.status.status_code is StatusCode.ERROR
    assert str((batch.attributes or {})["error.type"]).endswith("BatchCancelled")
    assert heard.unended == []


@pytest.mark.real_time
async def test_batch_in_a_thread_has_the_span_with_it() -> None:
    """In threads of its own, and in an executor that is given."""
    current: list[tuple[int, int]] = []

    def work(batch: list[int]) -> list[int]:
        current.append(address(trace.get_current_span()))
        return batch

    with listening() as heard, ThreadPoolExecutor(1) as executor:
        for given in (None, executor):
            async with AsyncBatcher.from_callable(work, max_batch_size=1, executor=given) as batcher:
                await process(batcher, 1)
    assert current == list(map(address, heard.batches))
    assert heard.unended == []


@pytest.mark.real_time
async def test_batch_that_an_executor_never_began_ends_its_span() -> None:
    """A forced stop took it back: it says so, and nothing is recorded of it."""
    gate, handed = threading.Event(), anyio.Event()

    class Full(ThreadPoolExecutor):
        def submit(self, *job: Any, **named: Any) -> Any:
            handed.set()
            return super().submit(*job, **named)

    def work(batch: list[int]) -> list[int]:
        return batch

    with listening() as heard, Full(1) as executor:
        ThreadPoolExecutor.submit(executor, gate.wait)
        async with open_scene(work, max_batch_size=1, executor=executor) as scene:
            caller = scene.start(in_request(scene.batcher.process, 1))
            await handed.wait()
            await scene.batcher.stop(force=True)
            await caller.end()
            assert caller.failed(BatcherStopped).withdrawn is True
        gate.set()
        (batch,) = heard.batches
        assert (batch.attributes or {})["async_batcher.batch.taken_back"] is True
        assert heard.unended == []
        assert heard.points("async_batcher.batch.size") == {}


@pytest.mark.backends("asyncio")
async def test_loop_that_is_closed_leaves_no_span_open() -> None:
    """Nor its context where the batch is thrown away."""

    async def picky(batch: list[int]) -> list[int]:
        if len(batch) > 1:
            raise ValueError
        await asyncio.Event().wait()
        return batch

    def run_and_close(batcher: AsyncBatcher[int, int]) -> None:
        loop = VirtualEventLoop()
        callers = [loop.create_task(in_request(batcher.process, item)()) for item in (1, 2)]
        loop.run_until_complete(settle())
        loop.close()
        callers.clear()

    with listening() as heard:
        batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            picky, max_batch_size=2, split_on=ValueError
        )
        await asyncio.to_thread(run_and_close, batcher)
        async with batcher:
            pass
        before = trace.get_current_span()
        gc.collect()
        assert trace.get_current_span() is before
    assert [span.name for span in heard.batches] == ["batch"]
    assert [span.name for span in heard.parts] == ["batch part"]
    assert heard.unended == []


async def test_provider_that_is_set_after_the_batcher_was_built_hears_of_its_next_batch() -> None:
    """With the callers of that batch: whoever builds at import and sets up in `main` misses nothing."""
    with fresh():
        heard = Heard()
        async with AsyncBatcher.from_callable(backend, max_batch_size=3, name="early") as batcher:
            await batcher.process_many([1, 2])
            set_up(heard)
            await process(batcher, 3, 4, 5)
            await in_request(batcher.process_many, [6, 7, 8])()
        first, second = heard.batches
        assert len(first.links) == 3
        assert linked(second) == [address(heard.named("request [6, 7, 8]"))]
        assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 2
        assert heard.total("items", outcome="succeeded") == 8


async def test_groups_and_decorated_functions_are_traced_as_a_batcher_is() -> None:
    """A group's key is in no span and no instrument."""

    async def serve(key: str, items: list[str]) -> list[str]:
        return items

    @batched(max_batch_size=1, name="decorated")
    async def decorated(items: list[str]) -> list[str]:
        return items

    with listening() as heard:
        groups = BatcherGroups(serve, group_key=lambda item: f"k3y {item}", max_groups=4, name="tenants")
        async with groups, decorated.batcher:
            for item in ("a", "b"):
                await in_request(groups.process, item)()
            await in_request(decorated, "c")()
        assert [batch.name for batch in heard.batches] == [
            "batch tenants",
            "batch tenants",
            "batch decorated",
        ]
        assert [len(batch.links) for batch in heard.batches] == [1, 1, 1]
        assert heard.total("items", outcome="succeeded", name="tenants") == 2
        assert "k3y" not in heard.text()


async def test_batches_that_share_backend_slots_are_each_linked_to_their_own() -> None:
    """The span begins when the slot has been entered."""
    slots = anyio.Semaphore(1)

    async def serve(key: int, items: list[int]) -> list[int]:
        return await backend(items)

    with listening() as heard:
        async with (
            BatcherGroups(
                serve, group_key=lambda item: item % 2, max_groups=2, backend_slots=slots, max_batch_size=2
            ) as groups,
            anyio.create_task_group() as group,
        ):
            for item in range(8):
                group.start_soon(in_request(groups.process, item))
    callers = [each for batch in heard.batches for each in linked(batch)]
    assert sorted(callers) == sorted(address(heard.named(f"request {item}")) for item in range(8))
    for earlier, later in zip(heard.batches, heard.batches[1:], strict=False):
        assert earlier.end_time is not None
        assert later.start_time is not None
        assert earlier.end_time <= later.start_time
    assert heard.unended == []


async def test_metrics_alone_start_no_span() -> None:
    """Without a tracer provider callers are asked nothing."""
    with listening(traces=False) as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=2) as batcher:
            await process(batcher, 1, 2)
            assert type(batcher._collector).__name__ == "Collector"
        assert heard.began == []
        assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 1


async def test_tracing_alone_works_too() -> None:
    """Without a meter provider nothing is recorded."""
    with listening(counts=False) as heard:
        async with AsyncBatcher.from_callable(backend, max_batch_size=2) as batcher:
            await process(batcher, 1, 2)
    assert [len(batch.links) for batch in heard.batches] == [2]
    assert all(ours(batch) for batch in heard.batches)


async def test_api_that_keeps_things_elsewhere_is_asked_by_its_functions() -> None:
    """The short ways are found, not known: without them all is the same, and slower."""
    with fresh() as patch:
        patch.setattr(_providers, "_TRACERS", _providers._place_of(trace, "get_tracer_provider", "elsewhere"))
        patch.setattr(_providers, "_METERS", _providers._place_of(metrics, "get_meter_provider", "elsewhere"))
        patch.setattr(_telemetry, "_CONTEXT", _telemetry._Asked())
        heard = Heard()
        async with AsyncBatcher.from_callable(backend, max_batch_size=2) as batcher:
            await batcher.process_many([1, 2])
            assert type(batcher._collector).__name__ == "Collector"
            set_up(heard)
            await process(batcher, 3, 4)
        (batch,) = heard.batches
        assert sorted(linked(batch)) == sorted(address(heard.named(f"request {item}")) for item in (3, 4))
        assert heard.total("items", outcome="succeeded") == 4


def test_short_ways_of_the_api_that_is_installed_are_found() -> None:
    """Else every batch would pay fifty times as much to see that nobody listens."""
    found = (_providers._TRACERS, _providers._METERS)
    assert [type(place) for place in found] == [dict, dict]
    assert isinstance(_telemetry._CONTEXT, ContextVar)
