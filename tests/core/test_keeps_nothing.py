"""What has been delivered is kept by nobody: payloads, results and errors die without the cyclic collector.

A circle that holds a payload is memory until the collector comes, which on a busy server is many batches later.
So these tests run without it.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest
from blocking import PATIENCE
from virtual_time import settle

from async_batcher import AsyncBatcher, BatcherStopped, ItemWithdrawn, ResultMismatch

pytestmark = pytest.mark.anyio

T = TypeVar("T")

Batcher = AsyncBatcher[Any, Any]
SIZE = 2
CALLERS = 4


class Thing:
    """A payload or a result."""


class Fault(Exception):
    """An error of the processor's."""


class Watch:
    """Knows of things and errors without keeping them."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, weakref.ref[Any]]] = []

    def new(self, kind: str) -> Thing:
        """Make a thing to watch."""
        return self.see(kind, Thing())

    def see(self, kind: str, thing: T) -> T:
        """Watch this."""
        self._watched.append((kind, weakref.ref(thing)))
        return thing

    @property
    def alive(self) -> list[str]:
        """What is still there."""
        return [kind for kind, thing in self._watched if thing() is not None]

    @property
    def seen(self) -> set[str]:
        """What kinds there ever were."""
        return {kind for kind, _ in self._watched}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Run without the cyclic collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def succeeds(watch: Watch, batch: Sequence[Thing]) -> list[Any]:
    return [watch.new("result") for _ in batch]


def fails(watch: Watch, batch: Sequence[Thing]) -> list[Any]:
    raise watch.see("error", Fault("all of it"))


def mismatches(watch: Watch, batch: Sequence[Thing]) -> list[Any]:
    return [watch.new("result") for _ in range(len(batch) + 1)]


def fails_each(watch: Watch, batch: Sequence[Thing]) -> list[Any]:
    return [watch.see("error", Fault("this one")) for _ in batch]


Outcome = Callable[[Watch, Sequence[Thing]], list[Any]]
outcomes = pytest.mark.parametrize("outcome", [succeeds, fails, mismatches, fails_each])
interfaces = pytest.mark.parametrize("submits", [False, True], ids=["process", "submit"])


async def call(batcher: Batcher, watch: Watch, submits: bool) -> None:
    """Have one payload processed, and keep nothing of it.

    Nor the submission: an error has this frame, so it would be a circle of the caller's own making.
    """
    try:
        if submits:
            await (await batcher.submit(watch.new("payload")))
        else:
            await batcher.process(watch.new("payload"))
    except (Fault, ResultMismatch, BatcherStopped, ItemWithdrawn) as error:
        watch.see("caller's error", error)


async def everybody(batcher: Batcher, watch: Watch, submits: bool) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(CALLERS):
            group.start_soon(call, batcher, watch, submits)


@outcomes
@interfaces
async def test_async_batch_leaves_nothing_behind(outcome: Outcome, submits: bool) -> None:
    """Once its callers have what they get, neither the batch nor the batcher has any of it."""
    watch = Watch()

    async def processor(batch: list[Thing]) -> list[Any]:
        return outcome(watch, batch)

    async with AsyncBatcher.from_callable(processor, max_batch_size=SIZE) as batcher:
        await everybody(batcher, watch, submits)
        await settle()
        assert "payload" in watch.seen
        assert watch.alive == []
        assert batcher.stats().accepted == CALLERS


def join_threads() -> None:
    """Wait until the batcher's threads have ended: one has its last result in hand when the loop hears of it."""
    for thread in threading.enumerate():
        if thread.name.startswith("keeps nothing"):
            thread.join(PATIENCE)


async def open_when_begun(began: threading.Event, gate: threading.Event) -> None:
    """Hold the first batch until the loop has gone on: a batch that ends at once is an easier case."""
    assert await anyio.to_thread.run_sync(began.wait, PATIENCE)
    gate.set()


@pytest.mark.real_time
@outcomes
@interfaces
async def test_sync_batch_leaves_nothing_behind(outcome: Outcome, submits: bool) -> None:
    """The same for a thread: what it was given and what it gave back."""
    watch, began, gate = Watch(), threading.Event(), threading.Event()

    def processor(batch: list[Thing]) -> list[Any]:
        began.set()
        gate.wait(PATIENCE)
        return outcome(watch, batch)

    async with (
        AsyncBatcher.from_callable(processor, max_batch_size=SIZE, name="keeps nothing") as batcher,
        anyio.create_task_group() as group,
    ):
        group.start_soon(open_when_begun, began, gate)
        with anyio.fail_after(PATIENCE):
            await everybody(batcher, watch, submits)
    join_threads()
    await settle()
    assert "payload" in watch.seen
    assert watch.alive == []


async def test_withdrawn_item_is_let_go() -> None:
    """By the one who submitted it, or by cancelling its caller: also while others of its batch still wait."""
    watch = Watch()

    async def processor(batch: list[Any]) -> list[Any]:
        return batch

    async with AsyncBatcher.from_callable(processor, max_queue_time=60) as batcher:
        await batcher.submit("stays")
        submission = await batcher.submit(watch.new("payload"))
        assert submission.withdraw() is True
        assert watch.alive == []
        async with anyio.create_task_group() as group:
            group.start_soon(call, batcher, watch, False)
            await settle()
            group.cancel_scope.cancel()
        await settle()
        assert watch.alive == []
        assert batcher.stats().withdrawn == 2


@pytest.mark.parametrize(
    ("submits", "queue"),
    [(False, 8), (True, 8), (False, 2), (True, 2)],
    ids=["process, waiting", "submit, waiting", "process, in line", "submit, in line"],
)
async def test_forced_stop_lets_everything_go(submits: bool, queue: int) -> None:
    """Running, waiting and in line: once the stop has returned and the callers are told, nothing is kept."""
    watch = Watch()

    async def processor(batch: list[Thing]) -> list[Any]:
        await anyio.sleep_forever()
        return batch

    async with (
        AsyncBatcher.from_callable(
            processor, max_batch_size=SIZE, max_queue_time=0, max_queue_size=queue, on_full="wait"
        ) as batcher,
        anyio.create_task_group() as group,
    ):
        for _ in range(5):
            group.start_soon(call, batcher, watch, submits)
            await settle()
        stats = batcher.stats()
        await batcher.stop(force=True)
        await settle()
        assert (stats.running, stats.waiting, stats.in_line) == ((1, 4, 0) if queue > SIZE else (1, 2, 2))
        assert watch.alive == []
        assert "caller's error" in watch.seen


async def test_error_that_is_a_constant_stays_as_it_is() -> None:
    """One object for all, returned in the items' places: its traceback does not grow, nor hold any payload."""
    not_found, watch = Fault("not found"), Watch()

    async def looks_up(batch: list[Thing]) -> list[Any]:
        return [not_found for _ in batch]

    async with AsyncBatcher.from_callable(looks_up, max_batch_size=SIZE) as batcher:
        for _ in range(10):
            await everybody(batcher, watch, submits=False)
            await settle()
            assert not_found.__traceback__ is None
            assert watch.alive == []


@pytest.mark.real_time
async def test_error_that_is_a_constant_of_a_thread_stays_as_it_is() -> None:
    """The same for a sync processor."""
    not_found, watch = Fault("not found"), Watch()

    def looks_up(batch: list[Thing]) -> list[Any]:
        return [not_found for _ in batch]

    async with AsyncBatcher.from_callable(looks_up, max_batch_size=SIZE, name="keeps nothing") as batcher:
        with anyio.fail_after(PATIENCE):
            for _ in range(5):
                await everybody(batcher, watch, submits=False)
    join_threads()
    await settle()
    assert not_found.__traceback__ is None
    assert watch.alive == []
