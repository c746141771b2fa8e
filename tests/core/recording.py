"""A processor that records the batches it saw, with a gate and a script, for the tests of the core."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import anyio

Outcome = Callable[[Sequence[Any]], Any]
"""What a batch comes to: called with the batch, it returns the processor's value or raises."""


def raises(error: BaseException) -> Outcome:
    """Make a batch raise this very object."""

    def outcome(_batch: Sequence[Any]) -> NoReturn:
        raise error

    return outcome


def returns(value: Any) -> Outcome:
    """Make a batch return this value, whatever was in it."""
    return lambda _batch: value


def ten_times(batch: Sequence[Any]) -> list[Any]:
    """Answer each item with ten times itself."""
    return [item * 10 for item in batch]


class RecordingProcessor:
    """An async processor: `batches` is what it saw, in the order in which batches began.

    After `hold()` every batch waits at a gate of its own until `release()` opens all gates for good, or
    `release(n)` that of batch n. `script` holds the outcomes of the next batches; after it, `answer` serves.
    """

    def __init__(self, answer: Outcome = ten_times, *script: Outcome) -> None:
        self.batches: list[list[Any]] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.most_at_once = 0
        self.script = deque(script)
        self._answer = answer
        self._held = False
        self._gates: dict[int, anyio.Event] = {}

    @property
    def seen(self) -> list[Any]:
        """All items that it saw, in order."""
        return [item for batch in self.batches for item in batch]

    @property
    def running(self) -> int:
        """How many batches began and have not ended."""
        return len(self.batches) - len(self.ended)

    def hold(self) -> None:
        """Make batches that begin from now on wait at their gates."""
        self._held = True

    def release(self, number: int | None = None) -> None:
        """Open the gate of one running batch, or all gates, and let later batches through."""
        if number is not None:
            self._gates[number].set()
            return
        self._held = False
        for gate in self._gates.values():
            gate.set()

    async def __call__(self, batch: Sequence[Any]) -> Any:
        number = len(self.batches)
        self.batches.append(list(batch))
        self.most_at_once = max(self.most_at_once, self.running)
        outcome = self.script.popleft() if self.script else self._answer
        try:
            if self._held:
                self._gates[number] = anyio.Event()
                await self._gates[number].wait()
            return outcome(batch)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(number)
            raise
        finally:
            self.ended.append(number)
