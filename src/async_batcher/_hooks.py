"""What a user's functions say of an item: its weight, its key, and when it is too old.

Law: they are asked once an item, on its caller's way in, where what they raise is that caller's alone.
"""

from __future__ import annotations

import decimal
import math
import numbers
import operator
import reprlib
from typing import TYPE_CHECKING, Any, Final

from async_batcher._options import check_expiry

if TYPE_CHECKING:
    from collections.abc import Hashable

    from async_batcher._options import Options

MOST_WEIGHT: Final = 2**53
"""The heaviest that an item may be: up to there whole numbers are exact as floats too."""


class Hooks:
    """The functions among the options of one batcher."""

    __slots__ = ("_coalesce_key", "_expires_after", "_weigh")

    def __init__(self, options: Options) -> None:
        self._weigh = options.weigh
        self._coalesce_key = options.coalesce_key
        self._expires_after = options.expires_after

    def ask(self, item: Any, now: float, expires_after: float | None) -> tuple[float, Hashable, float | None]:
        """Return the weight of an item, its key, and when it is too old (`None`: it has no key, it is never too old).

        Raises:
            TypeError: A weight is no number, a key is not hashable, or `expires_after` is no number.
            ValueError: A weight is not from 0 to `MOST_WEIGHT`, or `expires_after` is not over 0 and finite.
            BaseException: What a function of the user's raised.
        """
        weight: float = 0
        if self._weigh is not None:
            weight = self._weigh(item)
            if type(weight) is not int or not 0 <= weight <= MOST_WEIGHT:
                weight = _plain_weight(weight)
        key: Hashable = None
        if self._coalesce_key is not None:
            key = self._coalesce_key(item)
            _check_key(key)
        if expires_after is None:
            expires_after = self._expires_after
        else:
            check_expiry(expires_after)
        return weight, key, None if expires_after is None else now + expires_after


def _plain_weight(weight: Any) -> float:
    """Make an int or a float of a weight, which adds up without wrapping round, overflowing or raising."""
    wanted = f"it must return a number from 0 to {MOST_WEIGHT}"
    try:
        plain: float = operator.index(weight)
    except TypeError:
        if not isinstance(weight, numbers.Real | decimal.Decimal):
            raise TypeError(f"weigh returned {weight!r} for an item; {wanted}") from None
        try:
            plain = float(weight)
        except OverflowError:
            plain = math.inf
    if not 0 <= plain <= MOST_WEIGHT:
        raise ValueError(f"weigh returned {_shown(weight)} for an item; {wanted}")
    return plain


def _shown(weight: Any) -> str:
    try:
        return reprlib.repr(weight)
    except Exception:  # noqa: BLE001  (an int of over 4,300 digits, or code of the user's)
        return f"an odd {type(weight).__name__}"


def _check_key(key: object) -> None:
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(
            f"coalesce_key returned a {type(key).__name__}, which can't be hashed; return a str, a number or a tuple "
            "of such, or None for an item that is not to be shared"
        ) from error
