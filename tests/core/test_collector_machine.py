"""The collector against a model, driven as the runner drives it, over all options and in any order of events.

Safety: no item twice or lost, arrival order kept, no limit passed, nobody overtakes the line, nothing seen by the
processor whose caller had left, every count as the model's. Liveness: whenever something is due, either it is done
or the timer rings in time; after closing everything drains, and after a forced stop nobody waits.
"""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from collector_model import Caller, Model, Wait, some_options
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from async_batcher import BatcherStopped, ItemWithdrawn
from async_batcher._batch import Batch
from async_batcher._collector import Collector
from async_batcher._line import InLine
from async_batcher._options import Options
from async_batcher._steps import Reserve, Rest, Start, Tell

QUICK = settings(
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failure is shown as it was found; to shrink takes longer than a test may
    deadline=None,
    max_examples=120,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)
PICK = st.integers(min_value=0, max_value=119)  # hypothesis draws evenly from ranges under 128

EVENTS = (
    *("call", "call", "submit", "submit", "cancel", "go", "report", "withdraw", "pass_time", "ring"),
    *(
        "begin",
        "begin",
        "settle",
        "end",
        "take_reserved",
        "take_reserved",
        "give_up_reserved",
        "close",
        "abort",
    ),
)


def is_open(caller: Caller) -> bool:
    return caller.open


def is_gone_unsaid(caller: Caller) -> bool:
    return caller.gone_unsaid


def is_to_withdraw(caller: Caller) -> bool:
    return caller.place != "line" and (caller.open or caller.gone_unsaid)


class CollectorMachine(RuleBasedStateMachine):
    """The runner, by hand: it asks for the next step where the collector says that it must be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.until: float | None = None
        self.callers: list[Caller] = []
        self.unbegun: list[Batch] = []
        self.begun: list[Batch] = []
        self.seen: list[int] = []
        self.arrived = self.steps = 0

    @initialize(
        options=some_options(), shared=st.booleans(), often=st.lists(st.sampled_from(EVENTS), max_size=3)
    )
    def build(self, options: Options, shared: bool, often: list[str]) -> None:
        self.events = [*EVENTS, *often * 4]
        self.collector = Collector(options, shares_slots=shared)
        self.model = Model(options, shared=shared)

    @rule(choice=PICK, which=PICK, count=st.integers(min_value=1, max_value=5))
    def something_happens(self, choice: int, which: int, count: int) -> None:
        """One rule for all that may happen, since hypothesis leaves out half of the rules in each run."""
        possible = [event for event in self.events if self.may_happen(event)]
        self.steps += 1  # so that even the plainest run, all zeros, goes round
        event = possible[(choice + self.steps) % len(possible)]
        note(event)
        getattr(self, event)(which, count)

    def may_happen(self, event: str) -> bool:
        """Say whether it makes sense now; the collector is not driven where its runner would not."""
        facts: dict[str, Callable[[], object]] = {
            "cancel": lambda: self.some(is_open),
            "go": lambda: self.some(is_open),
            "report": lambda: self.some(is_gone_unsaid),
            "withdraw": lambda: self.some(is_to_withdraw),
            "ring": lambda: self.until is not None,
            "begin": lambda: self.unbegun,
            "settle": lambda: self.begun,
            "end": lambda: self.begun,
            "take_reserved": lambda: self.model.reserved,
            "give_up_reserved": lambda: self.model.reserved,
            "close": lambda: self.arrived > 40 and not self.model.closed,
            "abort": lambda: self.arrived > 40 and not self.model.closed,
        }
        return bool(facts.get(event, lambda: True)())

    # As the runner does it

    def act(self) -> None:
        """Ask until it rests."""
        for _ in range(1000):
            step = self.collector.next_step(self.now)
            self.model.check(step, self.now)
            match step:
                case Start(batch):
                    self.unbegun.append(batch)
                    assert self.collector.slot_free is self.model.slot_free  # its task may begin right now
                case Tell(waiter, error):
                    assert not waiter.done()
                    waiter.set_result(None) if error is None else waiter.set_exception(error)
                case Rest(until):
                    self.until = until
                    return
                case Reserve():
                    pass
        raise AssertionError("it never rests")

    def some(self, wanted: Callable[[Caller], bool]) -> bool:
        return any(map(wanted, self.callers))

    def pick(self, which: int, wanted: Callable[[Caller], bool]) -> Caller:
        fitting = [caller for caller in self.callers if wanted(caller)]
        return fitting[which % len(fitting)]

    def pop(self, which: int, batches: list[Batch]) -> Batch:
        return batches.pop(which % len(batches))

    # Callers

    def call(self, _: int, count: int) -> None:
        self.come(count, submits=False)

    def submit(self, _: int, count: int) -> None:
        self.come(count, submits=True)

    def come(self, count: int, *, submits: bool) -> None:
        for _ in range(count):
            self.arrived += 1
            admitted = Wait(f"admission {self.arrived}") if submits else None
            self.arrive(Caller(self.arrived, Wait(f"caller {self.arrived}"), admitted))
            self.everything_is_in_time()

    def arrive(self, caller: Caller) -> None:
        """Come in by the short way, which decides nothing, or else by the long one."""
        self.callers.append(caller)
        caller.ticket = self.collector.join(caller.item, caller.waiter, self.now)
        if caller.ticket is None:
            self.admit(caller)
            return
        assert self.model.refusal is None
        self.model.arrive(caller, self.now)
        assert caller.place == "row"

    def admit(self, caller: Caller) -> None:
        if self.model.refusal is not None:
            with pytest.raises(self.model.refusal):
                self.collector.admit(caller.item, caller.waiter, self.now, admitted=caller.admitted)
            self.model.counts["rejected"] += 1
            self.callers.remove(caller)
            return
        caller.ticket = self.collector.admit(caller.item, caller.waiter, self.now, admitted=caller.admitted)
        self.model.arrive(caller, self.now)
        assert isinstance(caller.ticket, InLine) == (caller.place == "line")
        self.act()

    def cancel(self, which: int, _: int = 1) -> None:
        """Its caller is cancelled; the collector learns of it later, as on an event loop."""
        self.pick(which, is_open).watched.cancel()

    def report(self, which: int, _: int = 1) -> None:
        self.leave(self.pick(which, is_gone_unsaid))

    def go(self, which: int, count: int) -> None:
        while count and self.some(is_open):
            count -= 1
            caller = self.pick(which, is_open)
            caller.watched.cancel()
            self.leave(caller)

    def leave(self, caller: Caller) -> None:
        assert caller.ticket is not None
        caller.waiter.cancel()
        caller.reported = True
        never_seen = self.model.depart(caller, "abandoned")
        assert self.collector.leave(caller.ticket, caller.waiter) is never_seen
        self.act()

    def withdraw(self, which: int, _: int = 1) -> None:
        """As a submission does it, which its task may have stopped awaiting in this very tick."""
        caller = self.pick(which, is_to_withdraw)
        assert caller.ticket is not None
        withdrawn = self.collector.withdraw(caller.ticket, caller.waiter)
        assert withdrawn is (caller.place != "seen")
        if withdrawn:
            self.model.depart(caller, "withdrawn")
            caller.reported = True
            if caller.open:
                caller.waiter.set_exception(ItemWithdrawn())
            self.act()

    # Time

    def pass_time(self, _: int, count: int) -> None:
        """Time passes; a timer that is due rings a little late."""
        self.now += 0.25 * count * count

    def ring(self, _: int = 0, __: int = 1) -> None:
        self.now = max(self.now, self.until or 0.0)
        self.act()

    # Batches

    def begin(self, which: int, _: int = 1) -> None:
        batch = self.pop(which, self.unbegun)
        seen = self.model.begin(batch)
        assert self.collector.begin(batch) == len(seen)
        assert batch.items == [caller.item for caller in seen]
        assert batch.callers == [caller.waiter for caller in seen]
        assert len(batch.times) == len(seen)
        self.seen += batch.items
        self.begun.append(batch)

    def settle(self, which: int, count: int) -> None:
        self.settle_callers(self.begun[which % len(self.begun)], count - 1)

    def settle_callers(self, batch: Batch, failing: int) -> None:
        still = [caller for caller in self.model.running[batch] if caller.open]
        for place, caller in enumerate(still):
            self.model.count(caller, "failed" if place < failing else "succeeded")
            caller.waiter.set_result(caller.item)
        self.collector.settled(max(0, len(still) - failing), min(failing, len(still)))

    def end(self, which: int, _: int = 1) -> None:
        """Its callers are settled, or gone unsaid."""
        batch = self.pop(which, self.begun)
        self.settle_callers(batch, 0)
        self.collector.ended(batch)
        del self.model.running[batch]
        self.act()

    def take_reserved(self, _: int = 0, __: int = 1) -> None:
        reason, waits = self.model.reason(), bool(self.model.row)
        batch = self.collector.take_reserved(self.now)
        self.model.reserved -= 1
        assert (batch is not None) is waits
        if batch is not None:
            assert batch.reason == reason
            self.model.take(batch, self.now)
            self.unbegun.append(batch)
        self.act()

    def give_up_reserved(self, _: int = 0, __: int = 1) -> None:
        self.collector.give_up_reserved()
        self.model.reserved -= 1
        self.act()

    # Stop

    def close(self, _: int = 0, __: int = 1) -> None:
        self.collector.close()
        self.model.closed = True
        assert self.collector.join(0, Wait("too late"), self.now) is None
        self.act()

    def abort(self, _: int = 0, __: int = 1) -> None:
        self.collector.close()
        self.model.closed = True
        wanted = self.expect_abort()
        for tell in self.collector.abort(self.now):
            assert isinstance(tell.error, BatcherStopped)
            assert wanted.pop(tell.waiter) is tell.error.withdrawn  # type: ignore[call-overload]
            tell.waiter.set_exception(tell.error)
        assert not wanted, f"nobody told {wanted}"
        self.act()
        assert not self.some(is_open)
        assert self.collector.stats().waiting == self.collector.stats().in_line == 0

    def expect_abort(self) -> dict[Wait, bool]:
        """Say who must be told, and whether its item was never seen."""
        model, wanted = self.model, {}
        for caller in self.callers:
            if caller.open:
                wanted[caller.watched] = caller.place != "seen"
                if caller.place == "line":
                    model.counts["rejected"] += 1
                else:
                    model.count(caller, "stopped")
            elif caller in model.row:
                model.count(caller, "withdrawn")
        model.line.clear()
        model.row.clear()
        return wanted

    # What always holds

    @invariant()
    def all_is_well(self) -> None:
        self.everything_is_in_time()
        self.counts_are_right()
        self.facts_are_right()
        self.settled_callers_know_whether_they_ran()

    def everything_is_in_time(self) -> None:
        """Nothing is due before the timer rings."""
        due = self.model.due()
        assert due is None or (self.until is not None and self.until <= due), f"{due=} {self.until=}"

    def counts_are_right(self) -> None:
        stats = self.collector.stats()
        assert stats == self.model.stats()
        assert stats.accepted == (
            stats.succeeded + stats.failed + stats.withdrawn + stats.abandoned + stats.expired + stats.stopped
        ) + (stats.waiting + stats.running)

    def facts_are_right(self) -> None:
        model, limits = self.model, self.model.options
        assert self.collector.slot_free is model.slot_free
        assert self.collector.closed is model.closed
        assert self.collector.idle is not bool(model.row or model.line or model.running or model.reserved)
        assert limits.concurrency is None or len(model.running) + model.reserved <= limits.concurrency
        assert limits.max_queue_size is None or len(model.row) <= limits.max_queue_size
        assert len(self.seen) == len(set(self.seen))

    def settled_callers_know_whether_they_ran(self) -> None:
        for caller in self.callers:
            if caller.waiter.done() and not caller.waiter.cancelled() and not caller.reported:
                assert caller.ticket is not None
                assert self.collector.never_ran(caller.ticket, caller.waiter) is (caller.place != "seen")

    def teardown(self) -> None:
        """Closed, it is drained exactly when its batches have ended, and nobody waits any more."""
        if not hasattr(self, "collector"):
            return
        self.close()
        while self.model.reserved or self.unbegun or self.begun:
            if self.model.reserved:
                self.take_reserved()
            elif self.unbegun:
                self.begin(0)
            else:
                self.end(0)
        while self.some(is_gone_unsaid):
            self.report(0)
        assert self.collector.idle
        assert not self.some(is_open)
        stats = self.collector.stats()
        assert (stats.waiting, stats.running, stats.in_line) == (0, 0, 0)
        self.counts_are_right()


CollectorMachine.TestCase.settings = QUICK
TestCollector = CollectorMachine.TestCase
