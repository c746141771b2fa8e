"""The caption job as a whole: memory, the first line, a second run, an empty fire, and how well it fills two cores.

All marks are measured in one run, with files made here: small ones for the backlogs, for the speed files as large as
real ones are. Wall-clock figures need an idle machine; the load is printed, and beside the rate of the whole job its
share of CPU-seconds that were checking, which neighbours disturb little.

    uv run python benchmarks/caption_job.py [backlogs] [speed] [--quick] [--turns 3] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from caption_job_files import deliver_real_sized, deliver_small
from caption_job_sides import Job, found_by_find, opened_during, single_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
MOST_GROWTH_MB = 20.0
FIRST_LINE_SECONDS = 1.0
MOST_TIMES_FIND = 10.0
EMPTY_FIRE_SECONDS = 0.3
LEAST_OF_TWICE = 0.85


class Sizes(NamedTuple):
    """How much is measured."""

    small: int
    large: int
    real: int


FULL = Sizes(small=1000, large=100_000, real=5000)
QUICK = Sizes(small=500, large=5000, real=1000)


class Mark(NamedTuple):
    """One figure beside what is asked of it."""

    name: str
    measured: str
    wanted: str
    met: bool


def backlogs(folder: Path, sizes: Sizes, turns: int) -> Iterator[Mark]:
    """Check a small and a large backlog, then look again at the large one with everything done."""
    peaks, jobs = {}, {}
    for count in (sizes.small, sizes.large):
        job = jobs[count] = Job(folder / f"backlog-{count}")
        deliver_small(job.queue, count)
        ran = job.run()
        peaks[count] = ran.peak_mb
        name = f"first line of {count} files"
        yield at_most(name, [ran.first_line], FIRST_LINE_SECONDS, "s")
        print(
            f"  {count} files: {ran.seconds:.1f} s, parent's peak {ran.peak_mb:.1f} MB, {ran.cpu:.1f} CPU-s"
        )
    growth = peaks[sizes.large] - peaks[sizes.small]
    yield at_most(f"peak memory, {sizes.large} over {sizes.small} files", [growth], MOST_GROWTH_MB, "MB")
    yield from second_runs(jobs[sizes.large], turns)
    yield from empty_fires(jobs[sizes.small], turns)


def second_runs(job: Job, turns: int) -> Iterator[Mark]:
    """Look at a folder in which everything is done, and let `find` look at it too, by turns."""
    with opened_during(job.queue) as opened:
        job.run()
    yield Mark("files opened by a second run", str(opened()), "0", opened() == 0)
    times = [job.run().seconds / found_by_find(job.queue) for _ in range(turns)]
    yield at_most("second run, in times of find", times, MOST_TIMES_FIND, "")


def empty_fires(job: Job, turns: int) -> Iterator[Mark]:
    """Fire at a folder of one file that is done."""
    for path in sorted(job.queue.iterdir())[1:]:
        path.unlink()
    job.run()
    yield at_most("an empty fire", [job.run().seconds for _ in range(3 * turns)], EMPTY_FIRE_SECONDS, "s")


def speed(folder: Path, count: int, turns: int) -> Iterator[Mark]:
    """Check files as large as real ones, in one process alone and with the whole job, by turns."""
    job = Job(folder / "real")
    size = deliver_real_sized(job.queue, count)
    print(f"  {count} files as large as real ones: {size / 1e6:.0f} MB")
    rates, shares = [], []
    for turn in range(turns):
        alone = [single_process(job.queue, 0)]
        ran = job.run(fresh=True)
        alone.append(single_process(job.queue, 1))
        seconds, cpu = (sum(part) for part in zip(*alone, strict=True))
        rates.append(seconds / (2 * ran.seconds))
        shares.append(cpu / ran.cpu)
        print(
            f"  turn {turn + 1}: alone {seconds:.1f} s, the job {ran.seconds:.1f} s and {ran.cpu:.1f} CPU-s"
        )
    yield at_least("whole job, of twice one process's rate", rates, LEAST_OF_TWICE)
    yield at_least("the same in CPU-seconds (for a busy machine)", shares, LEAST_OF_TWICE)


def at_most(name: str, measured: list[float], wanted: float, unit: str) -> Mark:
    """Mark a figure of which the median may be so much."""
    return Mark(name, shown(measured, unit), f"under {wanted:g} {unit}", statistics.median(measured) < wanted)


def at_least(name: str, measured: list[float], wanted: float) -> Mark:
    """Mark a figure of which the median must be so much."""
    return Mark(name, shown(measured, ""), f"at least {wanted:g}", statistics.median(measured) >= wanted)


def shown(measured: list[float], unit: str) -> str:
    """Show the median, and the least and greatest of several."""
    text = f"{statistics.median(measured):.2f} {unit}".rstrip()
    if len(measured) == 1:
        return text
    return f"{text} ({min(measured):.2f} to {max(measured):.2f}, {len(measured)} runs)"


def table(marks: Iterable[Mark]) -> None:
    """Print each mark as it is measured."""
    for mark in marks:
        verdict = "met" if mark.met else "MISSED"
        print(f"{mark.name:<46}{mark.measured:<40}{mark.wanted:<16}{verdict}", flush=True)


def machine() -> str:
    """Say where this ran."""
    load = os.getloadavg()[0]
    cpus = len(os.sched_getaffinity(0))
    versions = ", ".join(f"{name} {version(name)}" for name in ("anyio", "pyarrow"))
    return (
        f"{platform.machine()}, {cpus} CPUs, load {load:.1f}, Python {platform.python_version()}, {versions}"
    )


def take_parts(parser: argparse.ArgumentParser, *names: str) -> None:
    """Let the command be told which of its parts to measure: all, where it is told none."""

    def known(text: str) -> str:
        if text in names:
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")

    # No `choices`: Python 3.11 refuses an empty list by them.
    parser.add_argument("parts", nargs="*", type=known, default=names, help=f"of {', '.join(names)}; all")


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    take_parts(parser, "backlogs", "speed")
    parser.add_argument(
        "--quick", action="store_true", help="fewer files; memory and the second run need the many"
    )
    parser.add_argument("--turns", type=int, default=3, help="how often what is quick is measured")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are made"
    )
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    parts = options.parts
    folder = Path(tempfile.mkdtemp(prefix="caption-job-", dir=options.folder))
    print(f"{machine()}\n")
    try:
        if "backlogs" in parts:
            table(backlogs(folder, sizes, options.turns))
        if "speed" in parts:
            table(speed(folder, sizes.real, options.turns))
    finally:
        shutil.rmtree(folder)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
