"""Thresholds as exact numbers: a profile's 0.1 is one tenth, and nothing is rounded at a boundary."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

A_SECOND = Fraction(30000, 1001)
"""In frames."""


def exact(limit: float) -> Fraction:
    """Take a threshold for the decimal number that was written, not for the binary one next to it."""
    return Fraction(repr(limit))


def longest(limit: float) -> int:
    """Give the most frames that last no longer than `limit` seconds."""
    return floor(exact(limit) * A_SECOND)


def shortest(limit: float) -> int:
    """Give the fewest frames that last at least `limit` seconds."""
    return ceil(exact(limit) * A_SECOND)
