"""What the tests of the intake share: callers through it, and what is no timeout."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from scenes import Caller, Scene
from virtual_time import settle

from examples.recipes.operations import Intake

BAD_TIMEOUTS = [0, 0.0, -1, float("nan"), float("inf"), float("-inf"), True, False, "1", 10**400, [1]]


bad_timeouts = pytest.mark.parametrize("value", BAD_TIMEOUTS, ids=lambda value: repr(value)[:9])


async def shout(items: list[int]) -> list[int]:
    await anyio.lowlevel.checkpoint()
    return [item * 2 for item in items]


async def started(scene: Scene[Any], call: Callable[[], Awaitable[Any]]) -> Caller:
    """Start a call in a task of its own, until it waits or ends."""
    caller = scene.start(call)
    await settle()
    return caller


async def through(
    intake: Intake[Any, Any], scene: Scene[Any], *calls: tuple[int, float | None]
) -> list[Caller]:
    """Start one caller of `intake.process` for each item and deadline, in this order."""
    callers = []
    for item, timeout in calls:
        callers.append(scene.start(functools.partial(intake.process, item, response_timeout=timeout)))
        await settle()
    return callers


def _current() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task
