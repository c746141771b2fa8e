"""Items that may grow too old: which of those that wait is the next to expire.

Law: what has left the queue costs nothing more than its share of a sweep, is never told that it expired, and is not
kept alive here.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from async_batcher._waiter import Waiter

_FEW: Final = 64


class Expiries:
    """When which caller's item expires, soonest first.

    Mutable state: a heap, in which those who have left stay until they come up or are swept out.
    """

    __slots__ = ("_number", "_sweep_at", "_waits", "heap")

    def __init__(self, waits: Callable[[Any, Waiter], bool]) -> None:
        self.heap: list[tuple[float, int, weakref.ref[Any], weakref.ref[Waiter]]] = []
        """Who may expire; to be read alone, so that one sees at a glance whether there is anybody."""
        self._number = itertools.count()  # so that nothing behind it is ever compared
        self._sweep_at = _FEW
        self._waits = waits

    @property
    def soonest(self) -> float | None:
        """When to look next: no caller that waits expires earlier. `None`: none of them ever does."""
        return self.heap[0][0] if self.heap else None

    def add(self, at: float, ticket: Any, waiter: Waiter) -> None:
        """Have the item of `waiter` expire at this time, unless it has left by then."""
        if len(self.heap) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self.heap, (at, next(self._number), weakref.ref(ticket), weakref.ref(waiter)))

    def pop(self, now: float) -> tuple[Any, Waiter] | None:
        """Take out the next that expires by `now` and still waits: its ticket and its waiter."""
        while self.heap and self.heap[0][0] <= now:
            _, _, ticket, waiter = heapq.heappop(self.heap)
            if (found := self._still_waits(ticket, waiter)) is not None:
                return found
        return None

    def clear(self) -> None:
        """Forget all."""
        self.heap.clear()
        self._sweep_at = _FEW

    def _sweep(self) -> None:
        """Throw out who has left. Half of the heap at least is new since the last time, so this is O(1) an item."""
        self.heap[:] = [
            entry for entry in self.heap if entry[3]() is not None and self._still_waits(entry[2], entry[3])
        ]
        heapq.heapify(self.heap)
        self._sweep_at = max(_FEW, 2 * len(self.heap))

    def _still_waits(
        self, ticket: weakref.ref[Any], waiter: weakref.ref[Waiter]
    ) -> tuple[Any, Waiter] | None:
        """Return a caller and its ticket, unless it has left."""
        found, who = ticket(), waiter()
        return (found, who) if found is not None and who is not None and self._waits(found, who) else None
