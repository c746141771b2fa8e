"""`process_many`: a list of items, their results in order, and one error for all that failed (contract, rule 10)."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest
from recording import RecordingProcessor, raises, returns, ten_times
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

if TYPE_CHECKING:
    from async_batcher import AsyncBatcher

pytestmark = pytest.mark.anyio


class Watched(RecordingProcessor):
    """Looks at the counts at each batch, and keeps the most that one batcher ever held."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.batcher: AsyncBatcher[Any, Any] | None = None
        self.most_waiting = self.most_held = 0

    async def __call__(self, batch: list[Any]) -> Any:
        self.look()
        outcome = await super().__call__(batch)
        self.look()
        return outcome

    def look(self) -> None:
        assert self.batcher is not None
        stats = self.batcher.stats()
        assert_counts_add_up(stats)
        self.most_waiting = max(self.most_waiting, stats.waiting)
        self.most_held = max(self.most_held, stats.waiting + stats.running + stats.in_line)


@pytest.mark.parametrize("count", [1, 4, 5, 50])
@pytest.mark.parametrize("max_pending", [1, 3, 8, None])
async def test_results_are_in_order(count: int, max_pending: int | None) -> None:
    """Whatever the lengths of list, batch and portion: each result once, at its item's place."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=4, concurrency=2, max_queue_time=0.01) as scene:
        results = await scene.batcher.process_many(range(count), max_pending=max_pending)
        assert results == [item * 10 for item in range(count)]
        assert scene.batcher.stats().succeeded == count
    assert sorted(fn.seen) == list(range(count))


async def test_batches_that_end_out_of_order_give_results_in_order() -> None:
    """The second batch ends first: its results stand where its items stood."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, concurrency=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(4)))
        await settle()
        fn.release(1)
        await settle()
        assert many.waits
        fn.release(0)
        await many.end()
        assert many.result == [0, 10, 20, 30]


async def test_nothing_gives_nothing() -> None:
    """An empty iterable gives an empty list, and the processor hears nothing."""
    fn = RecordingProcessor()
    async with open_scene(fn) as scene:
        assert await scene.batcher.process_many([]) == []
        assert await scene.batcher.process_many(iter(())) == []
    assert fn.batches == []


async def test_full_batches_leave_without_waiting_for_the_window() -> None:
    """Only what is left over at the end waits for company."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=4, max_queue_time=5) as scene:
        await scene.batcher.process_many(range(12))
        assert anyio.current_time() == pytest.approx(0)
        await scene.batcher.process_many(range(13))
        assert anyio.current_time() == pytest.approx(5)
    assert [len(batch) for batch in fn.batches] == [4, 4, 4, 4, 4, 4, 1]


@pytest.mark.parametrize("max_pending", [1, 2, 5, 8])
async def test_never_holds_more_than_max_pending(max_pending: int) -> None:
    """Waiting, running and in line together: at most `max_pending`, and as many where they can be."""
    fn = Watched()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0.01, concurrency=2) as scene:
        fn.batcher = scene.batcher
        fn.hold()
        many = scene.start(partial(scene.batcher.process_many, range(40), max_pending=max_pending))
        await settle()
        fn.look()
        assert fn.most_held == max_pending
        fn.release()
        await many.end()
        assert many.result == ten_times(range(40))
    assert fn.most_held == max_pending


async def test_holds_twice_what_the_slots_take_by_default() -> None:
    """2 * concurrency * max_batch_size: one lot runs, and the next one waits."""
    fn = RecordingProcessor()
    fn.hold()
    pulled: list[int] = []
    async with open_scene(fn, max_batch_size=3, concurrency=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, noting(range(100), pulled)))
        await settle()
        stats = scene.batcher.stats()
        assert (stats.running, stats.waiting, len(pulled)) == (6, 6, 12)
        many.cancel()
        fn.release()


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"concurrency": None, "max_batch_size": 1}, 2048), ({"max_batch_size": None, "concurrency": 1}, 2048)],
)
async def test_part_without_a_limit_counts_as_1024(options: dict[str, Any], limit: int) -> None:
    """So that a list of any length is never sent all at once."""
    fn = RecordingProcessor()
    fn.hold()
    pulled: list[int] = []
    async with open_scene(fn, max_queue_size=None, **options) as scene:
        many = scene.start(partial(scene.batcher.process_many, noting(range(10_000), pulled)))
        await settle()
        assert len(pulled) == limit
        many.cancel()
        fn.release()


async def test_next_portion_is_sent_when_any_batch_ends() -> None:
    """A slow batch does not hold up what the other slot could take."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, concurrency=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(12), max_pending=4))
        await settle()
        for number in range(1, 4):
            fn.release(number)
            await settle()
        assert fn.batches == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        assert scene.batcher.stats().waiting == 0
        fn.release()
        await many.end()
        assert many.result == ten_times(range(12))


@pytest.mark.parametrize("on_full", ["reject", "wait"])
async def test_waits_for_room_whatever_on_full_says(on_full: str) -> None:
    """A queue shorter than the list refuses nobody, and is never over its limit."""
    fn = Watched()
    async with open_scene(fn, max_batch_size=2, max_queue_size=3, on_full=on_full) as scene:
        fn.batcher = scene.batcher
        assert await scene.batcher.process_many(range(50), max_pending=20) == ten_times(range(50))
        assert scene.batcher.stats().rejected == 0
    assert fn.most_waiting <= 3
    assert fn.seen == list(range(50))


async def test_only_the_next_item_stands_in_line() -> None:
    """With the queue full, one of the portion stands in line, however long the portion is."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_size=2) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(20), max_pending=10))
        await settle()
        stats = scene.batcher.stats()
        assert (stats.running, stats.waiting, stats.in_line) == (2, 2, 1)
        fn.release()
        await many.end()
        assert many.result == ten_times(range(20))


async def test_lines_up_behind_those_who_came_before() -> None:
    """First come, first served: each portion goes to the end of the line."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        many = scene.start(partial(scene.batcher.process_many, ["a", "b", "c", "d"], max_pending=4))
        await settle()  # a runs, b waits, c stands in line
        (one,) = await scene.process("x")
        fn.release(0)
        await settle()  # b runs, c waits; d stands behind x
        fn.release(1)
        await settle()
        assert scene.batcher.stats().in_line == 1
        fn.release()
        await scene.end_of(many, one)
    assert fn.seen == ["a", "b", "c", "x", "d"]


async def test_place_that_others_give_up_lets_the_rest_follow() -> None:
    """Once the one in line has its place, what comes after it is sent as room permits, before anything is settled."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=2) as scene:
        await scene.process("x")
        waiting = [await scene.batcher.submit("y"), await scene.batcher.submit("z")]
        many = scene.start(partial(scene.batcher.process_many, ["a", "b"], max_pending=2))
        await settle()
        for submission in waiting:
            submission.withdraw()
        await settle()
        stats = scene.batcher.stats()
        assert (stats.waiting, stats.in_line) == (2, 0)
        fn.release()
        await many.end()
    assert fn.seen == ["x", "a", "b"]


async def test_enqueue_timeout_does_not_apply() -> None:
    """A bulk job waits for room as long as it takes."""
    fn = RecordingProcessor()
    fn.hold()
    options: dict[str, Any] = {"on_full": "wait", "enqueue_timeout": 0.5}
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, **options) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(4), max_pending=4))
        await anyio.sleep(100)
        assert many.waits
        fn.release()
        await many.end()
        assert many.result == [0, 10, 20, 30]


async def test_enqueue_timeout_of_those_behind_still_counts() -> None:
    """The patient one at the head of the line does not make others patient."""
    fn = RecordingProcessor()
    fn.hold()
    options: dict[str, Any] = {"on_full": "wait", "enqueue_timeout": 0.5}
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, **options) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(3), max_pending=3))
        await settle()
        (one,) = await scene.process(9)
        await one.end()
        one.failed(TimeoutError)
        assert one.ended_at == pytest.approx(0.5)
        fn.release()
        await many.end()


async def test_leaves_room_for_those_who_ask_one_by_one() -> None:
    """While a long list is processed, a single caller is neither refused nor served last."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=4) as scene:
        many = scene.start(partial(scene.batcher.process_many, range(1000)))
        await settle()
        (one,) = await scene.process(5000)
        fn.release(0)
        await settle()
        fn.release(1)
        await settle()
        fn.release(2)
        await settle()
        assert one.result == 50_000
        fn.release()
        await many.end()
        assert many.result == ten_times(range(1000))


async def test_shares_batches_with_others() -> None:
    """Items of lists and of single callers sit in one batch, and each gets its own result."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.01) as scene:
        one, many = (await scene.process(7))[0], scene.start(partial(scene.batcher.process_many, [1, 2, 3]))
        await settle()
        other, two = scene.start(partial(scene.batcher.process_many, [4, 5])), (await scene.process(8))[0]
        await scene.end_of(one, many, other, two)
        assert (one.result, many.result, other.result, two.result) == (70, [10, 20, 30], [40, 50], 80)
    assert sorted(fn.batches[0]) == [1, 2, 3, 4, 5, 7, 8]


async def test_a_hole_before_them_mixes_nothing_up() -> None:
    """A single caller leaves from among them, and items move up into another batch: each result finds its item."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=4) as scene:
        await scene.process(1, 2, 3, 4)
        leaves, stays = await scene.process(5, 6)
        many = scene.start(partial(scene.batcher.process_many, range(100, 110), max_pending=10))
        await settle()
        leaves.cancel()
        await settle()
        fn.release()
        await scene.end_of(stays, many)
        assert many.result == ten_times(range(100, 110))
    assert fn.batches[1:3] == [[6, 100, 101, 102], [103, 104, 105, 106]]


async def test_items_errors_come_as_one_group_when_all_have_settled() -> None:
    """Each failed item has its own error in the group, with a note that says which it was; in order."""
    fn = RecordingProcessor()
    fn.script.extend([answering(1, ValueError("one")), raises(KeyError("both"))])
    async with open_scene(fn, max_batch_size=2) as scene:
        with pytest.raises(ExceptionGroup) as caught:
            await scene.batcher.process_many(range(6))
        assert fn.seen == list(range(6)), "it ended before all had settled"
        assert str(caught.value) == "3 of 6 items failed (3 sub-exceptions)"
        assert [repr(error) for error in caught.value.exceptions] == [
            "ValueError('one')",
            "KeyError('both')",
            "KeyError('both')",
        ]
        notes = [error.__notes__ for error in caught.value.exceptions]
        assert notes == [[f"item {index} of process_many, from 0"] for index in (1, 2, 3)]
        stats = scene.batcher.stats()
        assert (stats.succeeded, stats.failed) == (3, 3)


async def test_return_exceptions_gives_them_as_values() -> None:
    """Each at its item's place, and nothing is raised."""
    error = ValueError("one")
    fn = RecordingProcessor()
    fn.script.append(answering(1, error))
    async with open_scene(fn, max_batch_size=2) as scene:
        first, second, *others = await scene.batcher.process_many(range(4), return_exceptions=True)
        assert (first, others) == (0, [20, 30])
        assert repr(second) == repr(error)


async def test_error_that_cannot_be_copied_notes_all_its_items() -> None:
    """One object for many items: it stands in the group for each, and one note names them."""

    class OddError(Exception):
        def __new__(cls, *args: Any) -> Self:
            return super().__new__(cls, *args[:1])

        def __str__(self) -> str:
            return str(id(self))  # so no copy is equal to it

    fn = RecordingProcessor()
    fn.script.append(raises(OddError("odd")))
    async with open_scene(fn, max_batch_size=3) as scene:
        with pytest.raises(ExceptionGroup) as caught:
            await scene.batcher.process_many(range(3))
        assert len(caught.value.exceptions) == 3
        assert caught.value.exceptions[0].__notes__ == ["items 0, 1, 2 of process_many, from 0"]


async def test_error_that_refuses_notes_is_raised_all_the_same() -> None:
    """A note is a courtesy: nothing depends on it."""

    class BareError(Exception):
        def add_note(self, _note: str) -> None:
            raise TypeError("no notes")

    fn = RecordingProcessor()
    fn.script.append(raises(BareError("bare")))
    async with open_scene(fn, max_batch_size=2) as scene:
        with pytest.raises(ExceptionGroup, match="2 of 2 items failed"):
            await scene.batcher.process_many(range(2))


async def test_error_beyond_exception_is_in_a_base_group() -> None:
    """What is no `Exception` can't sit in an `ExceptionGroup`."""

    class UnusualError(BaseException):
        pass

    fn = RecordingProcessor()
    fn.script.append(raises(UnusualError()))
    async with open_scene(fn, max_batch_size=1) as scene:
        with pytest.raises(BaseExceptionGroup) as caught:
            await scene.batcher.process_many([1])
        assert type(caught.value) is BaseExceptionGroup


async def test_processor_that_mismatches_fails_its_items_only() -> None:
    """A batch with a wrong number of results is that batch's failure."""
    fn = RecordingProcessor()
    fn.script.append(returns([1]))
    async with open_scene(fn, max_batch_size=2) as scene:
        results = await scene.batcher.process_many(range(4), return_exceptions=True)
        assert [type(result).__name__ for result in results] == [
            "ResultMismatch",
            "ResultMismatch",
            "int",
            "int",
        ]


async def test_none_and_tuples_are_results_too() -> None:
    """`None` for a batch is `None` for each item; a tuple is as good as a list."""
    fn = RecordingProcessor()
    fn.script.extend([returns(None), returns(("a", "b"))])
    async with open_scene(fn, max_batch_size=2) as scene:
        assert await scene.batcher.process_many(range(4)) == [None, None, "a", "b"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError), ("3", TypeError)],
)
async def test_bad_max_pending_is_refused(value: Any, kind: type[Exception]) -> None:
    """The message says what it may be, and what was found."""
    async with open_scene(RecordingProcessor()) as scene:
        with pytest.raises(kind, match=r"max_pending must be a whole number of at least 1, or None .*got"):
            await scene.batcher.process_many([1], max_pending=value)


async def test_async_source_is_refused_with_the_way_out() -> None:
    """`map` is for those, and what can't be iterated is a `TypeError` too."""

    async def items() -> Any:
        yield 1

    async with open_scene(RecordingProcessor()) as scene:
        with pytest.raises(TypeError, match=r"batcher\.map"):
            await scene.batcher.process_many(items())
        nothing: Any = 5
        with pytest.raises(TypeError):
            await scene.batcher.process_many(nothing)


async def test_two_lists_at_once_share_the_slots() -> None:
    """Each has its own limit and its own results."""
    fn = Watched()
    async with open_scene(fn, max_batch_size=4, max_queue_size=6) as scene:
        fn.batcher = scene.batcher
        first = scene.start(partial(scene.batcher.process_many, range(40)))
        second = scene.start(partial(scene.batcher.process_many, range(100, 140)))
        await scene.end_of(first, second)
        assert first.result == ten_times(range(40))
        assert second.result == ten_times(range(100, 140))
    assert fn.most_waiting <= 6


def noting(items: Sequence[int], pulled: list[int]) -> Iterator[int]:
    """Give items, and note each as it is pulled."""
    for item in items:
        pulled.append(item)
        yield item


def answering(place: int, value: Any) -> Any:
    """Make a batch answer as usual, but for this place."""
    return lambda batch: [value if index == place else item * 10 for index, item in enumerate(batch)]
