"""The caption job on Dask beside its process pool: throughput, equal records, the driver's memory, killed workers.

Both sides check the same files, made here, with two workers of this machine, by turns. The files have the sizes of
the smaller nine of eleven real ones, so that more of a run is overhead than with all of them (`--sizes 11`, for which
a run takes two minutes). Wall-clock figures need an idle machine; the load is printed. `--against pool` lets the pool
run against itself: what the machine is good for.

    uv run python benchmarks/caption_dask.py [speed] [kills] [driver] [tasks] [--files 10000] [--turns 2]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from caption_dask_driver import costs
from caption_dask_runs import Records, drawn, drive
from caption_dask_tasks import trips
from caption_job import Mark, at_least, at_most, machine, table, take_parts
from caption_job_files import REAL_SIZES, deliver_real_sized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from caption_dask_runs import Blows, Driver

WORKERS: Final = ("--workers", "2")
SIDES: Final = {"pool": WORKERS, "dask": ("--scheduler", "local", *WORKERS)}
LEAST_OF_POOL: Final = 0.85
MOST_GROWTH_MB: Final = 20.0
KILLS: Final = 3
PARTS: Final = ("speed", "kills", "driver", "tasks")
SMALL_FILES: Final = 4000
TRIPS: Final = 500


@dataclass(frozen=True)
class Bench:
    """One folder of files, and which side is compared with the pool."""

    folder: Path
    files: int
    sizes: Sequence[int]
    side: str

    @property
    def queue(self) -> Path:
        """The folder of all files."""
        return self.folder / "queue"

    def deliver(self) -> None:
        """Make the files: all of them, and a tenth of them in a queue of their own."""
        size = deliver_real_sized(self.queue, self.files, self.sizes)
        deliver_real_sized(self.folder / "tenth", self.files // 10, self.sizes)
        print(f"  {self.files} files of {size / self.files / 1000:.1f} KB, {size / 1e6:.0f} MB")

    def run(self, side: str, queue: str = "queue", blows: Blows | None = None) -> Driver:
        """Check everything anew, in a state folder that is the side's and the queue's."""
        state = self.state(side, queue)
        shutil.rmtree(state, ignore_errors=True)
        ran = drive(self.folder / queue, state, *SIDES[side], blows=blows)
        print(
            f"  {queue}, {side}: {ran.seconds:.1f} s; the driver {ran.cpu:.1f} CPU-s, peak {ran.peak_mb:.1f} MB"
        )
        return ran

    def state(self, side: str, queue: str = "queue") -> Path:
        """Name the state folder of a side."""
        return self.folder / f"state-{queue}-{side}"


def speed(bench: Bench, turns: int) -> Iterator[Mark]:
    """Let both sides check everything by turns, compare what they recorded, and look at the driver's memory."""
    ratios, peaks = [], []
    for turn in range(turns):
        order = ("pool", bench.side) if turn % 2 == 0 else (bench.side, "pool")
        ran = [(side, bench.run(side)) for side in order]
        pool, other = (next(run for side, run in ran if side == name) for name in ("pool", bench.side))
        ratios.append(pool.seconds / other.seconds)
        peaks.append(other.peak_mb)
    yield at_least(f"throughput of {bench.side}, of the pool's", ratios, LEAST_OF_POOL)
    yield same_records(bench, "records")
    tenth = bench.run(bench.side, "tenth")
    growth = [peak - tenth.peak_mb for peak in peaks]
    name = f"driver's peak, {bench.files} over {bench.files // 10} files"
    yield at_most(name, growth, MOST_GROWTH_MB, "MB")


def kills(bench: Bench, seed: int) -> Iterator[Mark]:
    """Kill workers at moments that are drawn, and look for what is missing, or there twice."""
    if not bench.state("pool").exists():
        bench.run("pool")
    blows = drawn(KILLS, bench.files, seed)
    moments = ", ".join(map(str, reversed(blows.at)))
    ran = bench.run(bench.side, blows=blows)
    print(f"  killed {ran.killed} workers, after lines {moments}")
    yield Mark("workers killed in the run", str(ran.killed), str(KILLS), ran.killed == KILLS)
    yield same_records(bench, "records after that")


def same_records(bench: Bench, name: str) -> Mark:
    """Compare what a side recorded last with what the pool did, and see that each file is there once."""
    pool, other = (Records.of(bench.state(side)) for side in ("pool", bench.side))
    once = pool.each_once(bench.files) and other.each_once(bench.files)
    said = (
        f"{other.assets.num_rows} and {other.findings.num_rows}, {'' if pool == other else 'not '}the pool's"
    )
    return Mark(
        f"{name}, each once", said + ("" if once else "; not each once"), "the pool's", once and pool == other
    )


def driver(folder: Path, files: int) -> None:
    """Print what CPU time a chunk and a file take of the process that can't be multiplied."""
    print(f"\n{'CPU milliseconds':<46}{'a chunk':>10}{'a file':>10}{'files/s of one core, 16 a chunk':>36}")
    for name, cost in costs(folder, files):
        print(
            f"{name:<46}{1000 * cost.chunk:>10.2f}{1000 * cost.file:>10.3f}{cost.files_a_second:>36,.0f}",
            flush=True,
        )


def tasks(folder: Path, count: int) -> None:
    """Print what a trip to a worker costs."""
    print(f"\n{'milliseconds a trip, 4 at once':<46}{'time':>10}{'our CPU':>10}{'the scheduler':>18}")
    for trip in trips(folder, count):
        print(f"{trip.what:<46}{trip.time:>10.2f}{trip.driver:>10.2f}{trip.scheduler:>18.2f}")


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    take_parts(parser, *PARTS)
    parser.add_argument("--files", type=int, default=10_000, help="how many are checked (10000)")
    parser.add_argument("--sizes", type=int, default=9, help="of the real sizes the smallest so many (9)")
    parser.add_argument("--turns", type=int, default=2, help="how often each side checks them (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which workers are killed (1)")
    parser.add_argument(
        "--against", choices=tuple(SIDES), default="dask", help="compared with the pool (dask)"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are made"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="caption-dask-", dir=options.folder))
    bench = Bench(folder, options.files, REAL_SIZES[: options.sizes], options.against)
    print(f"{machine()}, distributed {version('distributed')}\n")
    try:
        if {"speed", "kills"} & set(options.parts):
            bench.deliver()
        if "speed" in options.parts:
            table(speed(bench, options.turns))
        if "kills" in options.parts:
            table(kills(bench, options.seed))
        if "driver" in options.parts:
            driver(folder, min(SMALL_FILES, options.files))
        if "tasks" in options.parts:
            tasks(folder, TRIPS)
    finally:
        shutil.rmtree(folder)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
