"""Figures as people read them: frame numbers as labels of time, sizes with a unit."""

from __future__ import annotations

import math
from typing import Final

from .check.timecode import Timecode

_MINUTE: Final = 60 * 30
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_DROPPED: Final = 2  # Labels that a drop-frame minute leaves out, unless ten divides it.
_DROP_MINUTE: Final = _MINUTE - _DROPPED
_TEN_DROP_MINUTES: Final = 10 * _MINUTE - 9 * _DROPPED


def label(frame: int, *, drop: bool) -> str:
    """Write a frame number as the label that counts it; a frame of the next day has that day's label."""
    counted = (_with_dropped(frame) if drop else frame) % _DAY
    hours, rest = divmod(counted, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    return str(Timecode(hours, minutes, *divmod(rest, 30), drop=drop))


def _with_dropped(frame: int) -> int:
    """Count the labels up to a frame, those that were left out as well."""
    tens, rest = divmod(frame, _TEN_DROP_MINUTES)
    dropping = max(rest - _DROPPED, 0) // _DROP_MINUTE
    return frame + _DROPPED * (9 * tens + dropping)


def in_bytes(number: int) -> str:
    """Write a size as people read it."""
    if number < _KILO:
        return f"{number} bytes"
    unit = min(int(math.log(number, _KILO)), len(_UNITS))
    return f"{number / _KILO**unit:.1f} {_UNITS[unit - 1]}"


_KILO: Final = 1000
_UNITS: Final = ("kB", "MB", "GB", "TB")
