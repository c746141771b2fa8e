"""Who hangs when callers leave: a batcher, its peers and a hand-written loop, with one caller of a hundred leaving.

Each side runs `leaving_side.py` in a process of its own, the peers in environments of their own.

    uv run python benchmarks/leaving.py [--waves 50]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from leaving_side import BATCH, CALLERS, PATIENCE, SIDES, WINDOW

SCRIPT = Path(__file__).with_name("leaving_side.py")
ALONE = {"ours", "asyncio.Queue loop"}
"""What runs in our own environment."""


def ask(side: str, waves: int) -> dict[str, int]:
    """Run one side."""
    command = [str(SCRIPT), side, str(waves)]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    if side in ALONE:
        command = [sys.executable, *command]
    else:
        name, version = side.split()
        environment.pop("PYTHONPATH", None)  # a peer must not find us under its name
        with_peer = ["--no-project", "--isolated", "--python", sys.executable, "--with", f"{name}=={version}"]
        command = [_uv(), "run", "--quiet", *with_peer, "python", *command]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=SCRIPT.parent.parent
    )
    if done.returncode:
        sys.exit(f"{side} could not be run: {done.stderr.strip() or done.returncode}")
    told: dict[str, int] = json.loads(done.stdout)
    return told


def _uv() -> str:
    """Find the program that makes the peers' environments: `uv run` names itself."""
    found = os.environ.get("UV") or shutil.which("uv")
    if found is None:
        sys.exit("uv is not to be found: run this by `python -m uv run`")
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--waves", type=int, default=50, help="how often a hundred callers come (%(default)s)"
    )
    waves = parser.parse_args().waves
    print(
        f"{CALLERS} callers at once, {waves} times, of whom one leaves; batches of {BATCH}, a window of {WINDOW} s,"
    )
    print(f"a backend of 5 ms. Hung: no outcome after {PATIENCE:g} s.\n")
    print(
        "| | callers who stayed | of them hung | got another's result | it went on | left waiting, processed |"
    )
    print("|---|---|---|---|---|---|")
    for side in SIDES:
        told = ask(side, waves)
        went_on = "to the end" if told["waves"] == waves else f"for {told['waves']} of {waves}"
        in_vain = f"{told['in_vain']} of {(told['waves'] + 1) // 2}"
        print(
            f"| {side} | {told['stayed']:,} | {told['hung']:,} | {told['wrong']:,} | {went_on} | {in_vain} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
