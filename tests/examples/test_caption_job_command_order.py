"""The order of a run's steps, as it is seen from outside: by the address that is told, and by windows done again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from caption_runs import GOOD, SAMPLES, Place, place
from ping_server import SECRET, Pinged, pinged
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAULTY = (SAMPLES / "faulty" / "no_parity.scc").read_bytes()
WINDOW = "2026-01-01T0005Z"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pinged]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pinged() as server:
        yield server


def since(told: Pinged) -> list[str]:
    """Return what was told since the last time."""
    found = told.asked
    told.paths.clear()
    return found


def test_the_address_is_told_of_start_and_end_with_the_code(here: Place, told: Pinged) -> None:
    """Success is 0 and nothing else; what fails before its start has an end alone."""
    (here.queue / "a.scc").write_bytes(FAULTY)
    ping = ("--ping-url", told.url)
    assert here.run(*ping, "--fail-on", "error").returncode == 65
    assert since(told) == ["/start", "/65"]
    assert here.run(*ping).returncode == 0
    assert since(told) == ["/start", ""]

    (here.state / "dashboard.json").unlink()
    (here.state / "dashboard.json" / "theirs").mkdir(parents=True)
    done = here.run(*ping)
    assert (done.returncode, since(told)) == (73, ["/73"])
    (here.state / "dashboard.json" / "theirs").rmdir()
    (here.state / "dashboard.json").rmdir()
    here.queue.rename(here.queue.with_name("elsewhere"))
    gone = here.run(*ping)
    assert (gone.returncode, since(told)) == (66, ["/66"])
    assert SECRET not in done.stderr + gone.stderr


def test_a_refused_run_tells_the_address_nothing(here: Place, told: Pinged) -> None:
    """The run that holds the lock tells of itself."""
    here.fill(60)
    with here.held_run():
        assert here.run("--ping-url", told.url).returncode == 75
    assert since(told) == []


def test_an_address_that_nobody_answers_at_is_a_warning(here: Place) -> None:
    """It never fails a run; in a JSON log it is a line of its own, before the last."""
    done = here.run("--ping-url", "http://127.0.0.1:1/secret", "--json-logs")
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert (done.returncode, set(events), events[-1]) == (0, {"warning", "summary"}, "summary")


def test_windows_are_done_again_in_their_place(here: Place) -> None:
    """What has its bytes is checked with today's profile; what is gone or changed keeps its record; new files wait."""
    for name in ("stays.scc", "changes.scc", "goes.scc"):
        (here.queue / name).write_bytes(GOOD)
    assert here.run("--at", "2026-01-01T00:07Z").returncode == 0
    (here.queue / "changes.scc").write_bytes(FAULTY)
    (here.queue / "goes.scc").unlink()
    (here.queue / "new.scc").write_bytes(GOOD)
    strict = here.queue.parent / "strict.toml"
    strict.write_text('name = "strict"\n[rules.CUE_GAP]\nthreshold = 3\nseverity = "error"\n')

    done = here.run("--redo", WINDOW, "--profile", str(strict))

    assert done.returncode == 0
    assert done.stderr.splitlines()[-1].startswith("checked 1 of 1: ")
    assert "2 records kept as they were" in done.stderr
    assert dict(here.ask("SELECT asset_id, profile FROM records")) == {
        "stays.scc": "strict",
        "changes.scc": "house",
        "goes.scc": "house",
    }
    (file,) = (here.state / "telemetry" / "assets").rglob("*.parquet")
    assert file.parent.name == f"window={WINDOW}"
    assert parquet.read_table(file)["profile"].to_pylist().count("strict") == 1
    (totals,) = here.ask("SELECT totals FROM runs ORDER BY started_at DESC LIMIT 1")
    assert (json.loads(totals[0])["backlog"], json.loads(totals[0])["kept"]) == (
        None,
        {"changed": 1, "gone": 1},
    )


def test_windows_without_records_are_nothing_to_do(here: Place) -> None:
    """And the files of the queue are not looked at."""
    here.fill(1)
    done = here.run("--redo", f"{WINDOW}/2026-01-02T0000Z")
    assert done.returncode == 0
    assert done.stderr.startswith("nothing to do: of these windows no asset is there as it was; ")
    assert here.statuses == {}


def test_a_profile_that_cannot_be_is_told_by_metrics_and_ping(here: Place, told: Pinged) -> None:
    """78, where runs have been before; while one is at work the metrics are its own. A first run makes nothing."""
    wrong = ("--ping-url", told.url, "--profile", "nix")
    assert here.run(*wrong).returncode == 78
    assert (since(told), here.state.exists()) == (["/78"], False)
    here.fill(60)
    assert here.run().returncode == 0
    before = (here.state / "metrics.prom").read_text()

    assert here.run(*wrong).returncode == 78

    after = (here.state / "metrics.prom").read_text()
    success = {line for line in before.splitlines() if "last_success" in line}
    assert success | {"caption_qc_run_exit_code 78"} <= set(after.splitlines())
    assert since(told) == ["/78"]
    for path in here.queue.iterdir():
        path.write_bytes(GOOD + b"\n" * 1000 + b"\n" * int(path.name[:3]))
    with here.held_run():
        assert here.run(*wrong).returncode == 78
        assert (here.state / "metrics.prom").read_text() == after
