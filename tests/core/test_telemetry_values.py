"""What is told of a batch that fails or is split: of bounded length and number, and true to its last call."""

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from listening import listening
from scenes import open_scene

if TYPE_CHECKING:
    from async_batcher import BatchEvent

pytestmark = pytest.mark.anyio


def error_of(name: str) -> Exception:
    """Make an error whose class is made here and now."""
    kind = type("Made", (Exception,), {"__module__": "builtins"})
    kind.__qualname__ = name
    error: Exception = kind("payload")
    return error


async def fail(batch: list[str]) -> list[str]:
    raise error_of(batch[0])


async def test_types_of_errors_that_are_series_are_no_more_than_64() -> None:
    """Classes that are made at run time, for a user each, say, would be a series each; their spans have the name."""
    names = [f"Of{number}" for number in range(70)]
    with listening() as heard:
        async with open_scene(fail, max_batch_size=1) as scene:
            for name in [*names, *names]:
                await scene.end_of(*(await scene.process(name)))
        points = heard.points("async_batcher.processing.duration")
    counts = {str(dict(of)["error.type"]): point.count for of, point in points.items()}
    assert counts == {**dict.fromkeys(names[:64], 2), "_OTHER": 12}
    assert [(batch.attributes or {})["error.type"] for batch in heard.batches] == names * 2


async def test_type_of_an_error_is_no_longer_than_a_name_is_and_can_be_encoded() -> None:
    """In the metric, in the spans of the batch and of its calls, and in the event of its split."""
    name = "\ud800" + "a" * 300
    with listening() as heard:
        async with open_scene(fail, max_batch_size=2, split_on=lambda _: True) as scene:
            await scene.end_of(*(await scene.process(name, name)))
        await scene.batcher.stop()
    (batch,) = heard.batches
    told = [event.attributes for event in batch.events] + [part.attributes for part in heard.parts]
    assert [(attributes or {})["error.type"] for attributes in told] == ["?" + "a" * 199] * 3
    with listening() as heard:
        async with open_scene(fail, max_batch_size=1) as scene:
            await scene.end_of(*(await scene.process(name)))
        (of,) = heard.points("async_batcher.processing.duration")
    assert dict(of)["error.type"] == "?" + "a" * 199
    heard.text().encode()


@pytest.mark.parametrize(
    ("leave_at", "calls", "lasted"), [(1, [4], 2), (6, [4, 2, 2], 8), (None, [4, 2, 2, 1, 1], 14)]
)
async def test_time_of_a_split_batch_reaches_to_the_end_of_its_last_call(
    leave_at: float | None, calls: list[int], lasted: float
) -> None:
    """Also where all its callers have left meanwhile, so that it counts nobody."""
    sizes: list[int] = []

    async def picky(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        await anyio.sleep(2 if len(batch) == 4 else 3)
        if len(batch) == 4 or 3 in batch:
            raise ValueError
        return batch

    events: list[BatchEvent] = []
    options: dict[str, Any] = {"max_batch_size": 4, "split_on": ValueError, "on_batch": events.append}
    with listening() as heard:
        async with open_scene(picky, **options) as scene:
            callers = await scene.process(1, 2, 3, 4)
            if leave_at is not None:
                await anyio.sleep(leave_at)
                for caller in callers:
                    caller.cancel()
            await scene.end_of(*callers)
        (point,) = heard.points("async_batcher.processing.duration").values()
    assert sizes == calls
    assert events[0].processing_seconds == point.sum == pytest.approx(lasted)
