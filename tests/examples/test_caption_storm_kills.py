"""SIGKILL at any moment loses nothing, doubles nothing and leaves nothing behind."""

from __future__ import annotations

import random
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from caption_runs import Place, place
from caption_storm import (
    SEED,
    Blow,
    Moment,
    Undisturbed,
    assert_whole,
    deliver,
    strike,
    undisturbed_run,
    whole_run,
)

if TYPE_CHECKING:
    from pathlib import Path

CHAINS = 10
ROUNDS = 5
ASSETS_A_ROUND = 12
KILL = Blow(signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"), ROUNDS * ASSETS_A_ROUND)


@pytest.mark.parametrize("first", range(0, CHAINS, 2))
def test_sigkill_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, undisturbed: Undisturbed, first: int
) -> None:
    """Two queues, each struck five times while more is delivered; then a run to the end has it all, once."""
    with ThreadPoolExecutor(2) as both:
        folders = [tmp_path / str(number) for number in (first, first + 1)]
        killed = sum(both.map(lambda folder: _chain(folder, undisturbed), folders))
    assert killed >= ROUNDS, "most kills must hit a run that still works"


def _chain(folder: Path, undisturbed: Undisturbed) -> int:
    folder.mkdir()
    here = place(folder)
    dice = random.Random(f"{SEED} {folder.name}")  # noqa: S311 - moments, not secrets
    killed = 0
    for number in range(ROUNDS):
        deliver(here.queue, range(number * ASSETS_A_ROUND, (number + 1) * ASSETS_A_ROUND))
        moment = _moment(dice, number, undisturbed)
        try:
            struck = strike(here, moment, KILL, *_window(number))
        except AssertionError as error:
            error.add_note(f"seed {SEED}, chain {folder.name}, round {number}, {moment}")
            raise
        assert struck.code in {0, -signal.SIGKILL}, struck.said
        killed += struck.code == -signal.SIGKILL
    _run_to_the_end(here, undisturbed, f"seed {SEED}, chain {folder.name}")
    return killed


def _run_to_the_end(here: Place, undisturbed: Undisturbed, where: str) -> None:
    last = whole_run(here, *_window(ROUNDS))
    assert (last.returncode, last.stdout) == (0, ""), f"{where}: {last.stderr}"
    try:
        assert_whole(here, undisturbed.rows)
        assert here.ask("SELECT DISTINCT attempt FROM records") == [(1,)], "a run's death is no asset's"
    except AssertionError as error:
        error.add_note(where)
        raise


def _moment(dice: random.Random, number: int, undisturbed: Undisturbed) -> Moment:
    """Draw a moment: in the start, while it checks, at any step, and twice among the projections' steps."""
    match number:
        case 0:
            return Moment("start", dice.uniform(0, min(undisturbed.seconds, 2) * 0.8))
        case 1:
            return Moment("line", dice.randint(1, ASSETS_A_ROUND))
        case 2:
            return Moment("step", dice.randint(1, undisturbed.steps))
        case _:
            return Moment("step", dice.randint(undisturbed.steps - LAST_STEPS, undisturbed.steps))


LAST_STEPS = 30


def _window(number: int) -> tuple[str, str]:
    """Put each round into a window of its own."""
    return "--at", f"2026-01-01T00:{5 * number:02d}Z"


def test_a_redo_that_is_killed_is_done_by_the_next(tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Killed at four steps of a redo: every record is still there, once, and as it was."""
    here = place(tmp_path)
    deliver(here.queue, range(ROUNDS * ASSETS_A_ROUND))
    assert whole_run(here, *_window(0)).returncode == 0
    dice = random.Random(f"redo {SEED}")  # noqa: S311 - moments, not secrets
    redo = ("--redo", "2026-01-01T00:00Z")
    for _ in range(4):
        assert strike(here, Moment("step", dice.randint(5, 25)), KILL, *redo).code in {0, -signal.SIGKILL}

    last = whole_run(here, *redo)

    assert last.returncode == 0, last.stderr
    assert_whole(here, undisturbed.rows)
