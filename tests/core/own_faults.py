"""Faults of the library itself, for tests to put where it tells its callers."""

from collections.abc import Callable
from typing import NoReturn


class OddError(BaseException):
    """No `Exception`."""


def faulty(error: type[BaseException]) -> Callable[..., NoReturn]:
    def fault(*_: object, **__: object) -> NoReturn:
        raise error("a fault of the library itself")

    return fault


FAULTS = [RuntimeError, AttributeError, MemoryError, OddError]
