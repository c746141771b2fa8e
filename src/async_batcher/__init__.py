"""Turn many concurrent awaits into few bulk calls, and hand every caller its own result.

import asyncio
from async_batcher import AsyncBatcher

async def embed(texts: list[str]) -> list[int]:  # one call for many texts
    return [len(text) for text in texts]

async def main() -> None:
    async with AsyncBatcher.from_callable(embed, max_batch_size=32) as batcher:
        print(await asyncio.gather(*(batcher.process(text) for text in ["a", "bb", "ccc"])))

asyncio.run(main())  # [1, 2, 3]
"""

from async_batcher._batcher import AsyncBatcher
from async_batcher._decorator import batched
from async_batcher._errors import (
    BatchAborted,
    BatchCancelled,
    BatcherError,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    ItemWithdrawn,
    QueueFull,
    ResultMismatch,
    TooManyGroups,
)
from async_batcher._events import BatcherStats, BatchEvent
from async_batcher._groups import BatcherGroups
from async_batcher._many import MapResults
from async_batcher._options import BatcherOptions
from async_batcher._submission import Submission

__all__ = [
    "AsyncBatcher",
    "BatchAborted",
    "BatchCancelled",
    "BatchEvent",
    "BatcherError",
    "BatcherGroups",
    "BatcherOptions",
    "BatcherStats",
    "BatcherStopped",
    "EnqueueTimeout",
    "ItemExpired",
    "ItemTooHeavy",
    "ItemWithdrawn",
    "MapResults",
    "QueueFull",
    "ResultMismatch",
    "Submission",
    "TooManyGroups",
    "batched",
]
