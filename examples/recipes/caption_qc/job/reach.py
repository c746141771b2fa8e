"""Whose fault it is that some assets could not be read: their own, the queue's, or that of the worker that tried.

An asset that nobody may read, or that a store has and can't give, is left, and the run goes on. A queue that is away or
gives nothing, and a worker that can't use it as the run itself can, are no asset's fault: the run ends, and says so.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .assets import NotAsSeenError
from .exits import BrokenOffError, Exit, JobError
from .outcomes import Left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assets import Asset
    from .outcomes import Ending
    from .queues import Queue


def blame(queue: Queue, endings: Sequence[Ending]) -> None:
    """See whether what was left unreadable is nobody's fault but its own.

    Raises:
        JobError: It is not; the line has the reason that the worker gave, the code fits it.
    """
    left = [ending for ending in endings if isinstance(ending, Left)]
    for one in left:
        if one.away is not None:
            queue.require()  # Where it is away for all, that is the better line.
            raise JobError(one.detail, one.away)
    for one in left:
        if one.doubt == "denied" and _is_readable(queue, one.asset):
            found = f"a worker may not read what the run itself may: {one.detail}"
            raise JobError(found, Exit.NO_PERMISSION)
    if withheld := [one.asset for one in left if one.doubt == "withheld"]:
        with contextlib.suppress(BrokenOffError):
            queue.require_reading(withheld[0])


def _is_readable(queue: Queue, asset: Asset) -> bool:
    def read() -> None:
        with contextlib.closing(queue.pieces(asset)) as pieces:
            next(pieces, None)

    try:
        queue.waited_for(read)
    except (NotAsSeenError, OSError, BrokenOffError):
        return False
    return True
