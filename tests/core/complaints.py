"""What is complained of when a loop is closed with a batcher's work in it, and a loop to close like that."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from virtual_time import VirtualEventLoop


class Complaints:
    """What the loop, the interpreter and the library had to complain of."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.found: list[str] = []

    def check_there_are_none(self) -> None:
        """Throw away what is left, and fail the test of whatever was said of it."""
        gc.collect()
        assert self.found == [], self.found
        assert [log.getMessage() for log in self._caplog.records if log.name == "async_batcher"] == []

    def of_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # That its own callers' tasks were thrown away is what asyncio says of this test, and rightly.
        if context["message"] != "Task was destroyed but it is pending!":
            self.found.append(f"{context['message']}: {context.get('exception')!r}")

    def of_interpreter(self, unraisable: Any) -> None:
        self.found.append(f"{unraisable.err_msg}: {unraisable.exc_value!r}")


@contextmanager
def event_loop(complaints: Complaints, *, tidy: bool) -> Iterator[VirtualEventLoop]:
    """Make a loop, and close it: with its tasks cancelled, as `asyncio.run` does, or with all that is in them."""
    loop = VirtualEventLoop()
    loop.set_exception_handler(complaints.of_loop)
    try:
        yield loop
        if tidy:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(gathered(tasks))
    finally:
        loop.close()


async def gathered(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
