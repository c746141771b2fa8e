"""The dead man's switch, against a real server: what it is told, and that no server can hold a run up."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from caption_runs import COMMAND, ENVIRONMENT, ROOT, Place, place
from otlp_collector import hanging, refusing
from ping_server import SECRET, Pinged, pinged

from examples.recipes.caption_qc.job import ping
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.lock import run_lock
from examples.recipes.caption_qc.job.ping import Ping

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Pinged]:
    with pinged() as served:
        yield served


PATIENCE = 40.0
"""Seconds that no bound is over in where it is not what a test is about: this machine may stand still for some."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that answers always answer in time, and let no test wait for a pause."""
    monkeypatch.setattr(ping, "TRY_SECONDS", PATIENCE)
    monkeypatch.setattr(ping, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(ping, "DRAIN_SECONDS", PATIENCE)
    monkeypatch.setattr(ping, "_START_IN_A_DRAIN_SECONDS", PATIENCE)


@pytest.fixture
def short_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what a drain leaves short; a try has its own time, so that what ends it is the drain."""
    monkeypatch.setattr(ping, "DRAIN_SECONDS", 0.6)
    monkeypatch.setattr(ping, "_START_IN_A_DRAIN_SECONDS", 0.2)


@pytest.fixture
def drain() -> Iterator[Drain]:
    """Give a drain that takes this process's signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    found = Drain()
    found.install()
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def ended(url: str | None, *, code: int = 0, drain: Drain | None = None) -> list[str]:
    """Start and end a run, and return what it warned of."""
    warnings: list[str] = []
    told = Ping(url, drain or Drain(), warnings.append)
    told.start()
    if code:
        told.fail(code)
    else:
        told.success()
    return warnings


# What is told


def test_a_run_tells_its_start_and_its_end(server: Pinged) -> None:
    """The address with /start, the address alone, the address with the exit code."""
    assert ended(server.url) == []
    assert ended(server.url, code=74) == []
    assert server.asked == ["/start", "", "/start", "/74"]


def test_a_query_stays_behind_the_path(server: Pinged) -> None:
    """So does a slash at the end stay one slash."""
    assert ended(f"{server.url}/?rid=7", code=1) == []
    assert server.asked == ["/start?rid=7", "/1?rid=7"]


def test_without_an_address_nothing_is_told() -> None:
    """Nor is anything imported for it."""
    program = """
import sys
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.ping import Ping
told = Ping(None, Drain(), print)
told.start(), told.success(), told.fail(1)
print([name for name in ("urllib.request", "http.client", "ssl") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"


# Servers as they are


def test_three_tries_are_made(server: Pinged) -> None:
    """Two refusals and an answer are a delivery; three refusals are a warning that names the host alone."""
    server.status = lambda path, number: 200 if number % 3 == 2 else 503
    told = Ping(server.url, Drain(), pytest.fail)
    told.start()
    for _ in range(3):
        server.came.get(timeout=PATIENCE)
    told.success()
    assert server.asked == ["/start"] * 3 + [""] * 3

    server.paths.clear()
    server.status = lambda path, number: 500
    assert ended(server.url) == ["the ping to 127.0.0.1 was not delivered: it answered 500"]
    assert server.asked[-3:] == [""] * 3


def test_a_start_that_fails_is_given_up_when_the_run_ends(
    server: Pinged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would otherwise be tried again after the end, and be a start without one."""
    told_so = threading.Event()
    give_up = ping._Delivery.no_more_tries

    def then_tell(delivery: ping._Delivery, latest: float) -> None:
        give_up(delivery, latest)
        told_so.set()

    def status(path: str, number: int) -> int:
        if not path.endswith("/start"):
            return 200
        assert told_so.wait(PATIENCE)  # The start fails once its run is at its end.
        return 503

    monkeypatch.setattr(ping._Delivery, "no_more_tries", then_tell)
    server.status = status
    assert ended(server.url) == []
    assert server.asked == ["/start", ""]


def test_an_end_does_not_overtake_the_start(server: Pinged, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is under way has the time of one try; then the end goes, whatever became of it."""
    server.status = lambda path, number: 0 if number == 0 else 200
    told = started(server)
    wait = ping.Ping._await_start

    def wait_for_a_short_try(told: Ping) -> None:
        monkeypatch.setattr(ping, "TRY_SECONDS", 0.3)
        wait(told)
        monkeypatch.setattr(ping, "TRY_SECONDS", PATIENCE)

    monkeypatch.setattr(ping.Ping, "_await_start", wait_for_a_short_try)
    began = monotonic()
    told.success()
    assert server.asked == ["/start", ""]
    assert monotonic() - began >= 0.3


def started(server: Pinged, drain: Drain | None = None) -> Ping:
    """Start a run, and return when the server has heard of it, which may hang."""
    told = Ping(server.url, drain or Drain(), server.warnings.append)
    told.start()
    server.came.get(timeout=PATIENCE)
    return told


def test_a_server_that_hangs_costs_three_tries_and_no_more(
    server: Pinged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the request and never answers, however long one waits."""
    server.status = lambda path, number: 0
    told = started(server)
    monkeypatch.setattr(ping, "TRY_SECONDS", 0.3)
    began = monotonic()
    told.success()
    assert monotonic() - began >= 4 * 0.3
    for _ in range(3):  # Of a try that was given up the request may be on its way still.
        server.came.get(timeout=PATIENCE)
    assert server.warnings == ["the ping to 127.0.0.1 was not delivered: no answer in time"]
    assert server.asked == ["/start", "", "", ""]


def test_whichever_clock_ends_a_try_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket has one of its own, which may be first."""
    monkeypatch.setattr(ping, "TRY_SECONDS", 0.1)
    with hanging() as silent:
        assert ping._sent(silent, "") == "no answer in time"


def test_a_late_answer_to_an_earlier_try_is_a_delivery(server: Pinged) -> None:
    """The first try is answered while the second hangs."""
    told = ping._Delivery(server.url, "")
    told._news.ask(0, lambda: "")
    assert told._news.heard(1, PATIENCE) == ""


def test_what_is_no_server_is_a_warning() -> None:
    """Nobody listens; it speaks no HTTP; its name does not exist; the address is odd."""
    with refusing() as gone:
        address = f"{gone}/{SECRET}"
        assert ended(address) == ["the ping to 127.0.0.1 was not delivered: Connection refused"]
        for odd in ("http://127.0.0.1:1:2/", "http://[::1/", f"{address}\n", "http:///x"):
            (warning,) = ended(odd)
            assert warning.startswith("the ping ")
            assert SECRET not in warning


def test_a_server_whose_certificate_is_not_trusted_is_not_told(server: Pinged, tmp_path: Path) -> None:
    """HTTPS is checked; a server without TLS at all is a warning too."""
    (warning,) = ended(server.url.replace("http:", "https:"))
    assert "was not delivered: " in warning
    assert SECRET not in warning
    assert server.paths == []
    assert ssl.create_default_context().verify_mode == ssl.CERT_REQUIRED


def test_a_redirection_is_followed_to_http_alone(server: Pinged) -> None:
    """A server that moved is found again; a file or another scheme is not opened."""
    server.status = lambda path, number: 302 if "moved" not in path else 200
    server.location = f"/{SECRET}/moved"
    assert ended(server.url) == []
    assert server.asked == ["/start", "/moved", "", "/moved"]


@pytest.mark.parametrize("location", ["file:///etc/hostname", "ftp://127.0.0.1:{}/x", ""])
def test_a_redirection_elsewhere_is_a_warning(server: Pinged, location: str) -> None:
    """Nothing is read or connected to by another protocol because a server says so."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        server.status = lambda path, number: 302
        server.location = location.format(other.getsockname()[1])
        (warning,) = ended(server.url)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert SECRET not in warning


# Drains


@pytest.mark.usefixtures("short_drain")
def test_in_a_drain_the_end_has_its_time_and_no_more(server: Pinged, drain: Drain) -> None:
    """With a server that hangs, for the start and for the end: one try, and the end is still sent."""
    server.status = lambda path, number: 0
    told = started(server, drain)
    signal.raise_signal(signal.SIGTERM)

    began = monotonic()
    told.success()

    assert monotonic() - began < PATIENCE, "a try alone would take as long"
    server.came.get(timeout=PATIENCE)
    assert server.asked == ["/start", ""]
    assert server.warnings == ["the ping to 127.0.0.1 was not delivered: no answer in time"]


@pytest.mark.usefixtures("short_drain")
def test_a_drain_that_comes_during_the_end_shortens_it(server: Pinged, drain: Drain) -> None:
    """The signal wakes the wait: its time counts from then on, and there is no further try."""
    told = Ping(server.url, drain, lambda _: None)

    def interrupt(path: str, number: int) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    server.status = interrupt
    began = monotonic()
    told.fail(74)

    assert drain.requested
    assert 0.5 < monotonic() - began < PATIENCE, "a try alone would take as long"
    assert server.asked == ["/74"]


def test_a_server_that_answers_is_told_in_a_drain_too(server: Pinged, drain: Drain) -> None:
    """Asked for before the run ends: start and success, without a warning."""
    signal.raise_signal(signal.SIGTERM)
    assert ended(server.url, drain=drain) == []
    assert server.asked == ["/start", ""]


# Real runs


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def start(here: Place, server: Pinged) -> subprocess.Popen[str]:
    """Start a run with the address in its environment, as a secret is given."""
    environment = ENVIRONMENT | {"CAPTION_QC_PING_URL": server.url, "NO_PROXY": "127.0.0.1"}
    return subprocess.Popen(
        [*COMMAND, *here.arguments()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def test_a_run_pings_and_a_refused_one_does_not(here: Place, server: Pinged) -> None:
    """What went well is told so, what failed is told with its code, and nothing is told of what is not done."""
    with start(here, server) as run:
        run.communicate()
    assert (run.returncode, server.news) == (0, ["/start", ""])

    server.paths.clear()
    with run_lock(here.state / "run.lock", started=datetime.now(UTC)), start(here, server) as run:
        run.communicate()
    assert (run.returncode, server.news) == (75, [])

    here.queue.rmdir()
    with start(here, server) as run:
        run.communicate()
    assert (run.returncode, server.news) == (66, ["/66"])


def test_a_run_that_is_stopped_while_it_pings_ends_in_time(here: Place, server: Pinged) -> None:
    """SIGTERM while the server hangs: exit 0 after this try, with a warning that keeps the secret."""
    server.status = lambda path, number: 200 if path.endswith("/start") else 0
    with start(here, server) as run:
        while not server.came.get(timeout=PATIENCE).endswith(SECRET):
            pass
        tries = len(server.paths)
        run.send_signal(signal.SIGTERM)
        began = monotonic()
        _, said = run.communicate()
    assert run.returncode == 0
    assert monotonic() - began < 15, (
        "all its tries take 17 s; the two that a drain has, and some to stand still"
    )
    assert len(server.paths) <= tries + 1, "it was tried no more, but for one that had begun"
    assert "warning: the ping to 127.0.0.1 was not delivered: no answer in time" in said
    assert SECRET not in said
