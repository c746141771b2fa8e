"""The page on growing is true: its cluster is one, its numbers belong together, and every option exists.

What it shows for two machines is done here on one, command by command, on loopback and elsewhere than in /etc. The
sessions and programs that run as they stand are `test_console.py`'s and `test_examples.py`'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil  # type: ignore[import-untyped]
import pytest
from blocking import PATIENCE
from distributed.cli.dask_scheduler import main as dask_scheduler
from distributed.cli.dask_worker import main as dask_worker
from pages import ROOT, console_blocks, table

from async_batcher.simulate import _parser as simulate_parser
from examples.recipes.caption_qc.job.cluster import WORKER_SECONDS
from examples.recipes.caption_qc.job.runner import BYTES_A_BATCH, FILES_A_BATCH, MOST_WORKERS
from examples.recipes.caption_qc.options import RUN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "caption-growing.md"
OPERATE = ROOT / "docs" / "caption-operate.md"
TEXT = PAGE.read_text()
COMMANDS = [
    line.removeprefix("# ")
    for block in console_blocks()
    if block.page == PAGE
    for line in block.source.splitlines()
    if line.startswith("# ")
]
SAMPLE = ROOT / "examples" / "recipes" / "caption_qc" / "samples" / "popon_clean.scc"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


def shown(program: str) -> list[str]:
    """Each command of the page that begins so."""
    return [command for command in COMMANDS if command.startswith(program)]


class Cluster(NamedTuple):
    """What the page starts, here."""

    address: str
    config: str
    processes: tuple[subprocess.Popen[bytes], ...]

    def run(self, queue: Path, scheduler: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Do the page's run, with this queue and scheduler."""
        (command,) = shown("python -m examples")
        command = command.replace("/srv/captions", str(queue))
        command = command.replace("/var/lib/caption-qc/captions", str(queue.with_name("state")))
        words = [sys.executable, *shlex.split(command)[1:-1], scheduler, "--settle", "0"]
        return subprocess.run(
            words,
            cwd=ROOT,
            env=here() | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def here(**more: str) -> dict[str, str]:
    """An environment in which commands are those of these tests."""
    mine = {
        name: value for name, value in os.environ.items() if not name.startswith(("CAPTION_QC_", "DASK_"))
    }
    path = f"{Path(sys.executable).parent}:{mine['PATH']}"
    return mine | {"PATH": path, "PYTHONPATH": str(ROOT)} | more


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Make the certificate, write the configuration, start the scheduler and the first machine's workers."""
    folder = tmp_path_factory.mktemp("dask")
    port = str(free_port())

    def local(text: str) -> str:
        text = text.replace("/etc/dask", str(folder)).replace("10.0.0.5", "127.0.0.1")
        return text.replace("8786", port).replace("8787", "0").replace("--nworkers 4", "--nworkers 1")

    (openssl,) = shown("openssl")
    subprocess.run(shlex.split(local(openssl)), check=True, capture_output=True)
    (settings,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    config = folder / "caption-qc.yaml"
    config.write_text(local(settings))
    environment = here(DASK_CONFIG=str(config))
    with contextlib.ExitStack() as ends:
        processes = []
        for command, heard in (
            (shown("dask scheduler")[0], b"Scheduler at:"),
            (shown("dask worker")[0], b"Registered"),
        ):
            process = ends.enter_context(started(shlex.split(local(command)), environment))
            wait_for_line(process, heard)
            processes.append(process)
        yield Cluster(f"tls://127.0.0.1:{port}", str(config), tuple(processes))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def started(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a service, and end it with the block."""
    with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for_line(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Read what a service says until it says this."""
    assert process.stderr is not None
    assert any(text in line for line in process.stderr), text


@needs_openssl
def test_the_pages_cluster_checks_what_the_pages_run_finds(cluster: Cluster, tmp_path: Path) -> None:
    """Certificate, configuration, scheduler, workers and run as they are written."""
    queue = tmp_path / "queue"
    queue.mkdir()
    shutil.copy(SAMPLE, queue)
    done = cluster.run(queue, cluster.address, DASK_CONFIG=cluster.config)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "checked 1 of 1: 1 pass" in done.stderr


@needs_openssl
def test_the_pages_cluster_knows_nobody_without_the_certificate(cluster: Cluster, tmp_path: Path) -> None:
    """Neither by `tcp://`, nor by `tls://` without the configuration: 69, one line, and nothing was checked."""
    queue = tmp_path / "queue"
    queue.mkdir()
    shutil.copy(SAMPLE, queue)
    for scheduler in (cluster.address, cluster.address.replace("tls", "tcp")):
        done = cluster.run(queue, scheduler)
        assert done.returncode == 69, done.stderr
        assert re.fullmatch(r"caption_qc: cannot reach the scheduler .*\n", done.stderr)


@needs_openssl
def test_the_pages_cluster_listens_where_it_is_told_to_and_nowhere_else(cluster: Cluster) -> None:
    """Not on all interfaces: neither for its work nor for what it says by HTTP."""
    listening = {
        connection.laddr.ip
        for process in cluster.processes
        for each in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True))
        for connection in each.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_every_option_on_the_page_exists() -> None:
    """Those of `run`, of the simulator, and of Dask's two commands; nothing else is written like an option."""
    known = {f"--{option.name}" for option in RUN_OPTIONS} | {"--group"}
    known |= set(re.findall(r"--[a-z-]+", simulate_parser().format_help()))
    for command in (dask_scheduler, dask_worker):
        known |= {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert written - known == set()
    assert {"--scheduler", "--shard", "--nthreads", "--per-batch"} <= written


def test_bounds_on_the_page_are_those_of_the_code() -> None:
    """Files a chunk, workers that are kept busy, seconds without one."""
    assert FILES_A_BATCH == 16
    assert "sixteen files of each of its two chunks" in TEXT
    assert BYTES_A_BATCH // 43_000 == 6  # What goes with files as large as the mean of real ones.
    assert f"{MOST_WORKERS} at most" in TEXT
    assert f"no worker for {WORKER_SECONDS:g} s" in TEXT


def test_what_is_simulated_is_what_was_measured() -> None:
    """A rate is that of the measured costs, within a tenth; and so is the last column of their table."""
    costs = {
        row[0]: (float(row[1]), float(row[2]), float(row[3].replace(",", "")))
        for row in table(PAGE, "| CPU ")
    }
    for chunk, file, rate in costs.values():
        assert rate == pytest.approx(rate_of(chunk, file, FILES_A_BATCH), rel=0.1)
    chunk, file, _ = costs["the driver, with it"]
    simulated = re.findall(r"--rate (\d+) .*--max-batch-size (\d+) ", TEXT)
    assert [size for _, size in simulated] == ["16", "6"]
    for rate, size in simulated:
        assert float(rate) == pytest.approx(rate_of(chunk, file, int(size)), rel=0.1)


def test_what_a_night_takes_is_what_was_measured() -> None:
    """Each time is by the milliseconds and the files a trip of the page, each size by those of the ledger."""
    trip, small, mean = 5, 6.9, 31
    assert f"--per-batch {trip}ms --per-item 1ms,{small}ms" in TEXT
    assert f"--per-batch {trip}ms --per-item {mean}ms" in TEXT
    rates = (2 * rate_of(trip, small, 16), 2 * rate_of(trip, mean, 6), 8 * rate_of(trip, mean, 6))
    written = {what: int(number.replace(",", "")) for what, number, _ in table(OPERATE, "| what grows ")}
    bytes_each = written["ledger, a record"] + 3 * written["ledger, a finding"]
    for files, *times, ledger, _ in table(PAGE, "| files a night "):
        number = int(files.replace(",", ""))
        assert [seconds(time) for time in times] == pytest.approx([number / rate for rate in rates], rel=0.03)
        megabytes = float(ledger.removesuffix(" MB").replace(",", ""))
        assert megabytes == pytest.approx(number * bytes_each / 1e6, rel=0.03)


def seconds(time: str) -> float:
    number, unit = time.split()
    return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]


def rate_of(chunk: float, file: float, size: int) -> float:
    """Files a second of one core, by milliseconds a chunk of this size and a file."""
    return 1000 * size / (chunk + size * file)
