"""How a queue on an object store is given, what may not lie on one, and what a local run has to do with it: nothing."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from caption_runs import GOOD, place, run_program
from caption_stores import asked_here
from object_server import ObjectServer

from examples.recipes.caption_qc.job import object_store
from examples.recipes.caption_qc.job.drain import WRITING_SECONDS
from examples.recipes.caption_qc.job.object_store import Bucket
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.queue_store import StoreQueue
from examples.recipes.caption_qc.job.queues import queue_named
from examples.recipes.caption_qc.job.worker import Orders
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of_places

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, **environment: str) -> str:
    with pytest.raises(SystemExit) as raised:
        build_parser(environment).parse_args(arguments)
    assert raised.value.code == 64
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    "command", [["run"], ["status"], ["prune", "--keep", "1d"], ["replay"]], ids=lambda it: it[0]
)
def test_every_command_takes_the_address(command: list[str]) -> None:
    """What takes a queue takes one on a store, from the environment too; its state folder is named after it."""
    address = "s3://captions/of/news"
    given = ["--queue", address] if command[0] == "replay" else [address]
    for options in (
        build_parser({}).parse_args([*command, *given]),
        build_parser({"CAPTION_QC_QUEUE": address}).parse_args(command),
    ):
        plan = plan_of_places(options, NOW)
        assert plan.queue == StoreQueue(Bucket("captions", "of/news/"))
        digest = hashlib.sha256(address.encode()).hexdigest()[:8]
        assert plan.state == Path.cwd() / "caption-qc-state" / f"news-{digest}"
        assert plan.settle == 10.0


@pytest.mark.parametrize(
    ("address", "label"),
    [
        ("s3://b", "b"),
        ("s3://b/..", ".."),
        ("s3://b/a//", "a"),
        (f"s3://b/{'x' * 999}", "x" * 100),
        (f"s3://b/{'漢' * 100}", "漢" * 66),
        (f"s3://b/{'🎬' * 64}", "🎬" * 50),
    ],
)
def test_a_state_folder_has_a_name_that_a_folder_can_have(address: str, label: str) -> None:
    """Whatever the prefix is: the digest of the address is what tells one from another."""
    state = plan_of_places(build_parser({}).parse_args(["status", address]), NOW).state
    assert state.name.rpartition("-")[0] == label
    assert state.parent == Path.cwd() / "caption-qc-state"
    assert len(bytes(state)) - len(bytes(state.parent)) <= 255


@pytest.mark.parametrize("option", ["state", "lock", "metrics-file"])
def test_lock_ledger_and_metrics_stay_on_this_machine(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`flock`, SQLite and a textfile collector need files: the refusal says so, and where reports may go."""
    variable = f"CAPTION_QC_{option.upper().replace('-', '_')}"
    for said in (
        refused(capsys, "run", f"--{option}", "s3://bucket/x"),
        refused(capsys, "run", **{variable: "s3://bucket/x"}),
    ):
        assert "lock and ledger need a local file system" in said
        assert "reports may go to s3:// by --out" in said


def test_what_is_no_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Another store's scheme, and an address without a bucket; a folder of such a name has ./ before it."""
    assert "write s3://bucket/prefix, or ./ before a folder's name" in refused(capsys, "run", "gs://bucket/x")
    assert "names no bucket; write it like s3://bucket" in refused(capsys, "run", "s3:///x")
    options = build_parser({}).parse_args(["run", "./gs://x"])
    assert plan_of_places(options, NOW).queue == FolderQueue(Path.cwd() / "gs:" / "x")


def test_without_boto3_the_way_to_it_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optional library is missed where the option is read, before anything is made."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert "needs boto3; install it with: python -m uv sync --group s3" in refused(
        capsys, "run", "s3://bucket"
    )


def test_no_request_outlasts_a_drain() -> None:
    """The client's own bounds end a request well before a drain has to, and a chunk's answer is waited for longer."""
    plan = plan_of_places(build_parser({}).parse_args(["status", "s3://bucket"]), NOW)
    with asked_here(ObjectServer("http://127.0.0.1:9"), tries=object_store.TRIES):
        config: Any = object_store.client().meta.config
    waits = config.retries["total_max_attempts"] * max(config.connect_timeout, config.read_timeout)
    assert waits + 3 <= object_store.SLOWEST_SECONDS <= plan.drain_timeout - WRITING_SECONDS
    orders = Orders(queue=plan.queue, profile=plan.profile, asset_timeout=30.0)
    assert orders.longest(4) == 4 * (30.0 + 30.0 + object_store.SLOWEST_SECONDS)
    assert replace(orders, queue=FolderQueue(plan.state)).longest(4) == 4 * 30.0


def test_a_run_over_a_folder_imports_none_of_it(tmp_path: Path) -> None:
    """The main path knows no store: neither boto3 nor botocore, nor what of ours would ask them."""
    here = place(tmp_path)
    (here.queue / "a.scc").write_bytes(GOOD)
    program = f"""
import sys
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain

assert main({here.arguments()!r}, Drain()) == 0
loaded = {{name.partition(".")[0] for name in sys.modules}} & {{"boto3", "botocore", "s3transfer", "urllib3"}}
ours = [name for name in sys.modules if name.endswith(("object_store", ".queue_store", ".reports_store"))]
print(loaded, ours)
"""
    # A worker is started by spawn, which needs a main module that can be imported.
    done = run_program(f"if __name__ == '__main__':\n    exec({program!r})")
    assert done.stdout == "set() []\n", done
    assert here.statuses == {"a.scc": "pass"}


@pytest.mark.parametrize("queue", [FolderQueue(Path("/a b/%\n/ä")), StoreQueue(Bucket("b", "%41/ä\n/"))])
def test_a_queue_is_found_again_by_its_name(queue: FolderQueue | StoreQueue) -> None:
    """The ledger keeps the name alone, so it says which kind of queue it was."""
    assert queue.name.isprintable()
    assert queue_named(queue.name) == queue


@pytest.mark.parametrize("option", [[], ["--reference"]])
def test_inspect_reads_files_of_this_machine(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An address is told as it was typed, with the way to have its bytes here."""
    said = refused(capsys, "inspect", "a.scc", *option, "s3://captions/q/a.scc")
    assert "'s3://captions/q/a.scc' is no path, and inspect reads files of this machine; fetch it" in said
