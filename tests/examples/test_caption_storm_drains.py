"""SIGTERM or SIGINT at any moment under the lock ends the run in good order, and the next does the rest."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from caption_runs import COMMAND, ROOT, Place, place
from caption_storm import (
    SEED,
    Blow,
    Moment,
    Struck,
    Undisturbed,
    assert_ended,
    assert_whole,
    deliver,
    environment,
    left_over,
    strike,
    undisturbed_run,
    whole_run,
)

CHAINS = 10
ROUNDS = 5
ASSETS_A_ROUND = 12
BUDGET = 25
"""Seconds, as a run has them where it is not told otherwise; what it finishes takes a few hundredths of one."""
BLOWS = [Blow(number, group) for number in (signal.SIGTERM, signal.SIGINT) for group in (False, True)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_run(tmp_path_factory.mktemp("undisturbed"), ROUNDS * ASSETS_A_ROUND)


@pytest.mark.parametrize("first", range(0, CHAINS, 2))
def test_a_signal_at_any_moment_drains_and_the_next_run_does_the_rest(
    tmp_path: Path, undisturbed: Undisturbed, first: int
) -> None:
    """Two queues, each drained five times while more is delivered: every time 0, in time, and nothing left over."""
    with ThreadPoolExecutor(2) as both:
        folders = [tmp_path / str(number) for number in (first, first + 1)]
        cut = sum(both.map(lambda folder: _chain(folder, undisturbed), folders))
    assert cut, "some signals must come while there is work"


def _chain(folder: Path, undisturbed: Undisturbed) -> int:
    folder.mkdir()
    here = place(folder)
    dice = random.Random(f"drain {SEED} {folder.name}")  # noqa: S311 - moments, not secrets
    cut = 0
    for number in range(ROUNDS):
        deliver(here.queue, range(number * ASSETS_A_ROUND, (number + 1) * ASSETS_A_ROUND))
        moment, blow = _moment(dice, number, undisturbed), dice.choice(BLOWS)
        try:
            struck = strike(here, moment, blow, *_options(number))
            cut += _assert_drained(here, struck, blow, (number + 1) * ASSETS_A_ROUND)
        except AssertionError as error:
            error.add_note(f"seed {SEED}, chain {folder.name}, round {number}, {moment}, {blow}")
            raise
    last = whole_run(here, *_options(ROUNDS))
    assert (last.returncode, last.stdout) == (0, ""), last.stderr
    assert_whole(here, undisturbed.rows)
    return cut


def _assert_drained(here: Place, struck: Struck, blow: Blow, delivered: int) -> bool:
    """See that a run ended as a drain has to, and say whether it was cut.

    One that has said its summary is over: a blow by the clock may come as late as that, while Python ends.
    """
    last = struck.said.rpartition("\n")[0].rpartition("\n")[2]
    assert struck.code == 0 or (last.startswith("checked ") and struck.code == -blow.signal), struck.said
    assert struck.struck is None or struck.ended - struck.struck < BUDGET + 1, struck.said
    assert left_over(here) == []
    assert here.ask("SELECT state FROM assets WHERE state != 'done'") == []
    recorded = len(here.ask("SELECT 1 FROM records"))
    runs = "SELECT run_id, exit_code, drained FROM runs ORDER BY started_at DESC LIMIT 1"
    ((run_id, code, drained),) = here.ask(runs)
    assert code == 0
    assert recorded == delivered or drained, "it was cut, and does not say so"
    shown = json.loads((here.state / "dashboard.json").read_bytes())["run"]
    assert (shown["id"], shown["exit_code"], shown["drained"]) == (run_id, 0, bool(drained))
    return recorded != delivered


def _moment(dice: random.Random, number: int, undisturbed: Undisturbed) -> Moment:
    """Draw a moment under the lock: twice by the clock, while it checks, by a line, and by steps.

    One of the steps is before any check, whatever the machine does: there is work then.
    """
    match number:
        case 0 | 3:
            return Moment("lock", dice.uniform(0, min(undisturbed.seconds, 2) * 0.3))
        case 1:
            return Moment("line", dice.randint(1, ASSETS_A_ROUND))
        case 2:
            return Moment("step", dice.randint(1, undisturbed.steps // 4))
        case _:
            return Moment("step", dice.randint(1, undisturbed.steps))


def _options(number: int) -> tuple[str, ...]:
    """Put each round into a window of its own."""
    return "--at", f"2026-01-01T00:{5 * number:02d}Z", "--drain-timeout", f"{BUDGET}s"


def test_two_signals_end_it_at_once_and_lose_nothing(tmp_path: Path) -> None:
    """Both in the middle of the work: gone with its workers; the next run has it all."""
    here = place(tmp_path)
    here.fill(60)
    with here.held_run("--workers", "2") as (run, lines):
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGINT)
        assert run.wait() in {130, 143}, "which of two that wait comes first is the system's choice"
        assert b"drained" not in lines.read(), "ends when the last worker has closed it"
    assert len(here.statuses) < 60

    assert whole_run(here).returncode == 0
    assert set(here.statuses.values()) == {"pass"}
    assert len(here.statuses) == 60
    assert left_over(here) == []


def test_the_first_process_of_a_namespace_drains(tmp_path: Path) -> None:
    """As in a container, where it is PID 1 and the system has no default for its signals."""
    here = place(tmp_path)
    here.fill(40)
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespace can be made here: it takes root")
    marker = f"namespace {tmp_path}"
    with subprocess.Popen(
        [*namespace, *COMMAND, *here.arguments("--drain-timeout", f"{BUDGET}s")],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(marker),
    ) as outer:
        assert outer.stderr is not None
        assert outer.stderr.readline().startswith("pass")
        (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii").split()
        os.kill(int(inner), signal.SIGTERM)
        said = outer.stderr.read()
        assert outer.wait() == 0, said
    assert_ended(here, marker)
    assert left_over(here) == []
    assert here.ask("SELECT state FROM assets WHERE state != 'done'") == []

    assert whole_run(here).returncode == 0
    assert len(here.statuses) == 40
