"""Telemetry in a storm: every span ends, every link is a caller that was in the batch, every count is the true one.

The driver is the storms' own, with each call in a request of its own.
"""

import random
from typing import Any

import pytest
import sniffio
from listening import Heard, address, assert_agrees, in_request, linked, listening, told_of
from storms import Call, GroupStorm, Storm, StormError
from virtual_time import settle

pytestmark = pytest.mark.anyio

ACTIONS = (
    *("process",) * 6,
    *("submit",) * 4,
    *("end",) * 6,
    "cancel",
    "cancel task",
    "withdraw",
    "wait",
    "settle",
    "turn",
)
STOPS = (*ACTIONS, "stop", "force", "stop for a while", "cancel a stop")
OPTIONS: list[dict[str, Any]] = [
    {"max_batch_size": 3, "max_queue_size": 8, "concurrency": 2, "max_queue_time": 0.5},
    {"max_batch_size": 4, "max_queue_size": 4, "concurrency": 1, "on_full": "wait", "enqueue_timeout": 1},
    {"max_batch_size": 3, "max_queue_size": 8, "concurrency": 2, "expires_after": 1},
    {"max_batch_size": 5, "max_queue_size": 9, "concurrency": 2, "coalesce_key": lambda item: item // 3},
    {"max_batch_size": 4, "max_queue_size": 9, "concurrency": 2, "split_on": StormError},
    {
        "max_batch_size": 4,
        "max_queue_size": 9,
        "concurrency": 1,
        "weigh": lambda item: 1 + item % 3,
        "max_batch_weight": 6,
    },
]


class TracedStorm(Storm):
    """Each call in a request of its own."""

    def act_on_calls(self, action: str, choice: int) -> None:
        if action == "process":
            item = len(self.calls)
            caller = self.scene.start(in_request(self.scene.batcher.process, item))
            self.calls.append(Call(item, caller))
        else:
            super().act_on_calls(action, choice)

    def start_submit(self) -> None:
        async def submit_and_await(item: int) -> Any:
            call.submission = await self.scene.batcher.submit(item)
            return await call.submission

        item = len(self.calls)
        call = Call(item, self.scene.start(in_request(submit_and_await, item)), by_submit=True)
        self.calls.append(call)

    def check(self) -> None:
        """Besides, the counts agree at every step, while items wait and run."""
        self.check_limits(self.scene.batcher.stats())
        stats = self.scene.batcher.stats()
        counted = {name: self.heard.total(f"item.{name}") for name in ("waiting", "running", "in_line")}
        assert counted == {name: getattr(stats, name) for name in counted}

    def check_outcomes(self) -> None:
        """What is told of the storm is checked by the test; items may share places, or be called again in halves."""

    heard: Heard


class TracedGroupStorm(TracedStorm, GroupStorm):
    """The same over keyed batchers that share the backend's slots."""

    check_outcomes = TracedStorm.check_outcomes


def check(storm: TracedStorm, heard: Heard) -> None:
    """Check spans, links and counts against what the processor saw."""
    assert heard.unended == []
    stats = storm.scene.batcher.stats()
    sizes = [int((batch.attributes or {})["async_batcher.batch.size"]) for batch in heard.batches]  # type: ignore[arg-type]
    assert_agrees(heard, stats, sizes)
    requests = {address(span): span for span in heard.ended if span.name.startswith("request")}
    for batch in heard.batches:
        assert batch.parent is None
        assert len(linked(batch)) == len(set(linked(batch)))
        for caller in linked(batch):
            assert address(batch) in told_of(requests[caller]), "a caller that is linked was not told"
    for of, span in requests.items():
        assert len(told_of(span)) <= 1, "one item is in one batch"
        for told in told_of(span):
            (batch,) = (each for each in heard.batches if address(each) == told)
            assert of in linked(batch), "a caller that was told is not linked"
    assert sum((batch.attributes or {})["async_batcher.batch.callers"] for batch in heard.batches) == sum(  # type: ignore[misc]
        map(len, map(linked, heard.batches))
    )


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(reversed(options)))
async def test_storm_leaves_no_span_open_no_false_link_and_no_false_count(options: dict[str, Any]) -> None:
    """Whatever comes in whatever order."""
    asyncio_runs = sniffio.current_async_library() == "asyncio"
    for seed in range(6 if asyncio_runs else 3):
        dice = random.Random(seed)  # noqa: S311  (the same storm in every run)
        steps = [(dice.choice(ACTIONS if seed % 3 else STOPS), dice.randrange(60)) for _ in range(80)]
        with listening() as heard:
            storm = TracedStorm(dict(options), runs_for=15)
            storm.heard = heard
            await storm.run(steps)
            await settle()
            check(storm, heard)


async def test_storm_over_groups_does_so_too() -> None:
    """Over two keys and one slot of a backend."""
    for seed in range(6):
        dice = random.Random(seed)  # noqa: S311  (the same storm in every run)
        steps = [(dice.choice(ACTIONS if seed % 2 else STOPS), dice.randrange(60)) for _ in range(80)]
        with listening() as heard:
            options = {"max_batch_size": 3, "max_queue_size": 8, "concurrency": 1}
            storm = TracedGroupStorm(options, runs_for=15)
            storm.heard = heard
            await storm.run(steps)
            await settle()
            check(storm, heard)
