"""The simulator of limits: it says what the batcher does."""

import asyncio
import json
import math
import os
from pathlib import Path

import pytest
from programs import run_python

from async_batcher import AsyncBatcher, BatcherError
from async_batcher._options import Options
from async_batcher._simulation import Call, Cost, Load, Ran, Replica, Summary, run, summarize
from async_batcher.simulate import MOST_CALLS, USAGE, main
from async_batcher.testing import run_virtual

SETTINGS = {
    "a window below capacity": (
        Load(rate=40, seconds=30),
        Cost(per_batch=0.02, per_item=0.001),
        Options(max_queue_time=0.05),
    ),
    "nearly busy, two slots": (
        Load(rate=900, seconds=10, pattern="bursts", burst=10),
        Cost(per_batch=0.03, per_item=0.0005),
        Options(max_batch_size=24, concurrency=2),
    ),
    "overrun": (
        Load(rate=800, seconds=10),
        Cost(per_batch=0.05),
        Options(max_batch_size=16, max_queue_size=64, expires_after=0.15),
    ),
}


def served_for_real(load: Load, cost: Cost, options: Options) -> Replica:
    """Let the same callers come to a real batcher, in virtual time."""
    seen = Replica(options, cost)

    async def main() -> None:
        now = asyncio.get_running_loop().time
        start = now()

        async def process(batch: list[Call]) -> list[float]:
            began = now() - start
            for call in batch:
                call.began = began
            await asyncio.sleep(cost.per_batch + cost.per_item * len(batch))
            seen.batches.append(Ran(began, now() - start, len(batch)))
            return [now() - start] * len(batch)

        async def come(call: Call) -> None:
            try:
                call.set_result(await batcher.process(call))
            except BatcherError as error:
                call.error = error

        batcher = AsyncBatcher.from_callable(
            process,
            max_batch_size=options.max_batch_size,
            max_queue_size=options.max_queue_size,
            max_queue_time=options.max_queue_time,
            concurrency=options.concurrency,
            expires_after=options.expires_after,
        )
        async with asyncio.TaskGroup() as callers:
            for at, _ in load.arrivals():
                await asyncio.sleep(start + at - now())
                seen.calls.append(Call(at))
                callers.create_task(come(seen.calls[-1]))

    run_virtual(main)
    return seen


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_simulated_batcher_does_what_a_real_one_does(setting: str) -> None:
    """Throughput, batches, waits and refusals are within a tenth of those of the real runner."""
    load, cost, options = SETTINGS[setting]
    simulated = summarize(load, run(load, cost, options), options)
    real = summarize(load, [served_for_real(load, cost, options)], options)
    for figure in ("offered", "served", "refused", "expired", "batch_size", "busy"):
        assert getattr(simulated, figure) == pytest.approx(getattr(real, figure), rel=0.1, abs=0.005), figure
    assert simulated.waits == pytest.approx(real.waits, rel=0.1, abs=0.0005)
    assert simulated.answers == pytest.approx(real.answers, rel=0.1)


def summary_of(load: Load, cost: Cost, options: Options) -> Summary:
    return summarize(load, run(load, cost, options), options)


def test_a_clock_of_callers_gives_what_can_be_reckoned_by_hand() -> None:
    """Every 10 ms an item, a window of 25 ms, batches of 1 ms: three in each, and the first waits longest."""
    found = summary_of(
        Load(rate=100, pattern="even", seconds=100), Cost(per_batch=0.001), Options(max_queue_time=0.025)
    )
    assert found.batch_size == pytest.approx(3)
    assert found.waits == pytest.approx((0.015, 0.025, 0.025))
    assert found.answers == pytest.approx((0.016, 0.026, 0.026))
    assert found.busy == pytest.approx(0.001 / 0.03, rel=0.01)
    assert (found.refused, found.expired) == (0, 0)
    assert found.served == pytest.approx(100, rel=0.01)


def test_an_overrun_backend_serves_its_capacity_and_refuses_the_rest() -> None:
    """At twice what full batches can do, half is served, and the queue is as long as its limit."""
    found = summary_of(Load(rate=2000, seconds=20), Cost(per_batch=0.064), Options(max_queue_size=128))
    assert found.served == pytest.approx(1000, rel=0.02)
    assert found.refused == pytest.approx(0.5, rel=0.03)
    assert found.waits[1] == pytest.approx(0.128, rel=0.02)


def test_who_waits_in_line_loses_patience() -> None:
    """With `on_full="wait"` and a timeout callers stand in line before they are refused."""
    options = Options(max_queue_size=64, on_full="wait", enqueue_timeout=0.03)
    found = summary_of(Load(rate=2000, seconds=10), Cost(per_batch=0.064), options)
    assert found.served == pytest.approx(1000, rel=0.03)
    assert found.refused == pytest.approx(0.5, rel=0.05)
    assert 0.064 < found.waits[2] < 0.03 + 0.128


def test_replicas_share_a_load_and_batch_less() -> None:
    """Four batchers get a quarter each, so that a batch finds less company."""
    cost, options = Cost(per_batch=0.02), Options()
    one = summary_of(Load(rate=800, seconds=20), cost, options)
    four = summary_of(Load(rate=800, seconds=20, replicas=4), cost, options)
    assert four.offered == pytest.approx(one.offered, rel=0.05)
    assert four.batch_size < one.batch_size / 3


def test_the_same_seed_is_the_same_load() -> None:
    """Nothing but the seed decides who comes when."""
    assert list(Load(rate=50).arrivals()) == list(Load(rate=50).arrivals())
    assert list(Load(rate=50).arrivals()) != list(Load(rate=50, seed=1).arrivals())


def test_nobody_who_came_is_without_an_outcome() -> None:
    """A load is simulated until its last caller has a result or an error."""
    load = Load(rate=1000, seconds=5, pattern="bursts", replicas=3)
    replicas = run(load, Cost(per_batch=0.1, per_item=0.01), Options(max_queue_size=None, expires_after=1.0))
    calls = [call for replica in replicas for call in replica.calls]
    assert len(calls) == len(list(load.arrivals()))
    assert all(call.done() for call in calls)


def test_a_load_of_nobody_has_no_figures() -> None:
    """What never happened is not known."""
    found = summary_of(Load(rate=0.001, seconds=1), Cost(per_batch=0.1), Options())
    assert (found.offered, found.served, found.busy) == (0, 0, 0)
    assert all(
        map(math.isnan, (found.refused, found.expired, found.batch_size, *found.waits, *found.answers))
    )


def test_every_combination_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What has several values stands at the front of each line."""
    main(["--rate", "50,100", "--max-queue-time", "0,20ms", "--seconds", "5"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["rate", "max", "queue", "time"]
    assert [line.split()[:3] for line in lines] == [
        ["50", "0", "ms"],
        ["50", "20", "ms"],
        ["100", "0", "ms"],
        ["100", "20", "ms"],
    ]


def test_json_says_the_same_and_null_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    """A list of objects: what varies, and the figures."""
    main(
        ["--rate", "0.001,100", "--seconds", "5", "--concurrency", "none", "--enqueue-timeout", "1", "--json"]
    )
    nobody, some = json.loads(capsys.readouterr().out)
    assert (nobody["rate"], nobody["refused"], nobody["waits"]) == (0.001, None, [None] * 3)
    assert (some["rate"], some["refused"], some["busy"]) == (100, 0, 0)
    assert len(some["answers"]) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--rate 0", "'0' is no rate"),
        ("--rate fast", "'fast' is no rate"),
        ("--per-batch 1h", "'1h' is no duration; write one like"),
        ("--expires-after 0", "'0' is no time"),
        ("--max-batch-size 0,8", "'0' is no whole number"),
        ("--pattern random", "'random' is none of poisson, even, bursts"),
        ("--rate 100000 --seconds 100", f"10,000,000 items are more than {MOST_CALLS:,}"),
        ("--seconds 1 --plot limits.doc", "'doc' is not supported"),
        ("--seconds 1 --plot nowhere/limits.png", "No such file"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    arguments: str,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It says what was found and what is wanted, and the exit code is that of wrong usage."""
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == USAGE
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_a_plot_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a picture of the kind that its name says."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "limits.png"
    assert main(["--rate", "50,100", "--replicas", "1,2", "--seconds", "2", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["--seconds", "2", "--plot", str(picture.with_suffix(".svg"))]) == 0
    assert "<svg" in picture.with_suffix(".svg").read_text()


def test_without_matplotlib_the_table_is_there_and_a_plot_is_refused(tmp_path: Path) -> None:
    """Nothing but the plot needs it, and its error says what to do."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = ["-W", "error", "-m", "async_batcher.simulate", "--seconds", "1"]
    table = run_python(*command, PYTHONPATH=path)
    assert (table.code, table.err) == (0, "")
    assert "answer p50" in table.out
    refused = run_python(*command, "--plot", str(tmp_path / "limits.png"), PYTHONPATH=path)
    assert refused.code == USAGE
    assert "--plot needs matplotlib (none here)" in refused.err
