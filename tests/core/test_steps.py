"""Steps that the collector gives to the runner."""

import pytest
from collector_model import Wait

from async_batcher._steps import Tell


@pytest.mark.parametrize("error", [None, ValueError("told")])
def test_telling_settles_a_waiter_once(error: Exception | None) -> None:
    """It gets the error, or `None`; one that has been settled meanwhile keeps what it has."""
    waiter, left = Wait("waits"), Wait("has left")
    left.cancel()
    for who in (waiter, left):
        Tell(who, error).settle()
    assert (waiter.state, waiter.error) == ("result" if error is None else "error", error)
    assert left.cancelled()
