"""Who may be given a chunk: each worker of the cluster has two places, from its greeting until it leaves.

1. A place is taken before a chunk is written down as running, so that what is suspect after a death was given away.
2. The least busy worker comes first. One that leaves takes its places with it, and tells all who wait for its answers.
3. A fault of the cluster as a whole ends everybody's wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

from .pool import PoolClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .errors import JobError

# The chunk that it checks, and the one that it has at hand when that is done.
PLACES_A_WORKER: Final = 2


class Member:
    """One worker's process. Mutable state: `taken`, and `assets`, which are those of the chunks that it has."""

    def __init__(self, address: str, process: str) -> None:
        self.address = address
        self.process = process
        self.taken = 0
        self.assets = 0
        self.left: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when it has left; the result says whether in good order, so that what it had has done no harm."""


class Places:
    """The places of all workers. Mutable state: who is there, who waits, `fault` and `closed`."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.fault: JobError | None = None
        self._closed = False

    def __len__(self) -> int:
        """Count the workers."""
        return len(self._members)

    def join(self, member: Member) -> None:
        """Give the places of a worker that came."""
        self._members[member.address] = member
        self._wake(PLACES_A_WORKER)

    def leave(self, address: str, *, in_order: bool) -> None:
        """Give no place of this worker any more, if it is one."""
        member = self._members.pop(address, None)
        if member is not None:
            member.left.set_result(in_order)

    def close(self) -> None:
        """Give nobody a place any more."""
        self._closed = True
        self._wake(len(self._waiting))

    def fail(self, fault: JobError) -> None:
        """End all waits, those for answers too, by the first fault there is."""
        self.fault = self.fault or fault
        for address in list(self._members):
            self.leave(address, in_order=False)
        self._wake(len(self._waiting))

    async def take(self) -> Member:
        """Wait for a place.

        Raises:
            PoolClosedError: `close` came first.
            JobError: The cluster has a fault.
        """
        while True:
            if self._closed:
                raise PoolClosedError
            if self.fault is not None:
                raise self.fault
            if (member := self._least_busy()) is not None:
                member.taken += 1
                return member
            await self._turn()

    def give_back(self, member: Member) -> None:
        """Let another have the place."""
        member.taken -= 1
        self._wake(1)

    @contextlib.contextmanager
    def busy(self, member: Member, assets: int) -> Iterator[int]:
        """Count these assets as the worker's in the block; yield how many it has with them."""
        member.assets += assets
        try:
            yield member.assets
        finally:
            member.assets -= assets

    def _least_busy(self) -> Member | None:
        free = (member for member in self._members.values() if member.taken < PLACES_A_WORKER)
        return min(free, key=lambda member: member.taken, default=None)

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # It was this one's turn; now it is another's.
                self._wake(1)
            raise

    def _wake(self, number: int) -> None:
        while number and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                number -= 1
