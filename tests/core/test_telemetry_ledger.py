"""What the instruments read: numbers alone, each of them once, and nobody waits for anybody."""

import asyncio
import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blocking import PATIENCE
from listening import fresh, listening
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from programs import run_python
from recording import RecordingProcessor
from virtual_time import settle

from async_batcher import AsyncBatcher
from async_batcher._batch import Batch
from async_batcher._events import Counts, Present
from async_batcher._ledger import Ledger
from async_batcher._line import InLine, Line
from async_batcher._queue import Row

pytestmark = pytest.mark.anyio


class Batcher:
    """What the ledger sees of one."""

    def __init__(self, present: Present | None = None, succeeded: int = 0) -> None:
        self.counts = Counts()
        self.counts.succeeded = succeeded
        self.present = present or Present()


class Watched(Present):
    """Numbers that are read: then `then` is called, once, in the middle of the reading."""

    __slots__ = ("then",)

    def __init__(self, then: Callable[[], object]) -> None:
        self.then: Callable[[], object] | None = then
        super().__init__()

    @property
    def waiting(self) -> int:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().waiting


class Waiter:
    """Waits, and can be held weakly."""

    def done(self) -> bool:
        return False


def read(ledger: Ledger, field: str = "succeeded") -> list[float]:
    return [number for number, _ in ledger.read(field)]


async def same(batch: list[Any]) -> list[Any]:
    return batch


async def test_batcher_that_is_dropped_in_the_middle_of_a_reading_goes_at_once() -> None:
    """What its user gave it is thrown away where it is dropped, and not by the reader, in the reader's thread."""

    class Weight:
        def __call__(self, _: object) -> float:
            return 1

    class Dropped(Present):
        __slots__ = ()

        @property
        def waiting(self) -> int:
            batchers.clear()
            gc.collect()
            in_the_middle.append(gone())
            return super().waiting

    weight = Weight()
    gone, in_the_middle = weakref.ref(weight), list[object]()
    with listening() as heard:
        batcher = AsyncBatcher.from_callable(same, max_batch_size=1, weigh=weight, name="n")
        async with batcher:
            await batcher.process(1)
        batcher._collector.present.__class__ = Dropped
        batchers = [batcher]
        del weight, batcher
        await settle()  # the loop's last callback has the runner
        assert gone() is not None
        assert heard.total("item.waiting", name="n") == 0
    assert in_the_middle == [None]


@pytest.mark.real_time
def test_reader_waits_for_no_other_reader() -> None:
    """Two that collect at once, in two threads: one of them may hang in what the other holds."""
    found: list[float] = []

    def read_elsewhere() -> None:
        other = threading.Thread(target=lambda: found.extend(read(ledger)), daemon=True)
        other.start()
        other.join(PATIENCE)

    ledger = Ledger()
    counted = Batcher(Watched(read_elsewhere), succeeded=3)
    ledger.add("n", counted)
    assert list(ledger.read_now("waiting")) == [(0, {"async_batcher.name": "n"})]
    assert found == [3]


@pytest.mark.parametrize("field", ["waiting", "succeeded"])
def test_reading_in_the_middle_of_a_reading_finds_the_same(field: str) -> None:
    """What the garbage collector calls may read too, in the same thread."""
    nested: list[float] = []

    def read_too() -> None:
        nested.extend(
            read(ledger) if field == "succeeded" else (number for number, _ in ledger.read_now(field))
        )

    ledger = Ledger()
    counted = Batcher(Watched(read_too), succeeded=3)
    counted.present.closed = 5
    ledger.add("n", counted)
    assert [number for number, _ in ledger.read_now("waiting")] == [5]
    assert nested == [3 if field == "succeeded" else 5]


class Steps(dict[int, Any]):
    """The ledger's entries: `look` is called before and after each step that changes them."""

    def __init__(self, entries: dict[int, Any], look: Callable[[], object]) -> None:
        super().__init__(entries)
        self._look = look

    def update(self, *given: Any, **named: Any) -> None:
        self._look()
        super().update(*given, **named)
        self._look()

    def __delitem__(self, number: int) -> None:
        self._look()
        super().__delitem__(number)
        self._look()


def test_reading_at_any_step_of_the_adding_up_finds_each_count_once() -> None:
    """A counter that fell would be taken for one that began anew; one that rose too far never comes right."""
    seen: list[list[float]] = []
    ledger = Ledger()
    batchers = [Batcher(succeeded=number) for number in (1, 20, 300)]
    for batcher in batchers:
        ledger.add("n", batcher)
    ledger._entries = Steps(ledger._entries, lambda: seen.append(read(ledger)))
    while batchers:
        batchers.pop()
    del batcher
    assert len(seen) == 8
    assert {tuple(sums) for sums in seen} == {(321,)}
    assert len(ledger._entries) == 1


def test_batcher_that_goes_while_what_has_gone_is_added_up_is_added_by_the_next() -> None:
    """In this very thread, by the garbage collector: nobody waits for himself, and no count is lost."""
    ledger = Ledger()
    first, second = Batcher(succeeded=1), Batcher(succeeded=20)
    for batcher in (first, second):
        ledger.add("n", batcher)
    del batcher
    with ledger._adding:
        del first, second
        assert len(ledger._entries) == 2
        assert read(ledger) == [21]
        assert [number for number, _ in ledger.read_now("waiting")] == [0]
    assert read(ledger) == [21]
    assert len(ledger._entries) == 1


def test_every_count_of_those_that_have_gone_is_in_the_sum() -> None:
    """Each of them by itself."""
    ledger = Ledger()
    for share in (1, 2):
        batcher = Batcher()
        for number, field in enumerate(Counts.__slots__, start=1):
            setattr(batcher.counts, field, number * share)
        ledger.add("n", batcher)
        del batcher
    sums = {field: read(ledger, field) for field in Counts.__slots__}
    assert sums == {field: [number * 3] for number, field in enumerate(Counts.__slots__, start=1)}


def test_present_is_what_the_row_says_at_every_step() -> None:
    """Whoever leaves, and from where: the tail, a full batch, one that is topped up by those behind it."""
    for seed in range(40):
        dice = random.Random(seed)  # noqa: S311  (the same steps in every run)
        present = Present()
        row, seats = Row(4, present=present), list[tuple[Batch, Waiter]]()
        for now in range(60):
            action = dice.choice(
                ("append", "append", "append", "discard", "discard", "take", "flush", "clear")
            )
            if action == "append":
                seat = Waiter()
                seats.append((row.append(now, seat, now), seat))
            elif action == "discard" and seats:
                batch, seat = seats.pop(dice.randrange(len(seats)))
                row.discard(batch.moved.get(seat, batch), seat)
            elif action == "take" and row.places():
                row.take(now, "due")
            elif action == "flush":
                row.flush()
            elif action == "clear" and not now % 5:
                row.clear(now)
            assert present.waiting == row.places(), (seed, now, action)


def test_present_is_how_many_stand_in_line() -> None:
    """Whoever came, lost patience, left, or was told that there is an end."""
    present = Present()
    line = Line(1, present)
    waiters: list[Any] = [Waiter() for _ in range(4)]
    for now, waiter in enumerate(waiters):
        line.add(InLine(None, waiter, None, 0, None), now)
        assert present.in_line == now + 1
    line.discard(waiters[2])
    assert present.in_line == 3
    assert line.late(1) is not None
    assert present.in_line == 2
    line.clear()
    assert present.in_line == 0


def test_numbers_in_the_middle_of_a_step_are_never_below_nothing() -> None:
    """What is read in another thread may be of two moments."""
    ledger = Ledger()
    counted = Batcher()
    counted.present.holes = 3
    ledger.add(None, counted)
    assert list(ledger.read_now("waiting")) == [(0, {})]


class Flushing:
    """What is a user's, and collects by another reader when it is thrown away."""

    def __init__(self, reader: InMemoryMetricReader, thrown_away_in: list[threading.Thread]) -> None:
        self._reader, self._thrown_away_in = reader, thrown_away_in

    def __call__(self, _: object) -> float:
        return 1

    def __del__(self) -> None:
        self._reader.collect()
        self._thrown_away_in.append(threading.current_thread())


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """It runs in whichever thread it likes; the SDK's own lock is not for who collects while he collects."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.backends("asyncio")
@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.real_time
async def test_what_is_a_users_is_thrown_away_where_it_is_dropped_and_holds_no_reader_up() -> None:
    """A batcher is dropped while another thread collects: not there, and the readers of the process go on."""
    reader, other = InMemoryMetricReader(), InMemoryMetricReader()
    provider = MeterProvider([reader, other], shutdown_on_exit=False)

    def read_again_and_again() -> None:
        while not ends.is_set():
            reader.collect()
            seen.set()

    with fresh():
        metrics.set_meter_provider(provider)
        ends, seen, where = threading.Event(), threading.Event(), list[threading.Thread]()
        thread = threading.Thread(target=read_again_and_again, daemon=True)
        thread.start()
        seen.wait(PATIENCE)
        for _ in range(50):
            batcher = AsyncBatcher.from_callable(
                same, max_batch_size=1, weigh=Flushing(other, where), name="n"
            )
            async with batcher:
                await batcher.process(1)
            del batcher
            await asyncio.sleep(0)  # the loop's last callback has the runner
        ends.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert where == [threading.current_thread()] * 50


@pytest.mark.real_time
async def test_counts_are_read_in_another_thread_while_batchers_come_and_go() -> None:
    """A reader never sees a counter fall, and the last thing that it sees is the truth."""
    ends, seen = threading.Event(), []

    def read() -> None:
        while not ends.is_set():
            seen.append(heard.total("items", outcome="succeeded"))

    with listening() as heard:
        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(100):
                async with AsyncBatcher.from_callable(RecordingProcessor(), max_queue_time=0) as batcher:
                    await batcher.process_many(range(5))
        finally:
            ends.set()
            reader.join()
        assert seen == sorted(seen)
        assert heard.total("items", outcome="succeeded") == 500


FORK = """
import asyncio, os, sys, threading
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from async_batcher import AsyncBatcher, _telemetry

metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))

async def main():
    async with AsyncBatcher.from_callable(lambda batch: batch, name="n") as batcher:
        await batcher.process(1)

asyncio.run(main())
ledger = _telemetry._hub.ledger
held, done = threading.Event(), threading.Event()

def hold():
    with ledger._adding:
        held.set()
        done.wait()

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    asyncio.run(main())
    print("child", [number for number, _ in ledger.read("succeeded")], len(ledger._entries), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
done.set()
print("parent", [number for number, _ in ledger.read("succeeded")], os.waitstatus_to_exitcode(status))
"""


def test_fork_in_the_middle_of_a_reading_leaves_the_child_free() -> None:
    """The lock of a thread that is not there does not keep what has gone from being added up."""
    ended = run_python("-W", "ignore::DeprecationWarning", "-c", FORK)
    assert ended == (0, "child [2] 1\nparent [1] 0\n", "")
