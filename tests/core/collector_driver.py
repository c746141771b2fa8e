"""What a runner does with a collector, by hand and against the model: the ground that the machine of events stands on.

As its runner, it asks for the next step once after each event that may change something, and then only while the
collector says that it must be asked; and it keeps one timer, which rings early rather than late.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from collector_model import Caller, CrowdOfWaits, Model, Wait

from async_batcher import BatcherStopped, ItemWithdrawn
from async_batcher._batch import Batch
from async_batcher._collector import Collector
from async_batcher._line import InLine, Ticket
from async_batcher._options import Options
from async_batcher._steps import Rest, Start, Step, Tell


class Driver:
    """A collector, its model, and those who call it."""

    def __init__(self, options: Options, *, shared: bool) -> None:
        self.collector = Collector(options, shares_slots=shared)
        self.model = Model(options, shared=shared)
        self.now = 0.0
        self.timer: float | None = None
        self.callers: list[Caller] = []
        self.unbegun: list[Batch] = []
        self.begun: list[Batch] = []
        self.seen: list[int] = []
        self.arrived = 0

    # As the runner does it

    def act(self) -> None:
        """Ask, and go on as long as anything is undecided."""
        for _ in range(1000):
            step = self.collector.next_step(self.now)
            self.model.check(step, self.now)
            self.do(step)
            if not self.collector.undecided:
                return
        raise AssertionError("it never rests")

    def do(self, step: Step) -> None:
        match step:
            case Start(batch):
                self.unbegun.append(batch)
                assert self.collector.slot_free is self.model.slot_free  # its task may begin right now
            case Tell(waiter, error):
                assert not waiter.done()
                waiter.set_result(None) if error is None else waiter.set_exception(error)
            case Rest(until):
                if until is not None and (self.timer is None or until < self.timer):
                    self.timer = until

    def ring(self) -> None:
        assert self.timer is not None
        self.now, self.timer = max(self.now, self.timer), None
        self.act()

    # Callers

    def some(self, wanted: Callable[[Caller], bool]) -> bool:
        return any(map(wanted, self.callers))

    def pick(self, which: int, wanted: Callable[[Caller], bool]) -> Caller:
        fitting = [caller for caller in self.callers if wanted(caller)]
        return fitting[which % len(fitting)]

    def arrive(self, caller: Caller) -> None:
        """Come in by the short way, which decides nothing, or else by the long one."""
        if not caller.patient and caller.expires is None:
            caller.ticket = self.collector.join(caller.item, caller.waiter, self.now)
        if caller.ticket is None:
            self.admit(caller)
            return
        assert self.model.options.plain
        assert self.model.refusal(caller) is None
        self.callers.append(caller)
        self.model.arrive(caller, self.now)
        assert caller.place == "row"

    def admit(self, caller: Caller) -> None:
        refusal = self.model.refusal(caller)
        if refusal is not None:
            with pytest.raises(refusal):
                self.admit_to_collector(caller)
            self.model.counts["rejected"] += 1
            return
        caller.ticket = self.admit_to_collector(caller)
        self.callers.append(caller)
        self.model.arrive(caller, self.now)
        assert isinstance(caller.ticket, InLine) == (caller.place == "line")
        if self.collector.undecided:
            self.act()

    def admit_to_collector(self, caller: Caller) -> Ticket:
        return self.collector.admit(
            caller.item,
            caller.waiter,
            self.now,
            admitted=caller.admitted,
            weight=caller.weight,
            key=caller.key,
            expires=caller.expires,
            patient=caller.patient,
        )

    def arrive_together(self, count: int) -> int:
        """Come as a crowd, as many of so many as fit; say how many that were."""
        fits, model = self.collector.fits(), self.model
        may_come = model.options.plain and model.room and not model.line and not model.closed
        assert bool(fits) is may_come
        assert (
            not fits
            or model.options.max_queue_size is None
            or fits <= model.options.max_queue_size - len(model.row)
        )
        count = min(count, fits)
        if count:
            crowd = [
                Caller(self.arrived + place, Wait(f"one of a crowd {place}")) for place in range(1, count + 1)
            ]
            self.arrived += count
            seats = CrowdOfWaits([caller.waiter for caller in crowd])
            ticket = self.collector.admit_crowd([caller.item for caller in crowd], seats, self.now)
            for caller in crowd:
                caller.ticket = ticket
                model.arrive(caller, self.now)
            self.callers += crowd
            if self.collector.undecided:
                self.act()
        return count

    def leave(self, caller: Caller) -> None:
        assert caller.ticket is not None
        caller.waiter.cancel()
        caller.reported = True
        never_seen = self.model.depart(caller, "abandoned")
        assert self.collector.leave(caller.ticket, caller.waiter) is never_seen
        self.act()

    def withdraw(self, caller: Caller) -> None:
        """As a submission does it, which its task may have stopped awaiting in this very tick."""
        assert caller.ticket is not None
        withdrawn = self.collector.withdraw(caller.ticket, caller.waiter)
        assert withdrawn is (caller.place != "seen")
        if withdrawn:
            self.model.depart(caller, "withdrawn")
            caller.reported = True
            if caller.open:
                caller.waiter.set_exception(ItemWithdrawn())
            self.act()

    def flush(self) -> None:
        self.collector.flush()
        for place in self.model.row:
            place.flushed = True
        self.act()

    # Batches

    def begin(self, batch: Batch) -> None:
        self.unbegun.remove(batch)
        seen = self.model.begin(batch)
        callers = self.model.seen_in(seen)
        assert self.collector.begin(batch) == len(callers)
        assert batch.items == [place.item for place in seen]
        assert len(batch.times) == len(batch.waiters) == len(seen)
        assert [waiter for waiter in batch.callers if not waiter.done()] == [
            caller.waiter for caller in callers if caller.open
        ]
        assert batch.weights is None or batch.weight == sum(place.weight for place in seen)
        self.seen += batch.items
        self.begun.append(batch)

    def settle(self, batch: Batch, failing: int) -> None:
        """Give everyone who still waits the result of its place, and count so many as failed."""
        places = self.model.running[batch]
        still = [caller for caller in self.model.seen_in(places) if caller.open]
        item_of = {caller.waiter: place.item for place in places for caller in place.callers}
        if batch.crowds and batch.crowded:
            assert len(still) == len(batch.waiters)
            batch.set_results(batch.items)
        else:
            waiters, results = batch.fan_out(batch.items)
            for waiter, result in zip(waiters, results, strict=True):
                if not waiter.done():
                    waiter.set_result(result)
        assert [caller.waiter.outcome for caller in still] == [item_of[caller.waiter] for caller in still]
        for number, caller in enumerate(still):
            self.model.count(caller, "failed" if number < failing else "succeeded")
        self.collector.settled(max(0, len(still) - failing), min(failing, len(still)))

    def end(self, batch: Batch) -> None:
        """Its callers are settled, or gone unsaid."""
        self.settle(batch, 0)
        self.begun.remove(batch)
        self.collector.ended(batch)
        del self.model.running[batch]
        self.act()

    def take_reserved(self) -> None:
        while (told := self.model.expire(self.now)) is not None:
            step = self.collector.next_expired(self.now)
            self.model.check_told(step, told)
            assert step is not None
            self.do(step)
        assert self.collector.next_expired(self.now) is None
        batch = self.collector.take_reserved(self.now)
        self.model.reserved -= 1
        assert (batch is not None) is bool(self.model.row)
        if batch is not None:
            self.model.take(batch, self.now)
            self.unbegun.append(batch)
        self.act()

    def give_up_reserved(self) -> None:
        self.collector.give_up_reserved()
        self.model.reserved -= 1
        self.act()

    # Stop

    def close(self) -> None:
        self.collector.close()
        self.model.closed = True
        assert self.collector.join(0, Wait("too late"), self.now) is None
        assert self.collector.fits() == 0
        self.act()

    def abort(self, *, unstarted: int) -> None:
        """Stop by force: so many of the batches that began had been given to an executor, and never ran."""
        self.collector.close()
        self.model.closed = True
        for batch in self.begun[:unstarted]:
            self.never_began(batch)
        wanted = self.expect_abort()
        for tell in self.collector.abort(self.now):
            assert isinstance(tell.error, BatcherStopped)
            assert wanted.pop(tell.waiter) is tell.error.withdrawn  # type: ignore[call-overload]
            tell.waiter.set_exception(tell.error)
        assert not wanted, f"nobody told {wanted}"
        self.act()
        assert not self.some(lambda caller: caller.open)
        assert self.collector.stats().waiting == self.collector.stats().in_line == 0

    def never_began(self, batch: Batch) -> None:
        """Take back that it began; its callers who got no outcome are as those of a batch that has not."""
        places = self.model.running[batch]
        callers = self.model.seen_in(places)
        if not callers or any(caller.counted for caller in callers):
            return
        self.collector.never_began(batch)
        self.model.counts["batches"] -= 1
        for caller in callers:
            caller.place = "taken"
        self.seen = [item for item in self.seen if item not in batch.items]
        self.begun.remove(batch)
        self.unbegun.append(batch)

    def expect_abort(self) -> dict[Wait, bool]:
        """Say who must be told, and whether its item was never seen."""
        model, wanted, waiting = self.model, {}, self.model.waiting
        for caller in self.callers:
            if caller.open:
                wanted[caller.watched] = caller.place != "seen"
                if caller.place == "line":
                    model.counts["rejected"] += 1
                else:
                    model.count(caller, "stopped")
            elif caller in waiting:
                model.count(caller, "withdrawn")
        model.line.clear()
        model.row.clear()
        return wanted

    # What always holds

    def check(self) -> None:
        self.everything_is_in_time()
        self.counts_are_right()
        self.facts_are_right()
        self.no_batch_is_too_heavy_or_too_large()
        self.settled_callers_know_whether_they_ran()

    def everything_is_in_time(self) -> None:
        """Nothing is due before the timer rings."""
        due = self.model.due()
        assert due is None or (self.timer is not None and self.timer <= due), f"{due=} {self.timer=}"

    def counts_are_right(self) -> None:
        stats = self.collector.stats()
        self.model.check_stats(stats)
        assert stats.accepted == (
            stats.succeeded + stats.failed + stats.withdrawn + stats.abandoned + stats.expired + stats.stopped
        ) + (stats.waiting + stats.running)

    def facts_are_right(self) -> None:
        model, limits = self.model, self.model.options
        assert self.collector.slot_free is model.slot_free
        assert self.collector.closed is model.closed
        assert self.collector.places == len(model.row)
        assert self.collector.waiting == len(model.waiting)
        stands = any(not caller.watched.done() for caller in model.line)
        if stands or not model.line:
            assert self.collector.idle is not bool(model.row or stands or model.running or model.reserved)
        assert limits.concurrency is None or len(model.running) + model.reserved <= limits.concurrency
        assert limits.max_queue_size is None or len(model.row) <= limits.max_queue_size
        assert len(self.seen) == len(set(self.seen))

    def no_batch_is_too_heavy_or_too_large(self) -> None:
        options = self.model.options
        for places in self.model.running.values():
            assert options.max_batch_size is None or len(places) <= options.max_batch_size
            weight = sum(place.weight for place in places)
            assert options.max_batch_weight is None or weight <= options.max_batch_weight
            assert all(one.item < other.item for one, other in pairwise(places)), "out of order"

    def settled_callers_know_whether_they_ran(self) -> None:
        for caller in self.callers:
            if caller.waiter.done() and not caller.waiter.cancelled() and not caller.reported:
                assert caller.ticket is not None
                assert self.collector.never_ran(caller.ticket, caller.waiter) is (caller.place != "seen")

    def drain(self) -> None:
        """Close it: it is drained exactly when its batches have ended, and nobody waits any more."""
        self.close()
        while self.model.reserved or self.unbegun or self.begun:
            if self.model.reserved:
                self.take_reserved()
            elif self.unbegun:
                self.begin(self.unbegun[0])
            else:
                self.end(self.begun[0])
        for caller in self.callers:
            if caller.gone_unsaid:
                self.leave(caller)
        assert self.collector.idle
        assert not self.some(lambda caller: caller.open)
        stats = self.collector.stats()
        assert (stats.waiting, stats.running, stats.in_line) == (0, 0, 0)
        self.counts_are_right()
