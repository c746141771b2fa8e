"""What the collector decides in the middle of a turn, before its runner has asked for the next step."""

import gc
import weakref

import pytest
from collector_model import Wait

from async_batcher import BatcherStopped
from async_batcher._batch import Batch
from async_batcher._collector import Collector
from async_batcher._line import InLine
from async_batcher._options import Options
from async_batcher._steps import Reserve, Rest, Start, Step, Tell


def collector(*, shares_slots: bool = False, **options: object) -> Collector:
    return Collector(Options(**options), shares_slots=shares_slots)  # type: ignore[arg-type]


def fill(of: Collector, *items: int) -> list[Step]:
    """Have so many callers come, and do what is decided."""
    return [step for item in items for step in come(of, item)]


def come(of: Collector, item: int) -> list[Step]:
    waiter = Wait(f"caller {item}")
    if of.join(item, waiter, 0.0) is not None:
        return []
    of.admit(item, waiter, 0.0)
    return steps(of)


def steps(of: Collector, now: float = 0.0) -> list[Step]:
    """Ask until it rests, without the rest."""
    found: list[Step] = []
    while not isinstance(step := of.next_step(now), Rest):
        found.append(step)
    return found


def test_eager_task_does_not_overtake_the_line() -> None:
    """A batch that has just left freed places; a call from its own task stands behind those in line."""
    it = collector(max_batch_size=2, max_queue_size=2, max_queue_time=0, on_full="wait")
    (started,) = fill(it, 0, 1, 2, 3)
    assert isinstance(started, Start)
    assert it.stats().in_line == 1
    it.begin(started.batch)
    it.ended(started.batch)
    assert isinstance(it.next_step(0.0), Start)
    assert it.join(4, Wait(), 0.0) is None
    assert isinstance(it.admit(4, Wait(), 0.0), InLine)
    steps(it)
    assert (it.stats().waiting, it.stats().in_line) == (2, 0)


def test_eager_task_sees_the_slot_taken() -> None:
    """From the very step that starts a batch, so that a processor can't wait for itself."""
    it = collector(max_queue_time=0)
    it.admit(0, Wait(), 0.0)
    assert it.slot_free
    assert isinstance(it.next_step(0.0), Start)
    assert not it.slot_free


def test_who_stands_in_line_is_refused_by_a_close_though_a_place_is_free() -> None:
    """A place that came free in the turn of the closing is nobody's any more."""
    it = collector(max_queue_size=1, concurrency=1, on_full="wait")
    first, second, third = Wait(), Wait(), Wait()
    it.admit(0, first, 0.0)
    steps(it)
    ticket = it.admit(1, second, 0.0)
    steps(it)
    it.admit(2, third, 0.0)
    steps(it)
    assert it.withdraw(ticket, second)
    it.close()
    told = [step for step in steps(it) if isinstance(step, Tell)]
    assert [tell.waiter for tell in told] == [third]
    assert isinstance(told[0].error, BatcherStopped)
    assert told[0].error.withdrawn


def test_nobody_joins_a_closed_one() -> None:
    """Not even in the turn in which it was closed."""
    it = collector(max_batch_size=10, max_queue_time=5.0)
    fill(it, 0, 1)
    assert it.join(2, Wait(), 0.0) is not None
    it.close()
    assert it.join(3, Wait(), 0.0) is None
    with pytest.raises(BatcherStopped):
        it.admit(3, Wait(), 0.0)


def test_item_beyond_a_reserved_batch_has_a_window_of_its_own() -> None:
    """It is the first of a batch that a free slot could take, so the timer must ring for it."""
    it = collector(shares_slots=True, max_batch_size=4, max_queue_time=3.0, concurrency=2)
    assert [type(step) for step in fill(it, 0, 1, 2, 3)] == [Reserve]
    assert it.next_step(0.0) == Rest(None)
    assert it.join(4, Wait(), 1.0) is None
    it.admit(4, Wait(), 1.0)
    assert it.next_step(1.0) == Rest(4.0)
    assert it.next_step(4.0) == Reserve()


def test_result_of_who_topped_up_a_batch_is_kept_nowhere() -> None:
    """The batch in which it first sat goes on forming, and does not remember it once it is delivered."""
    it = collector(max_batch_size=2, max_queue_time=0)
    (running,) = fill(it, 0)
    assert isinstance(running, Start)
    staying, leaving, moving = Wait("staying"), Wait("leaving"), Wait("moving")
    it.admit(1, leaving, 0.0)
    ticket = it.admit(2, staying, 0.0)
    it.admit(3, moving, 0.0)
    assert isinstance(ticket, Batch)
    assert it.withdraw(ticket, leaving)
    it.begin(running.batch)
    it.settled(1, 0)
    it.ended(running.batch)
    (topped_up,) = steps(it)
    assert isinstance(topped_up, Start)
    assert topped_up.batch.items == [2, 3]
    it.begin(topped_up.batch)
    it.settled(2, 0)
    it.ended(topped_up.batch)
    assert steps(it) == []
    topped_up.batch.forget()
    gone = weakref.ref(moving)
    del moving, running, topped_up, ticket
    gc.collect()
    assert it.idle
    assert gone() is None


def test_who_comes_after_a_flush_is_measured_by_the_tail_there_is() -> None:
    """A flush closes the tail: until the next step is asked for, nobody passes by the edge of the one before it."""
    of = collector(max_batch_size=4, max_queue_time=0)
    fill(of, *range(8))  # one runs, four are closed, three are in the tail
    of.flush()
    assert all(of.join(item, Wait(f"caller {item}"), 0.0) is None for item in range(9, 12))
    fill(of, *range(12, 24))
    assert max(len(batch.items) for batch in (*of._row._closed, of._row.tail)) <= 4
