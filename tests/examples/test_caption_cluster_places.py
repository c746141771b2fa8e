"""The places of a cluster's workers: who gets one, who waits, and what a worker takes with it."""

import asyncio

import pytest
from virtual_time import settle

from examples.recipes.caption_qc.job.cluster_places import PLACES_A_WORKER, Member, Places
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.pool import PoolClosedError

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]


async def test_the_least_busy_worker_comes_first_and_none_has_more_than_two_chunks() -> None:
    """Two workers get four chunks in turn; the fifth waits until one is given back."""
    places = Places()
    for name in ("a", "b"):
        places.join(Member(name, name))

    taken = [await places.take() for _ in range(2 * PLACES_A_WORKER)]
    fifth = asyncio.ensure_future(places.take())
    await settle()

    assert [member.address for member in taken] == ["a", "b", "a", "b"]
    assert not fifth.done()
    places.give_back(taken[1])
    assert (await fifth).address == "b"


async def test_a_worker_that_joins_late_ends_two_waits_and_one_that_leaves_takes_its_places_along() -> None:
    """Who waited first comes first; a chunk of a worker that has left gives no place back."""
    places = Places()
    waits = [asyncio.ensure_future(places.take()) for _ in range(3)]
    await settle()

    places.join(Member("a", "1"))
    await settle()
    assert [wait.done() for wait in waits] == [True, True, False]

    member = waits[0].result()
    places.leave("a", in_order=True)
    assert member.left.result() is True
    assert len(places) == 0
    places.give_back(member)
    await settle()
    assert not waits[2].done()
    places.join(Member("a", "2"))
    assert (await waits[2]).process == "2"


async def test_a_wait_that_is_cancelled_in_its_turn_hands_it_on() -> None:
    """The place was given back, and its turn had come: the next gets it, so no place is lost."""
    places = Places()
    places.join(Member("a", "1"))
    held = [await places.take() for _ in range(PLACES_A_WORKER)]
    first, second = (asyncio.ensure_future(places.take()) for _ in range(2))
    await settle()

    places.give_back(held[0])
    first.cancel()

    assert (await second).address == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_close_and_a_fault_end_all_waits_and_a_fault_those_for_answers_too() -> None:
    """The first fault is the one that is told; who comes later hears of it at once."""
    closed, faulty = Places(), Places()
    waits = [asyncio.ensure_future(places.take()) for places in (closed, faulty)]
    await settle()
    closed.close()
    with pytest.raises(PoolClosedError):
        await waits[0]

    member = Member("a", "1")
    fault, later = (JobError(text, Exit.UNREACHABLE) for text in ("gone", "gone too"))
    faulty.fail(fault)
    faulty.join(member)
    faulty.fail(later)
    with pytest.raises(JobError, match=r"^gone$"):
        await waits[1]
    with pytest.raises(JobError, match=r"^gone$"):
        await faulty.take()
    assert member.left.result() is False


async def test_a_chunks_bound_grows_with_what_its_worker_has_before_it() -> None:
    """Three assets after two: five must be through before the answer is late."""
    places = Places()
    member = Member("a", "1")
    with places.busy(member, 2) as alone, places.busy(member, 3) as behind:
        assert (alone, behind) == (2, 5)
    assert member.assets == 0
