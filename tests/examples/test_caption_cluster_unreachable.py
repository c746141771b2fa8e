"""A Dask scheduler that can't be reached, goes away or can't be asked for: one line, a code, and nothing begun."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD, ROOT, place
from caption_storm import environment, started, whole_run
from dask_cluster import cluster, gate
from programs import run_program

from examples.recipes.caption_qc.job.errors import JobError
from examples.recipes.caption_qc.options import build_parser


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """Listen on loopback, and yield the port: whoever comes gets this answer at once, or none at all."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as open_ones:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = open_ones.enter_context(server.accept()[0])
                    if answer is not None:
                        client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def refusing_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_scheduler_that_cannot_be_reached_ends_the_run_with_69_and_one_line(tmp_path: Path) -> None:
    """Refused, silent, no Dask, no such host, no certificates: nothing is written down as running or done."""
    with listening(None) as silent, listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as http:
        addresses = {
            f"tcp://127.0.0.1:{refusing_port()}": "Connection refused",
            f"tcp://127.0.0.1:{silent}": "no answer in time",
            f"tcp://127.0.0.1:{http}": "what answers there is no Dask scheduler",
            "tcp://nowhere.invalid:8786": "",
            f"tls://127.0.0.1:{silent}": "",
        }
        for number in range(len(addresses)):
            (tmp_path / str(number)).mkdir()
        places = [place(tmp_path / str(number)) for number in range(len(addresses))]
        for here in places:
            here.fill(1)
        with contextlib.ExitStack() as runs:
            began = [
                runs.enter_context(started(here, "--scheduler", address))
                for here, address in zip(places, addresses, strict=True)
            ]
            ended = [(*run.communicate(), run.returncode) for run in began]

    for here, (address, why), (out, err, code) in zip(places, addresses.items(), ended, strict=True):
        said = err.decode()
        assert (code, out) == (69, b""), said
        assert said.startswith(f"caption_qc: cannot reach the scheduler {address}: "), said
        assert said.count("\n") == 1
        assert why in said, said
        assert "see that one runs there" in said
        assert here.ask("SELECT * FROM assets") == []


@pytest.mark.parametrize(("attempts", "altogether"), [(1e-9, 8), (6, 1e-9)])
def test_why_there_is_no_way_to_a_scheduler_is_said_where_dask_had_no_time_to_learn_it(
    attempts: float, altogether: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last attempt tells the reason, and on a slow machine that may be cut off: one more is made then."""
    from examples.recipes.caption_qc.job import cluster_connect  # noqa: PLC0415 - it sets up Dask's logging

    monkeypatch.setattr(cluster_connect, "ATTEMPTS_SECONDS", attempts)
    monkeypatch.setattr(cluster_connect, "CONNECT_SECONDS", altogether)

    with pytest.raises(JobError, match="Connection refused") as refused:
        asyncio.run(cluster_connect.connect(f"tcp://127.0.0.1:{refusing_port()}"))
    assert refused.value.code == 69


def test_a_scheduler_that_goes_away_ends_the_run_with_69_and_the_next_goes_on(tmp_path: Path) -> None:
    """What ran stays suspect, what was recorded stays recorded, and Dask's own attempts to come back say nothing."""
    here = place(tmp_path)
    here.fill(40)
    gated = here.queue / f"020-{'x' * 200}.scc"
    gated.write_bytes(bad_file(GOOD, "gate"))
    door = gate(tmp_path)
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster") as dask:
        dask.worker({"CAPTION_BAD_FILES": "1", "CAPTION_GATE": str(door.path)})
        with started(here, *dask.option) as run:
            with door.held():
                os.kill(dask.scheduler.pid, signal.SIGKILL)
                out, err = run.communicate()
            said = err.decode()
        assert (run.returncode, out) == (69, b""), said
        last = said.splitlines()[-1]
        assert last.startswith(f"caption_qc: the scheduler {dask.scheduler.address} went away"), said
        assert "checked again first" in last
        running = here.ask("SELECT state FROM assets WHERE state != 'done'")
        assert 0 < len(running) <= 32
        assert {state for (state,) in running} == {"running"}

    gated.write_bytes(GOOD)
    done = whole_run(here)
    assert done.returncode == 0, done.stderr
    assert set(here.statuses.values()) == {"pass"}
    assert len(here.statuses) == 40


WITHOUT_DASK = """
import sys
sys.modules["distributed"] = None
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
sys.exit(main(["run", {queue!r}, "--state", {state!r}, "--scheduler", "local"], Drain()))
"""


def test_without_dask_the_option_names_the_command_that_installs_it(tmp_path: Path) -> None:
    """At once, before anything is made, with the code of wrong usage."""
    here = place(tmp_path)

    done = run_program(WITHOUT_DASK.format(queue=str(here.queue), state=str(here.state)))

    assert (done.code, done.out) == (64, "")
    assert "--scheduler: local needs Dask; install it with: python -m uv sync --group dask" in done.err
    assert not here.state.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "local ",
        "127.0.0.1:8786",
        "tcp://",
        "tcp://host",
        "http://host:1",
        "tcp://host:0",
        "tcp://a b:1",
        "tcp://host:99999",
        "tcp://me@host:1",
        "tcp://host:1/path",
        "tcp://host:1?x",
    ],
)
def test_what_is_no_address_of_a_scheduler_is_refused_with_one_that_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Usage, in one line that shows how it is written."""
    with pytest.raises(SystemExit) as refused:
        build_parser({}).parse_args(["run", "--scheduler", text])

    assert refused.value.code == 64
    assert f"{text!r} is no address of a Dask scheduler; write one like tcp://" in capsys.readouterr().err


IMPORTED = """
import sys
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
if __name__ == "__main__":
    code = main({arguments!r}, Drain())
    print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"dask", "distributed", "tornado"}}))
    sys.exit(code)
"""


def test_a_run_without_the_option_and_one_with_nothing_to_check_import_no_dask(tmp_path: Path) -> None:
    """The first checks a file in its own pool; the second finds nothing, and is as quick with the option as without."""
    here = place(tmp_path)
    here.fill(1)
    for more in ((), ("--scheduler", "local")):
        program = tmp_path / "program.py"
        program.write_text(IMPORTED.format(arguments=here.arguments(*more)))
        done = subprocess.run(
            [sys.executable, "-W", "error", program],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment(""),
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert set(here.statuses.values()) == {"pass"}
