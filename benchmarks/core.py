"""Items a second through a batcher, over what the event loop can do at all, in one run.

The floor for one awaited result on an event loop is one future made, awaited and set. Each pair runs the floor and
the batcher one after the other, in alternating order; the ratio is that of a pair, so that a machine whose speed
drifts changes both. Printed: the median of the pairs and their spread.

    uv run python benchmarks/core.py [--pairs 9] [--items 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import statistics
import sys
import time
from typing import TYPE_CHECKING

from async_batcher import AsyncBatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

CALLERS = 256
BATCH = 64


async def answer(items: list[int]) -> list[int]:
    """Answer at once: what is measured is the batcher."""
    return items


async def floor(items: int) -> float:
    """Have `CALLERS` tasks await futures that one callback a batch sets, and return items a second."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = []

    def serve() -> None:
        batch = waiting[:]
        waiting.clear()
        for future in batch:
            future.set_result(1)

    async def caller(rounds: int) -> None:
        for _ in range(rounds):
            future = loop.create_future()
            waiting.append(future)
            if len(waiting) == BATCH:
                loop.call_soon(serve)
            await future

    return await _rate(caller, items)


async def batcher(items: int) -> float:
    """Have `CALLERS` tasks process one item after another, and return items a second."""
    served = AsyncBatcher.from_callable(answer, max_batch_size=BATCH, concurrency=None)

    async def caller(rounds: int) -> None:
        for number in range(rounds):
            await served.process(number)

    rate = await _rate(caller, items)
    await served.stop()
    return rate


async def _rate(caller: Callable[[int], Coroutine[None, None, None]], items: int) -> float:
    """Run the callers, and return items a second of this process's own time, which no neighbour lengthens."""
    rounds = items // CALLERS
    started = time.process_time()
    await asyncio.gather(*(caller(rounds) for _ in range(CALLERS)))
    return rounds * CALLERS / (time.process_time() - started)


def measure(pairs: int, items: int) -> list[tuple[float, float]]:
    """Run the pairs, and return items a second of the floor and of the batcher."""
    measured = []
    for number in range(-1, pairs):
        rates = {}
        for side in (floor, batcher) if number % 2 else (batcher, floor):
            gc.collect()
            rates[side] = asyncio.run(side(items))
        if number >= 0:  # the first pair warms up
            measured.append((rates[floor], rates[batcher]))
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{pairs} pairs", end="", file=sys.stderr)
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--items", type=int, default=100_000)
    arguments = parser.parse_args()
    measured = measure(arguments.pairs, arguments.items)
    ratios = [ours / bare for bare, ours in measured]
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {arguments.pairs} alternating pairs")
    print(f"{CALLERS} callers, batches of {BATCH}, asyncio")
    print(f"  floor    {statistics.median(bare for bare, _ in measured):>12,.0f} items/s")
    print(f"  batcher  {statistics.median(ours for _, ours in measured):>12,.0f} items/s")
    print(
        f"  ratio    {statistics.median(ratios):>12.2f}  ({min(ratios):.2f} to {max(ratios):.2f})   first mark 0.5"
    )


if __name__ == "__main__":
    main()
