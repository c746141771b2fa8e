"""Who expired, or left, while the backend hangs is kept by nobody; nor is what was delivered in time.

An outage is what `expires_after` is for, and it may last for hours: nothing may grow by those who come and go in it.
As in `test_keeps_nothing`, the cyclic collector does not run.
"""

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from recording import RecordingProcessor
from scenes import Scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, ItemExpired

pytestmark = pytest.mark.anyio

Batcher = AsyncBatcher[Any, Any]
Call = Callable[[Batcher, Any], Awaitable[object]]
MANY = 80


class Thing:
    """A payload, a key or a result."""

    def __init__(self, name: object = None) -> None:
        self.name = name

    def __mul__(self, _: int) -> "Thing":
        return Thing()


class Equal(Thing):
    """A key."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.name == other.name


class Watch:
    """Knows of things without keeping them."""

    def __init__(self) -> None:
        self.seen: list[weakref.ref[Any]] = []

    def see(self, thing: Any) -> Any:
        """Watch this."""
        self.seen.append(weakref.ref(thing))
        return thing

    @property
    def alive(self) -> int:
        """How many are still there."""
        return sum(seen() is not None for seen in self.seen)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def process(batcher: Batcher, item: Any) -> object:
    return await batcher.process(item)


async def submit(batcher: Batcher, item: Any) -> object:
    return await (await batcher.submit(item))


async def submit_and_withdraw(batcher: Batcher, item: Any) -> object:
    submission = await batcher.submit(item)
    try:
        return await submission
    finally:
        assert submission.withdraw()
        del submission  # the error has this frame: a circle of the caller's own making


calls = pytest.mark.parametrize("call", [process, submit_and_withdraw])


async def expire(watch: Watch, call: Call, batcher: Batcher, name: object) -> None:
    """Have an item expire, and keep nothing of it."""
    try:
        await call(batcher, watch.see(Thing(name)))
    except ItemExpired as error:
        watch.see(error)
    else:
        pytest.fail("it did not expire")


def remembered(batcher: Batcher) -> int:
    """Count what the batcher has noted of those who are gone."""
    row = batcher._runner.collector._row
    return sum(len(batch.expired) + len(batch.dropped) for batch in (row.tail, *row._closed))


async def outage(scene: Scene[Batcher], watch: Watch, call: Call, names: int) -> None:
    """Have many come, ten of them wait at a time, and each of them expire a second after it came."""
    for number in range(MANY):
        scene.start(partial(expire, watch, call, scene.batcher, number % names))
        await anyio.sleep(0.1)
    await anyio.sleep(2)


@calls
@pytest.mark.parametrize("one_waits", [False, True])
async def test_who_expires_while_the_backend_hangs_is_kept_by_nobody(call: Call, one_waits: bool) -> None:
    """Neither its payload nor its error, also where the batch in which it sat still forms, for another's sake."""
    fn, watch = RecordingProcessor(), Watch()
    fn.hold()
    async with open_scene(fn, max_queue_time=0, expires_after=1) as scene:
        await scene.process(0)
        if one_waits:
            scene.start(partial(scene.batcher.process, 1, expires_after=1000))
            await settle()
        await outage(scene, watch, call, MANY)
        assert scene.batcher.stats().expired == MANY
        assert (len(watch.seen), watch.alive) == (2 * MANY, 0)
        assert remembered(scene.batcher) == 0
        assert len(scene.batcher._runner.collector._expiries.heap) <= MANY - 10
        fn.release()


@calls
@pytest.mark.parametrize("names", [1, 3, 20])
async def test_who_expires_in_a_shared_place_is_kept_by_nobody(call: Call, names: int) -> None:
    """Some share, whether the first of a place or a later one; each expires by itself, and others go on waiting."""
    fn, watch = RecordingProcessor(), Watch()
    fn.hold()
    async with open_scene(
        fn, max_queue_time=0, expires_after=1, coalesce_key=lambda thing: getattr(thing, "name", None)
    ) as scene:
        await scene.process(0)
        stays = scene.start(partial(scene.batcher.process, Thing(0), expires_after=1000))
        await settle()
        await outage(scene, watch, call, names)
        assert scene.batcher.stats().expired == MANY
        assert (len(watch.seen), watch.alive) == (2 * MANY, 0)
        assert remembered(scene.batcher) == 0
        assert stays.waits
        fn.release()


async def leave(watch: Watch, call: Call, batcher: Batcher, _name: object) -> None:
    """Have an item stand in line until its caller is cancelled."""
    await call(batcher, watch.see(Thing()))


async def expire_soon(watch: Watch, _call: Call, batcher: Batcher, _name: object) -> None:
    """Have an item stand in line until it is too old."""
    with pytest.raises(ItemExpired):
        await batcher.process(watch.see(Thing()), expires_after=0.5)


@pytest.mark.parametrize("call", [process, submit])
@pytest.mark.parametrize("leaves", [leave, expire_soon])
@pytest.mark.parametrize("key", [None, lambda item: item])
async def test_who_stood_in_line_and_left_is_kept_by_nobody(call: Call, leaves: Any, key: Any) -> None:
    """Though its age, or that of others, would have ended only an hour later."""
    fn, watch = RecordingProcessor(), Watch()
    fn.hold()
    async with open_scene(
        fn,
        max_batch_size=1,
        max_queue_size=1,
        max_queue_time=0,
        on_full="wait",
        expires_after=3600,
        coalesce_key=key,
    ) as scene:
        await scene.process(0, 1)
        for number in range(MANY):
            caller = scene.start(partial(leaves, watch, call, scene.batcher, number))
            await settle()
            assert scene.batcher.stats().in_line == 1
            if leaves is leave:
                caller.cancel()
            await caller.end()
        del caller
        await settle()
        assert (len(watch.seen), watch.alive) == (MANY, 0)
        assert len(scene.batcher._runner.collector._expiries.heap) <= MANY - 10
        fn.release()


@pytest.mark.parametrize("sharers", [1, 3])
@pytest.mark.parametrize("queue", [None, 1])
async def test_key_and_result_are_not_kept_until_the_item_would_have_expired(
    sharers: int, queue: int | None
) -> None:
    """Delivered is delivered, also to those who stood in line: what knows when items expire has let go of both."""
    watch = Watch()

    async def fn(batch: list[Any]) -> list[Any]:
        await anyio.sleep(1)
        return [watch.see(Thing()) for _ in batch]

    def key(item: str) -> Any:
        return watch.see(Equal(item))

    async def call(item: str) -> None:
        await batcher.process(item)

    async with open_scene(
        fn, max_queue_time=0, max_queue_size=queue, on_full="wait", expires_after=3600, coalesce_key=key
    ) as scene:
        batcher = scene.batcher
        callers = [scene.start(partial(call, item)) for item in "abcdefgh" for _ in range(sharers)]
        await scene.end_of(*callers)
        del callers
        await settle()
        assert len(watch.seen) >= 16
        assert watch.alive == 0
