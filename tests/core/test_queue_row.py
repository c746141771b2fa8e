"""The row of forming batches against a plain list, and what it costs: in places held, and in look-ups."""

import hypothesis.strategies as st
import pytest
from collector_callers import CrowdOfWaits, Wait
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from async_batcher._batch import Batch, Sharers
from async_batcher._queue import Row

QUICK = settings(
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failure is shown as it was found; to shrink takes longer than a test may
    deadline=None,
    max_examples=80,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
PICK = st.integers(min_value=0, max_value=119)
EVENTS = (
    *(
        "append",
        "discard",
        "extend",
        "take",
        "append",
        "discard",
        "flush",
        "discard again",
        "take",
        "discard",
    ),
    *("extend", "take", "clear"),
)
WEIGHTS = (1, 2, 0, 3, 5, 1)
FEW = 40
"""Places beyond the live ones that the row may hold at any time, whatever came and went."""


class Item:
    """One item that waits, and where it came in."""

    def __init__(self, number: int, now: float, weight: int = 0) -> None:
        self.number = number
        self.came = now
        self.weight = weight
        self.flushed = False
        self.waiter = Wait(f"item {number}")
        self.batch: Batch | None = None

    def sits_in(self) -> Batch:
        assert self.batch is not None
        return self.batch.moved.get(self.waiter, self.batch)


class RowMachine(RuleBasedStateMachine):
    """Many come, many leave, batches are taken; the model is one list."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.items: list[Item] = []
        self.gone: list[Item] = []
        self.came = self.steps = 0

    @initialize(size=st.sampled_from([1, 2, 3, 5, 16, None]), heaviest=st.sampled_from([None, None, 0, 5, 9]))
    def build(self, size: int | None, heaviest: int | None) -> None:
        self.weighs = heaviest is not None
        self.heaviest = heaviest or None  # 0: they are weighed, and may weigh anything
        self.row = Row(size, self.heaviest, weighs=self.weighs)

    @rule(choice=PICK, which=PICK, count=st.integers(min_value=1, max_value=30), stride=st.integers(1, 5))
    def something_happens(self, choice: int, which: int, count: int, stride: int) -> None:
        """One rule for all that may happen, since hypothesis leaves out half of the rules in each run."""
        self.steps += 1  # so that even the plainest run, all zeros, goes round
        event = EVENTS[(choice + self.steps) % len(EVENTS)]
        note(event)
        match event:
            case "discard" if self.items:
                self.discard(which, count, stride)
            case "discard again" if self.gone:
                self.discard_again(which)
            case "take" if self.items:
                self.take()
            case "extend" if not self.weighs:
                self.extend(count)
            case "flush":
                self.flush()
            case "clear":
                self.clear()
            case _:
                self.append(count, which)

    def come(self, weight: int) -> Item:
        self.came += 1
        self.now += 1.0
        item = Item(self.came, self.now, weight)
        self.items.append(item)
        return item

    def append(self, count: int, which: int) -> None:
        for number in range(which, which + count):
            item = self.come(WEIGHTS[number % len(WEIGHTS)] if self.weighs else 0)
            item.batch = self.row.append(item.number, item.waiter, self.now, item.weight)

    def extend(self, count: int) -> None:
        """A crowd comes, no larger than what the tail has room for: it sits in one batch, at one time."""
        if self.row.size is not None:
            count = min(count, self.row.size - self.row.tail.live)
        crowd = [self.come(0) for _ in range(count)]
        seats = CrowdOfWaits([item.waiter for item in crowd])
        batch = self.row.extend([item.number for item in crowd], seats, self.now)
        for item in crowd:
            item.batch, item.came = batch, self.now

    def flush(self) -> None:
        self.row.flush()
        for item in self.items:
            item.flushed = True

    def discard(self, first: int, count: int, stride: int) -> None:
        """Take out neighbours, or every second, and so on, from anywhere."""
        start = first % len(self.items)
        for item in self.items[start : start + count * stride : stride]:
            assert self.row.discard(item.sits_in(), item.waiter)
            self.items.remove(item)
            self.gone.append(item)

    def discard_again(self, which: int) -> None:
        """Who is out already is not there to be taken out."""
        item = self.gone[which % len(self.gone)]
        assert not self.row.discard(item.sits_in(), item.waiter)

    def take(self) -> None:
        wanted = self.head_of(self.items)
        weight = sum(item.weight for item in wanted)
        batch = self.row.take(self.now, "due")
        reason = "due"
        if len(wanted) == self.row.size:
            reason = "full"
        elif self.heaviest is not None and (len(wanted) < len(self.items) or weight >= self.heaviest):
            reason = "weight"
        assert batch.reason == reason
        self.hold(batch, wanted)

    def head_of(self, items: list[Item]) -> list[Item]:
        """Find the batch that leaves next: as many of these as may, in their order."""
        count = weight = 0
        for item in items[: self.row.size]:
            weight += item.weight
            if self.heaviest is not None and weight > self.heaviest:
                break
            count += 1
        return items[:count]

    def clear(self) -> None:
        taken = self.row.clear(self.now)
        assert [number for batch in taken for number in batch.items] == [item.number for item in self.items]
        for batch in taken:
            self.hold(batch, self.items[: len(batch.items)])
        assert self.row.weight == 0

    def hold(self, batch: Batch, wanted: list[Item]) -> None:
        """What left is the head of the list, without a hole, and is out of the row for good."""
        assert wanted
        assert batch.items == [item.number for item in wanted]
        assert batch.waiters == batch.callers == [item.waiter for item in wanted]
        assert batch.times == [item.came for item in wanted]
        assert batch.weights == ([item.weight for item in wanted] if self.weighs else None)
        assert batch.weight == sum(item.weight for item in wanted)
        assert batch.live == len(wanted)
        assert batch.taken_at == self.now
        for item in wanted:
            assert item.sits_in() is batch
            assert not self.row.discard(batch, item.waiter)
        self.gone += wanted
        del self.items[: len(wanted)]

    @invariant()
    def counts_are_right(self) -> None:
        assert self.row.places() == len(self.items)
        assert self.row.appended == self.came
        assert self.row.weight == sum(item.weight for item in self.items)
        for count, item in enumerate(reversed(self.items), 1):
            assert self.row.first_of(count) == (item.came, item.flushed)
        if self.items:
            assert self.row.first() == (self.items[0].came, self.items[0].flushed)

    @invariant()
    def what_is_left_behind_some_batches_is_told(self) -> None:
        """Exactly, but that where items are weighed it is told as the batches have formed, so perhaps too many."""
        left = self.items
        for batches in range(4):
            behind, weight = self.row.behind(batches)
            if self.heaviest is None:
                assert behind == (len(left) if self.row.size is not None or not batches else 0)
            else:
                assert len(left) <= behind <= len(self.items)
                assert weight == sum(item.weight for item in self.items[len(self.items) - behind :])
            left = left[len(self.head_of(left)) :]

    @invariant()
    def memory_is_bounded_by_who_waits(self) -> None:
        """The tail holds little more than its live places, a closed batch at most what it had as the tail."""
        tail, size = self.row.tail, self.row.size
        assert len(tail.items) <= 2 * tail.live + FEW
        for batch in self.row._closed:
            assert batch.live > 0
            assert size is None or len(batch.items) <= 2 * size + FEW

    def teardown(self) -> None:
        while hasattr(self, "row") and self.items:
            self.take()
        assert not hasattr(self, "row") or self.row.weight == 0


RowMachine.TestCase.settings = QUICK
TestRow = RowMachine.TestCase


class Tally:
    """How often a waiter was looked up or put into an index: work that timing would only guess at."""

    looked_up = 0


class CountedWait(Wait):
    """Tells the tally when it is hashed."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self.tally = tally

    def __hash__(self) -> int:
        self.tally.looked_up += 1
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_shared_place_tops_up_a_batch_as_a_shared_place() -> None:
    """A batch that had none before knows from then on that more than one caller may sit in a place."""
    row = Row(2)
    one, two, three, four = (Wait(name) for name in ("one", "two", "three", "four"))
    batch = row.append(1, one, 0.0)
    row.append(2, two, 0.0)
    sharers = Sharers("key", three)
    sharers.callers[four] = None
    row.append(3, sharers, 0.0).shares = True
    assert row.discard(batch, two)
    taken = row.take(1.0, "due")
    assert taken.items == [1, 3]
    assert taken.callers == [one, three, four]
    assert taken.fan_out(["a", "b"]) == ([one, three, four], ["a", "b", "b"])


@pytest.fixture
def tally() -> Tally:
    return Tally()


def fill(row: Row, count: int, tally: Tally) -> list[tuple[Batch, CountedWait]]:
    waiters = [CountedWait(tally) for _ in range(count)]
    return [(row.append(number, waiter, 0.0), waiter) for number, waiter in enumerate(waiters)]


def test_full_batches_leave_without_a_look_up(tally: Tally) -> None:
    """Where nobody withdraws, no waiter is ever hashed."""
    row = Row(64)
    fill(row, 640, tally)
    assert [len(row.take(1.0, "full").items) for _ in range(10)] == [64] * 10
    assert tally.looked_up == 0


@pytest.mark.parametrize("size", [1, 10, 1000, None])
@pytest.mark.parametrize("order", ["first to last", "last to first", "every third"])
def test_withdrawing_all_costs_a_few_look_ups_each(size: int | None, order: str, tally: Tally) -> None:
    """The total is linear: a quadratic one would be thousands each."""
    count = 4000
    row = Row(size)
    leaving = fill(row, count, tally)
    if order == "last to first":
        leaving.reverse()
    elif order == "every third":
        leaving = [leaving[place] for start in range(3) for place in range(start, count, 3)]
    for batch, waiter in leaving:
        assert row.discard(batch, waiter)
    assert row.places() == 0
    assert row.appended == count
    assert len(row.tail.items) == 0
    assert tally.looked_up <= 5 * count


@pytest.mark.parametrize("staying", [0, 1, 500])
def test_coming_and_going_leaves_nothing_behind(staying: int, tally: Tally) -> None:
    """However many come and leave at once beside some that stay, they hold no memory and cost little each."""
    row = Row(None)
    fill(row, staying, tally)
    visits = 5000
    for visit in range(visits):
        waiter = CountedWait(tally)
        assert row.discard(row.append(visit, waiter, 0.0), waiter)
        assert len(row.tail.items) <= 2 * staying + FEW
    assert row.places() == staying
    assert row.appended == staying + visits
    assert tally.looked_up <= 5 * (visits + staying)


def test_topping_up_costs_a_few_look_ups_each(tally: Tally) -> None:
    """Batches with many holes are filled from those behind them, in linear total."""
    row = Row(100)
    leaving = fill(row, 4000, tally)
    for batch, waiter in leaving[::2] + leaving[1::4]:
        assert row.discard(batch, waiter)
    sizes = [len(row.take(1.0, "full").items) for _ in range(10)]
    assert sizes == [100] * 10
    assert row.places() == 0
    assert tally.looked_up <= 5 * 4000


def test_batch_that_closed_around_a_hole_leaves_without_it(tally: Tally) -> None:
    """It is full, counted in items, before the hole is closed."""
    row = Row(4)
    _, (batch, leaving), _ = fill(row, 3, tally)
    assert row.discard(batch, leaving)
    fill(row, 2, tally)
    assert row.take(1.0, "full").items == [0, 2, 0, 1]


def test_who_topped_up_is_found_where_it_went(tally: Tally) -> None:
    """It is taken out of neither batch once its batch has left."""
    row = Row(2)
    (a, one), _, (b, three), (_, four) = fill(row, 4, tally)
    assert row.discard(a, one)
    taken = row.take(1.0, "due")
    assert taken is a
    assert taken.items == [1, 2]
    assert b.moved == {three: a}
    assert not row.discard(a, three)
    assert row.places() == 1
    assert row.discard(b, four)
    assert row.places() == 0


def test_forgotten_batch_holds_nothing(tally: Tally) -> None:
    """What was delivered is kept nowhere: not items, not those who waited for them."""
    row = Row(3)
    fill(row, 3, tally)
    batch = row.take(1.0, "full")
    batch.forget()
    assert (batch.items, batch.waiters, batch.times, batch.callers) == ([], [], [], [])
    assert batch.live == 0


def test_batch_that_topped_up_two_others_says_where_each_of_its_callers_went(tally: Tally) -> None:
    """The first left with one batch, the second with the next; the third is still here."""
    source, earlier, later = Batch(), Batch(), Batch()
    waiters = [CountedWait(tally) for _ in range(3)]
    source.items, source.waiters, source.times = [1, 2, 3], [*waiters], [0.0, 0.0, 0.0]
    source.give(earlier, 1)
    source.give(later, 1)
    assert dict(source.moved) == {waiters[0]: earlier, waiters[1]: later}
    assert (earlier.items, later.items, source.items) == ([1], [2], [3])
