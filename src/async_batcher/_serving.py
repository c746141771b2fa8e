"""One batch's life: slot, call, halves, results, event.

Law: whatever the processor, an observer or a cancellation does, every caller of the batch is settled, and the slot
comes back exactly once, when the work has really ended.

Each batch lives in a task of its own: it enters the shared slot where there is one, leaves out the callers who are
gone, calls the processor, settles the callers, gives the slot back, and only then tells the observer. A task that
carried one batch after another would save a tenth of the time, and was ruled out: a batch would find what the one
before it left behind, a cancellation on its way, a variable, whatever is called when the task ends.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from async_batcher._collector import Collector
from async_batcher._errors import BatchCancelled
from async_batcher._life import Life, current_life
from async_batcher._line import remember
from async_batcher._processor import Processor
from async_batcher._results import (
    any_error,
    as_raised,
    as_results,
    deliver,
    deliver_error,
    may_split,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import Context

    from async_batcher._batch import Batch
    from async_batcher._events import BatchEvent, Witness
    from async_batcher._line import Ticket
    from async_batcher._loops import Cancellable, EventLoop
    from async_batcher._options import Options
    from async_batcher._waiter import Waiter

Slots: TypeAlias = AbstractAsyncContextManager[Any, bool | None]

_TELEMETRY: Final = "the telemetry"
_HELD: Final = contextlib.suppress(Exception)  # of a handler or a filter of the user's: no caller's affair

_logger = logging.getLogger("async_batcher")


class Serving:
    """The lives of one batcher's batches. What is decided next is its subclass's to do: `act`.

    Mutable state: the loop, the lives, the threads once there are some, who observes, and which of them ever failed.
    """

    def __init__(
        self,
        processor: Callable[[list[Any]], Any],
        options: Options,
        context: Context,
        slots: Slots | None,
    ) -> None:
        self.collector = Collector(options, shares_slots=slots is not None)
        self.options = options
        self.loop: EventLoop  # set by `bind`, as the next, and read by nothing that runs before it
        self._now: Callable[[], float]
        self._processor = Processor(processor, options)
        self._context = context
        self._parent = context.get(current_life)
        self._slots = slots
        self._lives: set[Life] = set()
        self._failed: set[str] = set()
        self.witness: Witness | None = None
        self._noting: Witness | None = None
        """The witness, from when it wants something remembered of each caller."""

    def act(self) -> None:
        """Do what there is to do now."""
        raise NotImplementedError

    def act_on_end(self) -> None:
        """Do what there is to do after a batch has ended."""
        raise NotImplementedError

    @property
    def inside(self) -> bool:
        """Whether this runs inside one of its batches that has not ended."""
        life = current_life.get()
        while life is not None and (life.owner is not self or life.over):
            life = life.parent
        return life is not None

    def _end_detached(self) -> None:
        """End what ended in a thread after its loop had, when there was nobody to be told."""
        for life in list(self._lives):
            if life.job is not None and life.job.detached and life.job.over:
                self.over(life)

    def _write_off_lives(self) -> None:
        """Let go of what a closed loop left behind: no task will go on."""
        for life in list(self._lives):
            life.told = True
            if life.job is not None:
                life.job.detached = True
            self.over(life)

    def _call_off_reserved(self) -> None:
        """Call off those who wait for a shared slot."""
        for life in list(self._lives):
            if life.reserved:
                life.call_off()

    def _take_back_unstarted(self) -> None:
        """Take back what was handed to an executor that has not started it: now it never will."""
        for life in self._lives:
            batch, job = life.batch, life.job
            if batch is not None and batch.begun and not life.split and job is not None and job.cancel():
                self.collector.never_began(batch)
                life.size = 0

    def _call_off(self) -> None:
        """End what can be ended."""
        for life in list(self._lives):
            life.call_off()
        for life in list(self._lives):
            if life.left_to_itself:
                self._leave(life)

    def _bear(self, batch: Batch | None) -> None:
        """Start the life of a batch; `None`: it is taken once the shared slot has been entered."""
        life = Life(self, batch, self._parent)
        self._lives.add(life)
        try:
            task = self.loop.spawn(functools.partial(self._live, life), self._context.copy(), life.task_ended)
        except BaseException as error:  # whatever a loop raises here, the callers are told
            self._fail_reserved(life, error)
            self.over(life)
            if not isinstance(error, Exception):
                raise
        else:
            life.started(task)

    async def _live(self, life: Life) -> None:
        life.begun = True
        try:
            if self._slots is None:
                await self._serve(life)
            elif self.collector.places:
                await self._serve_in_slot(life, self._slots)
        except (KeyboardInterrupt, SystemExit, GeneratorExit, self.loop.cancelled):
            raise
        except BaseException:
            if life.over or self.loop.closed:  # the processor's own, as its coroutine is being thrown away
                raise
            _logger.exception("a fault of async_batcher itself; the callers of this batch are told")
        finally:
            self.over(life)
        self.loop.unwatch(life.task_ended)

    async def _serve_in_slot(self, life: Life, slots: Slots) -> None:
        """Take the batch only inside the shared slot, and tell its callers should the slot fail."""
        try:
            async with slots:
                if not life.called_off:  # else a newcomer would be served in a task that is being cancelled
                    self._take_reserved(life)
                if life.batch is not None:
                    await self._serve(life)
        except BaseException as error:
            if self._must_go_on(error):
                raise
            if life.batch is not None:
                _logger.exception("backend_slots failed when a batch left its slot; its callers are settled")
            elif not life.called_off:
                self._fail_reserved(life, error)

    async def _serve(self, life: Life) -> None:
        batch = life.batch
        if batch is None or not (callers := self.collector.begin(batch)):
            return
        current_life.set(life)
        life.size, life.callers = len(batch.items), callers
        life.weight = None if batch.weights is None else batch.weight
        life.times, life.began = batch.times, self._now()
        try:
            if self.witness is not None and self.witness.awake:
                self._begin_account(self.witness, life, batch)
            results = as_results(await self._processor.call(batch.items, self.loop, life), life.size)
        except BaseException as error:
            if life.over or self.loop.closed:  # its coroutine is being thrown away
                raise
            if life.size > 1 and not self._must_go_on(error) and self._may_split(life, error):
                await self._serve_halves(life, batch, name_of(type(error)))
            else:
                self._fail(life, error)
                if self._must_go_on(error):
                    raise
        else:
            if batch.crowds and batch.crowded and not any_error(results):
                batch.set_results(results)
                self._count(life, life.size, 0)
            else:
                self._count(life, *deliver(*batch.fan_out(results), self.loop.cancelled))
            life.told = True

    async def _serve_halves(self, life: Life, batch: Batch, error_type: str) -> None:
        """Call the halves of a batch that failed, and theirs, until only the items that cause it are left to fail.

        A failure that no item causes is the batch's: whoever has no outcome yet gets it.
        """
        life.split = True
        self._reach(life)
        self._tell(life, "split", error_type)
        halves = batch.halves()
        while halves:
            part = halves.pop()
            part.leave_out_gone()
            if not part.items:
                continue
            if life.called_off:  # stopped by force: its callers are told
                return
            try:
                results = await self._call_part(life, part)
            except BaseException as error:
                if life.over or self.loop.closed:
                    raise
                if self._must_go_on(error) or not self._may_split(life, error):
                    self._fail(life, error)
                    if self._must_go_on(error):
                        raise
                    return
                if len(part.items) > 1:
                    self._reach(life)
                    halves += part.halves()
                else:
                    told = as_raised(error, self.loop.cancelled)
                    self._count(life, 0, deliver_error(part.callers, told))
            else:
                self._count(life, *deliver(*part.fan_out(results), self.loop.cancelled))
        life.told = True

    async def _call_part(self, life: Life, part: Batch) -> Sequence[Any]:
        """Call the processor for a part of a batch, and have a witness hear of it."""
        size = len(part.items)
        told = self._tell(life, "part_began", size)
        error_type: str | None = None
        try:
            return as_results(await self._processor.call(part.items, self.loop, life), size)
        except BaseException as error:
            error_type = name_of(type(error))
            raise
        finally:
            self._tell(life, "part_ended", told, error_type)

    def _may_split(self, life: Life, error: BaseException) -> bool:
        """Say whether one item may have caused an error; a predicate of the user's that fails says no.

        What ends the program goes on, when all callers have been told.
        """
        if self.options.split_on == ():
            return False
        try:
            return may_split(as_raised(error, self.loop.cancelled), self.options.split_on)
        except Exception:
            with _HELD:
                _logger.exception("split_on of batcher %r raised; the batch is not split", self.options.name)
            return False
        except BaseException:
            self._fail(life, error)
            raise

    def _must_go_on(self, error: BaseException) -> bool:
        """Say whether an error is more than this batch's: what ends the program, the task or the coroutine.

        A cancellation that nobody asked for is the user's own, and ends with the batch.
        """
        kind = type(error)  # isinstance would ask the error's own `__class__`
        if issubclass(kind, self.loop.cancelled):
            return self.loop.being_cancelled()
        return issubclass(kind, KeyboardInterrupt | SystemExit) or (
            issubclass(kind, GeneratorExit) and self.loop.closed
        )

    def _fail(self, life: Life, error: BaseException) -> None:
        """Tell every caller of the batch who still waits."""
        if life.batch is None:
            return
        told = as_raised(error, self.loop.cancelled)
        self._count(life, 0, deliver_error(life.batch.callers, told))
        life.told = True
        life.error_type = name_of(type(told))

    def _count(self, life: Life, succeeded: int, failed: int) -> None:
        life.seconds = self._now() - life.began
        life.succeeded += succeeded
        life.failed += failed
        self.collector.settled(succeeded, failed)

    def _reach(self, life: Life) -> None:
        """Note that a call has ended which settles nobody, as all its callers may have left: it lasts until then."""
        life.seconds = self._now() - life.began

    def _take_reserved(self, life: Life) -> None:
        if life.reserved:
            life.reserved = False
            now = self._now()
            while (tell := self.collector.next_expired(now)) is not None:
                tell.settle()
            life.batch = self.collector.take_reserved(now)
            self.act()

    def _fail_reserved(self, life: Life, error: BaseException) -> None:
        self._take_reserved(life)
        self._fail(life, error)

    def over(self, life: Life) -> None:
        """Give the slot back, once, when the work has really ended; then tell the observer."""
        if life.over:
            return
        if life.job is not None and life.in_thread:
            self._leave(life)
            return
        life.over = True
        self._lives.discard(life)
        if life.reserved:
            self.collector.give_up_reserved()
        if life.batch is not None:
            try:
                self._tell_rest(life, life.batch)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                _logger.exception(
                    "a fault of async_batcher itself; not all callers of this batch could be told"
                )
            finally:
                self.collector.ended(life.batch)
        if not self.loop.closed:
            self.act_on_end()
        if life.account is not None or (life.size and self.options.on_batch is not None):
            self._observe(life, life.event(self.options.name) if life.size else None)
        life.let_go()

    def task_ended(self, life: Life, task: Cancellable) -> None:
        """As `over`, after a task that may never have begun, or raised what must go on."""
        self.loop.look_at(task)
        self.over(life)

    def _tell_rest(self, life: Life, batch: Batch) -> None:
        """Tell those who were told nothing: the task never began, or it failed by a fault of ours."""
        if life.told:
            return
        if self.loop.closed:
            self.collector.forsake_batch(batch)
        else:
            self._fail(life, BatchCancelled("the batch was cancelled before it began"))

    def _observe(self, life: Life, event: BatchEvent | None) -> None:
        """Tell who listens. What it raises is logged once, but for what must end the program."""
        try:
            self._tell(life, "ended", event)
        finally:
            if self.options.on_batch is not None and event is not None:
                self._guard("on_batch", self.options.on_batch, event)

    def _begin_account(self, witness: Witness, life: Life, batch: Batch) -> None:
        """Have a witness hear that the processor is about to be called; its own time does not count as that."""
        notes = batch.remembered()
        life.account = self._guard(_TELEMETRY, witness.began, batch.reason, life.size, life.callers, notes)
        if life.account is not None:
            life.began = self._now()

    def _leave(self, life: Life) -> None:
        """Have a witness hear the end of a batch that nobody waits for: its thread may outlive whoever could tell."""
        if life.account is not None:
            try:
                self._tell(life, "ended", life.leave(self.options.name, self._now()))
            finally:
                life.account = None

    def _tell(self, life: Life, what: str, *told: object) -> Any:
        """Have a witness hear more of a batch, if it wanted that when it heard of its beginning."""
        if life.account is None or self.witness is None:
            return None
        return self._guard(_TELEMETRY, getattr(self.witness, what), life.account, *told)

    def _look_for_listeners(self, witness: Witness, ticket: Ticket, waiters: Sequence[Waiter]) -> None:
        """See whether callers are to be remembered from now on, these already."""
        if witness.listens():
            self._noting = witness
            self.collector.note_all(witness.note)
            self._remember(witness, ticket, waiters)

    def _remember(self, witness: Witness, ticket: Ticket, waiters: Sequence[Waiter]) -> None:
        """Remember of one who came in with so many items what a witness says."""
        if (note := witness.note()) is not None:
            for waiter in waiters:
                remember(ticket, waiter, note)

    def _guard(self, what: str, observer: Callable[..., object], *told: object) -> Any:
        try:
            returned = observer(*told)
            _refuse_coroutine(returned)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            if what not in self._failed:
                self._failed.add(what)
                label = self.options.name
                with _HELD:
                    _logger.exception(
                        "%s of batcher %r raised; it goes on being called, unlogged", what, label
                    )
            return None
        return returned


def _refuse_coroutine(returned: object) -> None:
    if inspect.iscoroutine(returned):
        returned.close()  # else it would be warned of as never awaited, far from here
        raise TypeError("on_batch returned a coroutine, which nobody awaits: make it a plain function")
