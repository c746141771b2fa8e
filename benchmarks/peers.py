"""The batchers that are compared, each as a function that processes one item; and what runs each of them.

A side runs in a process of its own, where `async_batcher` may be another library: so each imports its own when it
is built, and this file imports none. Batches and windows are as large for all that have them; everything else is as
it comes.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Process: TypeAlias = Callable[[int], Awaitable[Any]]
Answer: TypeAlias = Callable[[list[int]], Awaitable[list[int]]]


class Shape(NamedTuple):
    """How large batches may be, and how long the first item of one waits for others, in seconds."""

    batch: int
    window: float


def ours(answer: Answer, shape: Shape) -> Process:
    """Build it around the function."""
    library: Any = importlib.import_module("async_batcher")
    process: Process = library.AsyncBatcher.from_callable(
        answer, max_batch_size=shape.batch, max_queue_time=shape.window
    ).process
    return process


def async_batcher_0_2_2(answer: Answer, shape: Shape) -> Process:
    """Subclass, which is its only way."""
    library: Any = importlib.import_module("async_batcher.batcher")

    async def process_batch(_batcher: object, batch: list[int]) -> list[int]:
        return await answer(batch)

    kind = type("Batcher", (library.AsyncBatcher,), {"process_batch": process_batch})
    process: Process = kind(max_batch_size=shape.batch, max_queue_time=shape.window).process
    return process


def batched_0_1_5(answer: Answer, shape: Shape) -> Process:
    """Decorate; an item that is no list is one item."""
    library: Any = importlib.import_module("batched.aio")
    process: Process = library.dynamically(answer, batch_size=shape.batch, timeout_ms=shape.window * 1000)
    return process


def aiodataloader_0_4_3(answer: Answer, shape: Shape) -> Process:
    """Load by key; it gathers what comes in one turn of the loop."""
    library: Any = importlib.import_module("aiodataloader")
    loader = library.DataLoader(answer, max_batch_size=shape.batch, cache=False)
    process: Process = loader.load
    return process


def queue_loop(answer: Answer, shape: Shape) -> Process:
    """Put items and futures into a queue, and let a task take them out: what one writes in ten minutes."""
    queue: asyncio.Queue[tuple[int, asyncio.Future[int]]] = asyncio.Queue()

    async def work() -> None:
        while True:
            batch = [await queue.get()]
            await asyncio.sleep(shape.window)
            while len(batch) < shape.batch and not queue.empty():
                batch.append(queue.get_nowait())
            try:
                results = await answer([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001  (every caller is told)
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    future.set_result(result)

    worker: list[asyncio.Task[None]] = []

    async def process(item: int) -> int:
        worker[:] = worker or [asyncio.create_task(work())]
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await queue.put((item, future))
        return await future

    return process


def floor(_answer: Answer, _shape: Shape) -> Process:
    """Make a future for an item, await it and set it in the next turn of the loop: less is not possible."""
    waiting: list[tuple[int, asyncio.Future[int]]] = []

    def settle() -> None:
        some = waiting[:]
        waiting.clear()
        for item, future in some:
            future.set_result(item)

    async def process(item: int) -> int:
        loop = asyncio.get_running_loop()
        if not waiting:
            loop.call_soon(settle)
        future: asyncio.Future[int] = loop.create_future()
        waiting.append((item, future))
        return await future

    return process


SIDES: dict[str, Callable[[Answer, Shape], Process]] = {
    "ours": ours,
    "async-batcher 0.2.2": async_batcher_0_2_2,
    "batched 0.1.5": batched_0_1_5,
    "aiodataloader 0.4.3": aiodataloader_0_4_3,
    "asyncio.Queue loop": queue_loop,
}


ALONE = {"ours", "asyncio.Queue loop", "floor"}
"""What runs in our own environment; the others are named as the index names them, with the version."""


def run_side(script: Path, side: str, *arguments: str) -> str:
    """Run a script for one side, in its environment, and return what it printed."""
    command = [str(script), side, *arguments]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    if side in ALONE:
        command = [sys.executable, *command]
    else:
        name, version = side.split()
        environment.pop("PYTHONPATH", None)  # a peer must not find us under its name
        with_peer = ["--no-project", "--isolated", "--python", sys.executable, "--with", f"{name}=={version}"]
        command = [_uv(), "run", "--quiet", *with_peer, "python", *command]
    root = script.parent.parent  # whose pyproject.toml pins what is installed to a day
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=root)
    if done.returncode:
        sys.exit(f"{side} could not be run: {done.stderr.strip() or done.returncode}")
    return done.stdout


@functools.cache
def _uv() -> str:
    """Find the program that makes the peers' environments: `uv run` names itself."""
    found = os.environ.get("UV") or shutil.which("uv")
    if found is None:
        sys.exit("uv is not to be found: run this by `python -m uv run`")
    return found
