"""Groups whose batches are recorded with their key, for the tests of keyed batchers."""

from typing import Any

from recording import Outcome, RecordingProcessor

from async_batcher import BatcherGroups

Groups = BatcherGroups[Any, Any, Any]


class KeyedProcessor(RecordingProcessor):
    """Records (key, items) as one batch, [key, *items]; answers with (key, item)."""

    def __init__(self, *script: Outcome) -> None:
        super().__init__(lambda batch: [(batch[0], item) for item in batch[1:]], *script)

    async def serve(self, key: Any, items: list[Any]) -> Any:
        return await self([key, *items])


def groups_of(fn: KeyedProcessor, **options: Any) -> Groups:
    defaults: dict[str, Any] = {"group_key": lambda item: item[0], "max_groups": 4, "max_queue_time": 0.01}
    return BatcherGroups(fn.serve, **(defaults | options))
