"""A task that the scheduler holds for the time of a run.

What `Client.run` does is no task, and a scheduler may be set to end itself when it has none. So it holds one that asks
for what no worker has.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client


async def held(client: Client) -> None:
    """Keep the scheduler from taking itself for idle; return when the connection to it breaks.

    A connection that comes back is to another scheduler, which knows nothing of what this one was asked to tell.
    """
    while client.status == "running":
        task = client.submit(int, key=f"caption-qc-{uuid.uuid4()}", resources={"caption-qc": 1})
        try:
            await task.exception()
            if not task.cancelled():
                return  # The scheduler gave it up, and would give up the next.
        finally:
            task.release()
        # The connection broke, or somebody restarted the workers.
