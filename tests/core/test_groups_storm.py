"""Groups that come and go in a storm: more keys than room, one limit over all, and time that passes (M1, M3, M6)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed import alive
from scenes import Caller
from storms import Storm, run_on_asyncio
from virtual_time import run_virtual

from async_batcher import BatcherGroups, TooManyGroups

LIMITS = st.fixed_dictionaries(
    {
        "max_groups": st.sampled_from([1, 2, 3]),
        "max_pending": st.sampled_from([1, 2, 4, None]),
        "idle_timeout": st.sampled_from([0.5, 2, None]),
    }
)
OPTIONS = st.fixed_dictionaries(
    {
        "max_batch_size": st.sampled_from([1, 2, None]),
        "max_queue_size": st.sampled_from([1, 3, None]),
        "max_queue_time": st.sampled_from([0, 0.5]),
        "concurrency": st.just(1),
        "on_full": st.sampled_from(["reject", "wait"]),
    }
)
ACTIONS = st.sampled_from(
    ["process"] * 6
    + ["submit"] * 4
    + ["cancel"] * 3
    + ["cancel task"] * 2
    + ["withdraw"] * 2
    + ["end"] * 6
    + ["turn"] * 3
    + ["settle"] * 3
    + ["wait"] * 3
    + ["stop", "stop for a while", "force"]
)
STEPS = st.lists(st.tuples(ACTIONS, st.integers(0, 11)), min_size=25, max_size=60)
SLOTS = st.sampled_from([1, 2, None])
STORMY = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
KEYS = 5


@dataclass
class RoomStorm(Storm):
    """A storm over more keys than there is room for."""

    limits: dict[str, Any] = field(default_factory=dict)
    shared: int | None = None
    working: Counter[int] = field(default_factory=Counter)

    def build(self) -> Any:
        """Build groups of five keys, with their limits and perhaps with slots that they share."""
        self.keys = KEYS
        self.semaphore = None if self.shared is None else anyio.Semaphore(self.shared)
        self.slots = self.shared or KEYS

        async def serve(key: int, items: list[int]) -> Any:
            assert {item % KEYS for item in items} == {key}, "a batch mixes keys"
            self.working[key] += 1
            assert self.working[key] == 1, "two batchers of a key are at work"
            try:
                return await self.fn(items)
            finally:
                self.working[key] -= 1

        return BatcherGroups(
            serve,
            group_key=lambda item: item % KEYS,
            backend_slots=self.semaphore,
            **self.limits,
            **self.options,
        )

    def check(self) -> None:
        """Besides: no limit over all is passed, and each batch that runs has a group that is alive."""
        super().check()
        groups = self.scene.batcher
        assert len(alive(groups)) <= self.limits["max_groups"]
        assert groups.stats().waiting <= (self.limits["max_pending"] or KEYS * 100)
        assert {key for key, at_work in self.working.items() if at_work} <= set(alive(groups))
        rests = groups._roster.rest_began is not None and not groups._is_closed
        assert (groups._timer is not None) is (rests and self.limits["idle_timeout"] is not None), "one timer"

    def check_outcome(self, caller: Caller, item: int, *, was_seen: bool) -> None:
        """Besides: who was refused for want of a group was never seen."""
        if isinstance(caller.error, TooManyGroups):
            assert not was_seen
        else:
            super().check_outcome(caller, item, was_seen=was_seen)

    def check_outcomes(self) -> None:
        """Besides: every slot has been given back, and each call is counted once."""
        super().check_outcomes()
        assert self.semaphore is None or self.semaphore.value == self.shared
        stats = self.scene.batcher.stats()
        seen = {item for batch in self.fn.batches for item in batch}
        assert stats.succeeded + stats.failed + stats.abandoned + stats.stopped >= len(seen) - stats.withdrawn
        assert stats.batches == len(self.fn.batches)
        assert stats.accepted + stats.rejected <= len(self.calls)


Steps = Sequence[tuple[str, int]]


@STORMY
@given(OPTIONS, LIMITS, SLOTS, STEPS)
def test_no_storm_breaks_groups_that_come_and_go_on_asyncio(
    options: dict[str, Any], limits: dict[str, Any], slots: int | None, steps: Steps
) -> None:
    """No limit is passed, no key has two batchers at work, nothing is lost or seen twice, every count adds up."""
    run_virtual(partial(run_on_asyncio, RoomStorm(options, limits=limits, shared=slots), steps))


@STORMY
@given(OPTIONS, LIMITS, SLOTS, STEPS)
def test_no_storm_breaks_groups_that_come_and_go_on_trio(
    options: dict[str, Any], limits: dict[str, Any], slots: int | None, steps: Steps
) -> None:
    """The same on trio, whose scheduler shuffles what is ready."""
    storm = RoomStorm(options, limits=limits, shared=slots)
    trio.run(storm.run, steps, clock=trio.testing.MockClock(autojump_threshold=0))
