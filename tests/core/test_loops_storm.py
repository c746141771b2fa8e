"""One batcher, or groups, over loops that are closed in the middle of things (contract, rule 6).

Whatever was going on there is counted once, also where its coroutines are thrown away only when the next loop is in
use; and on the next loop it works as if new.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scenes import assert_counts_add_up, assert_nothing_left
from virtual_time import VirtualEventLoop

from async_batcher import AsyncBatcher, BatcherError, BatcherGroups, Submission

ACTIONS = st.sampled_from(
    ["process"] * 5
    + ["submit"] * 3
    + ["many"] * 2
    + ["turn"] * 4
    + ["wait"] * 3
    + ["cancel"] * 4
    + ["drop", "drop", "flush", "close the loop", "close the loop"]
)
OPTIONS = st.fixed_dictionaries(
    {
        "max_batch_size": st.sampled_from([1, 2, 3]),
        "max_queue_size": st.sampled_from([2, 5, None]),
        "max_queue_time": st.sampled_from([0, 0.5]),
        "concurrency": st.sampled_from([1, 2, None]),
        "on_full": st.sampled_from(["reject", "wait"]),
    },
    optional={"coalesce_key": st.just(lambda item: item % 3 or None), "expires_after": st.just(1.5)},
)
STORMY = settings(
    max_examples=50,
    phases=[Phase.generate],  # a failure is shown as it was found; to shrink takes longer than a test may
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # its task never had a turn


@pytest.fixture(autouse=True, scope="module")
def _collect_only_when_dropped() -> Iterator[None]:
    """Let what is dropped go at that step in every run, and at no other."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def serve(batch: list[int]) -> list[int]:
    await asyncio.sleep((0, 0.25, 1, 60)[batch[0] % 4])
    return [item * 10 for item in batch]


async def serve_group(_key: int, batch: list[int]) -> list[int]:
    return await serve(batch)


class ClosedLoops:
    """What may happen on one loop after the other. Callers are kept until they are dropped."""

    def __init__(self, batcher: Any) -> None:
        self.batcher = batcher
        self.callers: list[asyncio.Task[Any]] = []
        self.sent = 0
        self.faults: list[Exception] = []
        self.open_loop()

    def run(self, steps: list[tuple[str, int]]) -> None:
        try:
            for action, choice in steps:
                self.act(action, choice)
            self.end()
        finally:
            self.loop.close()

    def open_loop(self) -> None:
        self.loop = VirtualEventLoop()
        self.loop.set_exception_handler(
            lambda _loop, _context: None
        )  # "Task was destroyed but it is pending"

    @property
    def here(self) -> list[asyncio.Task[Any]]:
        """Those on the loop that is open."""
        return [caller for caller in self.callers if caller.get_loop() is self.loop and not caller.done()]

    def close_loop(self, choice: int = 0) -> None:
        """Close it as it stands; some callers are cancelled too late to have their turn."""

        def last_turn() -> None:
            for caller in self.here[choice % 4 :: 2]:
                caller.cancel()
            self.loop.stop()

        self.loop.call_soon(last_turn)
        self.loop.run_forever()
        self.loop.close()

    def act(self, action: str, choice: int) -> None:
        """Take one step, then count."""
        match action:
            case "process" | "submit" | "many":
                self.send(getattr(self, action))
            case "turn":
                self.loop.run_until_complete(asyncio.sleep(0))
            case "wait":
                self.loop.run_until_complete(asyncio.sleep((0.25, 0.5, 1, 3)[choice % 4]))
            case "cancel" if here := self.here:
                here[choice % len(here)].cancel()
            case "drop" if self.callers:
                del self.callers[choice % len(self.callers)]
                gc.collect(1)
            case "flush" if isinstance(self.batcher, AsyncBatcher):
                self.loop.call_soon(self.batcher.flush)
            case "close the loop":
                self.close_loop(choice)
                self.open_loop()
        assert_counts_add_up(self.batcher.stats())

    def send(self, call: Callable[[int], Awaitable[Any]]) -> None:
        self.sent += 1

        async def run(item: int) -> None:
            try:
                await call(item)
            except BatcherError:
                pass
            except Exception as fault:  # noqa: BLE001  (shown at the end)
                self.faults.append(fault)

        self.callers.append(self.loop.create_task(run(self.sent)))

    async def process(self, item: int) -> None:
        assert await self.batcher.process(item) is not None

    async def submit(self, item: int) -> None:
        submission: Submission[int] = await self.batcher.submit(item)
        assert await submission is not None

    async def many(self, item: int) -> None:
        if isinstance(self.batcher, AsyncBatcher):
            await self.batcher.process_many([item] * 5, return_exceptions=True)

    def end(self) -> None:
        """Close the last loop, and see that one more serves, before and after all else is thrown away."""
        self.close_loop()
        self.open_loop()
        assert self.loop.run_until_complete(self.batcher.process(8)) == 80
        self.callers.clear()
        gc.collect(1)
        assert self.loop.run_until_complete(self.batcher.process(12)) == 120
        self.loop.run_until_complete(self.batcher.stop())
        assert_nothing_left(self.batcher.stats())
        assert self.faults == [], self.faults


@STORMY
@given(OPTIONS, st.lists(st.tuples(ACTIONS, st.integers(0, 11)), min_size=25, max_size=70))
def test_batcher_outlives_loops_that_are_closed_in_the_middle(
    options: dict[str, Any], steps: list[tuple[str, int]]
) -> None:
    """Every caller is in one count, once, at every step; and the next loop is served."""
    ClosedLoops(AsyncBatcher.from_callable(serve, **options)).run(steps)


@STORMY
@given(OPTIONS, st.lists(st.tuples(ACTIONS, st.integers(0, 11)), min_size=25, max_size=70))
def test_groups_outlive_loops_that_are_closed_in_the_middle(
    options: dict[str, Any], steps: list[tuple[str, int]]
) -> None:
    """The same of groups, each of which makes room on the next loop."""
    groups: BatcherGroups[int, int, int] = BatcherGroups(
        serve_group, group_key=lambda item: item % 3, max_groups=3, **options
    )
    ClosedLoops(groups).run(steps)
