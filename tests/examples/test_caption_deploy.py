"""What is deployed: each file is what its own tool takes, its numbers fit the job's, and its command really runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from caption_runs import ENVIRONMENT, ROOT, Place
from confinement import can_confine, confined, open_place

from examples.recipes.caption_qc.job import ping
from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.lock import run_lock
from examples.recipes.caption_qc.options import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = ROOT / "examples" / "recipes" / "caption_qc" / "deploy"
CHECKOUT, QUEUE, STATE = "/srv/async_batcher", "/srv/captions", "/var/lib/caption-qc"
MEMORY = "/run/caption-qc"
PROGRAM = f"{CHECKOUT}/.venv/bin/python"
MODULE = ["-m", "examples.recipes.caption_qc"]
SECONDS_TO_END = 5
"""What the interpreter may take to end on a busy machine, beyond the drain and its ping."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine"
)
needs_confinement = pytest.mark.skipif(not can_confine(), reason="nothing can be mounted here")


@pytest.fixture
def here() -> Iterator[Place]:
    with open_place() as found:
        yield found


def options(arguments: list[str]) -> Any:
    """Parse the arguments as the command does."""
    return build_parser({}).parse_args(arguments)


def drained_by(arguments: list[str]) -> float:
    """Return the seconds after SIGTERM by which a run has ended."""
    return float(options(arguments).drain_timeout) + ping.DRAIN_SECONDS + SECONDS_TO_END


# systemd

SERVICE, TIMER = DEPLOY / "caption-qc.service", DEPLOY / "caption-qc.timer"


def settings(unit: Path) -> dict[str, list[str]]:
    """Read a unit; a key may stand more than once."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def service(name: str) -> str:
    (value,) = settings(SERVICE)[name]
    return value


def command_of_service() -> list[str]:
    program, *arguments = shlex.split(service("ExecStart"))
    assert program == PROGRAM
    assert arguments[:2] == MODULE
    return arguments[2:]


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}
    )


@pytest.fixture
def units(tmp_path: Path) -> list[str]:
    """Copy the units, with this checkout's interpreter and page: those that they name are another machine's."""
    for unit in (SERVICE, TIMER):
        text = (
            unit.read_text().replace(PROGRAM, sys.executable).replace(f"file://{CHECKOUT}", f"file://{ROOT}")
        )
        (tmp_path / unit.name).write_text(text)
    return [str(tmp_path / unit.name) for unit in (SERVICE, TIMER)]


@needs_systemd
def test_systemd_takes_the_units(units: list[str]) -> None:
    """Every setting is known, every value can be read, the timer's unit is there."""
    done = analyze("verify", "--man=no", *units)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_the_service_is_little_exposed(units: list[str]) -> None:
    """Below 2.0 of 10 by systemd's own measure."""
    done = analyze("security", "--offline=true", "--threshold=20", units[0])
    assert done.returncode == 0, done.stdout


@needs_systemd
def test_the_timer_fires_every_five_minutes() -> None:
    """From one elapse to the next."""
    (calendar,) = settings(TIMER)["OnCalendar"]
    done = analyze("calendar", "--iterations=3", calendar)
    minutes = [int(minute) for minute in re.findall(r"(?:elapse|#\d): \w+ \S+ \d\d:(\d\d):00", done.stdout)]
    assert {(after - before) % 60 for before, after in pairwise(minutes)} == {5}


def test_the_service_is_stopped_after_the_drain_and_a_refused_run_is_no_failure() -> None:
    """SIGTERM goes to the run alone, SIGKILL comes after everything else; exit 75 is a success."""
    assert service("Type") == "oneshot"
    assert service("KillMode") == "mixed"
    assert service("SuccessExitStatus") == str(int(Exit.LOCK_HELD))
    assert service("OOMPolicy") == "continue"
    assert int(service("TimeoutStopSec").removesuffix("s")) >= drained_by(command_of_service())


def test_the_service_writes_where_it_may() -> None:
    """The state lies in its StateDirectory, the metrics in memory that outlives a run; it waits for the mount."""
    found = options(command_of_service())
    assert service("StateDirectory") == Path(STATE).name
    assert found.state.is_relative_to(STATE)
    assert service("RuntimeDirectory") == found.metrics_file.parent.name == Path(MEMORY).name
    assert found.metrics_file.is_relative_to(MEMORY)
    assert service("RuntimeDirectoryPreserve") == "yes"
    assert service("RequiresMountsFor") == str(found.queue) == QUEUE
    assert service("WorkingDirectory") == CHECKOUT


@needs_systemd
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not on this machine")
def test_the_filter_of_system_calls_lets_a_run_through(here: Place) -> None:
    """Each call that a whole run makes, workers and all, is one that the service allows."""
    trace = here.queue.parent / "trace"
    run = [sys.executable, *MODULE, *here.arguments("--ping-url", "http://127.0.0.1:9/")]
    traced = ["strace", "--follow-forks", "--quiet=all", "--output", str(trace), *run]
    subprocess.run(traced, capture_output=True, cwd=ROOT, env=ENVIRONMENT, check=True)
    made = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"flock", "prlimit64", "setitimer", "execve"} <= made
    # As root alone SQLite gives its files to the owner of the ledger.
    assert made - allowed() <= {"fchown"}


def allowed() -> set[str]:
    found: set[str] = set()
    for words in settings(SERVICE)["SystemCallFilter"]:
        names = {name for word in words.removeprefix("~").split() for name in _calls(word)}
        found = found - names if words.startswith("~") else found | names
    return found | _calls("@default")


def _calls(word: str) -> set[str]:
    if not word.startswith("@"):
        return {word}
    listed = re.findall(r"^    ([@\w-]+)$", analyze("syscall-filter", word).stdout, re.MULTILINE)
    assert listed, word
    return {name for each in listed for name in _calls(each)}


@needs_confinement
def test_the_services_command_runs_where_it_may_write(here: Place) -> None:
    """The root read-only, no rights, a user of no account: it checks, starts workers, and writes state and metrics."""
    state, memory = (here.queue.parent / name for name in ("var", "memory"))
    arguments = moved(command_of_service(), {QUEUE: here.queue, STATE: state, MEMORY: memory})
    done = confined([sys.executable, *MODULE, *arguments], here.queue, [state, memory])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith("checked 1 of 1: 1 pass")
    assert "caption_qc_run_exit_code 0\n" in (memory / "caption_qc.prom").read_text()
    assert (state / "captions" / "dashboard.html").exists()


def moved(arguments: list[str], places: dict[str, Path]) -> list[str]:
    for there, ours in places.items():
        arguments = [word.replace(there, str(ours)) for word in arguments]
    return arguments


# cron


def crontab() -> tuple[dict[str, str], list[tuple[list[str], str]]]:
    """Read a crontab: what it sets, and its lines as five fields and a command."""
    lines = [
        line for line in (DEPLOY / "crontab").read_text().splitlines() if line and not line.startswith("#")
    ]
    set_lines = [line for line in lines if re.match(r"\w+=", line)]
    jobs = [line.split(None, 5) for line in lines if line not in set_lines]
    return dict(line.split("=", 1) for line in set_lines), [(fields[:5], fields[5]) for fields in jobs]


def test_the_crontab_has_one_line_that_fires_every_five_minutes() -> None:
    """Five fields and a command in which cron finds no line feed of its own."""
    _, ((fields, line),) = crontab()
    assert fields == ["*/5", "*", "*", "*", "*"]
    assert "%" not in line


def test_crons_command_runs_as_cron_runs_it(here: Place) -> None:
    """By /bin/sh, with next to no environment: nothing to mail, the log has it all; refused, one line to mail."""
    _, ((_, line),) = crontab()
    folder = here.queue.parent
    checkout = folder / "checkout"
    checkout.mkdir()
    (checkout / "examples").symlink_to(ROOT / "examples")
    (checkout / ".venv").symlink_to(sys.prefix)
    (folder / "log").mkdir()
    places = {
        CHECKOUT: checkout,
        QUEUE: here.queue,
        f"{STATE}/captions": here.state,
        MEMORY: folder / "memory",
        "/var/log/caption-qc": folder / "log",
    }
    for there, ours in places.items():
        line = line.replace(there, str(ours))

    def fire() -> subprocess.CompletedProcess[str]:
        few = {"HOME": str(folder), "LOGNAME": "qc", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
        return subprocess.run(["/bin/sh", "-c", line], env=few, capture_output=True, text=True, check=False)

    done = fire()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "log" / "run.log").read_text().splitlines()[-1].startswith("checked 1 of 1: 1 pass")
    with run_lock(here.state / "run.lock", started=datetime.now(UTC)):
        done = fire()
    assert (done.returncode, done.stderr) == (Exit.LOCK_HELD, "")
    assert done.stdout.startswith("previous run still active: ")
    assert len(done.stdout.splitlines()) == 1
