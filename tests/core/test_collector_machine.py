"""The collector against a model, driven as the runner drives it, over all options and in any order of events.

Safety: no item twice or lost, arrival order kept, no limit of size or weight passed, nobody overtakes the line,
nothing seen by the processor whose callers had left, those who share a place each leave by themselves, and every
count as the model's. Liveness: whenever something is due, either it is done or the timer rings in time; after closing
everything drains, and after a forced stop nobody waits.
"""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from collector_driver import Driver
from collector_model import Caller, Wait, some_options
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from async_batcher._options import Options

QUICK = settings(
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failure is shown as it was found; to shrink takes longer than a test may
    deadline=None,
    max_examples=130,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)
PICK = st.integers(min_value=0, max_value=119)  # hypothesis draws evenly from ranges under 128
ENOUGH = 40
"""Callers before which nothing is stopped."""

Fact = Callable[[], object]

EVENTS = (
    *(
        "call",
        "call",
        "submit",
        "submit",
        "call_in_bulk",
        "come_together",
        "cancel",
        "go",
        "report",
        "withdraw",
    ),
    *("pass_time", "ring", "ring", "flush", "begin", "begin", "settle", "end", "end"),
    *("take_reserved", "take_reserved", "give_up_reserved", "close", "abort", "forsake", "throw_away"),
)


def is_open(caller: Caller) -> bool:
    return caller.open


def is_gone_unsaid(caller: Caller) -> bool:
    return caller.gone_unsaid


def is_to_withdraw(caller: Caller) -> bool:
    return caller.place != "line" and (caller.open or caller.gone_unsaid)


class CollectorMachine(RuleBasedStateMachine):
    """What may happen to a collector; the driver makes it happen, and knows what must come of it."""

    driver: Driver | None = None

    @initialize(
        options=some_options(), shared=st.booleans(), often=st.lists(st.sampled_from(EVENTS), max_size=3)
    )
    def build(self, options: Options, shared: bool, often: list[str]) -> None:
        self.events = [*EVENTS, *often * 4]
        self.steps = 0
        self.driver = Driver(options, shared=shared)
        note(str(options))

    @property
    def it(self) -> Driver:
        assert self.driver is not None
        return self.driver

    @rule(choice=PICK, which=PICK, count=st.integers(min_value=1, max_value=5))
    def something_happens(self, choice: int, which: int, count: int) -> None:
        """One rule for all that may happen, since hypothesis leaves out half of the rules in each run."""
        possible = [event for event in self.events if self.may_happen(event)]
        self.steps += 1  # so that even the plainest run, all zeros, goes round
        event = possible[(choice + self.steps) % len(possible)]
        note(f"{event} {which} {count}")
        getattr(self, event)(which, count)

    def may_happen(self, event: str) -> bool:
        """Say whether it makes sense now; the collector is not driven where its runner would not."""
        it = self.it
        facts: dict[str, Fact] = {
            "cancel": lambda: it.some(is_open),
            "go": lambda: it.some(is_open),
            "report": lambda: it.some(is_gone_unsaid),
            "withdraw": lambda: it.some(is_to_withdraw),
            "ring": lambda: it.timer is not None,
            "begin": lambda: it.unbegun,
            "settle": lambda: it.begun,
            "end": lambda: it.begun,
            "take_reserved": lambda: it.model.reserved,
            "give_up_reserved": lambda: it.model.reserved,
            "close": lambda: it.arrived > ENOUGH and not it.model.closed,
            "abort": lambda: it.arrived > ENOUGH and not it.model.closed,
            "forsake": lambda: it.arrived > ENOUGH,
            "throw_away": lambda: it.forsaken,
        }
        return bool(facts.get(event, lambda: True)())

    # Callers

    def call(self, which: int, count: int) -> None:
        self.come(which, count)

    def submit(self, which: int, count: int) -> None:
        self.come(which, count, submits=True)

    def call_in_bulk(self, which: int, _: int) -> None:
        """One item of a list, which stands in line for as long as it takes."""
        self.come(which, 1, submits=True, patient=True)

    def come(self, which: int, count: int, *, submits: bool = False, patient: bool = False) -> None:
        for number in range(which, which + count):
            self.it.arrived += 1
            name = str(self.it.arrived)
            admitted = Wait(f"admission {name}") if submits else None
            facts = self.facts_of(number)
            self.it.arrive(
                Caller(self.it.arrived, Wait(f"caller {name}"), admitted, patient=patient, **facts)
            )
            self.it.everything_is_in_time()

    def facts_of(self, number: int) -> dict[str, Any]:
        """Give an item a weight, a key and an age, as the options have it."""
        options, facts = self.it.model.options, dict[str, Any]()
        if options.weigh is not None:
            facts["weight"] = (1, 2, 0, 3, 1, 4, 8)[number % 7]
        if options.coalesce_key is not None:
            facts["key"] = (None, "a", "b", "c", "a")[number % 5]
        age = 0.75 if number % 11 == 0 else options.expires_after  # one's own, as of a call
        if age is not None:
            facts["expires"] = self.it.now + age
        return facts

    def come_together(self, which: int, count: int) -> None:
        """A list sends as many as fit, and what is left as it may."""
        count = 2 * count
        came = self.it.arrive_together(count)
        if came < count:
            self.call_in_bulk(which, 1)

    def cancel(self, which: int, _: int) -> None:
        """Its caller is cancelled; the collector learns of it later, as on an event loop."""
        self.it.pick(which, is_open).watched.cancel()

    def report(self, which: int, _: int) -> None:
        self.it.leave(self.it.pick(which, is_gone_unsaid))

    def go(self, which: int, count: int) -> None:
        while count and self.it.some(is_open):
            count -= 1
            caller = self.it.pick(which, is_open)
            caller.watched.cancel()
            self.it.leave(caller)

    def withdraw(self, which: int, _: int) -> None:
        self.it.withdraw(self.it.pick(which, is_to_withdraw))

    def flush(self, _: int, __: int) -> None:
        self.it.flush()

    # Time

    def pass_time(self, _: int, count: int) -> None:
        """Time passes; a timer that is due rings a little late."""
        self.it.now += 0.25 * count * count

    def ring(self, _: int, __: int) -> None:
        self.it.ring()

    # Batches, and the end

    def begin(self, which: int, _: int) -> None:
        self.it.begin(self.it.unbegun[which % len(self.it.unbegun)])

    def settle(self, which: int, count: int) -> None:
        self.it.settle(self.it.begun[which % len(self.it.begun)], count - 1)

    def end(self, which: int, _: int) -> None:
        self.it.end(self.it.begun[which % len(self.it.begun)])

    def take_reserved(self, _: int, __: int) -> None:
        self.it.take_reserved()

    def give_up_reserved(self, _: int, __: int) -> None:
        self.it.give_up_reserved()

    def close(self, _: int, __: int) -> None:
        self.it.close()

    def abort(self, which: int, _: int) -> None:
        self.it.abort(unstarted=which % 2)

    def forsake(self, _: int, __: int) -> None:
        self.it.forsake()

    def throw_away(self, which: int, _: int) -> None:
        self.it.throw_away(self.it.forsaken[which % len(self.it.forsaken)])

    @invariant()
    def all_is_well(self) -> None:
        if self.driver is not None:
            self.driver.check()

    def teardown(self) -> None:
        if self.driver is not None:
            self.driver.drain()


CollectorMachine.TestCase.settings = QUICK
TestCollector = CollectorMachine.TestCase
