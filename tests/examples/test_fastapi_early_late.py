"""The HTTP service's command: signals before it has started, and after it has drained; as a container's PID 1 too."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from app_serving import RawRequest
from service_process import Held, served, starting

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]

COMMAND = ["-m", "examples.recipes.fastapi_app", "--port", "0"]
AS_FIRST = ["unshare", "--pid", "--fork", "--kill-child"]
BY_THE_SIGNAL = {-signal.SIGTERM, 128 + signal.SIGTERM}

HELD = "from pathlib import Path\n\nPath('gate').read_bytes()\n"
DATA = "def load_diabetes(return_X_y):\n    return [[0.0]], [0.0]\n"
FOREST = """
class RandomForestRegressor:
    n_features_in_ = 1

    def __init__(self, **options):
        pass

    def fit(self, rows, progress):
        return self
"""


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


@pytest.fixture(params=[(), AS_FIRST], ids=["a process", "PID 1"])
def under(request: pytest.FixtureRequest) -> Sequence[str]:
    """Give what starts the server: it is any process, or the first one of a namespace, as in a container."""
    if request.param and subprocess.run([*AS_FIRST, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody be the first process of a namespace")
    starter: Sequence[str] = request.param
    return starter


async def test_a_signal_while_the_command_is_loaded_ends_it_at_once(
    tmp_path: Path, held: Held, under: Sequence[str]
) -> None:
    """From its first line on: as asked for, so with status 0, and nothing is said."""
    (tmp_path / "fastapi.py").write_text(HELD)  # found before the real one, which it would load
    with starting(COMMAND, tmp_path, under) as process:
        async with held.batch():
            process.signal(signal.SIGTERM)
            assert await process.ends() == 0, process.said
    assert process.said == ""
    assert names(tmp_path, "*") == ["fastapi.py", "gate"]


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern) if path.name != "__pycache__")


def hold_the_training(folder: Path) -> None:
    """Put a scikit-learn before the real one: its import waits at the gate."""
    package = folder / "sklearn"
    package.mkdir()
    for name, text in (("__init__", HELD), ("datasets", DATA), ("ensemble", FOREST)):
        (package / f"{name}.py").write_text(text)


async def test_a_signal_while_the_model_is_trained_ends_the_command_when_it_has_started(
    tmp_path: Path, held: Held, under: Sequence[str]
) -> None:
    """SIGINT too: it is not lost, it never listens, and the database is closed behind it."""
    hold_the_training(tmp_path)
    with starting(COMMAND, tmp_path, under) as process:
        async with held.batch():
            process.signal(signal.SIGINT)
            await process.says("still starting")
        assert await process.ends() == 0, process.said
    assert "running on" not in process.said
    assert "Traceback" not in process.said
    assert names(tmp_path, "events*") == ["events.sqlite"]


async def test_a_second_signal_while_the_model_is_trained_ends_the_command(
    tmp_path: Path, held: Held, under: Sequence[str]
) -> None:
    """A training that hangs does not hold it."""
    hold_the_training(tmp_path)
    with starting(COMMAND, tmp_path, under) as process:
        async with held.batch():
            process.signal(signal.SIGTERM)
            await process.says("still starting")
            process.signal(signal.SIGTERM)
            assert await process.ends() in BY_THE_SIGNAL


async def test_a_third_signal_ends_the_process(tmp_path: Path, held: Held, under: Sequence[str]) -> None:
    """The second one has told everybody; a thread that never ends does not hold the process."""
    with served(tmp_path, held, under=under) as process:
        running = await RawRequest.post(process.url, "/predict", {"row": [-1]})
        async with held.batch():
            process.signal(signal.SIGTERM)
            await process.says("Ready no more")
            process.signal(signal.SIGTERM)
            assert (await running.answer())[0] == 503
            await process.says("all has drained")
            process.signal(signal.SIGTERM)
            assert await process.ends() in BY_THE_SIGNAL
        await running.leave()


async def test_a_signal_behind_the_drain_ends_the_process(
    tmp_path: Path, held: Held, under: Sequence[str]
) -> None:
    """Only a thread is waited for by then: there is nothing left to cut short, and no traceback to show."""
    with served(tmp_path, held, grace=0.1, under=under) as process:
        running = await RawRequest.post(process.url, "/predict", {"row": [-1]})
        async with held.batch():
            process.signal(signal.SIGTERM)
            assert (await running.answer())[0] == 503
            await process.says("all has drained")
            process.signal(signal.SIGINT)
            assert await process.ends() in {-signal.SIGINT, 128 + signal.SIGINT}
        await running.leave()
    assert "Traceback" not in process.said
