"""What helps to test code that batches: a processor that records, gates and fails as told, and virtual time.

    import asyncio
    from async_batcher import AsyncBatcher
    from async_batcher.testing import RecordingProcessor, run_virtual

    async def main() -> None:
        double = RecordingProcessor(lambda numbers: [number * 2 for number in numbers])
        async with AsyncBatcher.from_callable(double, max_batch_size=2, max_queue_time=60) as batcher:
            print(await asyncio.gather(*map(batcher.process, [1, 2, 3])), "after a virtual minute")
        print(double.batches)

    run_virtual(main)
    # [2, 4, 6] after a virtual minute
    # [[1, 2], [3]]

On trio use `trio.testing.MockClock(autojump_threshold=0)` where asyncio has `VirtualEventLoop`; all else is the same.
A virtual clock jumps while a thread works, so sync processors are tested in real time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, cast

import anyio

from async_batcher._results import R

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from async_batcher._results import Results, Returned

__all__ = [
    "Outcome",
    "RecordingProcessor",
    "VirtualEventLoop",
    "raising",
    "returning",
    "run_virtual",
    "settle",
]

T = TypeVar("T")

Outcome: TypeAlias = Callable[[list[Any]], Any]
"""What a batch comes to: called with the batch, it returns what the processor returns, or raises."""


def raising(error: BaseException) -> Outcome:
    """Make a batch raise this very object."""

    def outcome(_batch: list[Any]) -> NoReturn:
        raise error

    return outcome


def returning(value: object) -> Outcome:
    """Make a batch return this value, whatever is in it."""
    return lambda _batch: value


class RecordingProcessor(Generic[T, R]):
    """An async processor that records its batches, holds them at gates, and fails as it is told.

        import asyncio
        from async_batcher import AsyncBatcher
        from async_batcher.testing import RecordingProcessor, raising, settle

        async def main() -> None:
            fn = RecordingProcessor(lambda words: [word.upper() for word in words], raising(OSError("down")))
            async with AsyncBatcher.from_callable(fn, max_queue_time=0) as batcher:
                fn.hold()
                first = asyncio.create_task(batcher.process("first"))
                await fn.begun(1)
                later = [asyncio.create_task(batcher.process(word)) for word in ("a", "b", "c")]
                await settle()
                later[1].cancel()
                fn.release()
                print(await asyncio.gather(first, later[0], later[2], return_exceptions=True))
            print(fn.batches)

        asyncio.run(main())
        # [OSError('down'), 'A', 'C']
        # [['first'], ['a', 'c']]

    Args:
        answer: What batches come to for which nothing is scripted. It may be async, and it may be the real one.
        *script: What the first batches come to instead, one each: see `raising` and `returning`.
        weigh: The weight of an item, as the batcher's option of that name, for `weights`.

    Attributes:
        batches: What it was given, in the order in which batches began.
        weights: The weight of each batch; empty without `weigh`.
        ended: The numbers of the batches that have ended, in that order; they count from 0.
        cancelled: The numbers of those that were cancelled.
        most_at_once: How many have run at the same time.
        script: What the next batches come to; append to it whenever you like.
    """

    def __init__(
        self,
        answer: Callable[[list[T]], Returned[R]],
        *script: Outcome,
        weigh: Callable[[T], float] | None = None,
    ) -> None:
        self.batches: list[list[T]] = []
        self.weights: list[float] = []
        self.ended: list[int] = []
        self.cancelled: list[int] = []
        self.most_at_once: int = 0
        self.script: deque[Outcome] = deque(script)
        self._answer = answer
        self._weigh = weigh
        self._poison: list[tuple[T, BaseException]] = []
        self._failing: list[tuple[T, BaseException]] = []
        self._held = False
        self._gates: dict[int, anyio.Event] = {}
        self._watchers: list[anyio.Event] = []

    @property
    def seen(self) -> list[T]:
        """All items that it was given, in order."""
        return [item for batch in self.batches for item in batch]

    @property
    def running(self) -> int:
        """How many batches have begun and not ended."""
        return len(self.batches) - len(self.ended)

    def hold(self) -> None:
        """Make batches that begin from now on wait, each at a gate of its own."""
        self._held = True

    def release(self, number: int | None = None) -> None:
        """Open the gate of one batch that waits there; or, without a number, all gates, for later batches too.

        Raises:
            LookupError: No batch of that number has come to its gate.
        """
        if number is not None:
            if number not in self._gates:
                raise LookupError(
                    f"batch {number} is at no gate; those that came to one: {list(self._gates)}"
                )
            self._gates[number].set()
            return
        self._held = False
        for gate in self._gates.values():
            gate.set()

    async def begun(self, count: int = 1) -> None:
        """Wait until so many batches in all have begun."""
        while len(self.batches) < count:
            watcher = anyio.Event()
            self._watchers.append(watcher)
            await watcher.wait()

    def fail_item(self, item: T, error: BaseException) -> None:
        """From now on put `error` in the place of this item's result: its caller alone gets it."""
        self._failing.append((item, error))

    def fail_batch_of(self, item: T, error: BaseException) -> None:
        """From now on raise `error` for every batch that has this item in it, as one bad item does in a bulk call."""
        self._poison.append((item, error))

    async def __call__(self, batch: list[T]) -> Results[R] | None:
        """Process a batch: it is recorded, waits at its gate if it is held, and comes to what was said."""
        number = len(self.batches)
        self._record(batch)
        outcome = self.script.popleft() if self.script else self._usual
        try:
            if self._held:
                self._gates[number] = anyio.Event()
                await self._gates[number].wait()
            return cast("Results[R] | None", await _awaited(outcome(batch)))
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(number)
            raise
        finally:
            self.ended.append(number)

    def _record(self, batch: list[T]) -> None:
        self.batches.append(list(batch))
        if self._weigh is not None:
            self.weights.append(sum(map(self._weigh, batch)))
        self.most_at_once = max(self.most_at_once, self.running)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.set()

    async def _usual(self, batch: list[T]) -> Any:
        for item, error in self._poison:
            if item in batch:
                raise error
        results = await _awaited(self._answer(batch))
        return _with_errors(batch, results, self._failing) if self._failing else results


async def _awaited(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def _with_errors(
    batch: list[T], results: Iterable[R] | None, failing: list[tuple[T, BaseException]]
) -> list[Any]:
    """Put each error in the places of its item."""
    given: list[Any] = [None] * len(batch) if results is None else list(results)
    for place, item in enumerate(batch[: len(given)]):
        for bad, error in failing:
            if item == bad:
                given[place] = error
    return given


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose clock begins at 0, and jumps to the next timer when nothing else can run.

    So an hour's sleep takes no time, and a window of 10 ms is 10 ms whatever else the machine does. With no timer
    either, only a thread or a file could wake the loop: after `real_patience` it raises `RuntimeError`, so that
    a caller whom nobody will ever tell is a failure and not a hang.

    It goes where a loop factory goes: `asyncio.Runner(loop_factory=VirtualEventLoop)`, or into the `anyio_backend`
    of anyio's pytest plugin as `("asyncio", {"loop_factory": VirtualEventLoop})`.
    """

    real_patience: float = 5.0
    """Real seconds that another thread or file has to wake a loop that has no timer."""

    def __init__(self) -> None:
        self._now = 0.0
        self._quiet_waiters: list[asyncio.Future[None]] = []
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def set_time_aside(self, seconds: float) -> None:
        """Move the clock by hand, as code that blocks the loop for so long does."""
        self._now += seconds

    async def quiet(self) -> None:
        """Return once every other task and callback waits, before time passes."""
        waiter = self.create_future()
        self._quiet_waiters.append(waiter)
        await waiter

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the executor's threads, as asyncio does at the end of a run, for `real_patience` at most.

        `timeout` is not heeded: in virtual time it is over before any thread can end.
        """
        del timeout
        await super().shutdown_default_executor()

    def _when_quiet(self, timeout: float | None) -> bool:
        """Wake those who wait for quiet, or else move the clock; false where there is neither."""
        waiters, self._quiet_waiters = [w for w in self._quiet_waiters if not w.done()], []
        if waiters:
            for waiter in waiters:
                waiter.set_result(None)
        elif timeout is None:
            return False
        else:
            # At least one step of the float, else a timer far away is never reached.
            self._now = max(self._now + timeout, math.nextafter(self._now, math.inf))
        return True


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits for a timer."""

    def __init__(self, loop: VirtualEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0 or self._loop._when_quiet(timeout):  # noqa: SLF001  (one class in two)
            return events
        own_pipe_only = len(self.get_map()) <= 1
        if own_pipe_only and threading.active_count() == 1:
            raise RuntimeError("nothing is ready, no timer is armed and no thread can wake the loop")
        events = super().select(self._loop.real_patience)
        if not events:
            raise RuntimeError(
                "no timer is armed, and neither a thread nor a file woke the loop in "
                f"{self._loop.real_patience} s"
            )
        return events


async def settle() -> None:
    """Let everything that is ready run until all other tasks wait; in virtual time, no time passes.

    In real time it is only as good as `anyio.wait_all_tasks_blocked`: there, wait for something of your own, such
    as `RecordingProcessor.begun`.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio
        loop = None
    if isinstance(loop, VirtualEventLoop):
        await loop.quiet()
    else:
        await anyio.wait_all_tasks_blocked()


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a new event loop in virtual time, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        return runner.run(main())
