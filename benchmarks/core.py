"""A batcher beside what an event loop can do at all, and beside its peers: every mark that it has, in one run.

The floor is what no `await batcher.process(item)` can do without: one coroutine that makes one future, keeps it in
a list and awaits it, and for each batch one callback that sets all its futures. No item is kept, no processor is
called, no clock is read, nothing can be cancelled or fail. As many tasks as there are callers await one such
coroutine after another. The bare floor is the same without the coroutine, each task awaiting the futures itself;
the ratio to it stands beside each ratio to the floor.

The batcher is the default one but for the size of its batches and the option that a line names; its processor is
an async function that returns its list. Each pair runs the floor and the batcher one right after the other, in
alternating order, after a pair that warms up; a ratio is that of a pair, so that a machine whose speed drifts
changes both. Times are those of this process's own CPU, but for the window's. Printed: the median of the pairs,
the least and the greatest. Ratios to the floor that differ by less than 0.03 are level.

Peers run in environments of their own, since one imports under our name, in processes that alternate with ours;
where no index can be reached they are left out. Both sides of such a pair have the same batch size and window: the
default one, and none.

    uv run python benchmarks/core.py [--pairs 9] [--items 60000] [--overload 20] [--only TEXT]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from core_crowds import (
    AT_ONCE,
    CANCELLED,
    LONE,
    MEMORY,
    WINDOW,
    at_once,
    leaving,
    lone,
    memory,
    window,
)
from core_overload import OVERLOAD, grown
from core_sides import Shape, bare, floor, many, processing, run, submitting
from core_table import HEADER, LEVEL, Found, Mark, table
from http_sides import python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core_sides import NewLoop, Side

    Measure = Callable[[], list[Found]]

CALLERS, BATCH = 256, 64
MANY = 100_000
OVER_FLOOR = partial(Mark, level=LEVEL)
CLOSED = OVER_FLOOR("256 callers, batches of 64, asyncio: over the floor", 0.78, 0.86)
ON_UVLOOP = OVER_FLOOR("the same on uvloop", 0.72, 0.80)
SMALL = OVER_FLOOR("64 callers, batches of 8, asyncio: over the floor", 0.68, 0.74)
AT_A_TIME = OVER_FLOOR("`process_many` of 100,000 items: over the floor", 2.5, 4)
SUBMIT = OVER_FLOOR("`submit` and await: over the floor", 0.6, 0.7)
WEIGH = OVER_FLOOR("`process` with `weigh`: over the floor", 0.65, 0.75)
COALESCE = OVER_FLOOR("with `coalesce_key`, no two equal: over the floor", 0.6, 0.7)
EXPIRE = OVER_FLOOR("with `expires_after`: over the floor", 0.45, 0.6)
PEERS = {
    (name, window): Mark(f"256 callers, batches of 64, {said} window: over {name}", value, stretch)
    for name, value, stretch in (("async-batcher 0.2.2", 6, 7.5), ("batched 0.1.5", 7, 9))
    for window, said in ((0.01, "10 ms"), (0, "no"))
}


def over_floor(mark: Mark, side: Side, shape: Shape, pairs: int, new_loop: NewLoop = None) -> list[Found]:
    """Measure the pairs of a side and the floor, the bare one beside them."""
    ratios, to_bare, rates = [], [], []
    for number in range(-1, pairs):
        order = (bare, floor, side) if number % 2 else (side, floor, bare)
        rate = {each: run(each, shape, new_loop) for each in order}
        if number >= 0:
            ratios.append(rate[side] / rate[floor])
            to_bare.append(rate[side] / rate[bare])
            rates.append(rate[side])
    beside = f"over the bare floor: {statistics.median(to_bare):.2f}; {statistics.median(rates):,.0f} items/s"
    return [Found(mark, ratios, beside)]


def over_peer(side: str, window: float, shape: Shape, pairs: int, environments: Path) -> list[Found]:
    """Measure the pairs of ours and a peer, each run in a process of its own."""
    python = python_of(side, environments)
    if python is None:
        return []
    ratios, rates, sizes = [], [], []
    for number in range(pairs):
        told = {}
        for each in ("ours", side) if number % 2 else (side, "ours"):
            told[each] = _in_process(sys.executable if each == "ours" else python, each, window, shape)
        ratios.append(told["ours"]["rate"] / told[side]["rate"])
        rates.append(told[side]["rate"])
        sizes.append(told[side]["size"])
    beside = f"it: {statistics.median(rates):,.0f} items/s, batches of {statistics.median(sizes):.0f}"
    return [Found(PEERS[side, window], ratios, beside)]


def _in_process(python: str, side: str, window: float, shape: Shape) -> dict[str, float]:
    command = [python, str(Path(__file__).with_name("core_peer.py")), side]
    environment = dict(os.environ)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)  # a peer must not find us under its name
    given = map(str, (window, shape.callers, shape.batch, shape.items))
    told: dict[str, float] = json.loads(subprocess.check_output([*command, *given], env=environment))
    return told


def measures(options: argparse.Namespace) -> Iterator[tuple[str, Measure]]:
    """List what is measured, by the name of its first mark."""
    pairs, items = options.pairs, options.items
    shape = Shape(CALLERS, BATCH, items)
    sides: list[tuple[Mark, Side, Shape]] = [
        (CLOSED, processing(), shape),
        (SMALL, processing(), Shape(64, 8, items)),
        (AT_A_TIME, many, Shape(CALLERS, BATCH, MANY)),
        (SUBMIT, submitting, shape),
        (WEIGH, processing(weigh=_one, max_batch_weight=2 * BATCH), shape),
        (COALESCE, processing(coalesce_key=_itself), shape),
        (EXPIRE, processing(expires_after=60), shape),
    ]
    for mark, side, of in sides:
        yield mark.what, partial(over_floor, mark, side, of, pairs)
        if mark is CLOSED and find_spec("uvloop"):
            yield ON_UVLOOP.what, partial(_on_uvloop, shape, pairs)
    for (name, window_of_both), mark in PEERS.items():
        yield mark.what, partial(over_peer, name, window_of_both, shape, pairs, options.environments)
    yield AT_ONCE.what, lambda: [at_once(pairs)]
    yield CANCELLED.what, lambda: leaving(pairs)
    yield LONE.what, lambda: [lone(pairs, items // 10)]
    yield WINDOW.what, lambda: [window(max(100, items // 120))]
    yield MEMORY.what, lambda: [memory(10_000)]
    yield OVERLOAD.what, lambda: [grown(options.overload)]


def _on_uvloop(shape: Shape, pairs: int) -> list[Found]:
    import uvloop  # noqa: PLC0415  (it is not there on every system)

    return over_floor(ON_UVLOOP, processing(), shape, pairs, uvloop.new_event_loop)


def _one(_item: int) -> int:
    return 1


def _itself(item: int) -> int:
    return item


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--items", type=int, default=60_000, help="of each run of a closed loop")
    parser.add_argument(
        "--overload", type=float, default=20, help="seconds (%(default)s; the mark is for 60)"
    )
    parser.add_argument("--only", default="", help="measure the lines that have this text")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(tempfile.gettempdir()) / "async-batcher-peers",
        help="the folder of the peers' environments (%(default)s)",
    )
    options = parser.parse_args()
    before = os.getloadavg()
    found: list[Found] = []
    for what, measure in measures(options):
        if options.only in what:
            print(what, file=sys.stderr)
            found += measure()
    if not found:
        parser.error(
            f"nothing was measured: no line has {options.only!r} in it, or its peer is not to be had"
        )
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(
        f"load before and after: {before[0]:.1f}, {os.getloadavg()[0]:.1f}; {options.pairs} alternating pairs\n"
    )
    print(table([HEADER, *(each.row() for each in found)]))


if __name__ == "__main__":
    main()
