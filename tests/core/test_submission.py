"""A submission: accepted now, awaited later, or withdrawn (contract, rule 14)."""

import anyio
import pytest
from recording import RecordingProcessor, raises
from scenes import Caller, Scene, assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, ItemWithdrawn, QueueFull, Submission

pytestmark = pytest.mark.anyio


async def awaited(scene: Scene[AsyncBatcher[int, int]], submission: Submission[int]) -> Caller:
    """Await a submission in a task of its own."""

    async def wait() -> int:
        return await submission

    caller = scene.start(wait)
    await settle()
    return caller


async def test_submit_returns_once_accepted() -> None:
    """It does not wait for the batch, and the result comes by the await."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0.05) as scene:
        submission = await scene.batcher.submit(1)
        assert isinstance(submission, Submission)
        assert anyio.current_time() == 0.0
        assert (scene.batcher.stats().accepted, scene.batcher.stats().waiting) == (1, 1)
        assert fn.batches == []
        assert await submission == 10
        assert anyio.current_time() == pytest.approx(0.05)


async def test_submissions_of_one_task_keep_their_order() -> None:
    """Items submitted one after the other form batches in that order, awaited in any."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=3) as scene:
        submissions = [await scene.batcher.submit(item) for item in range(6)]
        assert [await submission for submission in reversed(submissions)] == [50, 40, 30, 20, 10, 0]
    assert fn.batches == [[0, 1, 2], [3, 4, 5]]


async def test_submit_into_a_full_queue_is_refused() -> None:
    """`on_full="reject"` holds for `submit` too: the item was never accepted."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0) as scene:
        await scene.process(1, 2)
        with pytest.raises(QueueFull):
            await scene.batcher.submit(3)
        assert scene.batcher.stats().accepted == 2
        fn.release()
    assert fn.seen == [1, 2]


async def test_submit_waits_for_room_and_leaves_the_line_when_cancelled() -> None:
    """`on_full="wait"`: it returns when there is room; cancelled before, its item was never accepted."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0, on_full="wait") as scene:
        await scene.process(1, 2)
        leaves, stays = await scene.submit(3, 4)
        assert leaves.waits
        assert stays.waits
        leaves.cancel()
        await settle()
        assert scene.batcher.stats().accepted == 2
        fn.release()
        await stays.end()
        assert await stays.result == 40
    assert fn.seen == [1, 2, 4]


async def test_result_can_be_awaited_as_often_as_one_likes() -> None:
    """After the result, every further await gives it again, the very object, at once."""
    answer = object()
    async with open_scene(lambda_processor([answer])) as scene:
        submission = await scene.batcher.submit(1)
        assert await submission is answer
        assert await submission is answer
        for caller in (await awaited(scene, submission), await awaited(scene, submission)):
            assert caller.result is answer
        assert scene.batcher.stats().succeeded == 1


async def test_error_can_be_awaited_as_often_as_one_likes() -> None:
    """The same for an error; and it stands in the counts once."""
    fn = RecordingProcessor()
    fn.script.append(raises(ValueError("no")))
    async with open_scene(fn) as scene:
        submission = await scene.batcher.submit(1)
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                await submission
        assert scene.batcher.stats().failed == 1


async def test_second_task_that_awaits_at_the_same_time_is_refused() -> None:
    """It gets a `RuntimeError` at once; the first goes on undisturbed."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        submission = await scene.batcher.submit(1)
        first, second = await awaited(scene, submission), await awaited(scene, submission)
        second.failed(RuntimeError)
        assert first.waits
        fn.release()
        await first.end()
        assert first.result == 10
        assert await submission == 10


async def test_withdrawn_item_is_never_seen() -> None:
    """`withdraw()` while it waits is true: never processed, its place is free, awaiting it says so."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, max_queue_time=0) as scene:
        await scene.process(1)
        submission = await scene.batcher.submit(2)
        assert submission.withdraw() is True
        stats = scene.batcher.stats()
        assert (stats.withdrawn, stats.waiting) == (1, 0)
        third = await scene.batcher.submit(3)
        for _ in range(2):
            with pytest.raises(ItemWithdrawn):
                await submission
        fn.release()
        assert await third == 30
    assert fn.seen == [1, 3]


async def test_withdrawing_twice_is_counted_once() -> None:
    """A second `withdraw` changes nothing, and no other item either."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=8, max_queue_time=0.05) as scene:
        submission, other = await scene.batcher.submit(1), await scene.batcher.submit(2)
        submission.withdraw()
        submission.withdraw()
        assert scene.batcher.stats().withdrawn == 1
        assert await other == 20
    assert fn.batches == [[2]]


async def test_withdraw_wakes_the_task_that_awaits() -> None:
    """One who awaits the submission elsewhere is told `ItemWithdrawn` and not left waiting."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        submission = await scene.batcher.submit(1)
        waiter = await awaited(scene, submission)
        assert submission.withdraw() is True
        await settle()
        waiter.failed(ItemWithdrawn)
        assert scene.batcher.stats().withdrawn == 1
    assert fn.batches == []


async def test_withdraw_of_a_running_item_is_false_and_changes_nothing() -> None:
    """Once the processor has it, it is too late: the result still comes."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        submission = await scene.batcher.submit(1)
        await settle()
        assert submission.withdraw() is False
        fn.release()
        assert await submission == 10
        assert submission.withdraw() is False
        assert await submission == 10
        assert scene.batcher.stats().withdrawn == 0


async def test_withdraw_says_the_truth_in_the_tick_in_which_its_batch_is_taken() -> None:
    """Whichever way it goes: true means never seen, false means that the result comes."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2) as scene:
        one = await scene.batcher.submit(1)
        two = await scene.batcher.submit(2)
        withdrawn = one.withdraw()
        assert_counts_add_up(scene.batcher.stats())
        if withdrawn:
            assert two.withdraw() or await two == 20
        else:
            assert await one == 10
            assert await two == 20
        await settle()
        assert (1 in fn.seen) is not withdrawn


@pytest.mark.parametrize("outcome", ["result", "error"])
async def test_submission_that_nobody_awaits_is_processed_silently(outcome: str) -> None:
    """Its item is processed, its outcome counted, and no loop complains of an error not retrieved."""
    fn = RecordingProcessor()
    if outcome == "error":
        fn.script.append(raises(ValueError("nobody hears this")))
    async with open_scene(fn, max_batch_size=1) as scene:
        await scene.batcher.submit(1)
        await settle()
        stats = scene.batcher.stats()
        assert (stats.succeeded, stats.failed) == ((1, 0) if outcome == "result" else (0, 1))
    assert fn.seen == [1]


async def test_submission_that_nobody_awaits_is_stopped_silently() -> None:
    """The same for a forced stop, waiting and running."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        for item in (1, 2):
            await scene.batcher.submit(item)
        await settle()
        await scene.batcher.stop(force=True)
        assert scene.batcher.stats().stopped == 2


async def test_forced_stop_is_told_to_those_who_await_later() -> None:
    """A submission keeps `BatcherStopped`, with the truth about its item, for whoever awaits it."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
        running, waiting = await scene.batcher.submit(1), await scene.batcher.submit(2)
        await settle()
        await scene.batcher.stop(force=True)
        for submission, withdrawn in ((running, False), (waiting, True)):
            with pytest.raises(BatcherStopped) as caught:
                await submission
            assert caught.value.withdrawn is withdrawn
            assert submission.withdraw() in (withdrawn, False)


async def test_cancelling_the_await_of_a_waiting_submission_withdraws_it() -> None:
    """Rule 1 holds for the one who awaits; whoever awaits it afterwards hears `ItemWithdrawn`."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        submission = await scene.batcher.submit(1)
        waiter = await awaited(scene, submission)
        waiter.cancel()
        await settle()
        assert scene.batcher.stats().withdrawn == 1
        with pytest.raises(ItemWithdrawn):
            await submission
    assert fn.batches == []


async def test_cancelling_the_await_of_a_running_submission_abandons_it() -> None:
    """The batch goes on, its siblings notice nothing, and awaiting it again does not hang."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2) as scene:
        submission, sibling = await scene.batcher.submit(1), await scene.batcher.submit(2)
        waiter = await awaited(scene, submission)
        waiter.cancel()
        await settle()
        assert scene.batcher.stats().abandoned == 1
        fn.release()
        assert await sibling == 20
        again = await awaited(scene, submission)
        assert not again.waits
    assert fn.batches == [[1, 2]]


def lambda_processor(results: list[object]) -> object:
    """Make a processor that returns these results."""

    async def processor(_batch: list[int]) -> list[object]:
        return results

    return processor
