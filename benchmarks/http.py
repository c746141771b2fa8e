"""The HTTP service, measured over loopback: what a batcher gains, what it costs, and what it does when overrun.

Each figure compares sides of one run, in alternating order, so that a machine whose speed drifts changes all of
them; printed are medians and their spread. Servers and clients are processes of their own (`http_app.py`,
`http_load.py`); a server that is not measured is paused. The two peers are installed into environments of their own,
where an index is reached, since one imports under our name.

- model: a random forest of 100 trees, 64 clients, each of which waits for its answer. Requests a second by the
  recipe, over one predict a request, whichever way of calling it is the quicker. Peers beside it.
- cost: seconds of CPU a request, a processor that does nothing and `max_queue_time=0`, over the same route without:
  as Python comes, and with its garbage collector settled as the recipe's command does. Many short pairs.
- overload: a processor of 20 ms and 0.2 ms an item, a queue of one batch; asked twice as often as it can.
  Small batches (`--batch`), so that it is the processor that is overrun, and not the server or its clients.

    uv run python benchmarks/http.py [--rounds 5] [--seconds 3] [--plot http.png] [model cost overload]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

FOLDER = Path(__file__).resolve().parent


def _give_way() -> None:
    """Be the standard library's `http` to whoever runs beside this file and imports that."""
    del sys.modules["http"]
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if Path(entry).resolve() != FOLDER]
    try:
        importlib.import_module("http")
    finally:
        sys.path[:] = path


if __name__ == "http":
    _give_way()
else:
    from http_plot import draw
    from http_sides import Answers, Server, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CLIENTS = 64
PAIRS = 3
"""So many pairs of the cost's a round: they are short, so that both of a pair meet the same machine."""
SIDES = ("bare", "bare, one thread", "ours", "recipe", "async-batcher 0.2.2", "batched 0.1.5")


def model(rounds: int, seconds: float, environments: Path, plot: Path | None) -> None:
    """Measure the default model with 64 clients, and print the table."""
    with contextlib.ExitStack() as servers:
        sides = {
            side: servers.enter_context(Server(side, "forest", python))
            for side in SIDES
            if (python := python_of(side, environments)) is not None
        }
        runs: dict[str, list[Answers]] = {side: [] for side in sides}
        for side in alternating(tuple(sides), rounds):
            answers = sides[side].load(clients=CLIENTS, seconds=seconds)
            runs[side].append(answers)
    print(f"\nmodel: random forest, {CLIENTS} clients, {rounds} rounds of {seconds:g} s, milliseconds")
    print(f"  {'':22}{'requests/s':>22}{'50 %':>9}{'90 %':>9}{'95 %':>9}{'99 %':>9}{'worst':>9}")
    for side, each in runs.items():
        merged = together(each)
        rates = [answers.rate for answers in each]
        marks = "".join(f"{merged.percentile(percent) * 1000:>9.1f}" for percent in (50, 90, 95, 99, 100))
        print(f"  {side:22}{spread(rates):>22}{marks}")
    quickest = [
        max(pair[0].rate, pair[1].rate) for pair in zip(runs["bare"], runs["bare, one thread"], strict=True)
    ]
    ratios = [answers.rate / bare for answers, bare in zip(runs["recipe"], quickest, strict=True)]
    print(f"  recipe over one predict a request: {spread(ratios, 1)}   mark: at least 5")
    if plot is not None:
        draw({side: together(each) for side, each in runs.items()}, plot)
        print(f"  drawn in {plot}")


def cost(rounds: int) -> None:
    """Measure CPU a request with and without the batcher, and print the ratio."""
    print("\ncost: milliseconds of CPU a request, a processor that does nothing, max_queue_time=0")
    for settled in (0, 1):
        print(f"  the garbage collector {'settled, as by the recipe' if settled else 'as it comes'}")
        with (
            Server("bare", "nothing", settled=settled) as bare,
            Server("ours", "nothing", window=0, settled=settled) as ours,
        ):
            for clients in (CLIENTS, 1):
                without, given = paired(bare, ours, clients, PAIRS * rounds)
                ratios = [mine / plain for mine, plain in zip(given, without, strict=True)]
                print(
                    f"  {clients:>3} clients   without {spread(without, 3)}   with {spread(given, 3)}"
                    f"   ratio {spread(ratios, 3)}, half of them {middle(ratios)}"
                    + ("   mark: at most 1.05" if clients == CLIENTS else "")
                )


def paired(bare: Server, ours: Server, clients: int, pairs: int) -> tuple[list[float], list[float]]:
    """Measure milliseconds of CPU a request of two servers by turns; the first pair warms up."""
    used: tuple[list[float], list[float]] = ([], [])
    for number, side in enumerate(alternating((0, 1), pairs + 1)):
        server = (bare, ours)[side]
        before = server.usage()["cpu"]
        answers = server.load(clients=clients, requests=1000)
        if number >= 2:
            used[side].append((server.usage()["cpu"] - before) / answers.count * 1000)
    return used


def overload(rounds: int, seconds: float, batch: int) -> None:
    """Ask as often as the processor can, and twice as often, and print what became of both."""
    capacity = batch / (0.02 + 0.0002 * batch)
    print(f"\noverload: {capacity:.0f} requests/s are its capacity, by {batch}; milliseconds from when due")
    print(f"  {'asked':>10}{'answered/s':>14}{'50 %':>9}{'99 %':>9}{'503':>8}{'50 %':>9}{'99 %':>9}")
    with Server("ours", "steady", batch=batch, queue=batch) as server:
        worst: dict[int, list[float]] = {1: [], 2: []}
        refusals, memory = [], []
        for times in alternating((1, 2), rounds):
            answers = server.load(rate=times * capacity, seconds=seconds)
            memory.append(server.usage()["memory"])
            worst[times].append(answers.percentile(99))
            refusals += [answers.percentile(50, 503)] if times == 2 else []
            print(
                f"  {times:>9}x{answers.rate:>14.0f}{answers.percentile(50) * 1000:>9.1f}"
                f"{answers.percentile(99) * 1000:>9.1f}{len(answers.latencies.get(503, ())):>8}"
                f"{answers.percentile(50, 503) * 1000:>9.1f}{answers.percentile(99, 503) * 1000:>9.1f}"
            )
    ratios = [twice / once for once, twice in zip(worst[1], worst[2], strict=True)]
    print(f"  99 % at twice over 99 % at capacity: {spread(ratios)}   mark: under 2")
    print(f"  a refusal takes {spread([each * 1000 for each in refusals], 1)} ms   mark: under 10")
    print(f"  memory grew by {(memory[-1] - memory[1]) / 2**20:.1f} MiB after the first of {rounds} rounds")


def alternating(sides: Sequence[str] | Sequence[int], rounds: int) -> Iterator[Any]:
    """Give the sides round by round, each round from the other end."""
    for number in range(rounds):
        yield from sides if number % 2 else reversed(sides)


def together(runs: Sequence[Answers]) -> Answers:
    """Merge the runs of a side."""
    statuses = {status for run in runs for status in run.latencies}
    return Answers(
        sum(run.seconds for run in runs),
        {
            status: sorted(each for run in runs for each in run.latencies.get(status, ()))
            for status in statuses
        },
    )


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Write a median with its spread."""
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def middle(values: Sequence[float]) -> str:
    """Write between which two the middle half of the values lies."""
    first, _, third = statistics.quantiles(values, n=4)
    return f"{first:,.3f} to {third:,.3f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", help="of model, cost and overload; all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--batch", type=int, default=4, help="items of the overrun processor (%(default)s)")
    parser.add_argument("--plot", type=Path, help="draw the model's figure into this PNG")
    parser.add_argument(
        "--peers",
        type=Path,
        default=Path(tempfile.gettempdir()) / "async-batcher-peers",
        help="the folder of the peers' environments (%(default)s)",
    )
    arguments = parser.parse_args()
    wanted = arguments.figures or ["model", "cost", "overload"]
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores,", end=" ")
    print(f"load average {os.getloadavg()[0]:.1f} at the start")
    if "model" in wanted:
        model(arguments.rounds, arguments.seconds, arguments.peers, arguments.plot)
    if "cost" in wanted:
        cost(arguments.rounds)
    if "overload" in wanted:
        overload(arguments.rounds, arguments.seconds, arguments.batch)
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
