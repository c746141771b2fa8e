"""Runs whose queue is on an object store: what is checked, left, given up and done again, and how a run ends."""

from __future__ import annotations

import json
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from caption_bad_files import bad_file
from caption_runs import GOOD
from caption_stores import StorePlace, asked_as, asked_here, store_place
from caption_storm import SEED
from object_server import mortal_server, object_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from object_server import ObjectServer

TOO_LARGE = 8_000_001
WINDOW = "2026-01-01T0005Z"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def here(server: ObjectServer, tmp_path: Path) -> StorePlace:
    return store_place(server, tmp_path)


def states(here: StorePlace) -> dict[str, str]:
    return dict(here.ask("SELECT asset_id, state FROM assets"))


def last_totals(here: StorePlace) -> dict[str, object]:
    ((text,),) = here.ask("SELECT totals FROM runs ORDER BY number DESC LIMIT 1")
    found: dict[str, object] = json.loads(text)
    return found


def test_a_queue_on_a_store_is_checked_once(here: StorePlace) -> None:
    """Each object is read by one request and recorded; new bytes are checked again, the same bytes give no record."""
    here.put("a.scc", GOOD)
    here.put("sub/b.SCC", GOOD + b"\n")
    here.put("sub/b.toml", b"not toml")
    here.put("large.scc", b"x" * TOO_LARGE)
    here.server.forget()
    here.fire()
    read = [path for path in here.server.calls("GET") if "list-type" not in path]
    assert len(read) == len(set(read)) == 4
    assert here.statuses == {"a.scc": "pass", "sub/b.SCC": "fail", "large.scc": "fail"}
    assert here.ask("SELECT DISTINCT rule FROM findings ORDER BY 1") == [("FMT_TOO_LARGE",), ("JOB_SIDECAR",)]
    assert here.ask("SELECT DISTINCT queue FROM records") == [(here.url,)]

    here.put("a.scc", GOOD)  # A second or more later, so under another time.
    here.put("sub/b.SCC", GOOD + b"\n\n")
    said = here.fire()
    assert (last_totals(here)["checked"], last_totals(here)["same"]) == (2, 1), said
    assert len(here.ask("SELECT * FROM records")) == 4


def test_what_is_not_as_it_was_listed_is_left(here: StorePlace) -> None:
    """Replaced since the listing is left, gone is gone, denied is counted as unreadable; the rest is checked."""
    for name in ("denied", "gone", "good", "replaced"):
        here.put(f"{name}.scc", GOOD)
    here.server.forget()
    here.rule("GET", "denied.scc", "403 Access Denied")
    here.rule("GET", "gone.scc", "404 No Such Key")
    here.rule("GET", "replaced.scc", "hold")
    with here.started(*here.arguments("--max-attempts", "1")) as run:
        here.server.held()
        here.put("replaced.scc", GOOD + b"\n")
        here.server.go_on()
        _, said = run.communicate()
    assert run.returncode == 0, said
    assert here.statuses == {"good.scc": "pass"}
    assert last_totals(here)["left"] == {"unreadable": 1, "gone": 1, "changed": 1}
    assert "left  denied.scc: no permission for s3://" in said
    here.server.forget()
    here.fire()
    assert here.statuses == {f"{name}.scc": "pass" for name in ("denied", "gone", "good", "replaced")}


def test_a_store_that_goes_away_is_no_asset_s_fault(here: StorePlace) -> None:
    """The run ends with 69 and one line; what was checked stays recorded, and the rest is as new as before."""
    for number in range(40):
        here.put(f"{number:02}.scc", GOOD + b"\n" * number)
    here.server.forget()
    here.rule("GET", "00.scc", "hold")
    with here.started(*here.arguments("--max-attempts", "1")) as run:
        here.server.held()
        here.server.rule("GET", "", "drop")
        here.server.go_on()
        _, said = run.communicate()
    assert run.returncode == 69, said
    assert said.splitlines()[-1].startswith(f"caption_qc: cannot reach {here.url}: "), said
    assert here.statuses == {"00.scc": "pass"}
    assert set(states(here).values()) <= {"done", "running"}
    assert here.ask("SELECT exit_code FROM runs") == [(69,)]
    here.server.forget()
    here.fire("--max-attempts", "1")
    assert here.statuses == {f"{number:02}.scc": "pass" for number in range(40)}
    assert here.ask("SELECT MAX(attempt) FROM records") == [(1,)]


def test_sigkill_while_workers_read_loses_and_doubles_nothing(here: StorePlace) -> None:
    """Killed while an object that the dice name is on its way, three times; then a run has it all, once."""
    names = [f"{number:02}.scc" for number in range(24)]
    for number, name in enumerate(names):
        here.put(name, GOOD + b"\n" * number)
    dice = random.Random(f"{SEED} store")  # noqa: S311 - moments, not secrets
    for name in sorted(dice.sample(names, 3)):
        here.rule("GET", name, "hold", times=1)
        with here.started(*here.arguments("--workers", "2")) as run:
            here.server.held()
            run.kill()
            run.wait()
        here.server.forget()
    here.fire()
    assert here.statuses == dict.fromkeys(names, "pass"), SEED
    assert here.ask("SELECT DISTINCT attempt FROM records") == [(1,)], SEED
    assert set(states(here).values()) == {"done"}


def test_a_hiccup_of_the_store_costs_one_fire(here: StorePlace) -> None:
    """A store that does not give one object, and answers when it is asked how it is, is gone on with."""
    here.put("a.scc", GOOD)
    here.put("b.scc", GOOD + b"\n")
    here.rule("GET", "a.scc", "drop")
    said = here.fire()
    assert "left  a.scc: cannot reach s3://" in said
    assert last_totals(here)["scan_errors"] == 1
    assert states(here) == {"b.scc": "done"}  # In the same chunk, and none the worse for it.


def test_what_a_store_takes_is_not_the_check_s_time(here: StorePlace) -> None:
    """An object that can't be read in time is left and counted: it has not hung, and is no dead letter."""
    here.put("a.scc", GOOD)
    said = here.fire("--asset-timeout", "0.001s", "--max-attempts", "1")
    assert "left  a.scc: it could not be read in time" in said
    assert here.ask("SELECT * FROM dead_letters") == []


def test_a_listing_that_breaks_off_ends_the_run(here: StorePlace) -> None:
    """The queue was not seen whole: the run says 69, and knows of no backlog."""
    here.put("a.scc", GOOD)
    # Two requests see that the bucket is there, before the state folder is made and after; the third lists it.
    here.server.rule("GET", here.server.bucket, "pass", times=2)
    here.server.rule("GET", here.server.bucket, "503 Slow Down")
    done = here.here(*here.arguments())
    assert done.code == 69, done
    assert "cannot reach s3://" in done.errors[-1]
    assert last_totals(here)["backlog"] is None


@pytest.mark.usefixtures("server")
def test_a_store_that_is_not_there_ends_the_run_at_once(tmp_path: Path) -> None:
    """A server that is gone is told in one line; no state folder is made of it, and one that is there keeps all."""
    with mortal_server() as (process, mortal):
        here = store_place(mortal, tmp_path)
        here.put("a.scc", GOOD)
        with asked_here(mortal):
            here.fire()
            process.kill()
            process.wait()
            for state in (here.state, tmp_path / "other"):
                done = here.here("run", here.url, "--state", str(state))
                assert (done.code, done.out, len(done.errors)) == (69, "", 1), done
                assert done.errors[0].startswith(f"caption_qc: cannot reach {here.url}: ")
    assert not (tmp_path / "other").exists()
    assert here.statuses == {"a.scc": "pass"}


def test_what_is_missing_is_told_in_one_line(here: StorePlace) -> None:
    """No bucket, no credentials, no such profile, no endpoint: each its code, and nothing is made."""
    missing = here.here("run", "s3://nowhere/at/all", "--state", str(here.state))
    with asked_as(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""):
        no_keys = here.here(*here.arguments())
    with asked_as(AWS_PROFILE="nobody"):
        profile = here.here(*here.arguments())
    endpoint = here.command(*here.arguments(), AWS_ENDPOINT_URL="nowhere")
    for done, code, says in (
        (missing, 66, "no bucket at s3://nowhere/at/all: "),
        (no_keys, 77, f"no good credentials for {here.url}: "),
        (profile, 78, "(nobody) could not be found"),
    ):
        assert (done.code, done.out, len(done.errors)) == (code, "", 1), done
        assert says in done.errors[0]
    assert (endpoint.returncode, endpoint.stderr.count("\n")) == (78, 1), endpoint
    assert "Invalid endpoint: nowhere" in endpoint.stderr
    assert not here.state.exists()


def test_a_dead_letter_stays_where_it_lies(here: StorePlace) -> None:
    """There is no rename on a store: it is a fact of the ledger, which `status` shows and `replay` takes back."""
    here.put("dies.scc", bad_file(GOOD, "kill"))
    here.put("good.scc", GOOD)
    here.fire("--max-attempts", "1")
    assert here.statuses == {"dies.scc": "error", "good.scc": "pass"}
    assert sorted(here.server.keys(f"{here.prefix}/")) == [
        f"{here.prefix}/{name}.scc" for name in ("dies", "good")
    ]
    assert not (here.state / "dead-letter").exists()
    assert here.ask("SELECT place, move FROM dead_letters") == [(None, None)]
    assert "nothing to do: 2 assets seen" in here.fire("--max-attempts", "1")

    told = here.here("status", here.url, "--state", str(here.state), "--json")
    (letter,) = json.loads(told.out)["dead_letters"]
    assert (letter["asset_id"], letter["place"]) == ("dies.scc", None)

    by_address = ("replay", f"{here.url}/dies.scc", "--queue", here.url, "--state", str(here.state))
    assert here.here(*by_address).out == "back in the queue: dies.scc\n"
    assert here.ask("SELECT * FROM dead_letters") == []
    assert states(here) == {"good.scc": "done"}
    here.put("dies.scc", GOOD + b"\n")
    here.fire("--max-attempts", "1")
    assert here.ask("SELECT status FROM records ORDER BY status") == [("error",), ("pass",), ("pass",)]


def test_windows_are_done_again_and_dropped(here: StorePlace) -> None:
    """`--redo` checks what has the recorded bytes and counts the rest; `prune` forgets what is gone, by the address."""
    for name in ("changed", "gone", "same"):
        here.put(f"{name}.scc", GOOD + name.encode())
    here.fire("--at", "2026-01-01T00:05Z")
    here.put("changed.scc", GOOD)
    here.server.delete(f"{here.prefix}/gone.scc")
    here.put("same.scc", GOOD + b"same")
    here.fire("--redo", WINDOW)
    totals = last_totals(here)
    assert (totals["checked"], totals["kept"]) == (1, {"gone": 1, "changed": 1})
    here.fire("--at", "2026-01-02T00:05Z")
    pruned = here.here("prune", "--keep", "1d", "--state", str(here.state))
    assert pruned.out.startswith("deleted 1 window with 3 records"), pruned
    assert sorted(states(here)) == ["changed.scc", "same.scc"]


def test_a_drain_ends_a_run_that_waits_for_the_store(here: StorePlace) -> None:
    """SIGTERM while a worker waits for an object: the run ends in time, and nothing is held against the asset."""
    here.put("a.scc", GOOD)
    here.rule("GET", "a.scc", "hold", times=1)
    with here.started(*here.arguments("--drain-timeout", "2s", "--max-attempts", "1")) as run:
        here.server.held()
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate()
    assert run.returncode == 0, said
    assert time.monotonic() - began < 15, said  # The request itself would take 18 s.
    assert here.statuses == {}
    here.server.forget()
    here.fire("--max-attempts", "1")
    assert here.statuses == {"a.scc": "pass"}


def test_a_sidecar_that_no_key_can_name_or_nobody_may_ask_for_is_not_its_caption_gone(
    here: StorePlace,
) -> None:
    """`--redo` checks what has a key of 1,024 bytes again; what has a sidecar that is denied is unreadable."""
    long = "L" * (1024 - len(here.bucket.prefix) - len(".scc")) + ".scc"
    for name in (long, "denied.scc"):
        here.put(name, GOOD)
    here.server.forget()
    here.fire("--at", "2026-01-01T00:05Z")
    here.rule("HEAD", f"{long.removesuffix('.scc')}.toml", "400 Bad Request")
    for method in ("HEAD", "GET"):
        here.rule(method, "denied.toml", "403 Access Denied")

    again = here.here(*here.arguments("--redo", WINDOW))

    totals = last_totals(here)
    assert (totals["checked"], totals["kept"], totals["left"]) == (1, {}, {"unreadable": 1}), again
