"""How the tests of groups look at what a call costs and leaves behind: calls, objects, and a loop that is watched."""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from keyed import Groups
from virtual_time import VirtualEventLoop

import async_batcher
from async_batcher import QueueFull


class WatchedLoop(VirtualEventLoop):
    """Counts its turns, and knows which timers are armed."""

    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]

    @property
    def armed(self) -> list[asyncio.TimerHandle]:
        """Those that will ring."""
        scheduled: list[asyncio.TimerHandle] = getattr(self, "_scheduled")  # noqa: B009  (typeshed has it not)
        return [timer for timer in scheduled if not timer.cancelled()]


def on_watched_loop(main: Callable[[WatchedLoop], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on a loop of its own, which it is handed."""
    loop = WatchedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main(loop))


async def calls_of(groups: Groups, items: Iterable[Any]) -> int:
    """Submit these, accepted or not, and count what the library calls meanwhile."""
    library = str(Path(async_batcher.__file__).parent)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call") and frame.f_code.co_filename.startswith(library)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for item in items:
            with suppress(QueueFull):
                await groups.submit(item)
    finally:
        sys.setprofile(before)
    return calls


def library_objects() -> int:
    """Count what the library has made and nobody has collected."""
    gc.collect()
    return sum(str(type(held).__module__).startswith("async_batcher") for held in gc.get_objects())
