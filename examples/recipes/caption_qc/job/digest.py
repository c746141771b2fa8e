"""The digest of an asset that is not read into memory: one that is too large, or that no worker survived."""

from __future__ import annotations

import contextlib
import hashlib
import math
from time import monotonic
from typing import TYPE_CHECKING

from .assets import NotAsSeenError
from .exits import BrokenOffError, JobError
from .outcomes import left_because
from .outcomes import stopped as stopped_asset

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .assets import Asset
    from .outcomes import Left
    from .queues import Queue


class _StoppedError(Exception):
    """The run was asked to end."""


def digest(queue: Queue, asset: Asset, *, seconds: float, stopped: Callable[[], bool]) -> str | Left:
    """Return the SHA-256 of the asset's bytes, or why it is left for the next fire.

    Args:
        queue: Where the asset lies.
        asset: The asset as it was seen.
        seconds: It is left when reading takes longer.
        stopped: Asked before each piece; it is left when the answer is yes.
    """
    try:
        return _in_time(queue, asset, seconds, stopped)
    except (_StoppedError, BrokenOffError):
        return stopped_asset(asset)
    except (NotAsSeenError, OSError, JobError) as error:
        return left_because(asset, error)


def holds(queue: Queue, asset: Asset, content_sha256: str, *, seconds: float) -> bool:
    """Say whether the asset has that content; no if reading it takes longer than `seconds`.

    Raises:
        JobError: The queue can't be read from.
        BrokenOffError: A drain came while it was waited for.
    """
    try:
        return _in_time(queue, asset, seconds, bool) == content_sha256
    except (NotAsSeenError, OSError):
        return False


def _in_time(queue: Queue, asset: Asset, seconds: float, stopped: Callable[[], bool]) -> str:
    def read() -> str:
        return _digest(queue.pieces(asset), monotonic() + seconds, stopped)

    # Where an answer trickles, no piece comes after which the time could be looked at.
    return queue.waited_for(read, queue.slowest(seconds) or math.inf)


def _digest(pieces: Generator[bytes], deadline: float, stopped: Callable[[], bool]) -> str:
    sha256 = hashlib.sha256()
    with contextlib.closing(pieces):
        for piece in pieces:
            sha256.update(piece)
            if stopped():
                raise _StoppedError
            if monotonic() > deadline:
                raise OSError("it could not be read in time")
    return sha256.hexdigest()
