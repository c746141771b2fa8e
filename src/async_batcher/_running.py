"""Does what the collector decides: batches to start, callers to tell, the timer to arm; and brings it callers.

Law: everything that may change a decision is followed by `act`, which asks until nothing is undecided.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, assert_never

from async_batcher._hooks import Hooks
from async_batcher._line import remember
from async_batcher._serving import Serving
from async_batcher._steps import Release, Reserve, Rest, Start, Tell
from async_batcher._waiter import fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from async_batcher._batch import Batch
    from async_batcher._events import Witness
    from async_batcher._line import Ticket
    from async_batcher._loops import Cancellable, EventLoop
    from async_batcher._options import Options
    from async_batcher._serving import Slots
    from async_batcher._steps import Step
    from async_batcher._waiter import Crowd, Waiter


class Runner(Serving):
    """Does what the collector decides, on one event loop at a time.

    Mutable state: the loop, the timer, and those who wait for quiet.
    """

    def __init__(
        self,
        processor: Callable[[list[Any]], Any],
        options: Options,
        context: Context,
        slots: Slots | None = None,
    ) -> None:
        super().__init__(processor, options, context, slots)
        self.on_act: Callable[[], object] | None = None
        """Called each time it has done what there was to do."""
        self._plain = options.plain
        self._hooks = Hooks(options)
        self.bound: EventLoop | None = None
        self._quiet_waiters: set[Waiter] = set()
        self._timer: Cancellable | None = None
        self._rings_at = 0.0
        self._acting = False
        self._forced = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is left that `stop` waits for: after a forced one, threads are not."""
        return self.collector.idle or (self._forced and all(life.left_to_itself for life in self._lives))

    @property
    def idle_elsewhere(self) -> bool:
        """Whether nothing is going on, and the loop that runs now is none of its concern."""
        return self.bound is None or (self.collector.idle and not self.bound.is_current())

    def bind(self, loop: EventLoop) -> None:
        """Run on `loop` from now on.

        Raises:
            RuntimeError: Something is going on elsewhere.
        """
        self.release()
        self.collector.start_clock()
        self.loop = self.bound = loop
        self._now = loop.time
        self._timer = None

    def release(self) -> None:
        """Let go of the loop that it ran on.

        Raises:
            RuntimeError: Something is going on there.
        """
        if self.bound is not None and self.bound.closed:
            self._write_off()
        self._end_detached()
        if not self.collector.idle:
            raise RuntimeError(
                f"this batcher is in use on another event loop or thread ({self.whats_left()}). Use one batcher a "
                "loop, or call it from a worker thread by anyio.from_thread.run(batcher.process, item)"
            )

    def _write_off(self) -> None:
        """Let go of what a closed loop left behind: nobody is there to be told, and no task will go on."""
        self.collector.forsake(self._now())
        self._write_off_lives()
        if self.on_act is not None:
            self.on_act()

    def watch(self, witness: Witness | None) -> None:
        """Have `witness` hear of every batch from now on; `None` is nobody."""
        self.witness = witness
        self._noting = None

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

    # Callers

    def admit(
        self,
        item: object,
        waiter: Waiter,
        *,
        admitted: Waiter | None = None,
        expires_after: float | None = None,
        patient: bool = False,
    ) -> Ticket:
        """Have an item admitted, as `Collector.admit` does.

        Raises:
            BaseException: What the collector, `weigh` or `coalesce_key` raised, or the loop: the item was not accepted.
        """
        now = self._now()
        note = None if self._noting is None else self._noting.note()
        lone: Batch | None = None  # what has left already
        if expires_after is None and self._plain:
            lone = None if self._acting else self.collector.take_lone(item, waiter, now, note)
            ticket: Ticket = lone or self.collector.admit(
                item, waiter, now, admitted=admitted, patient=patient, note=note
            )
        else:
            weight, key, expires = self._hooks.ask(item, now, expires_after)
            joined = self.collector.join_asked(item, waiter, now, weight, expires) if key is None else None
            ticket = joined or self.collector.admit(
                item,
                waiter,
                now,
                admitted=admitted,
                weight=weight,
                key=key,
                expires=expires,
                patient=patient,
            )
            if note is not None:
                remember(ticket, waiter, note)
            if self.collector.undecided:
                now = self._now()  # the hooks took their time, and somebody may be too old by now
        if lone is not None or self.collector.undecided:
            self._act_for(ticket, waiter, now, lone)
        return ticket

    def _act_for(self, ticket: Ticket, waiter: Waiter, now: float, lone: Batch | None) -> None:
        """Do what there is to do after somebody came. Whatever the loop raises: nobody waits for the item then."""
        unborn = lone
        try:
            if self._noting is None and self.witness is not None:
                self._look_for_listeners(self.witness, ticket, (waiter,))
            if not self._acting:
                unborn = None
                self._act(now, lone)
        except BaseException:
            if not waiter.done():
                waiter.cancel()
                self.collector.leave(ticket, waiter)
            if unborn is not None:  # no life will give its slot back
                self.collector.ended(unborn)
            raise

    def fits(self) -> int:
        """As `Collector.fits`."""
        return self.collector.fits()

    def admit_crowd(self, items: list[Any], crowd: Crowd) -> Ticket:
        """Have items that come together admitted, as `Collector.admit_crowd` does.

        Raises:
            BaseException: What the loop raised: none of the items was accepted.
        """
        ticket = self.collector.admit_crowd(items, crowd, self._now())
        if self._noting is not None:
            self._remember(self._noting, ticket, crowd.seats)
        if self.collector.undecided:
            try:
                if self._noting is None and self.witness is not None:
                    self._look_for_listeners(self.witness, ticket, crowd.seats)
                self.act()
            except BaseException:
                for seat in crowd.seats:
                    if not seat.done():
                        self.collector.leave(ticket, seat)
                raise
        return ticket

    def leave(self, ticket: Ticket, waiter: Waiter, admitted: Waiter | None = None) -> bool:
        """Let a caller go that gives up, and say whether its item never ran and never will."""
        # Its coroutine is being thrown away, by the garbage collector perhaps, which may run in the middle of anything.
        # To cancel what it waits for would let go of its own task, which closes the coroutines around this one.
        if self.loop.closed or self.collector.has_forsaken(ticket, waiter):
            return False
        with contextlib.suppress(RuntimeError):  # its loop has been closed, and another one is in use
            if admitted is not None:
                admitted.cancel()
        never_ran = self.collector.leave(ticket, waiter)
        with contextlib.suppress(RuntimeError):
            waiter.cancel()
        self.act()
        return never_ran

    def withdraw(self, ticket: Ticket, waiter: Waiter, error: BaseException) -> bool:
        """Take an item back unless its batch has begun, settle its waiter with `error`, and say whether it was."""
        withdrawn = self.collector.withdraw(ticket, waiter)
        if withdrawn:
            fail(waiter, error)
            self.act()
        return withdrawn

    # What the collector decides

    def act(self) -> None:
        """Do what there is to do now."""
        self.collector.undecided = True
        if not self._acting:  # else a task begins eagerly, inside `spawn`: who started it goes on with this
            self._act(self._now())

    def act_on_end(self) -> None:
        """Do what there is to do after a batch has ended, which changes no decision where nobody waits."""
        if self.collector.undecided:
            self.act()
        elif not self._acting:
            self._acted()

    def _act(self, now: float, batch: Batch | None = None) -> None:
        """Start `batch`, if there is one that has left already, and do what is undecided."""
        collector = self.collector
        self._acting = True
        try:
            if batch is not None:
                self._bear(batch)
            while collector.undecided:
                self._do(collector.next_step(now))
        finally:
            self._acting = False
        self._acted()

    def _acted(self) -> None:
        if self._quiet_waiters:
            self._notify_quiet()
        if self.on_act is not None:
            self.on_act()

    def _do(self, step: Step) -> None:
        match step:
            case Start():
                self._bear(step.batch)
            case Rest():
                if step.until is not None:
                    self._arm(step.until)
            case Reserve():
                self._bear(None)
            case Release():
                self._call_off_reserved()
            case Tell():
                step.settle()
            case _:
                assert_never(step)

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
        self._take_back_unstarted()
        for tell in self.collector.abort(self._now()):
            tell.settle()
        self._call_off()

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

    def _arm(self, until: float) -> None:
        """Ring at `until`. A timer that rings earlier stays: it looks again, so at most one rings in vain."""
        if self._timer is not None and self._rings_at <= until:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = until
        # In a caller's context it would keep that.
        self._timer = self._context.run(self.loop.call_at, until, functools.partial(self._ring, self.loop))

    def _ring(self, loop: EventLoop) -> None:
        if loop is not self.loop:  # an earlier one, whose last timer was still to ring
            return
        self._timer = None
        self.collector.undecided = True
        self._act(max(self._now(), self._rings_at))  # a clock may ring a little before its own time
