"""Reports in a bucket: what a run leaves there, whose it is, and what the other commands make of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from caption_ledgers import plan_in
from caption_runs import GOOD, Place
from caption_store_reports import (
    command,
    dashboard,
    data_of,
    empty,
    fire,
    real_run,
    record,
    recorded,
    reports,
    tables,
    written,
)
from caption_stores import asked_here
from object_server import object_server
from pyarrow import dataset, fs

from examples.recipes.caption_qc.job import object_store
from examples.recipes.caption_qc.job.object_store import Bucket
from examples.recipes.caption_qc.job.reports_store import InBucket
from examples.recipes.caption_qc.job.rows import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.plan import Plan

# The windows that `record` fills by number.
WINDOWS = ["2026-01-01T0005Z", "2026-01-01T0010Z", "2026-01-01T0015Z"]
BUCKET = Bucket("captions", "reports/")
DASHBOARDS = ["dashboard.json", "dashboard.html"]


@pytest.fixture(scope="module")
def served() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def server(served: ObjectServer) -> ObjectServer:
    """The store, with nothing in it."""
    empty(served)
    return served


@pytest.fixture
def plan(tmp_path: Path, server: ObjectServer) -> Plan:
    """Runs that have left a record in each of the windows."""
    plan = replace(plan_in(tmp_path), out=InBucket(BUCKET))
    record(plan, *range(len(WINDOWS)))
    server.forget()
    return plan


@pytest.fixture
def here(plan: Plan) -> Place:
    """Their queue and state, for the command; the queue is empty."""
    return Place(plan.state.with_name("queue"), plan.state)


def test_a_run_leaves_its_reports_in_the_bucket_and_the_rest_here(
    server: ObjectServer, tmp_path: Path
) -> None:
    """Findings before assets, a request each; a browser shows the page, and asks whether it is still that one."""
    here = Place(tmp_path / "queue", tmp_path / "state")
    here.queue.mkdir()
    here.fill(2)

    done = real_run(here, server, "--at", "2026-01-01T00:05Z")

    assert (done.code, done.out) == (0, "")
    assert done.errors[-1].endswith("; dashboard s3://captions/reports/dashboard.html")
    assert written(server) == ["owner.txt", *tables(WINDOWS[0]), *DASHBOARDS]
    assert sorted(reports(server)) == sorted(written(server))
    assert not {"telemetry", "owner.txt", *DASHBOARDS} & {path.name for path in here.state.iterdir()}
    for name, kind in (
        ("dashboard.html", "text/html; charset=utf-8"),
        ("dashboard.json", "application/json"),
    ):
        head = server.client.head_object(Bucket=server.bucket, Key=f"reports/{name}")
        assert (head["ContentType"], head["CacheControl"]) == (kind, "no-cache")
    assert dashboard(server)["totals"]["assets"] == 2
    assert data_of(server, "dashboard.html").lower().startswith(b"<!doctype html>")


def test_other_programs_read_the_records_from_the_store(plan: Plan, server: ObjectServer) -> None:
    """Arrow reads all windows as one table by its own S3 client, and DuckDB asks it questions."""
    assert plan.out.shown() == "s3://captions/reports"
    store = fs.S3FileSystem(
        endpoint_override=server.endpoint
    )  # The rest is in the environment, as for the job.

    assets = dataset.dataset("captions/reports/telemetry/assets", filesystem=store).to_table()

    assert assets.num_rows == len(WINDOWS)
    assert recorded(server) == ["0.scc", "1.scc", "2.scc"]
    with duckdb.connect() as questions:
        by_status = questions.from_arrow(assets).aggregate("status, count(*)").fetchall()
    assert by_status == [("pass", len(WINDOWS))]


def test_an_empty_fire_asks_for_little(here: Place, server: ObjectServer) -> None:
    """The owner's note twice, the newest window, a listing of each table, and the two dashboards: 8 requests."""
    assert (
        fire(here, "--at", "2026-01-01T00:15Z").code == 0
    )  # Reads the ledger through, as one does each day.
    server.forget()

    done = fire(here)

    assert (done.code, "nothing to do" in done.errors[-1]) == (0, True)
    assert written(server) == DASHBOARDS
    listings = [path for path in server.calls("GET") if "list-type=2" in path]
    assert (len(listings), len(server.calls("GET")), len(server.calls("HEAD"))) == (2, 4, 2)
    assert not server.calls("DELETE")


def test_what_is_gone_or_another_is_written_again_and_no_more(here: Place, server: ObjectServer) -> None:
    """Seen by its tag, as that of a file by its time; for an equal one in its place there is no need."""
    gone, same, other = (tables(window)[1] for window in WINDOWS)
    server.delete(f"reports/{gone}")
    server.put(f"reports/{same}", data_of(server, same))
    server.put(f"reports/{other}", data_of(server, other)[::-1])
    server.forget()

    assert fire(here).code == 0

    assert written(server) == [*tables(WINDOWS[2]), *tables(WINDOWS[0]), *DASHBOARDS]
    assert recorded(server) == ["0.scc", "1.scc", "2.scc"]


def test_a_lost_ledger_is_made_again_from_the_store(here: Place, server: ObjectServer) -> None:
    """Each record once, and no Parquet is written again."""
    records = f"SELECT {', '.join(RECORD_COLUMNS)} FROM records ORDER BY asset_id"  # noqa: S608 - our own names
    before = here.ask(records), recorded(server)
    (here.state / "ledger.sqlite").unlink()

    done = fire(here)

    made = "made again from s3://captions/reports/telemetry, with 3 records of 3 windows"
    assert (done.code, made in done.errors[0]) == (0, True)
    assert written(server) == DASHBOARDS
    assert (here.ask(records), recorded(server)) == before


def test_a_damaged_ledger_is_not_replaced_by_an_empty_one_beside_another_bucket(here: Place) -> None:
    """As with folders: where no run has left its reports, the wrong `--out` is likelier."""
    (here.state / "ledger.sqlite").write_bytes(b"no ledger" * 1000)

    lost = fire(here, out="s3://captions/elsewhere")

    assert (lost.code, "no run has left its reports in s3://captions/elsewhere" in lost.errors[-1]) == (
        74,
        True,
    )
    assert "with 3 records of 3 windows" in fire(here).errors[0]


@pytest.mark.parametrize("odd", ["assets/mine.parquet", f"assets/window={WINDOWS[0]}/assets.parquet"])
def test_what_is_none_of_ours_below_the_tables_is_named(odd: str, here: Place, server: ObjectServer) -> None:
    """By its address, with the way out; the ledger stays lost."""
    (here.state / "ledger.sqlite").unlink()
    server.put(f"reports/telemetry/{odd}", b"PAR1")

    done = fire(here)

    assert (done.code, f"s3://captions/reports/telemetry/{odd}: " in done.errors[-1]) == (74, True)


def test_an_older_ledger_that_was_brought_back_is_told_of_the_windows_it_lacks(
    plan: Plan, here: Place, tmp_path: Path
) -> None:
    """As a warning that names the first of them."""
    shutil.copy(plan.ledger, tmp_path / "older")
    record(plan, len(WINDOWS))
    shutil.copy(tmp_path / "older", plan.ledger)

    done = fire(here)

    unknown = "reports/telemetry/assets/window=2026-01-01T0020Z has records that the ledger does not know"
    assert any(f"warning: s3://captions/{unknown}" in line for line in done.errors)


def test_old_windows_go_from_the_bucket_too(here: Place, server: ObjectServer) -> None:
    """What a dry run says goes; what stays is as it was. `status` says what is kept without asking the store."""
    sizes = [len(data_of(server, name)) for name in reports(server) if name.endswith(".parquet")]
    server.forget()
    where = ("--state", str(here.state), "--out", "s3://captions/reports")
    kept = json.loads(command("status", *where, "--json").out)["kept"]
    assert kept["bytes"] == sum(sizes) + (here.state / "ledger.sqlite").stat().st_size
    assert not [*server.calls("GET"), *server.calls("HEAD")]

    planned = command("prune", *where, "--keep", "1d", "--dry-run")  # The newest window always stays.
    assert planned.out.startswith("would delete 2 windows with 2 records, ")
    assert len(recorded(server)) == len(WINDOWS)
    done = command("prune", *where, "--keep", "1d")

    assert done.out.startswith("deleted 2 windows with 2 records, ")
    left = sorted(tables(WINDOWS[2]))
    assert [name for name in reports(server) if name.endswith(".parquet")] == left
    assert fire(here).code == 0
    assert [name for name in reports(server) if name.endswith(".parquet")] == left


def test_two_state_folders_never_share_a_bucket(here: Place, server: ObjectServer, tmp_path: Path) -> None:
    """Nor do two with the same paths, on two machines: the second is refused, and the first's reports stay."""
    before = {name: data_of(server, name) for name in reports(server)}
    other = fire(Place(here.queue, tmp_path / "second"))
    here.state.rename(tmp_path / "the other machine's")
    same = fire(here)

    holds = f"--out s3://captions/reports holds the reports of the state folder {here.state}; "
    assert (other.code, holds in other.errors[-1]) == (73, True)
    assert other.errors[-1].endswith("delete s3://captions/reports/owner.txt")
    machine = f"holds the reports of a state folder {here.state} of another machine, or of one that is gone; "
    assert (same.code, machine in same.errors[-1]) == (73, True)
    assert {name: data_of(server, name) for name in reports(server)} == before
    server.delete("reports/owner.txt")
    assert "with 3 records of 3 windows" in fire(here).errors[0]


def test_the_newest_windows_are_found_by_pages_that_begin_with_them(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many older ones there are, and whatever lies between; all are named a page at a time."""
    monkeypatch.setattr(object_store, "KEYS_A_PAGE", 3)
    names = [f"telemetry/assets/window={number:03d}/assets.parquet" for number in range(20)]
    for name in names:
        server.put(f"reports/{name}", b"12345")
        server.put(f"reports/{name}.bak", b"")
    server.forget()
    place = InBucket(BUCKET)

    found = place.known_by([names[19], names[16], names[17], "telemetry/assets/window=0165/assets.parquet"])

    assert sorted(found) == [names[16], names[17], names[19]]
    assert {text.split(" ")[1] for text in found.values()} == {"5"}
    assert len(server.calls("GET")) == 3
    assert [*place.parquet_below("telemetry/assets")] == names
    with place.opened(names[3]) as file:
        assert file.read() == b"12345"


def test_reports_within_the_queue_are_no_part_of_it(server: ObjectServer, tmp_path: Path) -> None:
    """A queue and an `--out` in one bucket: the listing passes over the reports, as a whole."""
    server.put("in/a.scc", GOOD)
    server.put("in/qc/decoy.scc", GOOD)
    run = [
        "run",
        "s3://captions/in",
        "--settle",
        "0",
        "--state",
        str(tmp_path),
        "--out",
        "s3://captions/in/qc",
    ]

    done = command(*run, "--workers", "1")

    assert (done.code, "checked 1 of 1: 1 pass" in done.errors[-1]) == (0, True)
    assert "nothing to do: 1 asset seen" in command(*run).errors[-1]
    assert [name for name in server.keys() if name.endswith(".html")] == ["in/qc/dashboard.html"]  # noqa: SIM118


@pytest.mark.parametrize(
    ("queue", "out", "ours"),
    [
        (Bucket("captions", "in/"), BUCKET, ()),
        (Bucket("other"), BUCKET, ()),
        (Bucket("captions"), BUCKET, ("reports/",)),
        (Bucket("captions", "reports/"), BUCKET, ("telemetry/",)),
        (Bucket("captions", "reports/in/"), BUCKET, ()),
        (Bucket("captions"), Bucket("captions"), ("telemetry/",)),
    ],
)
def test_a_queue_knows_which_of_its_keys_are_reports(
    queue: Bucket, out: Bucket, ours: tuple[str, ...]
) -> None:
    """Those below the reports' prefix; where that is the queue's own, those of the tables."""
    assert InBucket(out).keys_in(queue) == ours
