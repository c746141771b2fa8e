"""A witness: what is remembered of callers goes with their items, and each batch is told once."""

from typing import Any

import pytest
from recording import RecordingProcessor
from scenes import Scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, BatchEvent

pytestmark = pytest.mark.anyio


class Numbering:
    """Numbers the callers as they come in, and keeps what it hears."""

    def __init__(self) -> None:
        self.came = 0
        self.silent_about = 0
        self.heard: list[tuple[int, list[str]]] = []

    def note(self) -> object | None:
        self.came += 1
        return f"caller {self.came}" if self.came != self.silent_about else None

    def ended(self, event: BatchEvent, notes: Any, /) -> None:
        self.heard.append((event.size, sorted(map(str, notes))))


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
    """However they come in, and in the batches in which they are."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_batch_size=3, max_queue_time=0) as scene:
        witness = watched(scene)
        assert await scene.batcher.process_many([1, 2, 3, 4]) == [10, 20, 30, 40]
    assert sorted(note for _, notes in witness.heard for note in notes) == [
        f"caller {n}" for n in range(1, 5)
    ]


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


async def test_witness_that_fails_is_logged_and_touches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """As `on_batch` that fails, which is called all the same."""
    events: list[BatchEvent] = []
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=0, on_batch=events.append) as scene:

        class Failing(Numbering):
            def ended(self, event: BatchEvent, notes: Any, /) -> None:
                raise ValueError("exporter")

        scene.batcher._runner.watch(Failing())
        callers = await scene.process(1, 2)
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == [10, 20]
    assert len(events) == 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]
