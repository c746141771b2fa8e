"""Submit, process, cancel, withdraw, time, outcomes and stops in any order, on both loops (contract, rule 13)."""

from functools import partial
from typing import Any

import trio
import trio.testing
from hypothesis import HealthCheck, Phase, example, given, settings
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
# What comes often stands often.
ACTIONS = st.sampled_from(
    ["process"] * 6
    + ["submit"] * 4
    + ["cancel"] * 3
    + ["cancel task"] * 3
    + ["end"] * 5
    + ["turn"] * 3
    + ["settle"] * 3
    + ["wait"] * 3
    + ["withdraw", "withdraw", "stop", "stop for a while", "force", "cancel a stop"]
)
STEPS = st.lists(
    st.tuples(ACTIONS, st.integers(0, 11)), min_size=25, max_size=75
)  # without a least, five on average
RUNS_FOR = st.sampled_from([0, 10, 20])
STORMY = settings(
    max_examples=75,
    phases=[Phase.explicit, Phase.generate],  # as it was found: to shrink takes longer than a test may
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def with_timeout(options: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    return options | ({"enqueue_timeout": timeout} if options["on_full"] == "wait" else {})


TIMEOUTS = st.sampled_from([None, 0.5])


@STORMY
@given(OPTIONS, TIMEOUTS, RUNS_FOR, STEPS)
@example(
    {"max_batch_size": 1, "max_queue_size": 1, "max_queue_time": 0, "concurrency": 1, "on_full": "wait"},
    0.5,
    0,
    [("process", 0)] * 3 + [("settle", 0), ("end", 0), ("cancel", 1), ("wait", 1), ("force", 0)],
)
def test_no_storm_breaks_a_batcher_on_asyncio(
    options: dict[str, Any], timeout: float | None, runs_for: int, steps: list[tuple[str, int]]
) -> None:
    """A1 to A7, B2, B6, B7, I5: nobody is left waiting, nothing is seen twice or lost, limits and counts hold."""
    storm = Storm(with_timeout(options, timeout), runs_for=runs_for)
    run_virtual(partial(run_on_asyncio, storm, steps))


@STORMY
@given(OPTIONS, TIMEOUTS, RUNS_FOR, STEPS)
def test_no_storm_breaks_a_batcher_on_trio(
    options: dict[str, Any], timeout: float | None, runs_for: int, steps: list[tuple[str, int]]
) -> None:
    """The same on trio, whose scheduler shuffles what is ready."""
    storm = Storm(with_timeout(options, timeout), runs_for=runs_for)
    trio.run(storm.run, steps, clock=trio.testing.MockClock(autojump_threshold=0))


@STORMY
@given(OPTIONS, RUNS_FOR, STEPS)
def test_no_storm_breaks_groups_on_asyncio(
    options: dict[str, Any], runs_for: int, steps: list[tuple[str, int]]
) -> None:
    """M3, M6, D4: two keys behind one slot of the backend: as for one batcher, and the slot comes back."""
    run_virtual(partial(run_on_asyncio, GroupStorm(options, runs_for=runs_for), steps))


@STORMY
@given(OPTIONS, RUNS_FOR, STEPS)
def test_no_storm_breaks_groups_on_trio(
    options: dict[str, Any], runs_for: int, steps: list[tuple[str, int]]
) -> None:
    """The same on trio."""
    trio.run(
        GroupStorm(options, runs_for=runs_for).run, steps, clock=trio.testing.MockClock(autojump_threshold=0)
    )
