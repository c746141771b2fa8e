"""One library, some of whose callers leave: for `leaving.py`, a process a library, in an environment of its own.

It runs where `async_batcher` is another library too, so each side imports its own. A hundred callers come at once,
again and again; of each wave one leaves, by turns while its item waits and while its batch runs. Printed, as JSON:
who never got an outcome, who got another's, and how many items of those who left waiting were processed all the same.

    python leaving_side.py SIDE WAVES
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

from peers import SIDES, Shape

CALLERS = 100
BATCH = 32
WINDOW = 0.01
IN_FRONT, BEHIND = 1, CALLERS - 3
"""Whose item is in the first batch, and whose waits for the last one. Others are behind each in its batch."""
TURNS = 5
"""Turns of the loop after which every item is in a queue, and no window is over."""
PATIENCE = 2.0
"""Seconds after which a caller that has no outcome is one that hangs: a wave takes a fiftieth of it."""


class Backend:
    """Takes 5 ms a call, and says when it has a given item."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.watched = -1
        self.has_it = asyncio.Event()

    async def answer(self, items: list[int]) -> list[int]:
        """Answer with the items."""
        self.seen.update(items)
        if self.watched in items:
            self.has_it.set()
        await asyncio.sleep(0.005)
        return items


async def main(side: str, waves: int) -> dict[str, int]:
    """Let wave after wave come, until one has a caller that hangs for good."""
    backend = Backend()
    process = SIDES[side](backend.answer, Shape(BATCH, WINDOW))
    waited: list[int] = []
    stayed = hung = wrong = 0
    for wave in range(waves):
        first, leaves = wave * CALLERS, IN_FRONT if wave % 2 else BEHIND
        backend.watched, backend.has_it = first + leaves, asyncio.Event()
        callers = [asyncio.ensure_future(process(first + number)) for number in range(CALLERS)]
        if leaves == IN_FRONT:
            await asyncio.wait_for(backend.has_it.wait(), PATIENCE)
        else:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            waited.append(first + leaves)
        callers[leaves].cancel()
        done, pending = await asyncio.wait(callers, timeout=PATIENCE)
        stayed += CALLERS - 1
        hung += len(pending)
        wrong += sum(
            callers[n].result() != first + n for n in range(CALLERS) if n != leaves and callers[n] in done
        )
        for caller in pending:
            caller.cancel()
        if pending and not (await asyncio.wait([asyncio.ensure_future(process(-1))], timeout=PATIENCE))[0]:
            break  # nobody is served any more
    return {
        "stayed": stayed,
        "hung": hung,
        "wrong": wrong,
        "waves": wave + 1,
        "in_vain": len(backend.seen & {*waited}),
    }


if __name__ == "__main__":
    logging.disable()  # a peer logs the failure of its own batch, once a wave
    loop = (
        asyncio.new_event_loop()
    )  # `asyncio.run` would wait for tasks that do not end when they are cancelled
    asyncio.set_event_loop(loop)
    print(json.dumps(loop.run_until_complete(main(sys.argv[1], int(sys.argv[2])))), flush=True)
    os._exit(0)
