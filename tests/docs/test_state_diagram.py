"""The diagram of states is true: its states are the counts, and a real batcher goes every one of its arrows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pages import ROOT
from state_diagram import ARROWS, NODES, svg

from async_batcher import AsyncBatcher, BatcherStats
from async_batcher.testing import RecordingProcessor, raising, run_virtual, settle

OF_CALLS_OR_BATCHES = {"accepted", "batches"}


class Scene:
    """A batcher of one slot and one place: an item runs, one waits, and a third may come."""

    def __init__(self, **options: Any) -> None:
        self.fn = RecordingProcessor[int, int](lambda numbers: numbers)
        self.batcher = AsyncBatcher.from_callable(
            self.fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, **options
        )
        self.tasks: list[asyncio.Task[int]] = []

    async def come(self, **call: Any) -> asyncio.Task[int]:
        task = asyncio.create_task(self.batcher.process(len(self.tasks), **call))
        self.tasks.append(task)
        await settle()
        return task


Act = Callable[[Scene], Awaitable[object]]


async def enters(scene: Scene) -> None:
    await scene.come()


async def patience_ends(scene: Scene) -> None:
    await asyncio.sleep(2)


async def is_let_run(scene: Scene) -> None:
    scene.fn.release()
    await settle()


async def one_is_let_run(scene: Scene) -> None:
    scene.fn.release()
    scene.fn.hold()
    await settle()


async def is_stopped(scene: Scene) -> None:
    await scene.batcher.stop(force=True)


def leaves(which: int) -> Act:
    async def act(scene: Scene) -> None:
        scene.tasks[which].cancel()
        await settle()

    return act


# For each arrow: how many callers come first, what happens then, how often it is gone, and what else changes.
SCENES: dict[tuple[str, str], tuple[int, Act, dict[str, int], dict[str, Any]]] = {
    ("call", "waiting"): (1, enters, {}, {}),
    ("call", "in_line"): (2, enters, {}, {"on_full": "wait"}),
    ("call", "rejected"): (2, enters, {}, {}),
    ("in_line", "waiting"): (3, leaves(1), {"withdrawn": 1, "waiting": -1}, {"on_full": "wait"}),
    ("in_line", "rejected"): (3, patience_ends, {}, {"on_full": "wait", "enqueue_timeout": 1}),
    ("in_line", "left"): (3, leaves(2), {}, {"on_full": "wait"}),
    ("waiting", "running"): (2, one_is_let_run, {"running": -1, "succeeded": 1, "batches": 1}, {}),
    ("waiting", "withdrawn"): (2, leaves(1), {}, {}),
    ("waiting", "expired"): (2, patience_ends, {}, {"expires_after": 1}),
    ("waiting", "stopped"): (2, is_stopped, {"running": -1, "stopped": 1}, {}),
    ("running", "stopped"): (1, is_stopped, {}, {}),
    ("running", "abandoned"): (1, leaves(0), {}, {}),
    ("running", "failed"): (1, is_let_run, {}, {}),
    ("running", "succeeded"): (1, is_let_run, {}, {}),
}


def test_every_count_of_items_is_a_state_of_the_diagram() -> None:
    """What is a count is drawn as one, and nothing else is."""
    counts = {field.name for field in dataclasses.fields(BatcherStats)} - OF_CALLS_OR_BATCHES
    assert {name for name, node in NODES.items() if node.counted} == counts


def test_the_picture_is_the_one_that_is_drawn() -> None:
    """`docs/states.svg` is what `state_diagram.py` writes."""
    assert (ROOT / "docs" / "states.svg").read_text() == svg()


def test_every_arrow_has_a_scene() -> None:
    """None is drawn that no scene goes."""
    assert {(arrow.start, arrow.end) for arrow in ARROWS} == set(SCENES)


@pytest.mark.parametrize("arrow", SCENES, ids=" to ".join)
def test_a_batcher_goes_the_arrow(arrow: tuple[str, str]) -> None:
    """One caller less in the one state, one more in the other, and nothing else but what the scene says."""
    callers, act, besides, options = SCENES[arrow]

    async def main() -> dict[str, int]:
        scene = Scene(**options)
        if arrow[1] == "failed":
            scene.fn.script.append(raising(ValueError("no")))
        scene.fn.hold()
        for number in range(callers):
            # One that waits is to be too old, not the one that runs.
            await scene.come(**({"expires_after": 100} if number == 0 and "expires_after" in options else {}))
        before = dataclasses.asdict(scene.batcher.stats())
        await act(scene)
        after = dataclasses.asdict(scene.batcher.stats())
        scene.fn.release()
        await scene.batcher.stop(force=True)
        await asyncio.gather(*scene.tasks, return_exceptions=True)
        return {name: after[name] - before[name] for name in after if after[name] != before[name]}

    start, end = arrow
    expected = dict(besides)
    for name, step in ((start, -1), (end, 1), ("accepted", int(end == "waiting"))):
        expected[name] = expected.get(name, 0) + step
    counted = {name: change for name, change in expected.items() if change and name not in {"call", "left"}}
    assert run_virtual(main) == counted
