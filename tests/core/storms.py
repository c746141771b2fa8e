"""One batcher in a storm: what a random driver may do to it, and what must hold after every step.

The law: whatever comes in whatever order, no limit is passed, each accepted caller is in one place of the counts,
no item is seen twice, and at the end nobody is left waiting, no task is left, and each caller's outcome is true of
its item.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from scenes import Caller, Scene, assert_counts_add_up, assert_nothing_left, enter_scene
from virtual_time import settle

from async_batcher import (
    AsyncBatcher,
    BatcherGroups,
    BatcherStats,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemWithdrawn,
    QueueFull,
    ResultMismatch,
    Submission,
)

OUTCOMES: dict[str, Callable[[Sequence[int]], Any]] = {
    "results": lambda batch: [item * 10 for item in batch],
    "none": lambda batch: None,
    "too few": lambda batch: [0] * (len(batch) - 1),
    "errors within": lambda batch: [LookupError(item) if item % 2 else item * 10 for item in batch],
}
"""What a batch may come to besides an error that it raises."""


class StormError(Exception):
    """What a processor raises in a storm."""


class GatedProcessor:
    """Each batch waits for its outcome, which the driver names."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.running: dict[int, anyio.Event] = {}
        self.outcomes: dict[int, str] = {}
        self.calm = False

    def end(self, choice: int, outcome: str) -> None:
        """Let one of the running batches end so."""
        held = [number for number in self.running if number not in self.outcomes]
        if held:
            number = held[choice % len(held)]
            self.outcomes[number] = outcome
            self.running[number].set()

    def let_all_through(self) -> None:
        self.calm = True
        for gate in self.running.values():
            gate.set()

    async def __call__(self, batch: list[int]) -> Any:
        outcome = await self.wait_for_outcome(batch)
        if outcome == "raises":
            raise StormError(len(self.batches))
        return OUTCOMES[outcome](batch)

    async def wait_for_outcome(self, batch: list[int]) -> str:
        """Note a call, and wait until the driver has said how it ends."""
        number = len(self.batches)
        self.batches.append(list(batch))
        self.running[number] = anyio.Event()
        try:
            if not self.calm:
                await self.running[number].wait()
        finally:
            del self.running[number]
        return self.outcomes.get(number, "results")


@dataclass
class Call:
    """One item, and how it was sent."""

    item: int
    caller: Caller
    submission: Submission[int] | None = None
    by_submit: bool = False
    withdrawn: bool = False

    def withdraw(self) -> None:
        """Withdraw it; once that was true it must stay so."""
        assert self.submission is not None
        self.withdrawn |= self.submission.withdraw()


@dataclass
class Storm:
    """The world that the driver acts on."""

    options: dict[str, Any]
    fn: GatedProcessor = field(default_factory=GatedProcessor)
    calls: list[Call] = field(default_factory=list)
    stops: list[Caller] = field(default_factory=list)
    keys: int = 1
    slots: float = math.inf
    unit: float = 1
    """What a second of its waits takes."""
    runs_for: int = 0
    """Calls before which nothing is stopped, or most of a storm would be refusals."""
    scene: Scene[Any] = field(init=False)

    async def run(self, steps: Sequence[tuple[str, int]]) -> None:
        """Take all steps, then let everything through, and check what came of it."""
        batcher = self.build()
        async with enter_scene(batcher) as self.scene:
            try:
                for action, choice in steps:
                    await self.act(action, choice)
                    self.check()
            finally:
                self.fn.let_all_through()
            await self.calm_down()
            self.check()
            assert not [call.item for call in self.calls if call.caller.waits]
        assert not any(stop.waits for stop in self.stops)
        assert_nothing_left(batcher.stats())
        self.check_outcomes()

    async def calm_down(self) -> None:
        """Wait until all must have their outcome, and no longer."""
        await settle()
        await anyio.sleep(100)

    def build(self) -> Any:
        """Build what the storm goes over."""
        return AsyncBatcher.from_callable(self.fn, **self.options)

    async def act(self, action: str, choice: int) -> None:
        """Take one step; the steps between two of "turn", "settle" and "wait" fall into one tick."""
        match action:
            case "turn":
                await anyio.lowlevel.checkpoint()
            case "settle":
                await settle()
            case "wait":
                await anyio.sleep((0.25, 0.5, 1, 3)[choice % 4] * self.unit)
            case "stop" | "stop for a while" | "force" | "cancel a stop":
                if len(self.calls) >= self.runs_for:
                    self.act_on_stops(action, choice)
            case _:
                self.act_on_calls(action, choice)

    def act_on_calls(self, action: str, choice: int) -> None:
        """Send, cancel or withdraw an item, or end a batch."""
        match action:
            case "process":
                item = len(self.calls)
                self.calls.append(Call(item, self.scene.start_process(item)))
            case "submit":
                self.start_submit()
            case "cancel" if self.calls:
                self.calls[choice % len(self.calls)].caller.cancel()
            case "cancel task" if self.calls:
                self.calls[choice % len(self.calls)].caller.cancel_task()
            case "withdraw" if held := [call for call in self.calls if call.submission is not None]:
                held[choice % len(held)].withdraw()
            case "end":
                self.fn.end(choice, ("results", "raises", *OUTCOMES)[choice % 6])

    def act_on_stops(self, action: str, choice: int) -> None:
        """Stop in one of the ways, or cancel one who does."""
        stop = self.scene.batcher.stop
        match action:
            case "stop":
                self.stops.append(self.scene.start(stop))
            case "stop for a while":
                self.stops.append(self.scene.start(lambda: stop(timeout=0.5)))
            case "force":
                self.stops.append(self.scene.start(lambda: stop(force=True)))
            case "cancel a stop" if self.stops:
                self.stops[choice % len(self.stops)].cancel()

    def start_submit(self) -> None:
        """Submit and then await, in one task, so that its cancellation may hit either."""

        async def submit_and_await() -> int:
            call.submission = await self.scene.batcher.submit(call.item)
            return await call.submission

        call = Call(len(self.calls), self.scene.start(submit_and_await), by_submit=True)
        self.calls.append(call)

    def check(self) -> None:
        """What holds at every step."""
        stats = self.scene.batcher.stats()
        assert stats.waiting <= self.keys * (self.options["max_queue_size"] or math.inf)
        self.check_limits(stats)
        seen = [item for batch in self.fn.batches for item in batch]
        assert len(seen) == len(set(seen)), "an item was seen twice"

    def check_limits(self, stats: BatcherStats) -> None:
        assert_counts_add_up(stats)
        assert len(self.fn.running) <= min(self.slots, self.keys * (self.options["concurrency"] or math.inf))
        assert all(len(batch) <= (self.options["max_batch_size"] or math.inf) for batch in self.fn.batches)
        assert [] not in self.fn.batches, "an empty batch"

    def check_outcomes(self) -> None:
        """What each caller was told is true of its item."""
        seen = {item for batch in self.fn.batches for item in batch}
        for call in self.calls:
            if call.withdrawn:
                assert call.item not in seen
                assert call.caller.was_cancelled or tells_withdrawn(call.caller.error)
            elif call.by_submit and call.submission is None:
                assert call.item not in seen, "a submit that never returned was accepted"
            elif not call.caller.was_cancelled:
                self.check_outcome(call.caller, call.item, was_seen=call.item in seen)

    def check_outcome(self, caller: Caller, item: int, *, was_seen: bool) -> None:
        match caller.error:
            case None:
                assert was_seen
                assert caller.result in (item * 10, None)
            case BatcherStopped(withdrawn=withdrawn):
                assert self.stops
                assert withdrawn is not was_seen
            case QueueFull() | EnqueueTimeout():
                assert not was_seen
            case error:
                assert isinstance(error, StormError | LookupError | ResultMismatch)
                assert was_seen


def tells_withdrawn(error: BaseException | None) -> bool:
    """Say whether an error says that the processor never got the item."""
    match error:
        case BatcherStopped(withdrawn=withdrawn):
            return withdrawn
        case _:
            return isinstance(error, ItemWithdrawn | ItemExpired)


@dataclass
class GroupStorm(Storm):
    """The same over keyed batchers that share the backend's slots."""

    keys: int = 2
    slots: float = 1

    def build(self) -> Any:
        """Build groups of two keys, and the semaphore that they share."""

        async def serve(key: int, items: list[int]) -> Any:
            assert {item % 2 for item in items} == {key}, "a batch mixes keys"
            return await self.fn(items)

        self.semaphore = anyio.Semaphore(int(self.slots))
        return BatcherGroups(
            serve,
            group_key=lambda item: item % 2,
            max_groups=2,
            backend_slots=self.semaphore,
            **self.options,
        )

    def check_outcomes(self) -> None:
        """Besides, every slot has been given back."""
        super().check_outcomes()
        assert self.semaphore.value == self.slots


async def run_on_asyncio(storm: Storm, steps: Sequence[tuple[str, int]]) -> None:
    """Run a storm on asyncio: besides, no task is left and the loop has no complaint."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    await storm.run(steps)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert complaints == []
