"""The library's recording processor, which answers with ten times each item, for the tests of the core."""

from collections.abc import Callable, Sequence
from typing import Any

from async_batcher.testing import Outcome
from async_batcher.testing import RecordingProcessor as AnyRecordingProcessor
from async_batcher.testing import raising as raises
from async_batcher.testing import returning as returns

__all__ = ["Outcome", "RecordingProcessor", "raises", "returns", "ten_times"]


def ten_times(batch: Sequence[Any]) -> list[Any]:
    """Answer each item with ten times itself."""
    return [item * 10 for item in batch]


class RecordingProcessor(AnyRecordingProcessor[Any, Any]):
    """What `async_batcher.testing` has, with an answer of its own."""

    def __init__(
        self, answer: Outcome = ten_times, *script: Outcome, weigh: Callable[[Any], float] | None = None
    ) -> None:
        super().__init__(answer, *script, weigh=weigh)
