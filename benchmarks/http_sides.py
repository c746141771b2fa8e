"""The processes of `http.py`: a server a side, paused while another is measured, and clients beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

FOLDER = Path(__file__).resolve().parent
PEERS = {"async-batcher 0.2.2": "async-batcher==0.2.2", "batched 0.1.5": "batched==0.1.5"}
SHARED = ("fastapi", "pydantic", "scikit-learn", "starlette", "uvicorn")
"""What the service is made of besides: the same versions for all."""


@dataclasses.dataclass(frozen=True)
class Answers:
    """What one run of the clients got: seconds by status, sorted."""

    seconds: float
    latencies: dict[int, list[float]]

    @property
    def count(self) -> int:
        """How many answers came, of any status."""
        return sum(map(len, self.latencies.values()))

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return len(self.latencies.get(200, ())) / self.seconds

    def percentile(self, percent: float, status: int = 200) -> float:
        """Return the latency that so many of a hundred answers of this status kept to."""
        found = self.latencies.get(status)
        return found[math.ceil(len(found) * percent / 100) - 1] if found else math.nan


class Server:
    """One side in a process of its own; it runs only while it is measured."""

    def __init__(self, side: str, work: str, python: str = sys.executable, **options: float) -> None:
        given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [python, str(FOLDER / "http_app.py"), "--side", side, "--work", work, *given]
        environment = dict(os.environ)
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)  # a peer must not find us under its name
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self._url = ""

    def __enter__(self) -> Self:
        said = self._process.stdout
        port = said.readline().strip() if said else ""
        if not port:
            self._process.wait()
            raise RuntimeError(f"a server did not start: {self._process.args!r}")
        self._url = f"http://127.0.0.1:{port}"
        self.usage()  # it answers
        self._process.send_signal(signal.SIGSTOP)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def load(self, **options: float) -> Answers:
        """Let it run, load it, and pause it."""
        given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, str(FOLDER / "http_load.py"), f"{self._url}/predict", *given]
        with self.running():
            found: dict[str, Any] = json.loads(subprocess.check_output(command))
        latencies = {int(status): sorted(each) for status, each in found["latencies"].items()}
        return Answers(found["seconds"], latencies)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let it run."""
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)

    def usage(self) -> dict[str, float]:
        """Return its seconds of CPU and its bytes of memory."""
        with self.running(), urllib.request.urlopen(f"{self._url}/usage", timeout=60) as answer:  # noqa: S310  (its own)
            usage: dict[str, float] = json.load(answer)
        return usage


def python_of(side: str, environments: Path) -> str | None:
    """Return the Python of a side, in an environment of its own where it is a peer; `None` where there is none."""
    if side not in PEERS:
        return sys.executable
    environment = environments / side.replace(" ", "-")
    python = environment / "bin" / "python"
    if not python.exists():
        pinned = [f"{name}=={importlib.metadata.version(name)}" for name in SHARED]
        try:
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", PEERS[side], *pinned], check=True)
        except subprocess.CalledProcessError as error:
            print(f"{side} is left out: its environment can't be built ({error})", file=sys.stderr)
            return None
    return str(python)
