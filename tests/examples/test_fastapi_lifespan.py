"""The HTTP service, started and ended: what stops its start, its drain, and what cuts that short."""

import asyncio
import contextlib
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
import uvicorn
from app_serving import FAILED, Rows, serving, signals_kept, stored, total
from virtual_time import settle

from async_batcher import BatcherStopped
from examples.recipes import event_store
from examples.recipes.app_service import Budgets, drain_together
from examples.recipes.event_store import Event
from examples.recipes.fastapi_app import create_app
from examples.recipes.owned_drain import DrainingServer

if TYPE_CHECKING:
    from examples.recipes.operations import (
        Intake,
    )

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]


class Stubborn:
    """A model that will not be cancelled."""

    def __init__(self) -> None:
        self.begun, self.let_go = anyio.Event(), anyio.Event()

    async def model(self, rows: Rows) -> list[float]:
        self.begun.set()
        while not self.let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.let_go.wait()
        return await total(rows)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


async def test_shutdown_drains_what_was_accepted_and_refuses_what_comes(database: Path) -> None:
    """From the shutdown on: live, not ready, 503 for new work, and an answer for what was accepted."""
    gate = anyio.Event()

    async def processor(rows: Rows) -> list[float]:
        await gate.wait()
        return await total(rows)

    app = create_app(database, prediction_processor=processor, shutdown_grace=60)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        lifespan = app.router.lifespan_context(app)
        await lifespan.__aenter__()
        assert (await client.get("/readyz")).status_code == 200
        accepted = asyncio.create_task(client.post("/predict", json={"row": [1]}))
        await settle()
        ending = asyncio.create_task(lifespan.__aexit__(None, None, None))
        await settle()
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
        late = [
            await client.post("/predict", json={"row": [1]}),
            await client.post("/events", json={"id": "a", "payload": 1}),
        ]
        assert [(answer.status_code, answer.json()["withdrawn"]) for answer in late] == [(503, True)] * 2
        gate.set()
        assert (await accepted).json() == {"prediction": 1.0}
        await ending
    assert stored(database) == {}


async def test_a_forced_shutdown_tells_every_caller(database: Path) -> None:
    """After the grace: the one that runs hears that its outcome is unknown, the other that it never ran."""

    async def processor(rows: Rows) -> list[float]:
        await anyio.sleep_forever()
        return await total(rows)

    app = create_app(database, prediction_processor=processor, shutdown_grace=2, shutdown_force=1)
    async with serving(app) as client:
        running = asyncio.create_task(client.post("/predict", json={"row": [1]}))
        await anyio.sleep(1)
        waiting = asyncio.create_task(client.post("/predict", json={"row": [2]}))
        told_at: list[float] = []
        running.add_done_callback(lambda _: told_at.append(anyio.current_time()))
        await settle()
    answers = [await running, await waiting]
    assert told_at == pytest.approx([3])
    assert [(answer.status_code, answer.json()["withdrawn"]) for answer in answers] == [
        (503, False),
        (503, True),
    ]


@pytest.mark.real_time
async def test_a_write_that_hangs_costs_the_budgets_and_no_more(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the database's lock: the app ends in time, and says that the outcome is unknown."""
    monkeypatch.setattr(event_store, "BUSY_TIMEOUT", 50)
    app = create_app(database, prediction_processor=total, shutdown_grace=0.1, shutdown_force=0.1)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        with anyio.fail_after(30):  # SQLite itself waits longer
            async with serving(app) as client:
                other.execute("BEGIN IMMEDIATE")
                writing = asyncio.create_task(client.post("/events", json={"id": "a", "payload": 1}))
                await settle()
            answer = await writing
        other.execute("ROLLBACK")
        await anyio.to_thread.run_sync(app.state.service._store.executor.shutdown)
    assert (answer.status_code, answer.json()["withdrawn"]) == (503, False)


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("grace", "signals"), [(0.05, 1), (60, 2)], ids=["after the grace", "by a second signal"]
)
async def test_a_drain_that_fails_ends_the_server_all_the_same(
    database: Path, grace: float, signals: int
) -> None:
    """A model that will not be cancelled: its caller is told, the server ends, and the failure is raised."""
    stubborn = Stubborn()
    app = create_app(database, prediction_processor=stubborn.model, shutdown_grace=grace, shutdown_force=0.05)
    with signals_kept(), socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None)
        living = asyncio.create_task(DrainingServer(config, app, 0).serve([listener]))
        port = listener.getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=50) as client:
            predicting = asyncio.create_task(client.post("/predict", json={"row": [1]}))
            await stubborn.begun.wait()
            for _ in range(signals):
                signal.raise_signal(signal.SIGTERM)
                await settle()
            assert (await predicting).json()["withdrawn"] is False
        with anyio.fail_after(30), pytest.raises(ExceptionGroup, match="did not shut down in time"):
            await living
    stubborn.let_go.set()
    await settle()


class Drain:
    """An intake whose shutdown takes its time, and may fail; it says in what order things happened."""

    def __init__(self, name: str, log: list[str], seconds: float, error: Exception | None = None) -> None:
        self._name, self._log, self._seconds, self._error = name, log, seconds, error

    def close(self) -> None:
        self._log.append(f"close {self._name}")

    async def shutdown(self, *, grace_timeout: float | None, force_timeout: float | None) -> None:
        self._log.append(f"drain {self._name}")
        await anyio.sleep(self._seconds)
        if self._error is not None:
            raise self._error


async def test_intakes_close_before_either_drains_and_fail_as_one_group() -> None:
    """Two drains take as long as the longer; neither is cut short by a failure; both are reported."""
    log: list[str] = []
    first, second = Drain("a", log, 0.2, TimeoutError("a")), Drain("b", log, 0.4, ValueError("b"))
    intakes: list[Intake[Any, Any]] = [first, second]  # type: ignore[list-item]
    with pytest.raises(ExceptionGroup) as raised:
        await drain_together(*intakes, budgets=Budgets(None, 0.5, None))
    assert log[:2] == ["close a", "close b"]
    assert sorted(log[2:]) == ["drain a", "drain b"]
    assert anyio.current_time() == pytest.approx(0.4)
    assert sorted(map(repr, raised.value.exceptions)) == ["TimeoutError('a')", "ValueError('b')"]


@pytest.mark.real_time
async def test_a_lifespan_left_by_a_cancelled_scope_drains_first(database: Path) -> None:
    """The database closes behind the last batch: what was accepted is stored and answered."""
    app = create_app(database, prediction_processor=total, shutdown_grace=60)
    with anyio.CancelScope() as scope:
        async with app.router.lifespan_context(app):
            storing = [
                asyncio.create_task(app.state.service.store(Event(id=str(n), payload=n))) for n in range(200)
            ]
            await asyncio.sleep(0)
            scope.cancel()
            await anyio.sleep(60)
    assert await asyncio.gather(*storing) == [True] * 200
    assert stored(database) == {str(n): n for n in range(200)}


async def test_a_drain_that_is_cancelled_natively_is_forced(database: Path) -> None:
    """A second cancellation is out of patience: everybody is told, truly, and the database is closed."""

    async def processor(rows: Rows) -> list[float]:
        await anyio.sleep_forever()
        return await total(rows)

    app = create_app(database, prediction_processor=processor)
    predicting: list[asyncio.Task[float]] = []
    under_way = anyio.Event()

    async def life() -> None:
        async with app.router.lifespan_context(app):
            for _ in range(2):
                predicting.append(asyncio.create_task(app.state.service.predict([1.0])))
                await anyio.sleep(1)
            under_way.set()
            await anyio.sleep_forever()

    living = asyncio.create_task(life())
    await under_way.wait()
    living.cancel()
    await settle()
    assert not living.done()
    assert not any(task.done() for task in predicting)
    living.cancel()
    with pytest.raises(asyncio.CancelledError):
        await living
    outcomes = await asyncio.gather(*predicting, return_exceptions=True)
    assert [isinstance(each, BatcherStopped) and each.withdrawn for each in outcomes] == [False, True]
    assert [path.name for path in database.parent.iterdir()] == [database.name]


async def test_out_of_patience_with_a_model_that_will_not_be_cancelled(database: Path) -> None:
    """The drain waits for the forced cleanup, and no more for its grace."""
    stubborn = Stubborn()
    app = create_app(database, prediction_processor=stubborn.model, shutdown_grace=60, shutdown_force=1)

    predicting: list[asyncio.Task[float]] = []

    async def life() -> None:
        async with app.router.lifespan_context(app):
            predicting.append(asyncio.create_task(app.state.service.predict([1.0])))
            await stubborn.begun.wait()

    living = asyncio.create_task(life())
    await stubborn.begun.wait()
    await settle()
    start = anyio.current_time()
    living.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await living
    assert anyio.current_time() - start < 5
    assert isinstance(cancelled.value.__cause__, ExceptionGroup)
    assert isinstance(predicting[0].exception(), BatcherStopped)
    stubborn.let_go.set()
    await settle()


@pytest.mark.real_time
async def test_a_database_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """A missing folder, a folder, a file that is none: one sentence with the way out, before any request."""
    (tmp_path / "text").write_text("no database, but long enough to look for a header in it " * 40)
    for path in (tmp_path / "missing" / "e.sqlite", tmp_path, tmp_path / "text"):
        app = create_app(path, prediction_processor=total)
        with pytest.raises(RuntimeError, match=r"can't be used .*give the path of a SQLite file"):
            await app.router.lifespan_context(app).__aenter__()


@pytest.mark.real_time
async def test_a_model_that_cannot_be_trained_stops_the_start(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without scikit-learn: the way out, and the database that was opened before is closed."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    app = create_app(database)
    threads = set(threading.enumerate())
    with pytest.raises(ImportError, match="`uv sync` installs it; or give a prediction_processor"):
        await app.router.lifespan_context(app).__aenter__()
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith("events"):
            await anyio.to_thread.run_sync(thread.join)
    assert [path.name for path in database.parent.iterdir()] == [database.name]


@pytest.mark.real_time
@pytest.mark.parametrize(("path", "fault"), [("", "an empty one"), (":memory:", "keep it in memory")])
async def test_a_path_that_names_no_file_stops_the_start(path: str, fault: str) -> None:
    """SQLite would take it for a database of its own that is gone at the end."""
    app = create_app(path, prediction_processor=total)
    with pytest.raises(RuntimeError, match=rf"{fault}.*: give the path of a SQLite file"):
        await app.router.lifespan_context(app).__aenter__()


async def test_without_its_lifespan_the_app_says_what_is_missing(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a server sends no lifespan events a clear error is logged: no batcher was ever built."""
    transport = httpx.ASGITransport(create_app(database, prediction_processor=total))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        assert (await client.get("/livez")).status_code == 200
        answer = await client.post("/predict", json={"row": [1]})
    assert (answer.status_code, answer.json()) == (500, FAILED)
    assert "the app has not been started: run it by a server that sends lifespan events" in caplog.text


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1"], ids=str)
@pytest.mark.parametrize("name", ["response_timeout", "shutdown_grace", "shutdown_force"])
def test_budgets_are_checked_when_the_app_is_built(database: Path, name: str, value: object) -> None:
    """Not with the first request, and not at shutdown."""
    with pytest.raises(ValueError, match=f"{name} must be a finite number of seconds over 0"):
        create_app(database, prediction_processor=total, **{name: value})  # type: ignore[arg-type]


def test_what_is_no_processor_is_refused(database: Path) -> None:
    """When the app is built, before anything is opened."""

    async def generator(rows: Rows) -> AsyncGenerator[float]:
        yield 1.0

    for bad, fault in ((5, "prediction_processor"), (generator, "generator function")):
        with pytest.raises(TypeError, match=fault):
            create_app(database, prediction_processor=bad)  # type: ignore[arg-type]
    assert list(database.parent.iterdir()) == []
