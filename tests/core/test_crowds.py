"""Items that came together leave together, and their results are given in one go where nothing came between."""

from collector_callers import CrowdOfWaits, Wait

from async_batcher._queue import Row


def crowd_of(row: Row, *names: str) -> CrowdOfWaits:
    crowd = CrowdOfWaits([Wait(name) for name in names])
    row.extend(list(names), crowd, 0.0)
    return crowd


def test_batch_of_whole_crowds_gives_its_results_in_one_go() -> None:
    """Each crowd gets those of its own places."""
    row = Row(4)
    first, second = crowd_of(row, "a"), crowd_of(row, "b", "c")
    batch = row.take(1.0, "due")
    assert batch.crowded
    batch.set_results([1, 2, 3])
    assert [seat.outcome for seat in (*first.seats, *second.seats)] == [1, 2, 3]


def test_batch_is_no_crowd_where_anybody_in_it_came_alone_or_has_left() -> None:
    """Then each place is looked at."""
    row = Row(4)
    assert not row.append(0, Wait(), 0.0).crowded
    crowd_of(row, "a", "b")
    assert not row.take(1.0, "due").crowded
    crowd_of(row, "a", "b")
    row.append(0, Wait(), 0.0)
    assert not row.take(1.0, "due").crowded
    crowd_of(row, "a", "b").seats[0].cancel()
    assert not row.take(1.0, "due").crowded
    left = crowd_of(row, "a", "b")
    assert row.discard(row.tail, left.seats[1])
    assert not row.take(1.0, "due").crowded


def test_batch_topped_up_by_a_crowd_is_no_crowd() -> None:
    """Nor is what is left of that crowd, even where it has as many places as came in another."""
    row = Row(2)
    early, _ = crowd_of(row, "a", "b"), crowd_of(row, "c", "d")
    batch = next(iter(row._closed))
    assert row.discard(batch, early.seats[0])
    taken = row.take(1.0, "due")
    assert taken.items == ["b", "c"]
    assert not taken.crowded
    assert not row.take(1.0, "due").crowded


def test_batch_is_full_when_its_items_are_as_many_as_its_size_whatever_left_it() -> None:
    """A hole is no item, also where a crowd came behind it: nobody is added to a batch that is full."""
    row = Row(4)
    gone = Wait()
    batch = row.append(0, gone, 0.0)
    row.append(1, Wait(), 0.0)
    row.append(2, Wait(), 0.0)
    assert row.discard(batch, gone)
    crowd_of(row, "a")
    assert row.append(3, Wait(), 0.0) is batch
    assert row.append(4, Wait(), 0.0) is not batch
    assert row.take(1.0, "full").items == [1, 2, "a", 3]
