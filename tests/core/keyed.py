"""Groups whose batches are recorded with their key, for the tests of keyed batchers."""

from collections import Counter
from typing import Any

from recording import Outcome, RecordingProcessor
from scenes import Scene
from virtual_time import settle

from async_batcher import BatcherGroups

Groups = BatcherGroups[Any, Any, Any]


class KeyedProcessor(RecordingProcessor):
    """Records (key, items) as one batch, [key, *items]; answers with (key, item).

    `most_of_a_key` is how many batches of one key ever ran at once: with a `concurrency` of 1, how many batchers
    of one key were at work.
    """

    def __init__(self, *script: Outcome) -> None:
        super().__init__(lambda batch: [(batch[0], item) for item in batch[1:]], *script)
        self.most_of_a_key = 0
        self._running_of: Counter[Any] = Counter()

    async def serve(self, key: Any, items: list[Any]) -> Any:
        self._running_of[key] += 1
        self.most_of_a_key = max(self.most_of_a_key, self._running_of[key])
        try:
            return await self([key, *items])
        finally:
            self._running_of[key] -= 1


def groups_of(fn: KeyedProcessor, **options: Any) -> Groups:
    """Build groups of which an item's first letter is its key."""
    defaults: dict[str, Any] = {"group_key": lambda item: item[0], "max_groups": 4, "max_queue_time": 0.01}
    return BatcherGroups(fn.serve, **(defaults | options))


def alive(groups: Groups) -> list[Any]:
    """List the keys that have a batcher now, in the order in which they came."""
    return list(groups._roster.alive)


async def serve(scene: Scene[Groups], *items: Any) -> None:
    """Have these processed one after the other, each by itself, and let their groups come to rest."""
    for item in items:
        assert (await scene.batcher.process(item))[1] == item
        await settle()
