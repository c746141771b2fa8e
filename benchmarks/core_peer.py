"""One library in a closed loop, in an environment of its own: for `core.py`, a process a run.

It runs where `async_batcher` is another library too: `peers.py` builds each side. Each is called for one item at
a time, with batches of the same size and the same window, in seconds. Printed, as JSON: items a second of this
process's own time, and how large its batches were.

    python core_peer.py SIDE WINDOW CALLERS BATCH ITEMS
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

from peers import SIDES, Shape

batches = 0


async def answer(items: list[int]) -> list[int]:
    """Answer at once: what is measured is the library."""
    global batches  # noqa: PLW0603  (a program of one run)
    batches += 1
    return items


async def main(side: str, window: float, callers: int, batch: int, items: int) -> dict[str, float]:
    """Warm up with a tenth, then measure."""
    process = SIDES[side](answer, Shape(batch, window))

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
