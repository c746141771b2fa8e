"""Keys of equal items that can't be compared, or hashed, any more break nobody: each item has an outcome."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import assert_counts_add_up, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher

pytestmark = pytest.mark.anyio

Batcher = AsyncBatcher[Any, Any]
NAMES = ["first", "a", "b", "a", "c", "d", "b", "e"]
PATIENCE = 1000


class Mood:
    """Whether keys are quarrelsome now, and in which way."""

    def __init__(self) -> None:
        self.turned: type[Exception] | None = None
        self.of_hash = False

    def turn(self, how: Any) -> None:
        """Have every key raise this from now on where it is compared; "hash": where it is hashed."""
        self.of_hash = how == "hash"
        self.turned = OSError if self.of_hash else how

    def check(self, *, hashing: bool) -> None:
        if self.turned is not None and self.of_hash is hashing:
            raise self.turned("no more of this, please")


class Key:
    """Equal by its name, as long as the mood is good; all have one hash, so that they are compared."""

    def __init__(self, name: str, mood: Mood) -> None:
        self.name, self.mood = name, mood

    def __hash__(self) -> int:
        self.mood.check(hashing=True)
        return 1

    def __eq__(self, other: object) -> bool:
        self.mood.check(hashing=False)
        return isinstance(other, Key) and self.name == other.name


turns = pytest.mark.parametrize("turn", [RuntimeError, StopIteration, "hash"])


def plain(names: list[str]) -> Iterator[str]:
    yield from names


async def asynchronous(names: list[str]) -> AsyncIterator[str]:
    for name in names:
        yield name


async def by_list(batcher: Batcher) -> list[Any]:
    return await batcher.process_many(NAMES, return_exceptions=True, max_pending=5)


async def by_map(batcher: Batcher, make: Any) -> list[Any]:
    async with batcher.map(make(NAMES), return_exceptions=True, max_pending=5) as results:
        return [result async for result in results]


ways = pytest.mark.parametrize(
    "way",
    [by_list, partial(by_map, make=plain), partial(by_map, make=asynchronous)],
    ids=["process_many", "map", "map async"],
)


@ways
@turns
@pytest.mark.parametrize("limits", [(1, 3), (2, 1), (2, 3), (None, 3)])
@pytest.mark.parametrize("turned_at", [1, 2])
async def test_each_item_of_many_has_its_outcome_though_its_key_has_turned(
    way: Any, turn: Any, limits: tuple[int | None, int | None], turned_at: int
) -> None:
    """A result, or its own error where its key was asked; nobody waits for ever, and all slots come back."""
    mood, fn = Mood(), RecordingProcessor(lambda batch: batch)
    fn.hold()
    async with open_scene(
        fn,
        coalesce_key=lambda name: Key(name, mood),
        max_batch_size=limits[0],
        max_queue_size=limits[1],
        max_queue_time=0,
    ) as scene:
        caller = scene.start(partial(way, scene.batcher))
        for number in range(turned_at):
            await fn.begun(number + 1)
            await settle()
            if number + 1 < turned_at:
                fn.release(number)
        mood.turn(turn)
        fn.release()
        with anyio.fail_after(PATIENCE):
            await caller.end()
        assert len(caller.result) == len(NAMES)
        for name, outcome in zip(NAMES, caller.result, strict=True):
            assert outcome == name or isinstance(outcome, OSError | KeyError | RuntimeError)
        assert "first" in caller.result
        assert_counts_add_up(scene.batcher.stats())
        mood.turned = None
        with anyio.fail_after(PATIENCE):
            assert await scene.batcher.process_many(NAMES) == NAMES
