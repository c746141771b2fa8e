"""The watch over every async test notices what it is there for (see `conftest.py`)."""

import os
import re
import shutil
from pathlib import Path

import pytest
from programs import run_python
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

def test_leaves_garbage_that_warns():
    circle = [anyio.sleep(0)]
    circle.append(circle)

async def test_passes():
    pass
"""
THREAD = """
import threading
import pytest

@pytest.fixture(scope="module")
def patience():
    return 0.01

def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
NEXT = """
def test_pays_for_nobody():
    pass
"""


def test_faults_that_a_test_leaves_behind_fail_it(tmp_path: Path) -> None:
    """A lost wake-up, a task, an error not retrieved, a callback that raised, a coroutine not awaited, a thread.

    It fails itself, and none of those behind it.
    """
    for name, text in (("faulty", FAULTY), ("its_thread", THREAD), ("next", NEXT)):
        (tmp_path / f"test_{name}.py").write_text(text)
    shutil.copy(TESTS / "conftest.py", tmp_path)
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_python(
        "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "-q", str(tmp_path), PYTHONPATH=path
    )
    failed = sorted(re.findall(r"^FAILED .*::(\w+\[\w+\])", done.out, re.MULTILINE))
    at_their_end = sorted(re.findall(r"^ERROR .*::(\w+)", done.out, re.MULTILINE))
    assert failed == [
        "test_callback_raises[asyncio]",
        "test_leaves_a_task[asyncio]",
        "test_never_awaits[asyncio]",
        "test_never_awaits[trio]",
        "test_never_retrieves_an_error[asyncio]",
        "test_waits_for_ever[asyncio]",
        "test_waits_for_ever[trio]",
    ], done.out
    assert at_their_end == ["test_leaves_a_thread", "test_leaves_garbage_that_warns"], done.out
    assert "5 passed" in done.out


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
