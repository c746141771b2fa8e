"""A witness: what is remembered of callers goes with their items, and each batch is told once."""

import asyncio
import contextlib
from typing import Any

import pytest
from recording import RecordingProcessor, raises, ten_times
from scenes import Scene, open_scene
from virtual_time import VirtualEventLoop, settle

from async_batcher import AsyncBatcher, BatchAborted, BatchEvent
from async_batcher._events import Reason

pytestmark = pytest.mark.anyio


class Numbering:
    """Numbers the callers as they come in, and keeps what it hears."""

    awake = True

    def __init__(self) -> None:
        self.came = 0
        self.silent_about = 0
        self.deaf = False
        self.heard: list[tuple[int, list[str]]] = []
        self.ended_as: list[Any] = []
        self.parts: list[tuple[int, str | None]] = []

    def listens(self) -> bool:
        return not self.deaf

    def note(self) -> object | None:
        self.came += 1
        return f"caller {self.came}" if self.came != self.silent_about else None

    def began(self, reason: Reason, size: int, callers: int, notes: Any, /) -> Any:
        self.heard.append((size, sorted(map(str, notes))))
        return len(self.heard)

    def split(self, account: Any, error_type: str, /) -> None:
        self.parts.append((0, error_type))

    def part_began(self, account: Any, size: int, /) -> Any:
        return size

    def part_ended(self, account: Any, part: Any, error_type: str | None, /) -> None:
        self.parts.append((part, error_type))

    def ended(self, account: Any, event: BatchEvent | None, /) -> None:
        self.ended_as.append((account, event and (event.size, event.error_type)))


def watched(scene: Scene[AsyncBatcher[Any, Any]]) -> Numbering:
    witness = Numbering()
    scene.batcher._runner.watch(witness)
    return witness


async def test_notes_go_with_the_items() -> None:
    """Through the row, the line, and an earlier batch that is topped up; who leaves is forgotten."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_size=4, max_queue_time=0, on_full="wait") as scene:
        witness = watched(scene)
        fn.hold()
        callers = await scene.process(1, 2, 3, 4, 5, 6)
        callers[1].cancel()
        await settle()
        fn.release()
        await scene.end_of(*callers)
    assert fn.batches == [[1], [3, 4], [5, 6]]
    assert witness.heard == [(1, ["caller 1"]), (2, ["caller 3", "caller 4"]), (2, ["caller 5", "caller 6"])]


async def test_all_who_share_a_place_are_remembered() -> None:
    """One item, two callers; the third has left."""
    fn = RecordingProcessor(lambda batch: batch)
    async with open_scene(fn, coalesce_key=str, max_queue_time=1) as scene:
        witness = watched(scene)
        callers = await scene.process("a", "a", "a")
        callers[0].cancel()
        await settle()
        await scene.end_of(*callers)
    assert witness.heard == [(1, ["caller 2", "caller 3"])]


async def test_many_at_once_are_remembered_too() -> None:
    """Once for those who came in together, in the batch in which they are."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=3, max_queue_time=0) as scene:
        witness = watched(scene)
        assert await scene.batcher.process_many([1, 2, 3, 4]) == [10, 20, 30, 40]
    assert witness.heard == [(3, ["caller 1"] * 3), (1, ["caller 2"])]


async def test_batch_without_a_processor_call_is_not_told() -> None:
    """Everybody had left before it began."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0) as scene:
        witness = watched(scene)
        fn.hold()
        callers = await scene.process(1, 2)
        callers[1].cancel()
        await settle()
        fn.release()
    assert witness.heard == [(1, ["caller 1"])]


async def test_caller_of_whom_nothing_is_to_be_remembered_is_none_of_those_told() -> None:
    """Also where its item tops up an earlier batch, and where items are weighed."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0, weigh=int, max_batch_weight=100) as scene:
        witness = watched(scene)
        witness.silent_about = 4
        fn.hold()
        callers = await scene.process(1, 2, 3, 4, 5)
        callers[1].cancel()
        await settle()
        fn.release()
    assert fn.batches == [[1], [3, 4], [5]]
    assert witness.heard == [(1, ["caller 1"]), (2, ["caller 3"]), (1, ["caller 5"])]


async def test_each_batch_that_began_ends_with_its_own_account() -> None:
    """Its event with it: what failed as a whole says so."""
    fn = RecordingProcessor(ten_times, raises(ValueError()))
    async with open_scene(fn, max_batch_size=2, max_queue_time=0) as scene:
        witness = watched(scene)
        fn.hold()
        await scene.process(1, 2, 3)
        fn.release()
    assert witness.ended_as == [(1, (1, "builtins.ValueError")), (2, (2, None))]


async def test_calls_of_a_split_batch_are_told_one_by_one() -> None:
    """The batch itself first, then each half with how it ended."""

    async def picky(batch: list[int]) -> list[int]:
        if 3 in batch:
            raise ValueError(batch)
        return batch

    async with open_scene(picky, max_batch_size=4, max_queue_time=1, split_on=ValueError) as scene:
        witness = watched(scene)
        await scene.process(1, 2, 3, 4)
    error = "builtins.ValueError"
    assert witness.parts == [(0, error), (2, None), (2, error), (1, error), (1, None)]
    assert witness.ended_as == [(1, (4, None))]


async def test_witness_that_does_not_listen_is_asked_of_nobody() -> None:
    """And hears of batches all the same."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=2, max_queue_time=0) as scene:
        witness = watched(scene)
        witness.deaf = True
        callers = await scene.process(1, 2, 3)
        assert witness.came == 0
        witness.deaf = False
        callers += await scene.process(4)
        await scene.end_of(*callers)
    assert witness.heard == [(1, []), (1, []), (1, []), (1, ["caller 1"])]


async def test_witness_that_keeps_no_account_hears_no_more_of_that_batch() -> None:
    """So that nothing is made for it."""

    class Forgetful(Numbering):
        def began(self, reason: Reason, size: int, callers: int, notes: Any, /) -> Any:
            super().began(reason, size, callers, notes)

    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0) as scene:
        witness = Forgetful()
        scene.batcher._runner.watch(witness)
        await scene.process(1)
    assert (len(witness.heard), witness.ended_as) == (1, [])


@pytest.mark.parametrize("method", ["began", "split", "part_began", "part_ended", "ended"])
async def test_witness_that_fails_is_logged_once_and_touches_nobody(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails in; and `on_batch` is called all the same, and logged by itself."""
    events: list[BatchEvent] = []

    async def picky(batch: list[int]) -> list[int]:
        if 3 in batch:
            raise ValueError(batch)
        return batch

    def listen(event: BatchEvent) -> None:
        events.append(event)
        raise LookupError

    def fail(*_: object) -> None:
        raise ValueError("exporter")

    options: dict[str, Any] = {"max_batch_size": 2, "max_queue_time": 1, "split_on": ValueError}
    async with open_scene(picky, on_batch=listen, **options) as scene:
        setattr(watched(scene), method, fail)
        callers = await scene.process(1, 2, 3, 4)
        await scene.end_of(*callers)
        assert [caller.result for caller in (callers[0], callers[1], callers[3])] == [1, 2, 4]
        assert isinstance(callers[2].error, ValueError)
    assert len(events) == 2
    assert sorted(record.getMessage().split(" of ")[0] for record in caplog.records) == [
        "on_batch",
        "the telemetry",
    ]


@pytest.mark.parametrize("method", ["began", "ended"])
def test_witness_that_ends_the_program_does_so_when_all_callers_are_told(method: str) -> None:
    """`SystemExit` goes on, from whatever it is raised in."""

    def leave(*_: object) -> None:
        raise SystemExit(3)

    batcher = AsyncBatcher[int, int].from_callable(RecordingProcessor(), max_batch_size=2)
    witness = Numbering()
    setattr(witness, method, leave)
    batcher._runner.watch(witness)
    loop = VirtualEventLoop()
    with contextlib.closing(loop):
        callers = [loop.create_task(batcher.process(item)) for item in (1, 2)]

        async def everyone() -> list[Any]:
            return await asyncio.gather(*callers, return_exceptions=True)

        waiting = loop.create_task(everyone())
        with pytest.raises(SystemExit):
            loop.run_until_complete(waiting)
        outcomes = loop.run_until_complete(waiting)
        loop.run_until_complete(batcher.stop())
    found = [type(each) if isinstance(each, BaseException) else each for each in outcomes]
    assert found == ([BatchAborted, BatchAborted] if method == "began" else [10, 20])
