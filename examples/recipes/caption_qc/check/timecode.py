"""SCC time codes as frame numbers: integers throughout, at 30000/1001 frames a second.

A non-drop label counts every frame. A drop-frame label leaves out ff 00 and 01 at the start of every minute
that ten does not divide, which keeps the label near the wall clock.
"""

from __future__ import annotations

from typing import NamedTuple

_HOURS, _MINUTES, _SECONDS, _FRAMES = 24, 60, 60, 30  # How many there are of each in a label.
_DROPPED_A_MINUTE = 2


def seconds(frames: int) -> float:
    """Say how long so many frames last, in seconds."""
    return frames * 1001 / 30000


class Timecode(NamedTuple):
    """One label as it was written, in range or not."""

    hour: int
    minute: int
    second: int
    frame: int
    drop: bool

    def __str__(self) -> str:
        separator = ";" if self.drop else ":"
        return f"{self.hour:02}:{self.minute:02}:{self.second:02}{separator}{self.frame:02}"

    @property
    def number(self) -> int:
        """The frame number within its day, counted as written even where the label is out of range."""
        minutes = self.hour * _MINUTES + self.minute
        labels = (minutes * _SECONDS + self.second) * _FRAMES + self.frame
        return labels - _dropped_before(minutes) if self.drop else labels

    @property
    def frames_a_day(self) -> int:
        """How many frames 24 hours of such labels count."""
        return _DROP_FRAMES_A_DAY if self.drop else _FRAMES_A_DAY

    @property
    def exists(self) -> bool:
        """Whether the time base counts such a label at all."""
        dropped = self.drop and self.second == 0 and self.frame < _DROPPED_A_MINUTE
        return not (dropped and self.minute % 10)

    @property
    def in_range(self) -> bool:
        """Whether every part is one that a clock has."""
        return (
            self.frame < _FRAMES and self.second < _SECONDS and self.minute < _MINUTES and self.hour < _HOURS
        )

    @property
    def beyond(self) -> tuple[str, int, int]:
        """The first part that is out of range (else the hour): its name, its value, the greatest that exists."""
        parts = (
            ("frame", self.frame, _FRAMES - 1),
            ("second", self.second, _SECONDS - 1),
            ("minute", self.minute, _MINUTES - 1),
            ("hour", self.hour, _HOURS - 1),
        )
        return next((part for part in parts if part[1] > part[2]), parts[-1])


def _dropped_before(minutes: int) -> int:
    return _DROPPED_A_MINUTE * (minutes - minutes // 10)


_FRAMES_A_DAY = _HOURS * _MINUTES * _SECONDS * _FRAMES
_DROP_FRAMES_A_DAY = _FRAMES_A_DAY - _dropped_before(_HOURS * _MINUTES)
