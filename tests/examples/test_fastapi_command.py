"""The HTTP service's command: its model, its options, and what it says where it can't start."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from app_serving import signals_kept, stored, total
from service_process import ENVIRONMENT, running

from examples.recipes.fastapi_app import create_app, main
from examples.recipes.owned_drain import serve

MODULE = ["-m", "examples.recipes.fastapi_app"]
DROPPED = "-dac_override,-dac_read_search"
AS_ANYONE = ["setpriv", f"--bounding-set={DROPPED}", f"--inh-caps={DROPPED}"] if os.geteuid() == 0 else []


@pytest.mark.anyio
@pytest.mark.backends("asyncio")
@pytest.mark.real_time
async def test_the_command_serves_a_model_that_was_trained_at_its_start(tmp_path: Path) -> None:
    """A row gets its own prediction; one of another width, or with a number too large, is refused by itself."""
    first, second = [0.05] * 10, [-0.05] * 10
    with running([*MODULE, "--port", "0"], tmp_path) as process:
        async with httpx.AsyncClient(base_url=process.url, timeout=50) as client:
            rows = [first, second, [0.0] * 9, [1e39] * 10, first]
            answers = await asyncio.gather(*(client.post("/predict", json={"row": row}) for row in rows))
            assert (await client.post("/events", json={"id": "a", "payload": 1})).json()["new"] is True
        process.signal(signal.SIGTERM)
        assert await process.ends() == 0
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422, 200]
    high, low, again = (answers[n].json()["prediction"] for n in (0, 1, 4))
    assert 25 < low < high == again < 346  # the data's own range
    assert "a row of 10 numbers, and this one has 9" in answers[2].json()["detail"][0]["msg"]
    assert stored(tmp_path / "events.sqlite") == {"a": 1}


START = """
import sys
from examples.recipes.fastapi_app import main
for path in sys.argv[1:]:
    try:
        main(["--database", path])
    except SystemExit as ended:
        print(ended)
print("sklearn" in sys.modules)
"""


def test_a_database_that_cannot_be_written_stops_the_start_in_one_line(tmp_path: Path) -> None:
    """Not with the first event: a folder, a file that can only be read, one whose log would have no place.

    The command says what was found and the way out, before it trains a model or even loads one.
    """
    names = ["empty", "file", "log"]
    for name in names:
        (tmp_path / name).mkdir()
    asyncio.run(made(tmp_path / "file" / "events"))
    asyncio.run(made(tmp_path / "log" / "events"))
    (tmp_path / "file" / "events").chmod(0o400)
    (tmp_path / "empty").chmod(0o500)
    (tmp_path / "log").chmod(0o500)
    done = subprocess.run(
        [*AS_ANYONE, sys.executable, "-c", START, *(str(tmp_path / name / "events") for name in names)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    *said, sklearn_is_loaded = done.stdout.splitlines()
    for name, line in zip(names, said, strict=True):
        assert line.startswith(
            f"the service can't start: the events' database {tmp_path}/{name}/events can't be used ("
        )
        assert line.endswith("in a folder that exists and can be written")
    assert sklearn_is_loaded == "False"
    assert done.stderr == ""


async def made(path: Path) -> None:
    """Make the database, as an earlier run of the service did."""
    app = create_app(path, prediction_processor=total)
    async with app.router.lifespan_context(app):
        pass


def test_an_address_that_is_taken_ends_the_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a status of its own; the database is closed behind it."""
    app = create_app(tmp_path / "events", prediction_processor=total)
    with (
        signals_kept(),
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SystemExit) as ended,
    ):
        serve(app, host="127.0.0.1", port=taken.getsockname()[1])
    assert ended.value.code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["events"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "65536"], "a port is a number from 0 to 65535; got '65536'"),
        (["--drain-delay", "-1"], "seconds are a finite number, 0 or more; got '-1'"),
        (["--drain-delay", "inf"], "seconds are a finite number, 0 or more; got 'inf'"),
        (["--workers", "2"], "unrecognized arguments"),
    ],
)
def test_a_bad_option_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is opened, with what is wanted."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
