"""All options at once, and whatever comes in whatever order, on every loop (contract, rules 1 to 5, 10 and 13)."""

import asyncio
from functools import partial
from typing import Any

import trio
import trio.testing
import uvloop
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from option_storms import OptionStorm, PoisonError, caused_by_an_item, key_of, weigh
from storms import run_on_asyncio
from virtual_time import run_virtual

Steps = list[tuple[str, int]]
Drawn = st.SearchStrategy[dict[str, Any]]

LIMITS: Drawn = st.fixed_dictionaries(
    {
        "max_batch_size": st.sampled_from([1, 2, 3, 5, None]),
        "max_queue_size": st.sampled_from([1, 2, 3, 6, None]),
        "max_queue_time": st.sampled_from([0, 0.5, 1]),
        "concurrency": st.sampled_from([1, 1, 2, None]),
        "split_on": st.sampled_from([(), PoisonError, (KeyError, PoisonError), caused_by_an_item]),
    }
)
WAITS: Drawn = st.one_of(
    st.just({"on_full": "reject"}),
    st.just({"on_full": "wait"}),
    st.just({"on_full": "wait", "enqueue_timeout": 0.5}),
)
ITEMS: Drawn = st.fixed_dictionaries(
    {},
    optional={
        "expires_after": st.sampled_from([0.5, 2]),
        "coalesce_key": st.just(key_of),
    },
)
WEIGHTS: Drawn = st.sampled_from(
    [
        {},
        {},
        {"weigh": weigh},
        {"weigh": weigh, "max_batch_weight": 4},
        {"weigh": weigh, "max_batch_weight": 7},
    ]
)


@st.composite
def some_options(draw: st.DrawFn) -> dict[str, Any]:
    return dict[str, Any]() | draw(LIMITS) | draw(WAITS) | draw(ITEMS) | draw(WEIGHTS)


# What comes often stands often.
ACTIONS = st.sampled_from(
    ["process"] * 6
    + ["submit"] * 4
    + ["many"] * 2
    + ["cancel"] * 3
    + ["cancel task"] * 3
    + ["end"] * 11
    + ["turn"] * 3
    + ["settle"] * 3
    + ["wait"] * 3
    + ["flush", "flush", "withdraw", "withdraw", "cancel a list"]
    + ["stop", "stop for a while", "force", "cancel a stop"]
)
STEPS = st.lists(st.tuples(ACTIONS, st.integers(0, 83)), min_size=40, max_size=90)
RUNS_FOR = st.sampled_from([0, 10, 20, 30])
STORMY = settings(
    max_examples=100,
    phases=[Phase.generate],  # a failure is shown as it was found; to shrink takes longer than a test may
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@STORMY
@given(some_options(), st.booleans(), RUNS_FOR, STEPS)
def test_no_storm_breaks_a_batcher_of_many_options_on_asyncio(
    options: dict[str, Any], poisonous: bool, runs_for: int, steps: Steps
) -> None:
    """Nobody is left waiting, nothing is lost or seen twice, no limit of any kind is passed, every count adds up."""
    run_virtual(partial(run_on_asyncio, OptionStorm(options, poisonous=poisonous, runs_for=runs_for), steps))


@STORMY
@given(some_options(), st.booleans(), RUNS_FOR, STEPS)
def test_no_storm_breaks_a_batcher_of_many_options_on_trio(
    options: dict[str, Any], poisonous: bool, runs_for: int, steps: Steps
) -> None:
    """The same on trio, whose scheduler shuffles what is ready."""
    storm = OptionStorm(options, poisonous=poisonous, runs_for=runs_for)
    trio.run(storm.run, steps, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(STORMY, max_examples=15)
@given(some_options(), st.booleans(), RUNS_FOR, STEPS)
def test_no_storm_breaks_a_batcher_of_many_options_on_uvloop(
    options: dict[str, Any], poisonous: bool, runs_for: int, steps: Steps
) -> None:
    """The same on uvloop, in real time of which a second is a thousandth."""
    storm = OptionStorm(options, poisonous=poisonous, runs_for=runs_for, unit=0.001, exact=False)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_on_asyncio(storm, steps))
