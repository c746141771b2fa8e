"""One library under load: for `compare.py`, a process a measurement, in an environment of its own.

    python compare_side.py SIDE throughput CALLERS BATCH ITEMS
    python compare_side.py SIDE latency RATE SECONDS
    python compare_side.py SIDE overload RATE SECONDS

Printed, as JSON: items a second of this process's own time; percentiles of the time from call to result in an open
loop; or what memory, waiting callers and refusals come to.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import os
import random
import sys
import time
from pathlib import Path

from peers import SIDES, Process, Shape, floor

BATCH, WINDOW = 32, 0.01
PER_BATCH, PER_ITEM = 0.02, 0.0002
"""Seconds that the backend takes for a call, and for each item of it."""
CAPACITY = BATCH / (PER_BATCH + PER_ITEM * BATCH)
"""Items a second that it can do."""
PERCENTS = (50, 90, 99)


async def at_once(items: list[int]) -> list[int]:
    """Answer at once: what is measured is the library."""
    return items


class Backend:
    """Does one call at a time, as a device does, whoever waits for it."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()
        self.calls = 0

    async def answer(self, items: list[int]) -> list[int]:
        """Answer after a while."""
        async with self._free:
            self.calls += 1
            await asyncio.sleep(PER_BATCH + PER_ITEM * len(items))
        return items


async def throughput(side: str, callers: int, batch: int, items: int) -> dict[str, float]:
    """Warm up with a tenth, then measure a closed loop."""
    process = (SIDES | {"floor": floor})[side](at_once, Shape(batch, WINDOW))

    async def caller(rounds: int) -> None:
        for number in range(rounds):
            await process(number)

    await asyncio.gather(*(caller(items // callers // 10) for _ in range(callers)))
    gc.collect()
    rounds = items // callers
    started = time.process_time()
    await asyncio.gather(*(caller(rounds) for _ in range(callers)))
    return {"rate": rounds * callers / (time.process_time() - started)}


class Load:
    """Callers that come independently of each other, whether the others were served or not."""

    def __init__(self, process: Process, rate: float) -> None:
        self._process = process
        self._chance = random.Random(1)  # noqa: S311  (a load, no secret)
        self._rate = rate
        self.seconds: list[float] = []
        self.refused = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def come(self, seconds: float) -> None:
        """Let them come for so long. One that is late has been waiting since it was due."""
        due, end = time.perf_counter(), time.perf_counter() + seconds
        for number in itertools.count():
            due += self._chance.expovariate(self._rate)
            if due > end:
                return
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(self._call(number, due))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _call(self, number: int, due: float) -> None:
        try:
            await self._process(number)
        except Exception:  # noqa: BLE001  (each library has an error of its own for a full queue)
            self.refused += 1
        else:
            self.seconds.append(time.perf_counter() - due)


async def latency(side: str, rate: float, seconds: float) -> dict[str, float]:
    """Measure an open loop, after a second to get going."""
    backend = Backend()
    load = Load(SIDES[side](backend.answer, Shape(BATCH, WINDOW)), rate)
    await load.come(1)
    load.seconds.clear()
    calls = backend.calls
    await load.come(seconds)
    found, size = sorted(load.seconds), len(load.seconds) / max(1, backend.calls - calls)
    told = {str(percent): found[len(found) * percent // 100] for percent in PERCENTS}
    return told | {"size": size, "refused": load.refused}


async def overload(side: str, rate: float, seconds: float) -> dict[str, float]:
    """Measure what is left behind by more callers than can be served."""
    backend = Backend()
    load = Load(SIDES[side](backend.answer, Shape(BATCH, WINDOW)), rate)
    await load.come(2)
    before = _resident()
    await load.come(seconds)
    waiting = len(load.tasks)
    return {
        "megabytes": _resident() - before,
        "waiting": waiting,
        "refused": load.refused,
        "slowest": max(load.seconds),
    }


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(side: str, what: str, *given: str) -> dict[str, float]:
    """Measure one thing of one side."""
    loop = (
        asyncio.new_event_loop()
    )  # `asyncio.run` would wait for tasks that do not end when they are cancelled
    asyncio.set_event_loop(loop)
    match what:
        case "throughput":
            callers, batch, items = map(int, given)
            return loop.run_until_complete(throughput(side, callers, batch, items))
        case "latency":
            return loop.run_until_complete(latency(side, *map(float, given)))
        case "overload":
            return loop.run_until_complete(overload(side, *map(float, given)))
    raise SystemExit(f"{what} is nothing that is measured")


if __name__ == "__main__":
    logging.disable()
    told = main(*sys.argv[1:])
    print(json.dumps(told), flush=True)
    os._exit(0)  # what still waits needs no goodbye
