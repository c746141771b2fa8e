"""Providers come when they come, and are replaced, as tests do: whoever is set now hears of the next batch."""

import enum
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest
from listening import Heard, fresh, in_request, request, set_up, unset
from opentelemetry import trace
from programs import run_python
from scenes import open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, _providers

pytestmark = pytest.mark.anyio

Kind: Any = enum.Enum("Kind", {"A": "kind"}, type=str)


async def same(batch: list[Any]) -> list[Any]:
    return batch


@pytest.mark.parametrize("first", ["traces", "counts"])
async def test_provider_that_is_set_after_the_other_hears_of_the_next_batch(first: str) -> None:
    """Though the batcher has begun to tell the other, and nobody builds a batcher any more."""
    with fresh():
        heard = Heard()
        async with open_scene(same, max_batch_size=1) as scene:
            set_up(heard, traces=first == "traces", counts=first == "counts")
            await in_request(scene.batcher.process, 1)()
            set_up(heard, traces=first == "counts", counts=first == "traces")
            for item in (2, 3):
                await in_request(scene.batcher.process, item)()
            sizes = heard.points("async_batcher.batch.size").values()
            assert sum(point.count for point in sizes) == (2 if first == "traces" else 3)
            assert len(heard.batches) == (3 if first == "traces" else 2)
            assert heard.total("items", outcome="succeeded") == 3


async def test_provider_that_replaces_another_hears_of_the_next_batch() -> None:
    """Of a batcher that was there before; the other hears no more, and between the two nobody does."""
    with fresh():
        hearers = Heard(), Heard()
        async with open_scene(same, max_batch_size=1) as scene:
            for number, heard in enumerate(hearers):
                set_up(heard)
                await in_request(scene.batcher.process, number)()
                unset()
                await scene.batcher.process("nobody listens")
            for number, heard in enumerate(hearers):
                assert [span.name for span in heard.ended] == ["batch", f"request {number}"]
                assert sum(point.count for point in heard.points("async_batcher.batch.size").values()) == 1
                assert heard.total("items", outcome="succeeded") == 4


async def test_callers_that_came_before_a_provider_was_replaced_are_linked_by_the_new_one() -> None:
    """A caller's span is its own, whoever made it."""
    with fresh():
        earlier, later = Heard(), Heard()
        async with open_scene(same, max_batch_size=2, max_queue_time=1) as scene:
            set_up(earlier)
            first = scene.start(in_request(scene.batcher.process, 1))
            await settle()
            unset()
            set_up(later)
            second = scene.start(in_request(scene.batcher.process, 2))
            await scene.end_of(first, second)
        assert (len(earlier.batches), [len(batch.links) for batch in later.batches]) == (0, [2])


@pytest.mark.parametrize(
    "stand_in",
    [mock.MagicMock(), partial(trace.get_tracer_provider), lambda: None],
    ids=["mock", "partial", "function"],
)
async def test_function_of_the_api_that_is_no_function_of_its_is_asked_by_its_name(
    stand_in: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock for one test must not stay in use after it."""
    with fresh():
        with monkeypatch.context() as patch:
            patch.setattr(trace, "get_tracer_provider", stand_in)
            place = _providers._place_of(trace, "get_tracer_provider", "_TRACER_PROVIDER")
        set_up(Heard(), counts=False)
        assert place.get("_TRACER_PROVIDER") is trace.get_tracer_provider()


MOCKED = """
from unittest import mock
from async_batcher import AsyncBatcher
from opentelemetry import metrics, trace
with mock.patch("opentelemetry.{function}", side_effect=[None, LookupError]):
    AsyncBatcher.from_callable(lambda batch: batch)
print(AsyncBatcher.from_callable(lambda batch: batch).stats().accepted)
"""


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("function", ["trace.get_tracer_provider", "metrics.get_meter_provider"])
async def test_first_batcher_of_a_process_is_built_where_the_api_is_mocked(function: str) -> None:
    """And where that raises: telemetry is no reason for which a batcher is not built."""
    assert run_python("-c", MOCKED.format(function=function)) == (0, "0\n", "")


@pytest.mark.parametrize(
    ("name", "told"),
    [("a\ud800b", "a?b"), ("", None), (Kind.A, "kind")],
    ids=["half a character", "empty", "enum"],
)
async def test_name_that_no_exporter_takes_is_told_in_other_letters(name: Any, told: str | None) -> None:
    """One that can't be encoded would cost all that is sent with it; span, attribute and counter say the same."""
    with fresh():
        heard = Heard()
        set_up(heard)
        async with AsyncBatcher.from_callable(same, max_batch_size=1, name=name) as batcher:
            with request("caller"):
                await batcher.process(1)
        (batch,) = heard.batches
        assert batch.name == ("batch" if told is None else f"batch {told}")
        assert (batch.attributes or {}).get("async_batcher.name") == told
        (size,) = heard.points("async_batcher.batch.size")
        assert dict(size).get("async_batcher.name") == told
        assert {dict(of).get("async_batcher.name") for of in heard.points("async_batcher.items")} == {told}
        heard.text().encode()
