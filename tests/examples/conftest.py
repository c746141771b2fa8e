"""What every test of a recipe gets: the signals as they were, whatever a command that it called has set."""

import signal
from collections.abc import Iterator

import pytest

TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
"""What the recipes' commands take, or give back to the system."""


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """Give them back: with SIGPIPE's default a later test that writes to a client that left would end all of them."""
    before = {number: signal.getsignal(number) for number in TAKEN}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
