"""What the tests of both group recipes share: callers in tasks of their own, and an async backend behind a gate."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
from virtual_time import settle

from async_batcher import BatcherGroups

Item = tuple[str, int]


Groups = BatcherGroups[str, Item, Item]


def tenant(item: Item) -> str:
    return item[0]


class Backend:
    """An async bulk call behind a gate, which knows what it saw and how many calls ran at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.running = 0
        self.most = 0
        self.gate = anyio.Event()
        self.gate.set()

    def hold(self) -> None:
        self.gate = anyio.Event()

    async def __call__(self, key: str, items: list[Item]) -> list[Item]:
        self.calls.append((key, [value for _, value in items]))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            return [(key, value * 2) for _, value in items]
        finally:
            self.running -= 1


@asynccontextmanager
async def callers() -> AsyncGenerator["Callers"]:
    """Give a place to start callers from, who keep what came of them."""
    async with anyio.create_task_group() as group:
        yield Callers(group)


class Callers:
    """Callers in tasks of their own, and what came of them."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self.outcomes: dict[Item, object] = {}

    async def start(self, groups: Groups, *items: Item) -> None:
        """Start one caller an item, in this order."""
        for item in items:
            self._group.start_soon(self._run, groups, item)
            await settle()

    async def _run(self, groups: Groups, item: Item) -> None:
        try:
            self.outcomes[item] = await groups.process(item)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the outcome
            self.outcomes[item] = error


async def settled(crowd: Callers, item: Item) -> None:
    """Wait until this caller has its outcome: it was told before `stop` returned, and has only to run."""
    while item not in crowd.outcomes:
        await anyio.lowlevel.checkpoint()
