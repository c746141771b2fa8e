"""Work that goes on until the test says so: an async processor, and an executor that is worked by hand.

So each moment of a batch is a line of a test and no race. For batches that wait at gates see `recording`; this one
holds for ever, and its coroutine may be thrown away with its loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Holding:
    """An async processor that holds its batches for ever while `held`."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.held = True
        self.thrown_away = 0

    async def __call__(self, batch: list[int]) -> list[int]:
        self.seen.extend(batch)
        try:
            if self.held:
                await asyncio.Event().wait()
        except GeneratorExit:
            self.thrown_away += 1
            raise
        return [item * 10 for item in batch]

    async def serve(self, _key: object, batch: list[int]) -> list[int]:
        """Do so for groups: a lambda around it would be a sync function, so it would have a thread."""
        return await self(batch)


class HandExecutor(Executor):
    """Keeps what it is given until the test works on it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def begin(self) -> bool:
        """Let a worker take the oldest, and say whether it still may."""
        return self.jobs[0][0].set_running_or_notify_cancel()

    def end(self) -> None:
        """End the oldest."""
        future, run = self.jobs.pop(0)
        future.set_result(run())
