"""`stop` and `async with`, for one batcher or for many that stop together.

Law: new items are refused before anything is waited for; a forced stop settles every caller before it waits; and a
block that is left by cancellation leaves nothing running that can be stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import anyio

from async_batcher._errors import BatcherStopped
from async_batcher._loops import current_loop
from async_batcher._options import check_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from async_batcher._loops import EventLoop
    from async_batcher._running import Runner


class Stoppable:
    """What a batcher and a group of batchers share.

    Mutable state: the scope around the user's block, on a loop that needs one.
    """

    __slots__ = ("_body",)

    def __init__(self) -> None:
        self._body: anyio.CancelScope | None = None

    def _runners(self) -> Sequence[Runner]:
        """Return what there is to stop."""
        raise NotImplementedError

    def _bound(self) -> EventLoop | None:
        """Return the event loop that it ran on last."""
        raise NotImplementedError

    def _bind(self, loop: EventLoop) -> None:
        """Run on `loop` from now on, or raise `RuntimeError` where something is going on elsewhere."""
        raise NotImplementedError

    def _close(self) -> None:
        """Refuse new items for good."""
        raise NotImplementedError

    def _closed(self) -> bool:
        """Say whether it refuses new items for good."""
        raise NotImplementedError

    async def stop(self, *, force: bool = False, timeout: float | None = None) -> None:
        """Refuse new items, have what was accepted processed at once, and return when all is done.

        It may be called again, at the same time too, and is final. Cancelling it stops only the waiting.

        Args:
            force: Settle every caller with `BatcherStopped` and cancel what runs, instead of having it processed.
                An async processor is waited for until it has dealt with its cancellation; a thread is not: it
                runs on, and keeps its slot until it ends.
            timeout: Seconds to wait at most; `None` is no limit.

        Raises:
            TimeoutError: Not all is done. It goes on refusing and draining; `stop(force=True)` still works.
            RuntimeError: It was called by its own processor, or is in use on another event loop.
            TypeError: `timeout` is no number.
            ValueError: `timeout` is not over 0 and finite.
        """
        check_seconds("timeout", timeout, zero=False, none="no limit")
        runners = self._runners()
        if any(runner.inside for runner in runners):
            raise RuntimeError(
                "the processor called stop() of its own batcher, which waits for the processor: it would wait for "
                "itself for ever. Call it from a task that on_batch starts, or from the code that built the batcher"
            )
        bound = self._bound()
        if any(not runner.idle_elsewhere for runner in runners) and not (bound and bound.is_current()):
            self._bind(current_loop())
        self._close()
        for runner in runners:
            runner.begin_stop(force=force)
        left = await _wait_quiet(runners, timeout)
        if left:
            raise TimeoutError(
                f"not at rest after timeout={timeout} s: {'; '.join(left)}. It goes on refusing new items; "
                "stop(force=True) tells every caller and cancels what can be cancelled"
            )
        for runner in runners:
            runner.rest()

    async def __aenter__(self) -> Self:
        """Bind to the running event loop.

        Raises:
            BatcherStopped: It has been stopped; build a new one.
            RuntimeError: It is in use on another event loop, or, on trio, inside another `async with`.
        """
        if self._closed():
            raise BatcherStopped("it has been stopped, which is final; build a new one")
        bound = self._bound()
        loop = bound if bound is not None and bound.is_current() else current_loop()
        if loop is bound and self._body is not None:
            raise RuntimeError("it is inside an `async with` already; share it, or build another")
        if loop is not bound:
            self._refuse_foreign_block()
            self._bind(loop)
        if loop.needs_block:
            loop.body = self._body = anyio.CancelScope()
            self._body.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Drain; where the block is left by cancellation, or this is cancelled, stop by force."""
        body, self._body = self._body, None
        if body is None:
            await self._leave_block(error)
            return False
        try:
            await self._leave_block(error)
        except BaseException as failure:
            absorbed = body.__exit__(type(failure), failure, failure.__traceback__)
            if not absorbed:
                raise
        else:
            absorbed = body.__exit__(kind, error, traceback)
        self._raise_crash()
        return bool(absorbed)

    def _come_in(self) -> None:
        """Bind to the running event loop, unless it is bound to it.

        Raises:
            RuntimeError: Something is going on elsewhere, or this loop needs an `async with`.
        """
        bound = self._bound()
        if bound is not None and bound.is_current():
            return
        self._refuse_foreign_block()
        loop = current_loop()
        if self._closed():
            raise BatcherStopped
        if loop.needs_block:
            raise RuntimeError(
                "on trio a batcher works inside `async with batcher:`, and this one is not in one"
            )
        self._bind(loop)

    def _refuse_foreign_block(self) -> None:
        if self._body is not None:
            raise RuntimeError(
                "it is inside an `async with` on another event loop or thread. Use one batcher a loop, or call it "
                "from a worker thread by anyio.from_thread.run(batcher.process, item)"
            )

    async def _leave_block(self, error: BaseException | None) -> None:
        bound = self._bound()
        cancelled = current_loop().cancelled if bound is None else bound.cancelled
        if isinstance(error, cancelled):
            await self._force_shielded()
            return
        try:
            await self.stop()
        except cancelled:
            await self._force_shielded()
            raise

    async def _force_shielded(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop(force=True)

    def _raise_crash(self) -> None:
        """Raise what a batch raised to end the program, once."""
        loop = self._bound()
        if loop is not None and loop.crash is not None:
            crash, loop.crash = loop.crash, None
            raise crash


async def _wait_quiet(runners: Sequence[Runner], timeout: float | None) -> list[str]:
    """Wait for all, within one budget, and say what is left after it."""
    if timeout is None:  # without a scope, which on asyncio costs a tenth of a second to import
        for runner in runners:
            await runner.wait_quiet()
        return []
    with anyio.move_on_after(timeout):
        for runner in runners:
            await runner.wait_quiet()
    return [runner.whats_left() for runner in runners if not runner.quiet]
