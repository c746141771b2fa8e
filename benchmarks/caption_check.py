"""Caption files checked a CPU-second, beside the plain reading of two libraries, in one run; and what is found in them.

Checking is decoding, all rules and their findings. pycaption and ttconv give text and times, or an exception. The
three take turns over the same files, so that a machine whose speed drifts slows all of them; a ratio is that of one
turn. Printed: medians and spread, a file a hundred times as long, the worst files of the greatest size with
`--worst`, and which rules trip how many files: what trips most of the files is more likely noise than news.

    uv run python benchmarks/caption_check.py [FOLDER] [--turns 7] [--worst]
"""

from __future__ import annotations

import argparse
import gc
import logging
import platform
import statistics
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

from pycaption import SCCReader

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # The recipes are no installed package.

from examples.recipes.caption_qc.check import check, load  # noqa: E402 - after the path that it is found on
from examples.recipes.caption_qc.check.profiles import DEFAULT_MAX_BYTES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from examples.recipes.caption_qc.check import Report

    Read = Callable[[bytes], object]

CORPUS = ROOT.parent / "shared" / "corpus" / "scc"
MADE_FOR_TESTS = "_fx__"
HOUSE = load("house")
TO_MODEL = import_module("ttconv.scc.reader").to_model  # By name, since the library ships no types.
LONGER = 100
WORST = {
    "rolled rows": b"9425 e580 94ad ",
    "popped captions": b"94ae e580 942f ",
    "swapped captions": b"942f 8080 ",
    "padding": b"8080 ",
    "bad words": b"a ",
}


class Turn(NamedTuple):
    """CPU-seconds that one turn took."""

    checking: float
    reading: float


def check_one(data: bytes) -> Report:
    """Check as a job does."""
    return check(data, HOUSE)


def pycaption(data: bytes) -> object:
    """Read with pycaption."""
    return SCCReader().read(data.decode("ascii"))


def ttconv(data: bytes) -> object:
    """Read with ttconv."""
    return TO_MODEL(data.decode("ascii"))


def refused_by(read: Read, files: dict[str, bytes]) -> list[str]:
    """Name the files that a library does not read."""

    def refuses(data: bytes) -> bool:
        try:
            read(data)
        except Exception:  # noqa: BLE001 - whatever it raises, it has not read the file
            return True
        return False

    return [name for name, data in files.items() if refuses(data)]


def cpu_seconds(read: Read, files: Iterable[bytes]) -> float:
    """Read all files, and say what that took of this process's own time."""
    gc.collect()
    started = process_time()
    for data in files:
        read(data)
    return process_time() - started


def turns_of(read: Read, files: Sequence[bytes], turns: int) -> list[Turn]:
    """Check and read by turns, each of the two first every other time."""
    measured = []
    for number in range(turns):
        if number % 2:
            reading = cpu_seconds(read, files)
            checking = cpu_seconds(check_one, files)
        else:
            checking = cpu_seconds(check_one, files)
            reading = cpu_seconds(read, files)
        measured.append(Turn(checking, reading))
    return measured


def spread(numbers: Iterable[float]) -> str:
    """Show the median, the least and the greatest."""
    ordered = sorted(numbers)
    return f"{statistics.median(ordered):6.2f}  ({ordered[0]:.2f} to {ordered[-1]:.2f})"


def compare(files: dict[str, bytes], turns: int) -> None:
    """Print how fast each is, and the ratios."""
    print(f"MB a CPU-second, median of {turns} turns (least to greatest)")
    for name, read in (("pycaption", pycaption), ("ttconv", ttconv)):
        refused = refused_by(read, files)
        both = [data for file, data in files.items() if file not in refused]
        size = sum(map(len, both)) / 1e6
        measured = turns_of(read, both, turns)
        print(f"  check              {spread(size / turn.checking for turn in measured)}")
        print(f"  {name:<19}{spread(size / turn.reading for turn in measured)}")
        print(f"  check / {name:<11}{spread(turn.reading / turn.checking for turn in measured)}")
        if refused:
            print(f"  left out of both, since {name} raises: {', '.join(refused)}")


def grow(files: dict[str, bytes], turns: int) -> None:
    """Print how much longer a file that is a hundred times as long takes."""
    data = max((data for data in files.values() if len(data) <= DEFAULT_MAX_BYTES // LONGER), key=len)
    head, _, rest = data.partition(b"\n")
    long = head + b"\n" + rest * LONGER
    ratios = []
    for _ in range(min(turns, 3)):
        short = cpu_seconds(check_one, [data] * 10) / 10
        ratios.append(cpu_seconds(check_one, [long]) / short)
    print(
        f"a file of {len(long)} bytes, {LONGER} times {len(data)}, takes so many times as long: {spread(ratios)}"
    )


def worst() -> None:
    """Print what files of the greatest size take that hold nothing but one thing, each in a process of its own."""
    print(f"files of {DEFAULT_MAX_BYTES} bytes: CPU-seconds, MB of memory at the most, cues")
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for name, (took, peak, cues) in zip(WORST, pool.map(cost_of, WORST.values()), strict=True):
            print(f"  {name:<19}{took:6.1f} {peak:6.0f} {cues:8}")


def cost_of(words: bytes) -> tuple[float, float, int]:
    """Check a file of the greatest size; give CPU-seconds, MB on top of what the process had, and cues."""
    head = b"Scenarist_SCC V1.0\n\n00:00:00:00\t9420 e580 "
    data = head + words * ((DEFAULT_MAX_BYTES - len(head)) // len(words))
    before, started = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
    cues = len(check_one(data).cues)
    return process_time() - started, (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024, cues


def noise(files: dict[str, bytes]) -> None:
    """Print how many files each rule trips; `*` marks what is over info in most of the pop-on files."""
    reports = {name: check_one(data) for name, data in files.items()}
    pop_on = [report for report in reports.values() if {cue.mode for cue in report.cues} == {"pop-on"}]
    everywhere, in_pop_on = tripped(reports.values()), tripped(pop_on)
    over_info = Counter(
        rule for report in pop_on for rule in {rule for rule, severity in kinds(report) if severity != "info"}
    )
    print(
        f"rule, severity, how many of {len(files)} files trip it, and of the {len(pop_on)} that are pop-on alone"
    )
    for rule, severity in sorted(everywhere):
        mark = "*" if severity != "info" and over_info[rule] > len(pop_on) / 2 else ""
        counts = f"{everywhere[rule, severity]:3}{in_pop_on[rule, severity]:4}"
        print(f"  {rule:<26}{severity:<7}{counts} {mark}".rstrip())


def tripped(reports: Iterable[Report]) -> Counter[tuple[str, str]]:
    """Count the files in which each kind of finding is."""
    return Counter(kind for report in reports for kind in kinds(report))


def kinds(report: Report) -> set[tuple[str, str]]:
    """Give rule and severity of what was found."""
    return {(finding.rule, finding.severity) for finding in report.findings}


def main() -> None:
    """Compare, grow and tell the noise of the files that were not made for tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS, help="caption files")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument(
        "--worst", action="store_true", help="also check the worst files of the greatest size"
    )
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # ttconv warns of what it reads.
    files = {
        path.name: path.read_bytes()
        for path in sorted(options.folder.glob("*.scc"))
        if MADE_FOR_TESTS not in path.name
    }
    if not files:
        parser.error(f"no caption files in {options.folder}; give a folder of .scc files")
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes, Python {platform.python_version()}")
    compare(files, options.turns)
    grow(files, options.turns)
    if options.worst:
        worst()
    noise(files)


if __name__ == "__main__":
    main()
