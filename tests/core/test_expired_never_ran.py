"""A submission that expired goes on saying that it never ran, whatever becomes of the place in which it sat."""

from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import open_scene
from virtual_time import settle

from async_batcher import ItemExpired

pytestmark = pytest.mark.anyio


def itself(item: int) -> int:
    return item


@pytest.mark.parametrize(
    ("key", "others", "hasty_place"),
    [(None, 1, 0), (itself, 0, 0), (itself, 1, 0), (itself, 1, 1), (itself, 2, 1)],
)
@pytest.mark.parametrize("tops_up", [False, True])
@pytest.mark.parametrize("asked", ["before it leaves", "while it runs", "at the end"])
async def test_expired_submission_never_ran(
    key: Any, others: int, hasty_place: int, tops_up: bool, asked: str
) -> None:
    """Whenever it is asked, and though its place went to others, who did run. Once asked it remembers."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, coalesce_key=key) as scene:
        submit = scene.batcher.submit
        await submit(0)
        await settle()
        await submit(1)
        leaves = await submit(2)
        equal = [await submit(3) for _ in range(hasty_place)]
        hasty = await submit(3, expires_after=0.5)
        equal += [await submit(3) for _ in range(others - len(equal))]
        await anyio.sleep(1)
        answers: dict[str, bool] = {}
        if tops_up:
            assert leaves.withdraw()
        if asked == "before it leaves":
            answers[asked] = hasty.withdraw()
        for number in range(2 if tops_up or not others else 3):
            fn.release(number)
            await settle()
            if asked == "while it runs" and 3 in fn.seen:
                answers[asked] = hasty.withdraw()
        fn.release()
        assert [await submission for submission in equal] == [30] * others
        with pytest.raises(ItemExpired):
            await hasty
        answers["at the end"] = hasty.withdraw()
        assert set(answers.values()) == {True}
        assert not any(submission.withdraw() for submission in equal)
        assert scene.batcher.stats().expired == 1
    assert fn.batches[1] == ([1, 3] if tops_up and others else [1] if tops_up else [1, 2])


@pytest.mark.parametrize("shares", [False, True])
async def test_submission_that_stood_in_line_and_expired_in_its_place_never_ran(shares: bool) -> None:
    """Its ticket is what it got in line: it is found where it went, and where the place went after that."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(
        fn, max_batch_size=2, max_queue_time=0, max_queue_size=3, on_full="wait", coalesce_key=itself
    ) as scene:
        submit = scene.batcher.submit
        await submit(0)
        await settle()
        await submit(1)
        leaves = await submit(2)
        gives_room = await submit(4)
        stands = scene.start(partial(submit, 3, expires_after=2))
        await settle()
        other = scene.start(partial(submit, 3)) if shares else None
        await settle()
        assert gives_room.withdraw()
        await settle()
        hasty = stands.result
        await anyio.sleep(3)
        assert leaves.withdraw()
        fn.release()
        if other is not None:
            await other.end()
            assert await other.result == 30
        with pytest.raises(ItemExpired):
            await hasty
        assert hasty.withdraw()
    assert fn.batches == [[0], [1, 3] if shares else [1]]


@pytest.mark.parametrize("key", [None, itself])
async def test_submission_whose_place_moved_and_ran_did_run(key: Any) -> None:
    """The other way round: who would have expired, and was in time, did run, and can't be taken back."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, expires_after=2, coalesce_key=key) as scene:
        submit = scene.batcher.submit
        await submit(0)
        await settle()
        submissions = [await submit(item) for item in (1, 2, 3)]
        assert submissions.pop(1).withdraw()
        fn.release(0)
        await settle()
        await anyio.sleep(5)
        assert [submission.withdraw() for submission in submissions] == [False, False]
        fn.release()
    assert fn.batches == [[0], [1, 3]]
