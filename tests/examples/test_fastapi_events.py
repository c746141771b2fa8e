"""The HTTP service's events: an id is stored once, with one payload, whoever sends it how often."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from app_serving import FAILED, serving, stored, total
from virtual_time import settle

from examples.recipes import event_store
from examples.recipes.event_store import EventStore, PayloadDiffers
from examples.recipes.fastapi_app import RESPONSE_TIMEOUT, create_app

pytestmark = [pytest.mark.anyio, pytest.mark.backends("asyncio"), pytest.mark.real_time]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "events.sqlite"


async def test_an_id_with_another_payload_is_a_409_and_the_first_stays(database: Path) -> None:
    """The answer says so; siblings are stored."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        assert (await client.post("/events", json={"id": "a", "payload": 1})).json()["new"] is True
        answers = await asyncio.gather(
            client.post("/events", json={"id": "a", "payload": 2}),
            client.post("/events", json={"id": "b", "payload": 2}),
        )
        again = await client.post("/events", json={"id": "a", "payload": 1})
    assert [answer.status_code for answer in answers] == [409, 200]
    assert answers[0].json()["error"] == "PayloadDiffers"
    assert "another payload" in answers[0].json()["detail"]
    assert again.json() == {"id": "a", "new": False}
    assert stored(database) == {"a": 1, "b": 2}


async def test_two_payloads_of_one_id_in_one_batch_are_one_stored_and_one_409(database: Path) -> None:
    """Whichever comes first is stored."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        posts = (client.post("/events", json={"id": "a", "payload": n}) for n in range(2))
        answers = await asyncio.gather(*posts)
        counts = (await client.get("/stats")).json()["events"]
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    (winner,) = (n for n, answer in enumerate(answers) if answer.status_code == 200)
    assert stored(database) == {"a": winner}
    assert (counts["succeeded"], counts["failed"]) == (1, 1)


SAME = [({"x": 1, "y": [2]}, {"y": [2], "x": 1}), ("ü", "ü"), ({"a": {}}, {"a": {}})]
OTHER: list[tuple[Any, Any]] = [
    (1, True),
    (0, None),
    (1, 1.0),
    ("1", 1),
    ([1, 2], [2, 1]),
    ({}, []),
    ("", None),
]


async def test_payloads_are_the_same_where_their_json_is(database: Path) -> None:
    """The order of keys is nothing; the kind of a value is something, also where Python calls them equal."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        for number, (first, second) in enumerate(SAME + OTHER):
            await client.post("/events", json={"id": str(number), "payload": first})
            answer = await client.post("/events", json={"id": str(number), "payload": second})
            assert answer.status_code == (200 if number < len(SAME) else 409), (first, second)


async def test_a_batch_says_of_each_record_what_became_of_it(database: Path) -> None:
    """In one transaction: new, there before, in conflict, in the order of the batch."""
    store = await EventStore.open(database)
    batch = [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2"), ("b", "1")]
    outcomes = await asyncio.wrap_future(store.executor.submit(store.store, batch))
    await asyncio.wrap_future(store.close())
    assert isinstance(outcomes.pop(3), PayloadDiffers)
    assert outcomes == [True, False, True, False]


async def test_two_services_on_one_file_store_an_id_once(database: Path) -> None:
    """As two processes do behind a balancer: a retry that reaches the other one is harmless."""
    async with (
        serving(create_app(database, prediction_processor=total)) as one,
        serving(create_app(database, prediction_processor=total)) as two,
    ):
        events = [{"id": str(n), "payload": n} for n in range(20)]
        posts = (client.post("/events", json=event) for event in events for client in (one, two))
        answers = [(await post).json() for post in map(asyncio.create_task, posts)]
    assert sum(answer["new"] for answer in answers) == 20
    assert stored(database) == {str(n): n for n in range(20)}


@pytest.mark.parametrize("by", [None, "another"], ids=["removed", "replaced"])
async def test_a_database_that_is_removed_or_replaced_is_not_answered_as_stored(
    database: Path, by: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What its name stands for has not got the event: a 500, and the log says what to do."""
    async with serving(create_app(database, prediction_processor=total)) as client:
        assert (await client.post("/events", json={"id": "a", "payload": 1})).status_code == 200
        for path in tuple(database.parent.iterdir()):
            path.unlink()
        if by is not None:
            await asyncio.wrap_future((await EventStore.open(database)).close())
        answer = await client.post("/events", json={"id": "b", "payload": 1})
        assert (answer.status_code, answer.json()) == (500, FAILED)
    assert "was removed or replaced while the service ran" in caplog.text
    assert "restart the service" in caplog.text


def reads_uris() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return ("USE_URI",) in connection.execute("PRAGMA compile_options").fetchall()


@pytest.mark.skipif(not reads_uris(), reason="this SQLite takes a URI for a path")
async def test_a_uri_names_its_file(database: Path) -> None:
    """Where SQLite is built to read them: events are stored, and the file that is looked for is the right one."""
    async with serving(create_app(f"file:{database}", prediction_processor=total)) as client:
        assert (await client.post("/events", json={"id": "a", "payload": 1})).status_code == 200
    assert stored(database) == {"a": 1}


async def test_a_locked_database_is_told_though_nobody_waits_any_more(
    database: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning with the reason, and nothing of the events."""
    monkeypatch.setattr(event_store, "BUSY_TIMEOUT", 2)
    app = create_app(database, prediction_processor=total, response_timeout=0.1)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        async with serving(app) as client:
            other.execute("BEGIN IMMEDIATE")
            answer = await client.post("/events", json={"id": "my id", "payload": "my payload"})
            assert answer.status_code == 504
        other.execute("ROLLBACK")
    assert "a batch of 1 events was not stored: database is locked" in caplog.text
    assert "my " not in caplog.text


async def test_who_waits_for_a_locked_database_hears_it_within_the_commands_response_timeout(
    database: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 500, and no 504: those of the batch that waits for the lock, and those of the one behind it; once each."""
    assert 2 * event_store.BUSY_TIMEOUT < RESPONSE_TIMEOUT
    monkeypatch.setattr(event_store, "BUSY_TIMEOUT", 0.1)
    app = create_app(database, prediction_processor=total, response_timeout=50)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        async with serving(app) as client:
            other.execute("BEGIN IMMEDIATE")
            first = asyncio.create_task(client.post("/events", json={"id": "a", "payload": 1}))
            await settle()
            second = await client.post("/events", json={"id": "b", "payload": 1})
            other.execute("ROLLBACK")
            assert [(await first).status_code, second.status_code] == [500, 500]
    assert caplog.text.count("a batch of 1 events was not stored: database is locked") == 2
    assert stored(database) == {}


async def test_a_full_disk_fails_the_batch_and_the_next_one_is_served(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The whole transaction is undone, each of its clients hears it, and a retry finds the id free."""
    app = create_app(database, prediction_processor=total)

    async def limit(pages: int) -> None:
        store = app.state.service._store
        await asyncio.wrap_future(
            store.executor.submit(
                lambda: store._connection.execute(f"PRAGMA max_page_count = {pages}").close()
            )
        )

    events: list[dict[str, Any]] = [{"id": "small", "payload": 1}, {"id": "large", "payload": "p" * 20_000}]
    async with serving(app) as client:
        await limit(3)
        answers = await asyncio.gather(*(client.post("/events", json=event) for event in events))
        assert [(answer.status_code, answer.json()) for answer in answers][1] == (500, FAILED)
        assert "is full" in caplog.text
        await limit(10**6)
        for event, answer in zip(events, answers, strict=True):
            again = await client.post("/events", json=event)
            assert again.json() == {"id": event["id"], "new": answer.status_code != 200}
    assert stored(database) == {event["id"]: event["payload"] for event in events}


@pytest.mark.parametrize(
    "table",
    [
        "events (x)",
        "events (id TEXT PRIMARY KEY, payload, more TEXT NOT NULL)",
        "events (id, payload)",
        "events (id STRING PRIMARY KEY, payload TEXT)",
        "events (id TEXT PRIMARY KEY, payload JSON)",
        "events (id TEXT PRIMARY KEY, payload REAL)",
        "events (id TEXT COLLATE NOCASE PRIMARY KEY, payload TEXT)",
        "events (id TEXT COLLATE RTRIM PRIMARY KEY, payload TEXT)",
        "events (id TEXT PRIMARY KEY, payload TEXT UNIQUE)",
    ],
)
async def test_a_table_that_is_anothers_stops_the_start(database: Path, table: str) -> None:
    """Other columns, an id that is not unique, or what would be changed or taken for another's.

    Not with the first event; and nothing stays open.
    """
    with contextlib.closing(sqlite3.connect(database)) as other:
        other.execute(f"CREATE TABLE {table}")
    app = create_app(database, prediction_processor=total)
    with pytest.raises(RuntimeError, match=r"can't be used .*give the path of a SQLite file"):
        await app.router.lifespan_context(app).__aenter__()
    assert [path.name for path in database.parent.iterdir()] == [database.name]
