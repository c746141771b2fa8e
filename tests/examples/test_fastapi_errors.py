"""The HTTP service: what each error becomes, and that none of the backend speaks for the service."""

import asyncio
import contextlib
import sqlite3
from collections import UserList, deque
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from app_serving import FAILED, Rows, serving, total
from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError

from async_batcher import (
    AsyncBatcher,
    BatcherStopped,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    QueueFull,
    ResultMismatch,
    TooManyGroups,
)
from examples.recipes.backend_errors import BackendFailed, ItemRefused, apart, refusing
from examples.recipes.fastapi_app import create_app, running_service
from examples.recipes.operations import (
    BackendDeadlineExceeded,
    ResponseDeadlineExceeded,
    backend_call,
)

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


OWN_ERRORS = [
    (QueueFull(), 503, True),
    (EnqueueTimeout(), 503, True),
    (TooManyGroups(), 503, True),
    (ItemExpired(), 503, True),
    (ItemTooHeavy(), 413, True),
    (BatcherStopped(withdrawn=True), 503, True),
    (BatcherStopped(withdrawn=False), 503, False),
]


@pytest.mark.parametrize(("error", "status", "withdrawn"), OWN_ERRORS, ids=repr)
async def test_refusals_say_whether_sending_again_is_safe(
    database: Path, error: Exception, status: int, *, withdrawn: bool
) -> None:
    """Each refusal has its status; only what would be accepted a little later names a time to come back."""

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
    busy = isinstance(error, QueueFull | EnqueueTimeout | TooManyGroups)
    assert ("Retry-After" in answer.headers) is busy


class Panic(BaseException):
    """What an extension in another language may raise."""


BACKEND_ERRORS: list[BaseException] = [
    ValueError("secret"),
    TimeoutError("secret"),
    ResultMismatch("secret"),
    OSError("secret"),
    QueueFull("secret"),
    EnqueueTimeout("secret"),
    TooManyGroups("secret"),
    ItemExpired("secret"),
    ItemTooHeavy("secret"),
    BatcherStopped("secret", withdrawn=True),
    ResponseDeadlineExceeded("secret", withdrawn=True),
    HTTPException(404, "secret"),
    RequestValidationError([{"type": "secret", "loc": (), "msg": "secret"}]),
    Panic("secret"),
    BaseExceptionGroup("secret", [Panic("secret")]),
]


@pytest.mark.parametrize("how", ["raised", "in its place", "in a thread", "awaited from a thread"])
@pytest.mark.parametrize("error", BACKEND_ERRORS, ids=lambda error: type(error).__name__)
async def test_what_the_backend_raises_is_a_500_that_tells_nothing(
    database: Path, error: BaseException, how: str, caplog: pytest.LogCaptureFixture
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
async def test_what_the_database_raises_is_a_500(database: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its table is gone: the batch fails, and the service goes on."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        with contextlib.closing(sqlite3.connect(database)) as other:
            other.execute("DROP TABLE events")
        answer = await client.post("/events", json={"id": "a", "payload": 1})
        assert (answer.status_code, answer.json()) == (500, FAILED)
        assert (await client.post("/predict", json={"row": [1]})).status_code == 200
    assert "BackendFailed: the backend raised OperationalError" in caplog.text


async def test_an_item_that_the_processor_refuses_is_its_clients_422(database: Path) -> None:
    """In its place it is told, and its siblings get their results; raised it would speak for them too: a 500."""

    async def choosy(rows: Rows) -> list[object]:
        if rows[0] == [0]:
            raise ItemRefused("secret")
        return [ItemRefused("below nothing \ud800") if row[0] < 0 else row[0] for row in rows]

    async with serving(create_app(database, prediction_processor=choosy)) as client:
        answers = await asyncio.gather(*(client.post("/predict", json={"row": [n]}) for n in (-1, 1)))
        failed = await client.post("/predict", json={"row": [0]})
    assert [answer.status_code for answer in answers] == [422, 200]
    assert answers[0].json()["detail"] == [
        {"type": "item_refused", "loc": ["body"], "msg": "below nothing \ud800"}
    ]
    assert (failed.status_code, failed.json()) == (500, FAILED)


class Endless:
    """Two results long, and it has another one for every place."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> object:
        return QueueFull() if place == 0 else 1.0


class Table(UserList[object]):
    """What has columns is read by the column."""

    columns = ()


ODD = [
    {1.0, QueueFull()},
    frozenset({1.0, QueueFull()}),
    {0: QueueFull(), 1: 1.0},
    {QueueFull(): 0, 1.0: 1},
    {QueueFull(): 0, 1.0: 1}.values(),
    [QueueFull()],
    (QueueFull(), 1.0, 2.0),
    Table([QueueFull(), 1.0]),
    Endless(),
    iter([QueueFull(), 1.0]),
    "ab",
    b"ab",
    None,
    7,
]


@pytest.mark.parametrize("returned", ODD, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.real_time
async def test_what_a_batcher_takes_for_no_results_stays_so(returned: object, *, in_thread: bool) -> None:
    """An error in it does not make a list of it: what comes of each item is the same as without."""

    async def on_the_loop(_: list[int]) -> Any:
        return returned

    def in_a_thread(_: list[int]) -> Any:
        return returned

    processor: Any = in_a_thread if in_thread else on_the_loop
    outcomes = []
    for each in (processor, apart(processor)):
        async with AsyncBatcher[int, Any].from_callable(each) as batcher:
            outcomes.append(await batcher.process_many([1, 2], return_exceptions=True))
    assert list(map(type, outcomes[0])) == list(map(type, outcomes[1]))


@pytest.mark.parametrize("kind", [list, tuple, UserList, deque], ids=lambda kind: kind.__name__)
async def test_an_error_in_any_kind_of_sequence_is_kept_apart(kind: Any) -> None:
    """As a batcher takes any of them; the sibling has its result."""

    async def processor(items: list[int]) -> Any:
        return kind([QueueFull(), *items[1:]])

    async with AsyncBatcher[int, Any].from_callable(apart(processor)) as batcher:
        failed, result = await batcher.process_many([1, 2], return_exceptions=True)
    assert (type(failed), result) == (BackendFailed, 2)


def test_refusing_keeps_the_faulty_items_from_the_processor() -> None:
    """Each has its own place; a batch of nothing else is no call; a result too few is an error, and no shift."""
    calls: list[list[int]] = []

    def doubled(items: list[int]) -> list[int]:
        calls.append(items)
        return [2 * item for item in items if item != 9]

    processor = refusing(doubled, lambda item: "negative" if item < 0 else None)
    assert [str(each) for each in processor([-1, 1, -2, 2])] == ["negative", "2", "negative", "4"]
    assert isinstance(processor([-1])[0], ItemRefused)
    with pytest.raises(ValueError, match="1 results for 2 items"):
        processor([9, 1])
    assert calls == [[1, 2], [9, 1]]


@pytest.mark.parametrize("value", [float("nan"), "many", None], ids=str)
async def test_a_prediction_that_is_no_number_is_a_500(database: Path, value: object) -> None:
    """It is never sent as `null`."""

    async def processor(rows: Rows) -> list[object]:
        return [value for _ in rows]

    async with serving(create_app(database, prediction_processor=processor)) as client:
        answer = await client.post("/predict", json={"row": [1]})
    assert (answer.status_code, answer.json()) == (500, FAILED)


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
