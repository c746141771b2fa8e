"""Sources for the tests of `map`: they note what is pulled, arrive when the test says, and say how they ended."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import anyio


def noted(items: Iterable[int], pulled: list[int]) -> Iterator[int]:
    """Give items, and note each as it is pulled."""
    for item in items:
        pulled.append(item)
        yield item


async def noted_async(items: Iterable[int], pulled: list[int]) -> AsyncIterator[int]:
    """Do the same, asynchronously, without ever waiting."""
    for item in items:
        pulled.append(item)
        yield item


async def arriving(*items: tuple[float, int]) -> AsyncIterator[int]:
    """Give each item at its time."""
    for time, item in items:
        await anyio.sleep(max(0, time - anyio.current_time()))
        yield item


class Closable:
    """An async generator function that gives some items and then waits at a gate; it says how it ended."""

    def __init__(self, *items: int) -> None:
        self.items = items
        self.given = 0
        self.waits = False
        self.ended = ""
        self.cleanup: Any = None

    async def __call__(self) -> AsyncIterator[int]:
        try:
            for item in self.items:
                self.given += 1
                yield item
            self.waits = True
            await anyio.sleep_forever()
        except GeneratorExit:
            self.ended = "closed"
            raise
        except anyio.get_cancelled_exc_class():
            self.ended = "cancelled"
            raise
        finally:
            self.waits = False
            if self.cleanup is not None:
                await self.cleanup()
