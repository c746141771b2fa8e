"""Programs that a test runs in an interpreter of their own, whose end it looks at."""

import os
import subprocess
import sys
from typing import NamedTuple

from blocking import PATIENCE


class Ended(NamedTuple):
    """How a program ended, and what it wrote."""

    code: int
    out: str
    err: str


def run_python(*arguments: str, **environment: str) -> Ended:
    """Run Python with these arguments, and these variables besides its own; a hang is a `TimeoutExpired`."""
    # In its debug mode asyncio tells of whatever takes long, and a busy machine is no fault.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONASYNCIODEBUG"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=inherited | environment,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def run_program(program: str) -> Ended:
    """Run it with every warning as an error."""
    return run_python("-W", "error", "-c", program)
