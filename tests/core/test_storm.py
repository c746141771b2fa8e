"""Submit, process, cancel, withdraw, time, outcomes and stops in any order, on both loops (contract, rule 13)."""

from functools import partial
from typing import Any

import trio
import trio.testing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from storms import GroupStorm, Storm, run_on_asyncio
from virtual_time import run_virtual

OPTIONS = st.fixed_dictionaries(
    {
        "max_batch_size": st.sampled_from([1, 2, 3, None]),
        "max_queue_size": st.sampled_from([1, 2, 3, None]),
        "max_queue_time": st.sampled_from([0, 0.5, 1]),
        "concurrency": st.sampled_from([1, 2, None]),
        "on_full": st.sampled_from(["reject", "wait"]),
    }
)
# What comes often stands often: stops are rare, else most of a storm would be refusals.
ACTIONS = st.sampled_from(
    ["process"] * 6
    + ["submit"] * 4
    + ["cancel"] * 3
    + ["cancel task"] * 3
    + ["end"] * 5
    + ["turn"] * 3
    + ["settle"] * 3
    + ["wait"] * 3
    + ["withdraw", "stop", "stop for a while", "force", "cancel a stop"]
)
STEPS = st.lists(st.tuples(ACTIONS, st.integers(0, 11)), max_size=60)
STORMY = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def with_timeout(options: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    return options | ({"enqueue_timeout": timeout} if options["on_full"] == "wait" else {})


TIMEOUTS = st.sampled_from([None, 0.5])


@STORMY
@given(OPTIONS, TIMEOUTS, STEPS)
@example(
    {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "concurrency": 1, "on_full": "wait"},
    0.5,
    [("process", 0)] * 3 + [("settle", 0), ("end", 0), ("cancel", 1), ("wait", 1), ("force", 0)],
)
def test_no_storm_breaks_a_batcher_on_asyncio(
    options: dict[str, Any], timeout: float | None, steps: list[tuple[str, int]]
) -> None:
    """A1 to A7, B2, B6, B7, I5: nobody is left waiting, nothing is seen twice or lost, limits and counts hold."""
    storm = Storm(with_timeout(options, timeout))
    run_virtual(partial(run_on_asyncio, storm, steps))


@STORMY
@given(OPTIONS, TIMEOUTS, STEPS)
def test_no_storm_breaks_a_batcher_on_trio(
    options: dict[str, Any], timeout: float | None, steps: list[tuple[str, int]]
) -> None:
    """The same on trio, whose scheduler shuffles what is ready."""
    storm = Storm(with_timeout(options, timeout))
    trio.run(storm.run, steps, clock=trio.testing.MockClock(autojump_threshold=0))


@STORMY
@given(OPTIONS, STEPS)
def test_no_storm_breaks_groups_on_asyncio(options: dict[str, Any], steps: list[tuple[str, int]]) -> None:
    """M3, M6, D4: two keys behind one slot of the backend: as for one batcher, and the slot comes back."""
    run_virtual(partial(run_on_asyncio, GroupStorm(options), steps))


@STORMY
@given(OPTIONS, STEPS)
def test_no_storm_breaks_groups_on_trio(options: dict[str, Any], steps: list[tuple[str, int]]) -> None:
    """The same on trio."""
    trio.run(GroupStorm(options).run, steps, clock=trio.testing.MockClock(autojump_threshold=0))
