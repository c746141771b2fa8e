"""Calls in threads of their own, which are left behind when nobody waits for them any longer.

Such a call ends with its answer, or with the process, which waits for none of them at its end.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call, and return what will be its answer."""
    from concurrent.futures import Future  # noqa: PLC0415 - a run that waits for nothing needs none of it

    answer: Future[T] = Future()

    def do() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answer.set_exception(error)

    threading.Thread(target=do, name="apart", daemon=True).start()
    return answer


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises.

    Raises:
        TimeoutError: It did neither in so many seconds.
    """
    answer = begun(call)
    try:
        return answer.result(seconds)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"no answer within {seconds:g} s") from None
