"""Where async tests run: in virtual time by default, in real time where a test says so.

How to use it. Write `pytestmark = pytest.mark.anyio` at a file's top and `async def` tests below. Each runs

- on asyncio in virtual time (`virtual_time.VirtualEventLoop`),
- on trio in virtual time (`trio.testing.MockClock(autojump_threshold=0)`, a fresh one a test).

`await anyio.sleep(60)` then takes no time: when nothing can run, the clock jumps to the next timer. To let
everything that is ready run without letting time pass, `from virtual_time import settle` and
`await settle()`. A test that would wait for ever fails instead. A virtual clock jumps
while a thread runs, so tests with threads, processes, sockets or files say

- `@pytest.mark.real_time`: asyncio, asyncio with uvloop, and trio, in real time. Wait for events there.
- `@pytest.mark.backends("asyncio")`: only the named ones of "asyncio", "uvloop" (real time only) and "trio".

At the end of each async test on asyncio it is an error if a task is left or if the loop's exception handler
was called: a "never retrieved" exception, a callback that raised, a result set twice.

What a test leaves behind fails it, and no other: its garbage is collected under its own warning filters, and threads
that it began have ended when its module does.
"""

import asyncio
import gc
import importlib
import inspect
import math
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import trio
import trio.testing
import uvloop
from blocking import PATIENCE
from virtual_time import VirtualEventLoop, settle

AsyncTest = Callable[..., Awaitable[None]]
Backend = tuple[str, dict[str, Any]]

SHARED = Path(__file__).parents[2] / "shared"
VIRTUAL = ("asyncio", "trio")
REAL = ("asyncio", "uvloop", "trio")
NEVER = 1e9
"""Virtual seconds after which nothing but the watch can be what trio's clock has jumped to."""
TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
"""Signals that a command which a test calls in this process takes, or gives back to the system."""


@pytest.fixture(autouse=True)
def _garbage_is_thrown_away_here() -> Iterator[None]:
    """Collect it after all else was torn down: else it warns in whatever test the collector happens to run."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """Give them back: where SIGPIPE has its default, writing to a client that left would end all tests."""
    before = {number: signal.getsignal(number) for number in TAKEN}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "real_time: run on asyncio, uvloop and trio in real time (threads, files)"
    )
    config.addinivalue_line("markers", "backends(*names): run only on these of asyncio, uvloop, trio")
    config.addinivalue_line("markers", "shared_files: needs ../shared, and skips where it is missing")
    config.addinivalue_line("markers", "browser: needs Chromium, and skips where there is none")
    VirtualEventLoop.real_patience = PATIENCE  # of a thread that wakes it; a busy machine is no fault


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SHARED.is_dir():
        return
    for item in items:
        if item.get_closest_marker("shared_files") is not None:
            item.add_marker(pytest.mark.skip(reason="../shared is not beside this checkout"))


@pytest.fixture(autouse=True, scope="module")
def _collect_only_what_is_new() -> None:
    """Let the collector, which runs after each async test, look at what came since the module's start.

    To have it look at every import took a third of the suite's time.
    """
    importlib.import_module(
        "hypothesis"
    )  # registers trio's dice, which it could not find among what is frozen
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def patience() -> float:
    """Give the real seconds in which what ends by itself must have ended, on a machine that is busy too."""
    return PATIENCE


@pytest.fixture(autouse=True, scope="module")
def _threads_end_with_their_module(request: pytest.FixtureRequest, patience: float) -> Iterator[None]:
    """Fail the last test of a module that began a thread which goes on; trio keeps those that are idle for a while."""
    before, failed = set(threading.enumerate()), request.session.testsfailed
    yield
    gc.collect()
    if request.session.testsfailed != failed:  # its traceback holds what holds them
        return
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("Trio thread"):
            thread.join(patience)
            if thread.is_alive():
                pytest.fail(f"a thread of this module goes on: {thread}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "anyio_backend" not in metafunc.fixturenames:
        return
    real = metafunc.definition.get_closest_marker("real_time") is not None
    wanted = metafunc.definition.get_closest_marker("backends")
    names = [name for name in (REAL if real else VIRTUAL) if wanted is None or name in wanted.args]
    if not names:
        pytest.fail(f"{metafunc.definition.nodeid}: none of its backends exists in this kind of time")
    metafunc.parametrize(
        "anyio_backend",
        [(name, real) for name in names],
        ids=[f"{name}-real" if real else name for name in names],
        indirect=True,
    )


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Give the backend with its options: see this file's head."""
    match request.param:
        case ("asyncio", False):
            return "asyncio", {"loop_factory": VirtualEventLoop}
        case ("trio", False):
            return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}
        case ("uvloop", True):
            return "asyncio", {"loop_factory": uvloop.new_event_loop}
        case (name, True):
            return name, {}
        case unknown:
            raise ValueError(f"unknown backend {unknown!r}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Put the watch around every async test (those of hypothesis make their own loops)."""
    test = pyfuncitem.obj
    # Trio shuffles what is ready: by the same dice in every run of a test.
    trio._core._run._r.seed(pyfuncitem.nodeid)
    if "anyio_backend" in pyfuncitem.funcargs and inspect.iscoroutinefunction(test):
        name, options = cast("Backend", pyfuncitem.funcargs["anyio_backend"])
        pyfuncitem.obj = _watched_on_asyncio(test) if name == "asyncio" else _watched_on_trio(test, options)
    return (yield)


def _watched_on_trio(test: AsyncTest, options: dict[str, Any]) -> AsyncTest:
    """Fail a test in which nobody is left to wake anybody: only then the clock jumps so far."""

    async def watched(**arguments: Any) -> None:
        with anyio.CancelScope(deadline=NEVER if "clock" in options else math.inf) as scope:
            await test(**arguments)
        if scope.cancel_called:
            pytest.fail(
                "stalled: every task waits and no timer is armed (a thread? mark the test `real_time`)"
            )

    return watched


def _watched_on_asyncio(test: AsyncTest) -> AsyncTest:
    """Fail a test at whose end a task is left, or whose loop had something to complain of."""

    async def watched(**arguments: Any) -> None:
        loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
        complaints: list[str] = []
        loop.set_exception_handler(lambda _loop, context: complaints.append(_in_words(context)))
        await test(**arguments)
        await settle()
        gc.collect()
        if left := asyncio.all_tasks() - before:
            pytest.fail(f"tasks left at the end of the test: {left}")
        if complaints:
            pytest.fail(f"the event loop complained: {complaints}")

    return watched


def _in_words(context: dict[str, Any]) -> str:
    """Say it at once: to keep the context would keep the very exception alive."""
    return f"{context.get('message')}: {context.get('exception')!r}"
