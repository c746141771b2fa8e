"""A cluster of this machine, in a session of its own: `cluster_host.py` is its program.

1. The driver is connected to it like to any other. What it prints goes nowhere, and no scheduler takes the driver's
   time.
2. A signal to the driver's group does not reach it, and it takes neither SIGTERM nor SIGINT where a service manager
   signals all there is: both are blocked until the program ignores them, for itself and all that it starts.
3. It needs Dask, this module does not: so it starts while the driver imports what it needs of that.
4. It ends when the driver's end of a pipe closes, so when the driver does, however that came.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

from .errors import Exit, JobError

# The checkout, so that the program and its workers import what this process has imported.
_ROOT: Final = Path(__file__).resolve().parents[4]
_PROGRAM: Final = f"{__package__}.cluster_host"
_STOPS: Final = {signal.SIGTERM, signal.SIGINT}
LOCAL: Final = "local"
END_SECONDS: Final = 3.0


class LocalCluster:
    """A scheduler and its workers on this machine; being made starts them. Mutable state: the process."""

    def __init__(self, workers: int) -> None:
        self._process: subprocess.Popen[bytes] | None = _spawn(workers)

    async def address(self) -> str:
        """Wait for the scheduler, and return its address.

        Raises:
            JobError: It did not start.
        """
        assert self._process is not None  # noqa: S101 - it has not been ended
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        said = await asyncio.to_thread(_first_line, self._process.stdout)
        if "address" in said:
            return said["address"]
        raise _cannot_start(said.get("error", "it ended before it said where it is"))

    def kill(self) -> None:
        """Begin its end."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    async def end(self) -> None:
        """See that it has ended."""
        self.kill()
        if self._process is not None:
            await asyncio.to_thread(_join, self._process)
            self._process = None


def _cannot_start(why: str) -> JobError:
    way_out = "raise the limits of memory and of tasks, lower --workers, or leave --scheduler out"
    return JobError(f"no cluster starts on this machine ({why}); {way_out}", Exit.IO_ERROR)


def _spawn(workers: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", _PROGRAM, str(workers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot_start(str(error)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _first_line(said: IO[bytes]) -> dict[str, str]:
    line = said.readline()
    return json.loads(line) if line.endswith(b"\n") else {}


def _join(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end, which takes all of the session with it; what does not come to it is killed."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    with process.stdout:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            # The group has its leader's number, which is no other's as long as nobody waited for that.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
