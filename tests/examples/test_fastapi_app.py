"""The HTTP service: what each error becomes, events stored once, the drain; over a real server too."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Generator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from virtual_time import settle

from async_batcher import BatcherStopped, EnqueueTimeout, QueueFull, ResultMismatch, TooManyGroups
from examples.recipes.event_store import Event
from examples.recipes.fastapi_app import Budgets, Unreadable, create_app, drain_together, running_service
from examples.recipes.operations import (
    BackendDeadlineExceeded,
    Intake,
    ResponseDeadlineExceeded,
    backend_call,
)

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]

ROOT = Path(__file__).parents[2]

Rows = list[list[float]]

FAILED = {
    "error": "InternalServerError",
    "detail": "The service failed on this request: its outcome is unknown.",
    "withdrawn": False,
}


async def total(rows: Rows) -> list[float]:
    return [sum(row) for row in rows]


@contextlib.asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """Start the app as a server does, and give a client that sees a 500 as a 500."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield client


def stored(path: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {
            name: json.loads(payload)
            for name, payload in connection.execute("SELECT id, payload FROM events")
        }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


@pytest.mark.real_time
async def test_predicts_in_batches(database: Path) -> None:
    """Eight requests at once reach the processor together, and each gets its own row's value."""
    batches: list[Rows] = []

    async def processor(rows: Rows) -> list[float]:
        batches.append(rows)
        return await total(rows)

    async with serving(create_app(database, prediction_processor=processor)) as client:
        posts = (client.post("/predict", json={"row": [n, 0.5]}) for n in range(8))
        answers = await asyncio.gather(*posts)
        counts = (await client.get("/stats")).json()
    assert [answer.json() for answer in answers] == [{"prediction": n + 0.5} for n in range(8)]
    assert sum(map(len, batches)) == 8
    assert len(batches) < 8
    assert counts["predictions"]["succeeded"] == 8
    assert counts["events"]["accepted"] == 0


@pytest.mark.real_time
async def test_a_sync_model_runs_in_a_thread(database: Path) -> None:
    """A plain function is a processor too, and does not hold up the event loop."""
    threads: list[threading.Thread] = []

    def model(rows: Rows) -> list[float]:
        threads.append(threading.current_thread())
        return [sum(row) for row in rows]

    async with serving(create_app(database, prediction_processor=model)) as client:
        assert (await client.post("/predict", json={"row": [1, 2]})).json() == {"prediction": 3.0}
    assert threads != [threading.main_thread()]


@pytest.mark.real_time
async def test_stores_an_event_once(database: Path) -> None:
    """A retry under the same id is harmless, also in the same batch: the answer says that it was there."""
    event = {"id": "order-1", "payload": {"n": [1, None, "ü"]}}
    async with serving(create_app(database, prediction_processor=total)) as client:
        both = await asyncio.gather(*(client.post("/events", json=event) for _ in range(2)))
        again = await client.post("/events", json=event)
        other = await client.post("/events", json={"id": "order-2", "payload": 2})
    assert sorted(answer.json()["new"] for answer in both) == [False, True]
    assert again.json() == {"id": "order-1", "new": False}
    assert other.json() == {"id": "order-2", "new": True}
    assert stored(database) == {"order-1": {"n": [1, None, "ü"]}, "order-2": 2}


@pytest.mark.real_time
async def test_many_events_share_transactions(database: Path) -> None:
    """Two hundred events at once take few batches, and all are there after shutdown."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        posts = (client.post("/events", json={"id": str(n), "payload": n}) for n in range(200))
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
        counts = (await client.get("/stats")).json()["events"]
    assert counts["batches"] <= 20
    assert [path.name for path in database.parent.iterdir()] == [database.name]  # closed, its log folded in
    assert stored(database) == {str(n): n for n in range(200)}


@pytest.mark.real_time
async def test_a_second_start_continues_with_the_same_file(database: Path) -> None:
    """The app may be started again after it ended; an id of the first life is known in the second."""
    app = create_app(database, prediction_processor=total)
    for new in (True, False):
        async with serving(app) as client:
            assert (await client.post("/events", json={"id": "a", "payload": 1})).json()["new"] is new
            assert (await client.get("/readyz")).status_code == 200


def test_create_app_opens_nothing(database: Path) -> None:
    """Building the app touches no file."""
    create_app(database, prediction_processor=total)
    assert list(database.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"row": []}', "/predict"),
        ('{"row": ["1"]}', "/predict"),
        ('{"row": [true]}', "/predict"),
        ('{"row": [NaN]}', "/predict"),
        ('{"row": [1e999]}', "/predict"),
        ('{"row": 1}', "/predict"),
        ("{}", "/predict"),
        ("[", "/predict"),
        ('{"id": "", "payload": 1}', "/events"),
        ('{"id": "a"}', "/events"),
        ('{"id": 1, "payload": 1}', "/events"),
        ('{"id": "a", "payload": NaN}', "/events"),
        ('{"id": "a", "payload": {"b": [-Infinity]}}', "/events"),
        ('{"id": "\\ud800", "payload": 1}', "/events"),
    ],
)
@pytest.mark.real_time
async def test_bad_input_is_a_422_and_reaches_no_batch(database: Path, body: str, path: str) -> None:
    """What is no row or no event is refused before it could fail its siblings."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["msg"]
        assert {counts["accepted"] for counts in (await client.get("/stats")).json().values()} == {0}


OWN_ERRORS = [
    (QueueFull(), 503, True),
    (EnqueueTimeout(), 503, True),
    (TooManyGroups(), 503, True),
    (BatcherStopped(withdrawn=True), 503, True),
    (BatcherStopped(withdrawn=False), 503, False),
]


@pytest.mark.parametrize(("error", "status", "withdrawn"), OWN_ERRORS, ids=repr)
async def test_refusals_say_whether_sending_again_is_safe(
    database: Path, error: Exception, status: int, *, withdrawn: bool
) -> None:
    """Each refusal of the batchers is a 503; only what was not accepted names a time to come back."""

    class Refusing:
        async def predict(self, row: list[float]) -> float:
            raise error

    app = create_app(database, prediction_processor=total)
    app.dependency_overrides[running_service] = Refusing
    async with serving(app) as client:
        answer = await client.post("/predict", json={"row": [1]})
    assert answer.status_code == status
    assert answer.json()["withdrawn"] is withdrawn
    assert answer.json()["error"] == type(error).__name__
    assert ("Retry-After" in answer.headers) is not isinstance(error, BatcherStopped)


@pytest.mark.real_time
async def test_a_body_that_is_no_text_is_a_400(database: Path) -> None:
    """It can't be read as JSON at all; the answer has the shape that the schema says."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        answer = await client.post(
            "/predict", content=b'{"row": "\xff"}', headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 400
    assert Unreadable.model_validate(answer.json()).detail


def test_the_schema_lists_every_answer(database: Path) -> None:
    """All statuses with their bodies, and when to come back."""
    paths = create_app(database, prediction_processor=total).openapi()["paths"]
    for path in ("/predict", "/events"):
        answers = paths[path]["post"]["responses"]
        assert set(answers) == {"200", "400", "422", "500", "503", "504"}
        for status in ("500", "503", "504"):
            schema = answers[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Refusal"}
        assert list(answers["503"]["headers"]) == ["Retry-After"]


BACKEND_ERRORS = [
    ValueError("secret"),
    TimeoutError("secret"),
    ResultMismatch("secret"),
    OSError("secret"),
    QueueFull("secret"),
    EnqueueTimeout("secret"),
    TooManyGroups("secret"),
    BatcherStopped("secret", withdrawn=True),
    ResponseDeadlineExceeded("secret", withdrawn=True),
    HTTPException(404, "secret"),
    RequestValidationError([{"type": "secret", "loc": (), "msg": "secret"}]),
]


@pytest.mark.parametrize("how", ["raised", "in its place", "in a thread", "awaited from a thread"])
@pytest.mark.parametrize("error", BACKEND_ERRORS, ids=lambda error: type(error).__name__)
async def test_what_the_backend_raises_is_a_500_that_tells_nothing(
    database: Path, error: Exception, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The service's own kinds too: they would say "never processed, send it again". It is logged instead."""

    async def raising(rows: Rows) -> list[float]:
        raise error

    async def in_its_place(rows: Rows) -> tuple[object, ...]:
        return tuple(error for _ in rows)

    def in_a_thread(rows: Rows) -> list[float]:
        raise error

    def to_be_awaited(rows: Rows) -> Awaitable[list[float]]:
        return raising(rows)

    ways: dict[str, Any] = {
        "raised": raising,
        "in its place": in_its_place,
        "in a thread": in_a_thread,
        "awaited from a thread": to_be_awaited,
    }
    async with serving(create_app(database, prediction_processor=ways[how])) as client:
        answer = await client.post("/predict", json={"row": [1]})
        assert (await client.get("/livez")).status_code == 200
    assert answer.status_code == 500
    assert answer.json() == FAILED
    assert "a request failed: POST /predict" in caplog.text
    assert "secret" in caplog.text


@pytest.mark.real_time
async def test_what_the_database_raises_is_a_500(database: Path) -> None:
    """Its table is gone: the batch fails, and the service goes on."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        with contextlib.closing(sqlite3.connect(database)) as other:
            other.execute("DROP TABLE events")
        answer = await client.post("/events", json={"id": "a", "payload": 1})
        assert (answer.status_code, answer.json()) == (500, FAILED)
        assert (await client.post("/predict", json={"row": [1]})).status_code == 200


@pytest.mark.parametrize("value", [float("nan"), "many", None], ids=str)
async def test_a_prediction_that_is_no_number_is_a_500(database: Path, value: object) -> None:
    """It is never sent as `null`."""

    async def processor(rows: Rows) -> list[object]:
        return [value for _ in rows]

    async with serving(create_app(database, prediction_processor=processor)) as client:
        answer = await client.post("/predict", json={"row": [1]})
    assert (answer.status_code, answer.json()) == (500, FAILED)


async def test_a_full_queue_is_a_503_with_retry_after(database: Path) -> None:
    """While the model hangs, 64 run, 1,024 wait, and the next are refused at once and never processed."""
    gate, seen = anyio.Event(), list[float]()

    async def processor(rows: Rows) -> list[float]:
        seen.extend(row[0] for row in rows)
        await gate.wait()
        return await total(rows)

    async with serving(create_app(database, prediction_processor=processor)) as client:
        held = [asyncio.create_task(client.post("/predict", json={"row": [n]})) for n in range(64 + 1024)]
        await settle()
        refused = await client.post("/predict", json={"row": [-1]})
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert refused.json()["withdrawn"] is True
        gate.set()
        assert {(await answer).status_code for answer in held} == {200}
    assert -1 not in seen


async def test_a_response_deadline_is_a_504_that_says_whether_it_ran(database: Path) -> None:
    """One request runs and one waits when both deadlines pass: unknown, and safe to send again."""
    gate = anyio.Event()

    async def processor(rows: Rows) -> list[float]:
        await gate.wait()
        return await total(rows)

    app = create_app(database, prediction_processor=processor, response_timeout=1)
    async with serving(app) as client:
        running = asyncio.create_task(client.post("/predict", json={"row": [1]}))
        await anyio.sleep(0.5)
        waiting = asyncio.create_task(client.post("/predict", json={"row": [2]}))
        answers = [await running, await waiting]
        gate.set()
    assert [answer.status_code for answer in answers] == [504, 504]
    assert [answer.json()["withdrawn"] for answer in answers] == [False, True]
    assert {answer.json()["error"] for answer in answers} == {"ResponseDeadlineExceeded"}
    assert answers[0].json()["detail"] != answers[1].json()["detail"]


async def test_a_backend_deadline_in_an_items_place_is_its_own(database: Path) -> None:
    """One item of a batch was too late: a 504 for it, a result for the other."""

    async def processor(rows: Rows) -> list[object]:
        return [BackendDeadlineExceeded() if row[0] < 0 else row[0] for row in rows]

    async with serving(create_app(database, prediction_processor=processor)) as client:
        answers = await asyncio.gather(*(client.post("/predict", json={"row": [n]}) for n in (-1, 1)))
    assert [answer.status_code for answer in answers] == [504, 200]


async def test_a_backend_deadline_is_a_504_of_its_own(database: Path) -> None:
    """Every request of the batch hears that the call was cancelled; the next batch is served."""
    hang = True

    async def model(rows: Rows) -> list[float]:
        if hang:
            await anyio.sleep_forever()
        return await total(rows)

    async def processor(rows: Rows) -> list[float]:
        return await backend_call(model, rows, timeout=0.5)

    async with serving(create_app(database, prediction_processor=processor, response_timeout=1)) as client:
        answers = await asyncio.gather(*(client.post("/predict", json={"row": [n]}) for n in range(2)))
        hang = False
        assert (await client.post("/predict", json={"row": [1]})).status_code == 200
    assert [answer.status_code for answer in answers] == [504, 504]
    assert [answer.json()["error"] for answer in answers] == ["BackendDeadlineExceeded"] * 2
    assert [answer.json()["withdrawn"] for answer in answers] == [False, False]


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
async def test_a_write_that_hangs_costs_the_budgets_and_no_more(database: Path) -> None:
    """Another process holds the database's lock: the app ends in time, and says that the outcome is unknown."""
    app = create_app(database, prediction_processor=total, shutdown_grace=0.1, shutdown_force=0.1)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        with anyio.fail_after(3):  # SQLite itself would wait for five seconds
            async with serving(app) as client:
                other.execute("BEGIN IMMEDIATE")
                writing = asyncio.create_task(client.post("/events", json={"id": "a", "payload": 1}))
                await settle()
            answer = await writing
        other.execute("ROLLBACK")
        await anyio.to_thread.run_sync(app.state.service._store.executor.shutdown)
    assert (answer.status_code, answer.json()["withdrawn"]) == (503, False)


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


@pytest.mark.real_time
async def test_a_database_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """A missing folder, a folder, a file that is none: one sentence with the way out, before any request."""
    (tmp_path / "text").write_text("no database, but long enough to look for a header in it " * 40)
    for path in (tmp_path / "missing" / "e.sqlite", tmp_path, tmp_path / "text"):
        app = create_app(path, prediction_processor=total)
        with pytest.raises(RuntimeError, match=r"can't be used .*give the path of a SQLite file"):
            await app.router.lifespan_context(app).__aenter__()


@pytest.mark.parametrize(
    "table",
    ["events (x)", "events (id TEXT PRIMARY KEY, payload, more TEXT NOT NULL)", "events (id, payload)"],
)
@pytest.mark.real_time
async def test_a_table_that_is_anothers_stops_the_start(database: Path, table: str) -> None:
    """Other columns, or an id that is not unique: not with the first event, and nothing stays open."""
    with contextlib.closing(sqlite3.connect(database)) as other:
        other.execute(f"CREATE TABLE {table}")
    app = create_app(database, prediction_processor=total)
    with pytest.raises(RuntimeError, match=r"can't be used .*give the path of a SQLite file"):
        await app.router.lifespan_context(app).__aenter__()
    assert [path.name for path in database.parent.iterdir()] == [database.name]


@pytest.mark.real_time
async def test_an_empty_path_stops_the_start() -> None:
    """SQLite would take it for a database of its own that is gone at the end."""
    app = create_app("", prediction_processor=total)
    with pytest.raises(RuntimeError, match=r"an empty one: give the path of a SQLite file"):
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

    for bad, fault in ((None, "prediction_processor"), (generator, "generator function")):
        with pytest.raises(TypeError, match=fault):
            create_app(database, prediction_processor=bad)  # type: ignore[arg-type]
    assert list(database.parent.iterdir()) == []


@contextlib.contextmanager
def uvicorn(folder: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Serve the public program on a free port of loopback."""
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(ROOT / "tests" / "programs"),
        "http_service:app",
    ]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--no-access-log"],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            for line in server.stderr:
                if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                    break
            else:
                pytest.fail("the server did not start")
            yield server, found.group(1)
        finally:
            server.kill()


def test_a_real_server_answers_and_stores_before_it_ends(tmp_path: Path) -> None:
    """Over loopback: predictions, events, and after SIGTERM an orderly end with every event stored."""
    with uvicorn(tmp_path) as (server, url), httpx.Client(base_url=url, timeout=10) as client:
        assert client.post("/predict", json={"row": [1, 2, 3]}).json() == {"prediction": 6.0}
        for n in range(5):
            assert client.post("/events", json={"id": f"e{n}", "payload": n}).json()["new"] is True
        assert client.get("/readyz").json() == {"status": "ready"}
        client.close()
        server.send_signal(signal.SIGTERM)
        assert server.stderr is not None
        said = server.stderr.read()
        server.wait(timeout=10)
    assert "Application shutdown complete" in said
    assert "Traceback" not in said
    assert stored(tmp_path / "batcher-deadlines.sqlite") == {f"e{n}": n for n in range(5)}


def test_a_failed_request_keeps_its_connection(tmp_path: Path) -> None:
    """A 500 and, sent behind it before it came, an event: both are answered, in order, on one connection."""
    requests = [("/predict", b'{"row": [1e308, 1e308]}'), ("/events", b'{"id": "a", "payload": 1}')]
    with uvicorn(tmp_path) as (_, url):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with contextlib.closing(socket.create_connection(address, timeout=10)) as connection:
            for path, body in requests:
                head = f"POST {path} HTTP/1.1\r\nHost: it\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answered = b""
            while answered.count(b"}") < 2 and (more := connection.recv(65536)):
                answered += more
    assert re.findall(rb"HTTP/1.1 (\d+)", answered) == [b"500", b"200"]
    assert b"connection: close" not in answered.lower()
    assert answered.endswith(b'{"id":"a","new":true}')


def test_a_killed_server_leaves_whole_events_and_a_retry_is_harmless(tmp_path: Path) -> None:
    """After SIGKILL what was answered is stored, and the next life knows it."""
    event, database = {"id": "once", "payload": [1, 2]}, tmp_path / "batcher-deadlines.sqlite"
    with uvicorn(tmp_path) as (server, url):
        assert httpx.post(f"{url}/events", json=event, timeout=10).json()["new"] is True
        server.kill()
        server.wait(timeout=10)

    async def next_life() -> httpx.Response:
        async with serving(create_app(database, prediction_processor=total)) as client:
            return await client.post("/events", json=event)

    assert asyncio.run(next_life()).json() == {"id": "once", "new": False}
    assert stored(database) == {"once": [1, 2]}
