"""Who hangs when callers leave: a batcher, its peers and a hand-written loop, with one caller of a hundred leaving.

Each side runs `leaving_side.py` in a process of its own, the peers in environments of their own.

    uv run python benchmarks/leaving.py [--waves 50]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from leaving_side import BATCH, CALLERS, PATIENCE, WINDOW
from peers import SIDES, run_side

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("leaving_side.py")


def rows(waves: int) -> Iterator[str]:
    """Run every side, and yield the lines of the table."""
    yield "| | callers who stayed | of them hung | got another's result | it went on | left waiting, processed |"
    yield "|---|---:|---:|---:|---|---:|"
    for side in SIDES:
        told = json.loads(run_side(SCRIPT, side, str(waves)))
        went_on = "to the end" if told["waves"] == waves else f"for {told['waves']} of {waves}"
        in_vain = f"{told['in_vain']} of {(told['waves'] + 1) // 2}"
        yield f"| {side} | {told['stayed']:,} | {told['hung']:,} | {told['wrong']:,} | {went_on} | {in_vain} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--waves", type=int, default=50, help="how often a hundred callers come (%(default)s)"
    )
    waves = parser.parse_args().waves
    shape = f"batches of {BATCH}, a window of {WINDOW} s, a backend of 5 ms"
    print(f"{CALLERS} callers at once, {waves} times, of whom one leaves; {shape}.")
    print(f"Hung: no outcome after {PATIENCE:g} s.\n")
    for row in rows(waves):
        print(row, flush=True)


if __name__ == "__main__":
    main()
