"""What does not depend on a rate, for `core.py`: many callers at once, many that leave, and one alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

from core_sides import floor_call, opened
from core_table import Found, Mark

from async_batcher import AsyncBatcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

AT_ONCE = Mark("20,000 callers at once: time an item, over 2,000 at once", 1.2, at_most=True)
WITHDRAWAL = "10,000 of 20,000 waiting callers {}: time an item, over 100 of 200"
CANCELLED = Mark(WITHDRAWAL.format("cancelled"), 1.5, at_most=True)
WITHDRAWN = Mark(WITHDRAWAL.format("withdrawn"), 1.5, at_most=True)
LONE = Mark("lone caller, `max_queue_time=0`: latency, in bare futures' round trips", 4, 2.9, at_most=True)
WINDOW = Mark(
    "`max_queue_time=0.01`: leaving later than that, 99th percentile", 1.5, at_most=True, unit=" ms"
)
MEMORY = Mark("memory a waiting `submit`, beyond its item", 400, 260, at_most=True, unit=" bytes")

LARGE, SMALL = 20_000, 200
SECONDS = 0.01


def at_once(pairs: int) -> Found:
    """Have ten times as many callers come at once."""

    async def ours(callers: int) -> float:
        async with opened(max_queue_size=None) as batcher:
            return await _seconds_an_item(batcher.process, callers)

    async def floor(callers: int) -> float:
        return await _seconds_an_item(floor_call(50), callers)  # which divides both

    values, bare = [], []
    for number in range(-1, pairs):
        counts = (LARGE // 10, LARGE) if number % 2 else (LARGE, LARGE // 10)
        of_ours, of_floor = {}, {}
        for callers in counts:
            of_ours[callers] = _run(ours(callers))
            of_floor[callers] = _run(floor(callers))
        if number >= 0:
            values.append(of_ours[LARGE] / of_ours[LARGE // 10])
            bare.append(of_floor[LARGE] / of_floor[LARGE // 10])
    return Found(AT_ONCE, values, f"the floor itself: {statistics.median(bare):.2f}")


async def _seconds_an_item(call: Callable[[int], Awaitable[object]], callers: int) -> float:
    """Have so many callers come at once, as often as makes `LARGE` calls."""
    started = time.process_time()
    for _ in range(LARGE // callers):
        await asyncio.gather(*(call(number) for number in range(callers)))
    return (time.process_time() - started) / LARGE


def leaving(pairs: int) -> list[Found]:
    """Have half of those who wait leave, in a random order: many of many, and few of few as often."""
    found = []
    for mark, leave in ((CANCELLED, _cancel), (WITHDRAWN, _withdraw)):
        values, each = [], []
        for number in range(-1, pairs):
            counts = (SMALL, LARGE) if number % 2 else (LARGE, SMALL)
            seconds = {callers: _run(leave(callers)) for callers in counts}
            if number >= 0:
                values.append(seconds[LARGE] / seconds[SMALL])
                each.append(seconds[LARGE])
        found.append(Found(mark, values, f"{statistics.median(each) * 1e6:.2f} µs an item"))
    return found


async def _cancel(callers: int) -> float:
    seconds = 0.0
    for _ in range(LARGE // callers):
        async with _busy() as batcher:
            tasks = [asyncio.create_task(batcher.process(number)) for number in range(callers)]
            await asyncio.sleep(0)
            leavers = random.Random(0).sample(tasks, callers // 2)  # noqa: S311  (no secret)
            started = time.process_time()
            for task in leavers:
                task.cancel()
            await asyncio.wait(leavers)
            seconds += time.process_time() - started
            del leavers
        await asyncio.gather(*tasks, return_exceptions=True)
    return seconds / (LARGE // 2)


async def _withdraw(callers: int) -> float:
    seconds = 0.0
    for _ in range(LARGE // callers):
        async with _busy() as batcher:
            submissions = [await batcher.submit(number) for number in range(callers)]
            leavers = random.Random(0).sample(submissions, callers // 2)  # noqa: S311  (no secret)
            started = time.process_time()
            for submission in leavers:
                submission.withdraw()
            seconds += time.process_time() - started
    return seconds / (LARGE // 2)


@contextlib.asynccontextmanager
async def _busy() -> AsyncIterator[AsyncBatcher[int, int]]:
    """Give a batcher whose slot is taken inside the block."""
    begun, end = asyncio.Event(), asyncio.Event()

    async def hold(items: list[int]) -> list[int]:
        begun.set()
        await end.wait()
        return items

    async with AsyncBatcher[int, int].from_callable(hold, max_queue_size=None, max_queue_time=0) as batcher:
        first = asyncio.create_task(batcher.process(0))
        await begun.wait()
        yield batcher
        end.set()
        await first


def lone(pairs: int, rounds: int) -> Found:
    """Have one caller ask again and again, and a bare future go round as often."""

    async def ours() -> float:
        async with opened(max_queue_time=0) as batcher:
            started = time.process_time()
            for number in range(rounds):
                await batcher.process(number)
            return time.process_time() - started

    async def trip() -> float:
        loop = asyncio.get_running_loop()
        started = time.process_time()
        for _ in range(rounds):
            future = loop.create_future()
            loop.call_soon(future.set_result, None)
            await future
        return time.process_time() - started

    values, trips = [], []
    for number in range(-1, pairs):
        seconds = {side: _run(side()) for side in ((trip, ours) if number % 2 else (ours, trip))}
        if number >= 0:
            values.append(seconds[ours] / seconds[trip])
            trips.append(seconds[trip] / rounds)
    return Found(LONE, values, f"a round trip: {statistics.median(trips) * 1e6:.1f} µs")


def window(rounds: int) -> Found:
    """Have one caller wait out the window again and again, and a bare timer as often."""
    late: list[float] = []
    late_timers: list[float] = []

    async def leave(items: list[float]) -> list[float]:
        late.extend((time.perf_counter() - came - SECONDS) * 1e3 for came in items)
        return items

    async def ours() -> None:
        async with AsyncBatcher.from_callable(leave, max_queue_time=SECONDS) as batcher:
            for _ in range(rounds):
                await batcher.process(time.perf_counter())
                began = time.perf_counter()
                await asyncio.sleep(SECONDS)
                late_timers.append((time.perf_counter() - began - SECONDS) * 1e3)

    _run(ours())
    beside = f"a bare timer: {_percentile(late_timers, 99):.2f} ms"
    return Found(WINDOW, late, beside, _percentile(late, 99))


def memory(items: int) -> Found:
    """Trace what is allocated by submissions that wait, and that their callers hold."""

    async def ours() -> float:
        async with _busy() as batcher:
            given = list(range(items))
            held: list[object] = [None] * items
            gc.collect()
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            for number in range(items):
                held[number] = await batcher.submit(given[number])
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return (after - before) / items

    return Found(MEMORY, [_run(ours())], "the future included")


def _run(side: Any) -> Any:
    gc.collect()
    return asyncio.run(side)


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]
