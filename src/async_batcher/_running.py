"""One batch's life: slot, call, results, event.

Law: whatever the processor, an observer or a cancellation does, every caller of the batch is settled, and the slot
comes back exactly once, when the work has really ended.

The runner does what the collector decides. Each batch lives in a task of its own: it enters the shared slot where
there is one, leaves out the callers who are gone, calls the processor, settles the callers, gives the slot back,
and only then tells the observer.
"""

from __future__ import annotations

import functools
import inspect
import logging
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from async_batcher._collector import Collector, Reserve, Rest, Start, Tell
from async_batcher._errors import BatchCancelled
from async_batcher._events import BatchEvent
from async_batcher._processor import Processor
from async_batcher._results import as_raised, as_results, deliver, deliver_error
from async_batcher._waiter import fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from async_batcher._loops import Cancellable, EventLoop
    from async_batcher._options import Options
    from async_batcher._processor import Job
    from async_batcher._queue import Batch
    from async_batcher._waiter import Waiter

Slots: TypeAlias = AbstractAsyncContextManager[Any, bool | None]

_logger = logging.getLogger("async_batcher")


class Life:
    """One batch from its start to its end.

    Mutable state: how far it got. `reserved`: it holds a slot, but no batch yet. `job`: its work in an executor.
    `over`: the slot has been given back.
    """

    __slots__ = (
        "batch",
        "began",
        "begun",
        "error_type",
        "failed",
        "job",
        "over",
        "parent",
        "reserved",
        "runner",
        "seconds",
        "size",
        "succeeded",
        "task",
        "times",
    )

    def __init__(self, runner: Runner, batch: Batch | None) -> None:
        self.runner = runner
        self.batch = batch
        self.reserved = batch is None
        self.parent: Life | None = None
        self.task: Cancellable | None = None
        self.job: Job | None = None
        self.begun = self.over = False
        self.size = self.succeeded = self.failed = 0
        self.seconds = 0.0
        self.times: list[float] = []
        self.began = 0.0
        self.error_type: str | None = None

    @property
    def unstoppable(self) -> bool:
        """Whether it is work in a thread or a process, which nothing can end from here."""
        return self.job is not None and self.job.unstoppable

    @property
    def detached(self) -> bool:
        """Whether its task is gone, and its job was left to itself."""
        return self.job is not None and self.job.detached

    def job_ended(self) -> None:
        """Hear of the end of a job that had been left to itself."""
        self.runner.over(self)

    def call_off(self) -> None:
        """Cancel what can be cancelled, once: a second time it would cut off the processor's own cleanup.

        A task that has not begun is left: on asyncio its body would never be entered. It will find nobody waiting.
        """
        if self.job is not None and not self.job.over:
            self.job.cancel()
        elif self.begun and self.task is not None:
            self.task.cancel()
            self.task = None


current_life: ContextVar[Life | None] = ContextVar("async_batcher_life", default=None)


class Runner:
    """Does what the collector decides, on one event loop at a time.

    Mutable state: the loop, the timer, the lives, those who wait for quiet, and the threads once there are some.
    """

    def __init__(
        self,
        processor: Callable[[list[Any]], Any],
        options: Options,
        context: Context,
        slots: Slots | None = None,
    ) -> None:
        self.collector = Collector(options, shares_slots=slots is not None)
        self.options = options
        self._processor = Processor(processor, options)
        self._context = context
        self._slots = slots
        self.loop: EventLoop  # set by `bind`, and read by nothing that runs before it
        self.bound: EventLoop | None = None
        self._lives: set[Life] = set()
        self._quiet_waiters: set[Waiter] = set()
        self._timer: Cancellable | None = None
        self._rings_at = 0.0
        self._acting = False
        self._forced = False
        self._observer_failed = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is left that `stop` waits for: after a forced one, threads are not."""
        return self.collector.idle or (self._forced and all(life.unstoppable for life in self._lives))

    @property
    def idle_elsewhere(self) -> bool:
        """Whether nothing is going on, and the loop that runs now is none of its concern."""
        return self.bound is None or (self.collector.idle and not self.bound.is_current())

    @property
    def inside(self) -> bool:
        """Whether this runs inside a batch of this runner that has not ended."""
        life = current_life.get()
        while life is not None and (life.runner is not self or life.over):
            life = life.parent
        return life is not None

    def bind(self, loop: EventLoop) -> None:
        """Run on `loop` from now on.

        Raises:
            RuntimeError: Something is going on elsewhere.
        """
        for life in [life for life in self._lives if life.detached]:
            self.over(life)  # work that ended after its loop, when there was nobody to be told
        if not self.collector.idle:
            raise RuntimeError(
                f"this batcher is in use on another event loop or thread ({self.whats_left()}). Use one batcher a "
                "loop, or call it from a worker thread by anyio.from_thread.run(batcher.process, item)"
            )
        self.loop = self.bound = loop
        self._timer = None

    def whats_left(self) -> str:
        """Say what is going on, for a message."""
        stats = self.collector.stats()
        return f"{stats.waiting} waiting, {stats.in_line} in line, {len(self._lives)} batch(es) running"

    def rest(self) -> None:
        """Let go of the timer and the threads; nothing is to be done any more."""
        if self._timer is not None and not self.loop.closed:
            self._timer.cancel()
        self._timer = None
        self._processor.rest()

    # What the collector decides

    def act(self, rung_for: float = 0.0) -> None:
        """Do what there is to do now, or at the time for which the timer rang, if that is later."""
        if self._acting:  # a task that begins eagerly, inside `spawn`: the loop below goes on with it
            return
        self._acting = True
        now = max(self.loop.time(), rung_for)
        try:
            while self._do(self.collector.next_step(now)):
                pass
        finally:
            self._acting = False
        if self._quiet_waiters:
            self._notify_quiet()

    def _do(self, step: Start | Reserve | Tell | Rest) -> bool:
        match step:
            case Rest(until):
                self._arm(until)
                return False
            case Start(batch):
                self._spawn(Life(self, batch))
            case Reserve():
                self._spawn(Life(self, None))
            case Tell(waiter, error):
                if error is not None:
                    fail(waiter, error)
                elif not waiter.done():
                    waiter.set_result(None)
            case _:
                assert_never(step)
        return True

    def begin_stop(self, *, force: bool) -> None:
        """Refuse new items, and send what waits; by force settle every caller, and call off what can be."""
        self.collector.close()
        if self.idle_elsewhere:
            return
        if force:
            self._force()
        self.act()

    def _force(self) -> None:
        self._forced = True
        for tell in self.collector.abort(self.loop.time()):
            self._do(tell)
        for life in list(self._lives):
            life.call_off()

    async def wait_quiet(self) -> None:
        """Wait until nothing is left to wait for. Cancelling it changes nothing."""
        while not self.quiet:
            waiter = self.loop.waiter()
            self._quiet_waiters.add(waiter)
            try:
                await waiter
            finally:
                self._quiet_waiters.discard(waiter)

    def _notify_quiet(self) -> None:
        if self.quiet:
            for waiter in self._quiet_waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _arm(self, until: float | None) -> None:
        """Ring at `until`. A timer that rings earlier stays: it looks again, so at most one rings in vain."""
        if until is None or (self._timer is not None and self._rings_at <= until):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = until
        self._timer = self.loop.call_at(until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.act(self._rings_at)  # a clock may ring a little before its own time

    # One batch

    def _spawn(self, life: Life) -> None:
        self._lives.add(life)
        carry, over = functools.partial(self._carry, life), functools.partial(self.over, life)
        try:
            life.task = self.loop.spawn(carry, self._context.copy(), over)
        except Exception as error:  # noqa: BLE001  (whatever a loop raises here, the callers are told)
            self._fail_reserved(life, error)
            self.over(life)

    async def _carry(self, life: Life) -> None:
        life.begun = True
        try:
            if self._slots is None:
                await self._serve(life)
            else:
                await self._serve_in_slot(life, self._slots)
        finally:
            self.over(life)

    async def _serve_in_slot(self, life: Life, slots: Slots) -> None:
        """Take the batch only inside the shared slot, and tell its callers should the slot fail."""
        try:
            async with slots:
                self._take_reserved(life)
                if life.batch is not None:
                    await self._serve(life)
        except (KeyboardInterrupt, SystemExit, GeneratorExit, self.loop.cancelled):
            raise
        except BaseException as error:
            if life.over or life.batch is not None:
                _logger.exception("backend_slots failed when a batch left its slot; its callers are settled")
            else:
                self._fail_reserved(life, error)

    async def _serve(self, life: Life) -> None:
        batch = life.batch
        if batch is None or not self.collector.begin(batch):
            return
        life.parent = current_life.get()
        current_life.set(life)
        life.size = len(batch.items)
        life.times, life.began = batch.times, self.loop.time()
        try:
            results = as_results(await self._processor.call(batch.items, self.loop, life), life.size)
        except BaseException as error:
            life.seconds = self.loop.time() - life.began
            if isinstance(error, GeneratorExit) and self.loop.closed:
                raise
            self._fail(life, error)
            if isinstance(error, KeyboardInterrupt | SystemExit | self.loop.cancelled):
                raise
        else:
            life.seconds = self.loop.time() - life.began
            self._count(life, *deliver(batch.callers, results, self.loop.cancelled))

    def _fail(self, life: Life, error: BaseException) -> None:
        """Tell every caller of the batch who still waits."""
        if life.batch is None:
            return
        told = as_raised(error, self.loop.cancelled)
        life.error_type = f"{type(told).__module__}.{type(told).__qualname__}"
        self._count(life, 0, deliver_error(life.batch.callers, told))

    def _count(self, life: Life, succeeded: int, failed: int) -> None:
        life.succeeded += succeeded
        life.failed += failed
        self.collector.settled(succeeded, failed)

    def _take_reserved(self, life: Life) -> None:
        if life.reserved:
            life.reserved = False
            life.batch = self.collector.take_reserved(self.loop.time())
            self.act()

    def _fail_reserved(self, life: Life, error: BaseException) -> None:
        self._take_reserved(life)
        self._fail(life, error)

    def over(self, life: Life) -> None:
        """Give the slot back, once, when the work has really ended; then tell the observer."""
        if life.over or (life.detached and life.unstoppable):
            return
        life.over = True
        self._lives.discard(life)
        if life.reserved:
            self.collector.give_up_reserved()
        if life.batch is not None:
            if not life.begun and not self.loop.closed:
                self._fail(life, BatchCancelled("the batch was cancelled before it began"))
            self.collector.ended(life.batch)
        if not self.loop.closed:
            self.act()
        if life.size and self.options.on_batch is not None:
            self._observe(life, self.options.on_batch)
        if life.batch is not None:
            life.batch.forget()

    def _observe(self, life: Life, on_batch: Callable[[BatchEvent], object]) -> None:
        """Tell the observer. What it raises is logged once, but for what must end the program."""
        event = BatchEvent(
            name=self.options.name,
            reason="due" if life.batch is None else life.batch.reason,
            size=life.size,
            oldest_queue_seconds=life.began - life.times[0],
            mean_queue_seconds=life.began - sum(life.times) / life.size,
            processing_seconds=life.seconds,
            succeeded=life.succeeded,
            failed=life.failed,
            abandoned=life.size - life.succeeded - life.failed,
            error_type=life.error_type,
        )
        try:
            _refuse_coroutine(on_batch(event))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            if not self._observer_failed:
                self._observer_failed = True
                _logger.exception(
                    "on_batch of batcher %r raised; it goes on being called, unlogged", event.name
                )


def _refuse_coroutine(returned: object) -> None:
    if inspect.iscoroutine(returned):
        returned.close()  # else it would be warned of as never awaited, far from here
        raise TypeError("on_batch returned a coroutine, which nobody awaits: make it a plain function")
