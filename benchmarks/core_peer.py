"""One library in a closed loop, in an environment of its own: for `core.py`, a process a run.

It runs where `async_batcher` is another library too, so each side imports its own. Each is called for one item at
a time, with batches of the same size and the same window, in seconds. Printed, as JSON: items a second of this
process's own time, and how large its batches were.

    python core_peer.py SIDE WINDOW CALLERS BATCH ITEMS
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Process: TypeAlias = "Callable[[int], Awaitable[Any]]"

batches = 0


async def answer(items: list[int]) -> list[int]:
    """Answer at once: what is measured is the library."""
    global batches  # noqa: PLW0603  (a program of one run)
    batches += 1
    return items


def ours(batch: int, window: float) -> Process:
    """Build it around the function."""
    library: Any = importlib.import_module("async_batcher")
    batcher = library.AsyncBatcher.from_callable(answer, max_batch_size=batch, max_queue_time=window)
    process: Process = batcher.process
    return process


def async_batcher_0_2_2(batch: int, window: float) -> Process:
    """Subclass, which is its only way."""
    library: Any = importlib.import_module("async_batcher.batcher")

    async def process_batch(_batcher: object, batch: list[int]) -> list[int]:
        return await answer(batch)

    kind = type("Batcher", (library.AsyncBatcher,), {"process_batch": process_batch})
    process: Process = kind(max_batch_size=batch, max_queue_time=window).process
    return process


def batched_0_1_5(batch: int, window: float) -> Process:
    """Decorate; an item that is no list is one item."""
    library: Any = importlib.import_module("batched.aio")
    process: Process = library.dynamically(answer, batch_size=batch, timeout_ms=window * 1000)
    return process


SIDES: dict[str, Callable[[int, float], Process]] = {
    "ours": ours,
    "async-batcher 0.2.2": async_batcher_0_2_2,
    "batched 0.1.5": batched_0_1_5,
}


async def main(side: str, window: float, callers: int, batch: int, items: int) -> dict[str, float]:
    """Warm up with a tenth, then measure."""
    process = SIDES[side](batch, window)

    async def caller(rounds: int) -> None:
        for number in range(rounds):
            await process(number)

    await asyncio.gather(*(caller(items // callers // 10) for _ in range(callers)))
    gc.collect()
    rounds, before = items // callers, batches
    started = time.process_time()
    await asyncio.gather(*(caller(rounds) for _ in range(callers)))
    seconds = time.process_time() - started
    return {"rate": rounds * callers / seconds, "size": rounds * callers / (batches - before)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:])))))
