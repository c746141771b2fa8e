"""The HTTP service: predictions in batches, events stored once, bad input refused."""

import asyncio
import threading
from pathlib import Path

import pytest
from app_serving import Rows, serving, stored, total

from examples.recipes.fastapi_app import create_app
from examples.recipes.http_answers import Unreadable

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio")]


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
    both = {"200", "400", "413", "422", "500", "503", "504"}
    for path, statuses in (("/predict", both), ("/events", both | {"409"})):
        answers = paths[path]["post"]["responses"]
        assert set(answers) == statuses
        for status in statuses & {"409", "413", "500", "503", "504"}:
            schema = answers[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Refusal"}
        assert list(answers["503"]["headers"]) == ["Retry-After"]
    assert {path: set(paths[path]["get"]["responses"]) for path in ("/stats", "/livez", "/readyz")} == {
        "/stats": {"200", "500"},
        "/livez": {"200", "500"},
        "/readyz": {"200", "500", "503"},
    }
