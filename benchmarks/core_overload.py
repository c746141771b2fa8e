"""Resident memory of a process whose batcher is asked twice as much as it can: for `core.py`, in a process of its own.

Callers come by a clock, each in a task of its own, whether or not those before were served; a full queue refuses
them. Printed, as JSON: how many were asked and refused, and the bytes that the process grew by after its first ten
seconds, at its largest.

    python core_overload.py SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from core_table import Found, Mark

from async_batcher import AsyncBatcher, QueueFull

OVERLOAD = Mark(
    '2 times overload, `on_full="reject"`: growth of resident memory after 10 s', 2, at_most=True, unit=" MB"
)
BATCH, SERVICE = 64, 0.02
TICK = 0.005
A_TICK = round(2 * BATCH / SERVICE * TICK)
"""Callers: twice as many as can be served in a tick."""
WARM = 10.0


async def overload(seconds: float) -> dict[str, float]:
    """Ask too much for so long, and count."""
    served = refused = 0
    sizes: list[tuple[float, int]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def work(items: list[bytes]) -> list[bytes]:
        await asyncio.sleep(SERVICE)
        return items

    async with AsyncBatcher[bytes, bytes].from_callable(work, max_batch_size=BATCH) as batcher:

        async def ask() -> None:
            nonlocal served, refused
            try:
                await batcher.process(bytes(100))
            except QueueFull:
                refused += 1
            else:
                served += 1

        began = time.monotonic()
        for tick in range(int(seconds / TICK)):
            due = began + tick * TICK
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            for _ in range(A_TICK):
                task = asyncio.create_task(ask())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if not tick % 100:
                sizes.append((time.monotonic() - began, resident()))
        await asyncio.gather(*tasks)
    warm = [size for at, size in sizes if at <= WARM][-1]
    return {"served": served, "refused": refused, "growth": max(size for _, size in sizes) - warm}


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def grown(seconds: float) -> Found:
    """Run it in a fresh process: one that has measured other things has room to hide growth in."""
    told = json.loads(subprocess.check_output([sys.executable, __file__, str(seconds)]))
    served, refused = told["served"], told["refused"]
    beside = f"{seconds:g} s, {served:,} served and {refused:,} refused"
    return Found(OVERLOAD, [told["growth"] / 1e6], beside)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(overload(float(sys.argv[1])))))
