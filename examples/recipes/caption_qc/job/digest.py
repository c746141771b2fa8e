"""The digest of a file that is not read into memory: one that is too large, or that no worker survived."""

from __future__ import annotations

import hashlib
import os
from time import monotonic
from typing import TYPE_CHECKING, Final

from .assets import NotAsSeenError, open_asset, stat_of
from .outcomes import left_because
from .outcomes import stopped as stopped_asset

if TYPE_CHECKING:
    from collections.abc import Callable

    from .assets import Asset
    from .outcomes import Left

_PIECE: Final = 1 << 20


class _StoppedError(Exception):
    """The run was asked to end."""


def digest(queue: bytes, asset: Asset, *, seconds: float, stopped: Callable[[], bool]) -> str | Left:
    """Return the SHA-256 of the asset's bytes, or why it is left for the next fire.

    Args:
        queue: The folder of the asset.
        asset: The file as it was seen.
        seconds: It is left when reading takes longer.
        stopped: Asked before each piece; it is left when the answer is yes.
    """
    try:
        with os.fdopen(open_asset(asset.path_in(queue)), "rb", buffering=0) as file:
            return _digest(file.fileno(), asset, monotonic() + seconds, stopped)
    except _StoppedError:
        return stopped_asset(asset)
    except (NotAsSeenError, OSError) as error:
        return left_because(asset, error)


def _digest(descriptor: int, asset: Asset, deadline: float, stopped: Callable[[], bool]) -> str:
    _compare(descriptor, asset)
    sha256 = hashlib.sha256()
    while piece := os.read(descriptor, _PIECE):
        sha256.update(piece)
        if stopped():
            raise _StoppedError
        if monotonic() > deadline:
            raise OSError("it could not be read in time")
    _compare(descriptor, asset)
    return sha256.hexdigest()


def _compare(descriptor: int, asset: Asset) -> None:
    if stat_of(os.fstat(descriptor)) != asset.stat:
        raise NotAsSeenError("it changed since it was seen")
