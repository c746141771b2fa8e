"""A sync processor that blocks its thread until a test lets it go."""

import threading

import anyio
import anyio.from_thread
import anyio.to_thread

PATIENCE = 40.0
"""Real seconds after which whoever waits gives up, so that a fault is no hang: far more than a busy machine takes."""


class BlockingProcessor:
    """A sync processor that waits in its thread until `release()`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.ended = threading.Semaphore(0)
        self._began = threading.Semaphore(0)
        self._gate = threading.Event()

    def release(self) -> None:
        self._gate.set()

    async def begun(self) -> None:
        """Wait until one more batch has begun."""
        assert await anyio.to_thread.run_sync(self._began.acquire, True, PATIENCE)

    def __call__(self, batch: list[int]) -> list[int]:
        self.batches.append(list(batch))
        self.threads.add(threading.get_ident())
        self._began.release()
        try:
            if not self._gate.wait(PATIENCE):
                raise TimeoutError("nobody opened the gate")
            return [item * 10 for item in batch]
        finally:
            self.ended.release()
