"""Who checks, as the runner sees it: a pool of processes, or workers of a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from .assets import Asset
    from .outcomes import Outcome

    Check: TypeAlias = Callable[[Sequence[Asset]], Awaitable[list[Outcome]]]


class Checkers(Protocol):
    """Checks chunks of assets elsewhere."""

    @property
    def most(self) -> int:
        """How many chunks can be on their way at once, at most."""

    async def open(self) -> None:
        """Reach whoever checks; a `JobError` says that nobody can be reached."""

    def place(self) -> AbstractAsyncContextManager[Check]:
        """Wait until a chunk can be given away, and hold its place for the block.

        Yields:
            What checks one chunk. It raises `CheckDiedError` when nothing is known of the chunk, `PoolClosedError`
            when the chunk was given to nobody, and `JobError` when nobody can check, which is no asset's fault.

        Raises:
            PoolClosedError: `close` came first.
            JobError: Nobody can check.
        """

    def close(self) -> None:
        """Give nobody another chunk; the chunks that are given go on."""

    def kill(self) -> None:
        """End what goes on, whatever it is."""

    async def end(self) -> None:
        """Leave nothing behind, within a few seconds."""
