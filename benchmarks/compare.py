"""A batcher beside its peers: throughput, latency under load, what overload leaves behind, and who hangs.

Every side runs in a process of its own, the peers in environments of their own, by turns. Tables and plot go into
the documentation, between two marks.

    python -m uv run python benchmarks/compare.py [--runs 5] [--seconds 8] [--quick] [--page docs/comparison.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from compare_plot import draw
from compare_side import BATCH, CAPACITY, PER_BATCH, PER_ITEM, PERCENTS, WINDOW
from leaving import rows as leaving_rows
from peers import SIDES, run_side

if TYPE_CHECKING:
    from collections.abc import Iterable

SCRIPT = Path(__file__).with_name("compare_side.py")
SHAPES = ((1, 8), (16, 8), (64, 8), (256, 64), (1024, 64))
"""Callers in a closed loop, and the largest batch."""
SHARES = (0.5, 0.8, 0.95)
"""Of the backend's capacity, in the open loop."""
OVER = 2.0
"""Times the backend's capacity."""
START, END = "<!-- made by benchmarks/compare.py -->", "<!-- end of what is made -->"

Told: TypeAlias = dict[str, float]


def measure(side: str, what: str, *given: float) -> Told:
    """Measure one thing of one side, in a process of its own."""
    print(f"{what} {' '.join(f'{number:g}' for number in given)}: {side}", file=sys.stderr, flush=True)
    told: Told = json.loads(run_side(SCRIPT, side, what, *(f"{number:.10g}" for number in given)))
    return told


def throughput(runs: int, items: int) -> list[str]:
    """Measure every shape, the sides by turns; a cell is the median, with the least and the greatest."""
    lines = [_row(["", *(f"callers: {callers}, batches of {batch}" for callers, batch in SHAPES)])]
    lines.append("|---|" + "---:|" * len(SHAPES))
    cells: dict[str, list[str]] = {side: [] for side in ("floor", *SIDES)}
    for callers, batch in SHAPES:
        # A lone caller has each window to itself: seconds of processor time are what is counted, not of waiting.
        number = max(200, items // 100) if callers == 1 else items
        rates: dict[str, list[float]] = {side: [] for side in cells}
        for _ in range(runs):
            for side, found in rates.items():
                found.append(measure(side, "throughput", callers, batch, number)["rate"])
        for side, found in rates.items():
            spread = f"{min(found) / 1000:.3g} to {max(found) / 1000:.3g}"
            cells[side].append(f"{statistics.median(found) / 1000:.3g} ({spread})")
    return lines + [_row([side, *row]) for side, row in cells.items()]


def latency(runs: int, seconds: float) -> tuple[list[str], dict[str, list[Told]]]:
    """Measure each share of the capacity; the run whose 99th percentile is the median one is shown."""
    found: dict[str, list[Told]] = {side: [] for side in SIDES}
    for share in SHARES:
        of_side: dict[str, list[Told]] = {side: [] for side in SIDES}
        for _ in range(runs):
            for side, told in of_side.items():
                told.append(measure(side, "latency", share * CAPACITY, seconds))
        for side, told in of_side.items():
            found[side].append(sorted(told, key=lambda one: one["99"])[len(told) // 2])
    heads = (f"{share:.0%}: median, 90 %, 99 % ms; batch" for share in SHARES)
    lines = [_row(["", *heads]), "|---|" + "---:|" * len(SHARES)]
    return lines + [_row([side, *map(_times, told)]) for side, told in found.items()], found


def _times(told: Told) -> str:
    times = ", ".join(f"{1000 * told[str(percent)]:,.0f}" for percent in PERCENTS)
    return f"{times}; {told['size']:.1f}"


def overload(seconds: float) -> list[str]:
    """Let twice as many come as can be served."""
    heads = ["", "memory grew by", "callers still waiting", "refused", "slowest answer"]
    lines = [_row(heads), "|---|---:|---:|---:|---:|"]
    for side in SIDES:
        told = measure(side, "overload", OVER * CAPACITY, seconds)
        cells = [f"{told['megabytes']:.1f} MB", f"{told['waiting']:,.0f}", f"{told['refused']:,.0f}"]
        lines.append(_row([side, *cells, f"{told['slowest']:.1f} s"]))
    return lines


def _lines(rows: Iterable[str]) -> str:
    return "\n".join(rows)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _machine() -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    return f"{model}, cores to run on: {cores}, CPython {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    """Measure everything, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="of each figure (%(default)s)")
    parser.add_argument("--seconds", type=float, default=8, help="of each open loop (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="to see that it works: one short run of each")
    parser.add_argument("--page", type=Path, help="write tables and plot into this page, and beside it")
    given = parser.parse_args()
    runs, seconds, items, waves = (1, 2, 4000, 4) if given.quick else (given.runs, given.seconds, 40_000, 50)
    before = _machine()
    open_runs = max(1, runs // 2 + 1)
    rates = throughput(runs, items)
    times, found = latency(open_runs, seconds)
    after = os.getloadavg()[0]
    how = f"runs, by turns: {runs}, and {open_runs} of the open loops of {seconds:g} s"
    backend = f"{1000 * PER_BATCH:g} ms a call and {1000 * PER_ITEM:g} ms an item, one call at a time"
    text = f"""{before} before and {after:.1f} after; {how}.

### Throughput

Thousands of items a second of the process's own time; a processor that answers at once; a window of
{1000 * WINDOW:g} ms. Median (least to greatest). The floor is one future an item, and no batcher.

{_lines(rates)}

### Latency

Callers come independently of each other. The backend takes {backend}, so that batches of {BATCH} make
{CAPACITY:,.0f} items a second: its capacity.

{_lines(times)}

### Overload

{OVER:g} times the capacity for {seconds:g} s, after two that are not counted.

{_lines(overload(seconds))}

### Who hangs

A hundred callers at once, again and again, of whom one leaves.

{_lines(leaving_rows(waves))}"""
    if given.page is None:
        print(text)
        return
    picture = given.page.with_suffix(".png")
    draw(found, SHARES, picture)
    page = given.page.read_text()
    head, tail = page[: page.index(START)], page[page.index(END) :]
    plot = f"![Percentiles of the time from call to result at three loads]({picture.name})"
    given.page.write_text(f"{head}{START}\n\n{text}\n\n{plot}\n\n{tail}")


if __name__ == "__main__":
    main()
