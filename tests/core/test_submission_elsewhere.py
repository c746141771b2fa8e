"""A submission that was given up, or is taken to another loop or thread (contract, rules 1, 6 and 14)."""

import asyncio
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from recording import RecordingProcessor
from scenes import Scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, ItemWithdrawn, Submission

pytestmark = pytest.mark.anyio

Batcher = AsyncBatcher[int, int]


async def awaits(submission: Submission[int]) -> int:
    return await submission


async def test_submission_given_up_while_it_ran_has_an_unknown_outcome() -> None:
    """It was seen, so it is no `ItemWithdrawn`, which says that sending again is safe; `withdraw` is false."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        submission = await scene.batcher.submit(1)
        await settle()
        caller = scene.start(partial(awaits, submission))
        await settle()
        caller.cancel()
        await settle()
        assert submission.withdraw() is False
        await check_unknown(scene, submission)
        fn.release()
        await settle()
        await check_unknown(scene, submission)
        assert submission.withdraw() is False
        assert scene.batcher.stats().abandoned == 1
    assert fn.batches == [[1]]


async def check_unknown(scene: Scene[Batcher], submission: Submission[int]) -> None:
    for _ in range(2):
        caller = scene.start(partial(awaits, submission))
        await settle()
        error = caller.failed(RuntimeError)
        assert not isinstance(error, ItemWithdrawn)
        assert "outcome is unknown" in str(error)


async def test_submission_given_up_while_it_waited_is_withdrawn() -> None:
    """The processor never gets it: `ItemWithdrawn`, and `withdraw` is true."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        submission = await scene.batcher.submit(1)
        caller = scene.start(partial(awaits, submission))
        await settle()
        caller.cancel()
        await settle()
        for _ in range(2):
            with pytest.raises(ItemWithdrawn):
                await submission
            assert submission.withdraw() is True
        assert scene.batcher.stats().withdrawn == 1
    assert fn.batches == []


async def withdraws(submission: Submission[int]) -> bool:
    return submission.withdraw()


def refusals(submission: Submission[int]) -> list[BaseException]:
    """Await it and withdraw it on a loop of this thread, and withdraw it without any."""
    found: list[BaseException] = []
    attempts: list[Any] = [
        partial(asyncio.run, awaits(submission)),
        partial(asyncio.run, withdraws(submission)),
        submission.withdraw,
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="on the event loop on which it was made") as caught:
            attempt()
        found.append(caught.value)
    return found


@pytest.mark.real_time
@pytest.mark.parametrize("running", [False, True], ids=["waiting", "running"])
async def test_pending_submission_is_of_its_own_loop(running: bool) -> None:
    """Awaited or withdrawn in another thread it is refused, and nothing happens to its item."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2 - running, max_queue_time=60) as scene:
        submission = await scene.batcher.submit(1)
        await settle()
        before = scene.batcher.stats()
        assert (before.waiting, before.running) == (1 - running, int(running))
        assert len(await anyio.to_thread.run_sync(refusals, submission)) == 3
        assert scene.batcher.stats() == before
        fn.release()
        if not running:
            await scene.batcher.submit(2)
        assert await submission == 10
    assert fn.seen[0] == 1


@pytest.mark.real_time
async def test_settled_submission_can_be_asked_from_anywhere() -> None:
    """Its outcome is there, so nobody waits: another thread gets the result, and that it ran."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=1) as scene:
        submission = await scene.batcher.submit(1)
        assert await submission == 10
        asked: list[Any] = [awaits(submission), withdraws(submission)]
        found = [await anyio.to_thread.run_sync(asyncio.run, each) for each in asked]
        assert found == [10, False]
