"""The instruments: what there is, that they say what `stats` says, and that they keep nothing alive."""

import gc
import weakref
from typing import Any

import anyio
import pytest
from listening import assert_agrees, fresh, in_request, listening
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from recording import RecordingProcessor, raises, ten_times
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherGroups, EnqueueTimeout, QueueFull, _telemetry
from async_batcher._providers import Hub

pytestmark = pytest.mark.anyio

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
INSTRUMENTS = {
    "async_batcher.items": ("{item}", "Sum"),
    "async_batcher.rejections": ("{item}", "Sum"),
    "async_batcher.admission.waits": ("{item}", "Sum"),
    "async_batcher.admission.time": ("s", "Sum"),
    "async_batcher.item.waiting": ("{item}", "Sum"),
    "async_batcher.item.running": ("{item}", "Sum"),
    "async_batcher.item.in_line": ("{item}", "Sum"),
    "async_batcher.queue.oldest_duration": ("s", "Histogram"),
    "async_batcher.queue.mean_duration": ("s", "Histogram"),
    "async_batcher.processing.duration": ("s", "Histogram"),
    "async_batcher.batch.size": ("{item}", "Histogram"),
    "async_batcher.batch.fill_ratio": ("1", "Histogram"),
}


async def test_instruments_are_these_with_these_units_and_buckets() -> None:
    """Their names and units are a contract: dashboards are made of them."""
    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_batch_size=1, name="n") as scene:
            await scene.process(1)
        data = heard.reader.get_metrics_data()
        assert data is not None
        metrics = {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }
    assert {
        name: (metric.unit, type(metric.data).__name__) for name, metric in metrics.items()
    } == INSTRUMENTS
    bounds = {
        name: point.explicit_bounds
        for name, metric in metrics.items()
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint)
    }
    assert bounds == {
        **{name: SECONDS for name, (unit, _) in INSTRUMENTS.items() if unit == "s" and "duration" in name},
        "async_batcher.batch.size": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
        "async_batcher.batch.fill_ratio": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    }
    assert all(metric.description for metric in metrics.values())


async def test_a_batch_is_one_record_an_instrument() -> None:
    """How long, how many, how full, by the batcher's name and by why it left."""
    fn = RecordingProcessor()
    with listening() as heard:
        async with open_scene(fn, max_batch_size=4, max_queue_time=2, name="n") as scene:
            fn.hold()
            callers = await scene.process(1)
            await anyio.sleep(1)
            callers += await scene.process(2)
            await anyio.sleep(4)
            fn.release()
            await scene.end_of(*callers)
        of = (("async_batcher.batch.reason", "due"), ("async_batcher.name", "n"))
        found = {
            name: (points[of].count, points[of].sum)
            for name, points in heard.collected().items()
            if INSTRUMENTS[name][1] == "Histogram"
        }
    assert found == {
        "async_batcher.queue.oldest_duration": (1, 2),
        "async_batcher.queue.mean_duration": (1, 1.5),
        "async_batcher.processing.duration": (1, 3),
        "async_batcher.batch.size": (1, 2),
        "async_batcher.batch.fill_ratio": (1, 0.5),
    }


@pytest.mark.parametrize(
    ("options", "ratio"),
    [
        ({"max_batch_size": 4, "weigh": int, "max_batch_weight": 12}, 0.75),
        ({"max_batch_size": 2, "weigh": int, "max_batch_weight": 100}, 1),
        ({"max_batch_size": None, "weigh": int, "max_batch_weight": 90}, 0.1),
        ({"max_batch_size": None}, None),
    ],
)
async def test_fill_is_of_the_limit_that_a_batch_came_closest_to(
    options: dict[str, Any], ratio: float | None
) -> None:
    """Its size or its weight; where neither has a limit there is none."""
    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_queue_time=1, **options) as scene:
            callers = await scene.process(4, 5)
            await scene.end_of(*callers)
        fills = heard.points("async_batcher.batch.fill_ratio")
    assert [point.sum for point in fills.values()] == ([] if ratio is None else [ratio])


async def test_admission_says_who_waited_for_room_and_how_long() -> None:
    """Only those who got a place; one who was refused is a rejection."""
    fn = RecordingProcessor()
    options: dict[str, Any] = {"max_batch_size": 1, "max_queue_size": 1, "enqueue_timeout": 5}
    with listening() as heard:
        async with open_scene(fn, on_full="wait", **options) as scene:
            fn.hold()
            callers = await scene.process(1, 2, 3)
            assert heard.total("item.in_line") == 1
            await anyio.sleep(3)
            fn.release()
            await scene.end_of(*callers)
            assert (heard.total("admission.waits"), heard.total("admission.time")) == (1, 3)
            fn.hold()
            callers = await scene.process(4, 5, 6)
            await anyio.sleep(6)
            callers[2].failed(EnqueueTimeout)
            assert (heard.total("admission.waits"), heard.total("admission.time")) == (1, 3)
            assert (heard.total("rejections"), heard.total("item.in_line")) == (1, 0)
            fn.release()


async def test_batchers_of_one_name_are_summed_and_others_are_not() -> None:
    """One without a name has no such attribute."""
    with listening() as heard:
        for name, items in (("a", 2), ("a", 3), ("b", 4), (None, 1)):
            async with AsyncBatcher.from_callable(RecordingProcessor(), name=name) as batcher:
                await batcher.process_many(range(items))
        counted = {
            of: point.value for of, point in heard.points("async_batcher.items").items() if point.value
        }
    outcome = ("async_batcher.outcome", "succeeded")
    assert counted == {
        (("async_batcher.name", "a"), outcome): 5,
        (("async_batcher.name", "b"), outcome): 4,
        (outcome,): 1,
    }


async def test_every_end_of_an_item_is_counted_as_stats_counts_it() -> None:
    """At each step, while items wait, run, and stand in line."""
    fn = RecordingProcessor(ten_times, raises(ValueError()))
    with listening() as heard:
        async with open_scene(fn, max_batch_size=2, max_queue_size=2) as scene:
            stats = scene.batcher.stats
            fn.hold()
            callers = await scene.process(1, 2, 3, 4)
            (await scene.process(5))[0].failed(QueueFull)
            assert_agrees_now(heard, scene.batcher)
            callers[0].cancel()
            callers[2].cancel()
            await anyio.sleep(1)
            assert_agrees_now(heard, scene.batcher)
            fn.release()
            await scene.end_of(*callers)
            assert_agrees(heard, stats(), [len(batch) for batch in fn.batches])
            fn.hold()
            callers = await scene.process(6, 7, 8)
            await scene.batcher.stop(force=True)
            await scene.end_of(*callers)
        assert stats().stopped == 3
        assert_agrees(heard, stats(), [len(batch) for batch in fn.batches])


def assert_agrees_now(heard: Any, batcher: AsyncBatcher[Any, Any]) -> None:
    """Check what does not wait for a batch's end."""
    stats = batcher.stats()
    assert heard.total("items", outcome="withdrawn") == stats.withdrawn
    assert heard.total("rejections") == stats.rejected
    assert (heard.total("item.waiting"), heard.total("item.running")) == (stats.waiting, stats.running)


@pytest.mark.parametrize("stopped", [True, False])
async def test_batcher_that_goes_is_not_kept_and_its_last_counts_stay(stopped: bool) -> None:
    """What it refused after it had been stopped too: a counter does not fall."""
    with listening() as heard:
        batcher = AsyncBatcher.from_callable(RecordingProcessor(), name="n", max_batch_size=1)
        async with batcher:
            await batcher.process_many([1, 2, 3])
        if stopped:
            with pytest.raises(RuntimeError):
                await batcher.process(4)
        gone = weakref.ref(batcher)
        del batcher
        await settle()  # the loop's last callback has the runner
        gc.collect()
        assert gone() is None
        assert len(_telemetry._hub.ledger._entries) == 1  # the sum of those that have gone
        for _ in range(2):
            assert heard.total("items", outcome="succeeded", name="n") == 3
            assert heard.total("rejections") == int(stopped)
            assert heard.total("item.waiting", name="n") == 0
        async with AsyncBatcher.from_callable(RecordingProcessor(), name="n") as another:
            await another.process_many([1, 2])
            assert heard.total("items", outcome="succeeded", name="n") == 5


async def test_what_on_batch_holds_is_not_kept_either() -> None:
    """A batcher in a circle with its own options goes too."""

    class Service:
        def __init__(self) -> None:
            self.batcher = AsyncBatcher.from_callable(RecordingProcessor(), on_batch=self.hear)

        def hear(self, _: object) -> None:
            pass

    with listening() as heard:
        service = Service()
        async with service.batcher:
            await service.batcher.process(1)
        gone = weakref.ref(service)
        del service
        await settle()
        gc.collect()
        assert gone() is None
        assert heard.total("items", outcome="succeeded") == 1


async def test_groups_that_come_and_go_leave_nothing_but_their_sum() -> None:
    """Each key's batcher is counted in, and out."""
    with listening() as heard:

        async def serve(key: int, items: list[int]) -> list[int]:
            return items

        async with BatcherGroups(serve, group_key=lambda item: item, max_groups=2, name="n") as groups:
            for item in range(50):
                await groups.process(item)
            assert heard.total("items", outcome="succeeded", name="n") == groups.stats().succeeded == 50
        await settle()
        gc.collect()
        assert (
            len(_telemetry._hub.ledger._entries) <= 4
        )  # two groups, what counts whom they refuse, and those that have gone


async def test_nothing_is_done_where_nobody_listens() -> None:
    """No account, no note, no event: only a look or two at the API a batch."""
    looks: list[str] = []

    class Looking(Hub):
        def look(self) -> bool:
            looks.append("look")
            return super().look()

    fn = RecordingProcessor()
    with fresh() as patch:
        patch.setattr(_telemetry, "_hub", Looking())
        async with open_scene(fn, max_batch_size=8) as scene:
            looks.clear()
            await scene.batcher.process_many(range(8))
            assert len(looks) == 1
            looks.clear()
            callers = [scene.start(in_request(scene.batcher.process, item)) for item in range(8)]
            await scene.end_of(*callers)
            assert 1 <= len(looks) <= 2
            assert scene.batcher._runner._noting is None
            assert type(scene.batcher._collector).__name__ == "Collector"


async def test_provider_that_was_shut_down_is_no_longer_told_and_harms_nobody() -> None:
    """As at a program's end, when batches may still be running."""
    with listening() as heard:
        async with open_scene(RecordingProcessor(), max_batch_size=1) as scene:
            await scene.process(1)
            provider = _telemetry._hub._meters
            assert isinstance(provider, MeterProvider)
            provider.shutdown()
            callers = await scene.process(2)
            assert callers[0].result == 20
    assert len(heard.batches) == 2
