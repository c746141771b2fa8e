"""A cluster of this machine, in a session of its own: `cluster_host.py` is its program.

1. The driver is connected to it like to any other. What it prints goes nowhere, and no scheduler takes the driver's
   time.
2. A signal to the driver's group does not reach it, and it takes neither SIGTERM nor SIGINT where a service manager
   signals all there is: both are blocked until the program ignores them, for itself and all that it starts.
3. It needs Dask, this module does not: so it starts while the driver imports what it needs of that.
4. It ends when the driver's end of a pipe closes, so when the driver does, however that came.
5. Its files lie in one folder, which it makes and takes away; the driver takes it away too, once it has seen the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final

from .cluster_settings import MEND_SETTINGS
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
        # A name alone: whoever made a folder before there is somebody to take it away might be killed in between.
        self._scratch = Path(tempfile.gettempdir(), f"caption-qc-{secrets.token_hex(8)}").absolute()
        self._process: subprocess.Popen[bytes] | None = _spawn(workers, self._scratch)

    async def address(self) -> str:
        """Wait for the scheduler, and return its address.

        Raises:
            JobError: It did not start.
        """
        assert self._process is not None  # noqa: S101 - it has not been ended
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        said = await asyncio.to_thread(_next_line, self._process.stdout)
        if "address" in said:
            return str(said["address"])
        raise _refused(said) or _cannot_start("it ended before it said where it is")

    def kill(self) -> None:
        """Begin its end."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    async def end(self) -> None:
        """See that it has ended.

        Raises:
            JobError: It ended by itself, since no worker could be started.
        """
        await asyncio.to_thread(self.abandon)

    def abandon(self) -> None:
        """See that it has ended, as `end`, where no event loop runs."""
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            said = _join(process, self._scratch)
            if (refused := _refused(said)) is not None:
                raise refused


def _refused(said: dict[str, Any]) -> JobError | None:
    return _cannot_start(said["error"], Exit(said["code"])) if "error" in said else None


def _cannot_start(why: str, code: Exit = Exit.IO_ERROR) -> JobError:
    way_out = "raise the limits of memory and of tasks, lower --workers, or leave --scheduler out"
    if code is Exit.BAD_CONFIG:
        way_out = f"{MEND_SETTINGS}, or leave --scheduler out"
    return JobError(f"no cluster starts on this machine ({why}); {way_out}", code)


def _spawn(workers: int, scratch: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", _PROGRAM, str(workers), scratch],
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


def _next_line(said: IO[bytes]) -> dict[str, Any]:
    """Read what it says next; an end, and a line that was cut off, say nothing."""
    line = said.readline()
    return json.loads(line) if line.endswith(b"\n") else {}


def _join(process: subprocess.Popen[bytes], scratch: Path) -> dict[str, Any]:
    """Wait for the end and see that nothing is left: no process of the session, no file. Return what it said last."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    with process.stdout:
        poll = select.poll()
        poll.register(process.stdout, 0)  # That the other end has closed is told in any case.
        poll.poll(END_SECONDS * 1000)
        # It is over, or out of time, and others of its group may have outlived it, where it was killed. The group has
        # its leader's number, which is no other's as long as nobody waited for that.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)
        return _next_line(process.stdout)
