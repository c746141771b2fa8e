"""What a runner does with a collector, by hand and against the model: the ground that the machine of events stands on.

As its runner, it asks for the next step once after each event that may change something (an arrival, or the end of a
batch: only where the collector says so), and then only while the collector says that it must be asked; and it keeps
one timer, which rings early rather than late.
"""

from collections.abc import Callable

import pytest
from collector_model import Caller, CrowdOfWaits, Wait
from collector_watch import Watched

from async_batcher import BatcherStopped, ItemWithdrawn
from async_batcher._batch import Batch
from async_batcher._line import InLine, Ticket
from async_batcher._steps import Rest, Start, Step, Tell


class Driver(Watched):
    """A collector, its model, and those who call it."""

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

    def pick(self, which: int, wanted: Callable[[Caller], bool]) -> Caller:
        fitting = [caller for caller in self.callers if wanted(caller)]
        return fitting[which % len(fitting)]

    def arrive(self, caller: Caller) -> None:
        """Come in by the short way, which decides nothing, or else by the long one."""
        if not caller.patient and caller.expires is None:
            caller.ticket = self.collector.join(caller.item, caller.waiter, self.now)
        if caller.ticket is None:
            if not self.pass_by(caller):
                self.admit(caller)
            return
        assert self.model.options.plain
        assert self.model.refusal(caller) is None
        self.callers.append(caller)
        self.model.arrive(caller, self.now)
        assert caller.place == "row"

    def pass_by(self, caller: Caller) -> bool:
        """Leave as it comes, which it does exactly where it is alone, a slot is free, and there is no window."""
        model = self.model
        if not model.options.plain or caller.expires is not None:
            return False
        asked = not self.collector.undecided
        batch = self.collector.take_lone(caller.item, caller.waiter, self.now)
        others = model.row or self.some(lambda other: other.place == "line" and not other.watched.done())
        may = not (others or model.closed or model.shared or model.options.max_queue_time)
        assert (batch is not None) is (may and model.slot_free and asked)
        if batch is None:
            return False
        caller.ticket = batch
        self.callers.append(caller)
        model.arrive(caller, self.now)
        model.check(Start(batch), self.now)
        assert not self.collector.undecided
        self.unbegun.append(batch)
        return True

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
        if caller.key is None and not (self.model.options.plain and caller.expires is None):
            joined = self.collector.join_asked(
                caller.item, caller.waiter, self.now, caller.weight, caller.expires
            )
            if joined is not None:
                return joined
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
        if self.collector.undecided:
            self.act()

    def take_reserved(self) -> None:
        while (step := self.collector.next_expired(self.now)) is not None:
            told = self.model.expire(self.now, step)
            assert told is not None, f"{step}, though nobody is too old"
            self.model.check_told(step, told)
            self.do(step)
        assert self.model.expire(self.now, None) is None
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

    def forsake(self) -> None:
        """Its loop was closed: nobody can be told, and everybody is counted; then it is as good as new."""
        model = self.model
        self.collector.forsake(self.now)
        waiting = model.waiting
        left = [caller for caller in self.callers if caller.open or caller.gone_unsaid]
        for caller in left:
            if caller.place != "line" and not caller.counted:
                gone_as = "withdrawn" if caller in waiting else "abandoned"
                model.count(caller, "stopped" if caller.open else gone_as)
        for caller in self.callers:
            caller.waiter.cancel()
        self.forsaken += left
        self.callers = []
        model.line.clear()
        model.row.clear()
        for batch in (*self.unbegun, *self.begun):
            self.collector.ended(batch)
            del model.running[batch]
        self.unbegun.clear()
        self.begun.clear()
        while model.reserved:
            self.collector.give_up_reserved()
            model.reserved -= 1
        self.timer = None
        assert self.collector.idle

    def throw_away(self, caller: Caller) -> None:
        """Its coroutine is collected when another loop is in use: it leaves, and is counted already."""
        self.forsaken.remove(caller)
        assert caller.ticket is not None
        never_ran = self.collector.leave(caller.ticket, caller.waiter)
        assert not (never_ran and caller.place == "seen"), "to send it again is not safe"
        self.act()

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
