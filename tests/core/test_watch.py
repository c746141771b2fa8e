"""The watch over every async test notices what it is there for (see `conftest.py`)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recording import RecordingProcessor
from scenes import open_scene

TESTS = Path(__file__).parents[1]
FAULTY = """
import asyncio
import anyio
import pytest

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.backends("asyncio")

async def test_waits_for_ever():
    await anyio.Event().wait()

@on_asyncio
async def test_leaves_a_task():
    global task
    task = asyncio.get_running_loop().create_task(asyncio.sleep(60))

@on_asyncio
async def test_never_retrieves_an_error():
    asyncio.get_running_loop().create_future().set_exception(ValueError())

@on_asyncio
async def test_callback_raises():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)

async def test_never_awaits():
    anyio.sleep(0)

async def test_passes():
    pass
"""


def test_faults_that_a_test_leaves_behind_fail_it(tmp_path: Path) -> None:
    """A lost wake-up, a task, an error not retrieved, a callback that raised, a coroutine not awaited."""
    (tmp_path / "test_faulty.py").write_text(FAULTY)
    shutil.copy(TESTS / "conftest.py", tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            TESTS.parent / "pyproject.toml",
            "-q",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    failed = sorted(re.findall(r"^FAILED .*::(\w+\[\w+\])", done.stdout, re.MULTILINE))
    assert failed == [
        "test_callback_raises[asyncio]",
        "test_leaves_a_task[asyncio]",
        "test_never_awaits[asyncio]",
        "test_never_awaits[trio]",
        "test_never_retrieves_an_error[asyncio]",
        "test_waits_for_ever[asyncio]",
        "test_waits_for_ever[trio]",
    ], done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.anyio
@pytest.mark.parametrize("busy", [False, True])
async def test_failure_inside_a_scene_is_raised_by_itself(busy: bool) -> None:
    """It is neither wrapped nor replaced by the cancellation that ends the scene, and the scene ends."""
    fn = RecordingProcessor()
    fn.hold()

    async def fails() -> None:
        async with open_scene(fn, max_batch_size=1, max_queue_time=0) as scene:
            if busy:
                await scene.process(1, 2)
            raise LookupError("the test's own")

    with pytest.raises(LookupError, match="the test's own"):
        await fails()
