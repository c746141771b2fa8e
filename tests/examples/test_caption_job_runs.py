"""The caption job as processes: once each, whatever happens."""

import contextlib
import ctypes
import functools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import jsonschema
import pytest
from caption_bad_files import bad_file
from caption_runs import COMMAND, CORPUS, GOOD, ROOT, WITHOUT_ROOTS_RIGHTS, Place, command, place
from caption_storm import command_with, environment
from pyarrow import parquet

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.ledger import Started, open_ledger
from examples.recipes.caption_qc.job.records import ASSETS, FINDINGS, SCHEMA_VERSION
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

JOB = ROOT / "examples" / "recipes" / "caption_qc" / "job"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def dashboard(state: Path) -> dict[str, object]:
    content = json.loads((state / "dashboard.json").read_bytes())
    jsonschema.validate(content, json.loads((JOB / "dashboard.schema.json").read_bytes()))
    assert isinstance(content, dict)
    return content


def temporary_files(state: Path) -> list[Path]:
    return [path for path in state.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]


@pytest.mark.shared_files
def test_every_real_file_gets_one_record_and_the_second_run_finds_nothing(tmp_path: Path) -> None:
    """A run over real files ends well with one record an asset; a second checks nothing."""
    real = Place(CORPUS, tmp_path / "state")
    names = {path.name for path in CORPUS.rglob("*.scc")}

    first = real.run()
    second = real.run()

    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.splitlines()[-1].startswith(f"checked {len(names)} of {len(names)}: ")
    assert set(real.statuses) == names
    assert (second.returncode, second.stdout) == (0, "")
    assert second.stderr.startswith(f"nothing to do: {len(names)} assets seen")


def test_without_arguments_the_samples_are_checked_and_everything_is_projected(tmp_path: Path) -> None:
    """A newcomer sees the whole of it at once; records, Parquet and dashboard say the same."""
    done = command(cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    (state,) = (tmp_path / "caption-qc-state").iterdir()
    samples = Place(tmp_path, state)
    (assets,) = (state / "telemetry" / "assets").glob("window=*Z/assets.parquet")
    (findings,) = (state / "telemetry" / "findings").glob("window=*Z/findings.parquet")
    for path, table, columns in ((assets, "records", ASSETS), (findings, "findings", FINDINGS)):
        schema = parquet.read_schema(path)
        assert schema.names == ["schema_version", *(column.name for column in columns)]
        assert schema.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
        assert parquet.read_metadata(path).num_rows == samples.ask(f"SELECT COUNT(*) FROM {table}")[0][0] > 0  # noqa: S608
    shown = dashboard(state)
    assert shown["totals"]["assets"] == len(samples.statuses) >= 8  # type: ignore[index]
    assert shown["run"]["status"] == "complete"  # type: ignore[index]
    assert temporary_files(state) == []


def test_an_empty_fire_says_so_mends_projections_and_imports_little(here: Place) -> None:
    """With nothing to check no pool, loop or pyarrow is imported; a projection that is missing is written."""
    here.fill(1)
    assert here.run().returncode == 0
    (assets,) = (here.state / "telemetry" / "assets").glob("*/*")
    (here.state / "dashboard.json").unlink()
    heavy = ["asyncio", "async_batcher", "concurrent.futures", "multiprocessing", "pyarrow", "rich"]
    program = f"""
import sys
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
code = main({here.arguments()}, Drain())
print(code, [name for name in {heavy} if name in sys.modules])
"""

    fire = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert fire.stdout == "0 []\n"
    assert fire.stderr.startswith("nothing to do: 1 asset seen")
    assert dashboard(here.state)["window"] is not None

    before = parquet.read_table(assets)
    assets.unlink()
    assert here.run().returncode == 0
    assert parquet.read_table(assets).equals(before)


def test_a_second_run_is_refused_and_a_killed_one_loses_nothing(here: Place) -> None:
    """One run at a time; after SIGKILL workers end, the lock is free, and each asset gets its one record."""
    here.fill(60)
    with here.held_run() as (holder, _):
        refused = here.run()
        workers = children(holder.pid)
        assert workers
        assert not [link for link in open_files(holder.pid) if link.name == "run.lock"]
        holder.kill()
        holder.wait()
        for worker in workers:
            assert select.select([worker], [], [], 20)[0], "a worker outlived its parent"
            os.close(worker)
    assert refused.returncode == 75
    assert refused.stdout.startswith(f"previous run still active: pid {holder.pid} since ")
    assert refused.stderr == ""
    assert f"pid {holder.pid}\n" in (here.state / "run.lock").read_text()
    assert len((here.state / "skips.log").read_text().splitlines()) == 1
    assert 0 < len(here.statuses) < 60

    after = here.run()

    assert after.returncode == 0
    assert set(here.statuses.values()) == {"pass"}
    assert len(here.statuses) == 60
    assert here.ask("SELECT DISTINCT state FROM assets") == [("done",)]
    assert here.ask("SELECT MAX(attempt) FROM records") == [(1,)]


def test_suspects_are_checked_first(here: Place) -> None:
    """What a dead run left running comes before everything else, though it is the newest."""
    here.fill(20)
    newest = here.queue / "newest.scc"
    newest.write_bytes(GOOD)
    plan = plan_of(build_parser({}).parse_args(here.arguments()), load("house"), datetime.now(UTC))
    here.state.mkdir()
    with open_ledger(plan) as ledger:
        ledger.write([Started((Asset(b"newest.scc", stat_of(newest.stat())),))])

    after = here.run()

    assert after.stderr.splitlines()[0] == "pass  newest.scc"
    assert len(here.statuses) == 21


def test_a_suspect_that_changed_since_is_checked_as_it_is_now(here: Place) -> None:
    """The scan finds the new content; the old look at it is no asset of its own, and undoes nothing."""
    plan = plan_of(build_parser({}).parse_args(here.arguments()), load("house"), datetime.now(UTC))
    here.state.mkdir()
    file = here.queue / "a.scc"
    file.write_bytes(b"before")
    with open_ledger(plan) as ledger:
        ledger.write([Started((Asset(b"a.scc", stat_of(file.stat())),), alone=True)])
    file.write_bytes(GOOD)

    after = here.run()

    assert [line.split(";")[0] for line in after.stderr.splitlines()] == [
        "pass  a.scc",
        "checked 1 of 1: 1 pass, 0 warn, 0 fail, 0 error",
    ]
    assert here.ask("SELECT asset_id, state, size FROM assets") == [("a.scc", "done", len(GOOD))]


def test_a_signal_to_the_whole_group_drains(here: Place) -> None:
    """SIGTERM to every process of the group: what runs is finished and recorded, exit 0, no worker dies."""
    here.fill(200)
    with here.held_run("--workers", "2") as (run, lines):
        os.killpg(run.pid, signal.SIGTERM)
        said = lines.read().decode().splitlines()
        assert run.wait() == 0
    assert "drained before the end" in said[-1]
    assert not [line for line in said if "warning" in line]
    shown = dashboard(here.state)
    assert shown["run"]["drained"] is True  # type: ignore[index]
    assert shown["totals"]["backlog"] is None  # type: ignore[index]
    assert temporary_files(here.state) == []
    assert here.ask("SELECT DISTINCT state FROM assets") == [("done",)]
    assert len(here.statuses) == shown["totals"]["assets"] < 200  # type: ignore[index]

    assert here.run().returncode == 0
    assert len(here.statuses) == 200


@pytest.mark.parametrize(
    ("signals", "seconds", "code"),
    [
        ("TERM TERM", "0 1", 143),
        ("INT INT", "0 1", 130),
        ("TERM TERM INT", "0 0 0", 130),
        ("TERM TERM TERM", "0 0.9 1.1", 143),
    ],
)
def test_a_second_signal_stops_at_once_and_the_same_within_a_second_is_the_first(
    signals: str, seconds: str, code: int
) -> None:
    """`timeout` signals the process and then its group. The exit code is 128 and the last signal."""
    program = f"""
import signal
from examples.recipes.caption_qc.job.drain import Drain
times = iter({[float(second) for second in seconds.split()]})
drain = Drain(clock=times.__next__)
drain.install()
drain.notify(lambda: print("draining"))
for name in {signals.split()}:
    print(name, flush=True)
    signal.raise_signal(getattr(signal, "SIG" + name))
print("not stopped")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    first, *others = signals.split()
    assert done.stdout.split() == [first, "draining", *others]
    assert done.returncode == code


def test_what_ends_its_worker_is_given_up_and_takes_nobody_with_it(here: Place) -> None:
    """A check that never ends breaks the pool; its neighbours are checked, and it becomes a dead letter."""
    here.fill(10)
    (here.queue / "endless.scc").write_bytes(bad_file(GOOD, "late"))
    run = functools.partial(
        command_with, *here.arguments("--asset-timeout", "30s", "--max-attempts", "3"), CAPTION_BAD_FILES="1"
    )

    first = run()

    assert first.returncode == 0
    assert first.stderr.splitlines()[-1].startswith("checked 10 of 11: 10 pass, ")
    assert here.ask("SELECT asset_id, state, attempts FROM assets WHERE state != 'done'") == [
        ("endless.scc", "suspect", 1)
    ]
    assert len(here.statuses) == 10

    assert run().returncode == 0
    assert here.ask("SELECT attempts FROM assets WHERE state != 'done'") == [(2,)], "once a run"

    last = run()

    assert last.returncode == 0
    assert here.statuses["endless.scc"] == "error"
    assert here.ask("SELECT rule, measured FROM findings WHERE asset_id = 'endless.scc'") == [
        ("JOB_DEAD_LETTER", 3)
    ]
    assert dashboard(here.state)["totals"]["dead_letters"] == 1  # type: ignore[index]


def test_a_check_that_outlives_the_drain_is_ended_and_no_attempt(here: Place) -> None:
    """The drain keeps its budget: the check would never end. It is left running in the ledger, suspect."""
    slow = here.queue / "slow.scc"
    slow.write_bytes(bad_file(GOOD, "sleep"))
    options = here.arguments("--drain-timeout", "1s", "--asset-timeout", "5m")
    with (
        until_opened(slow) as opened,
        subprocess.Popen(
            [*COMMAND, *options],
            stderr=subprocess.PIPE,
            text=True,
            env=environment("", CAPTION_BAD_FILES="1"),
            cwd=ROOT,
        ) as run,
    ):
        opened()
        run.send_signal(signal.SIGTERM)
        said = run.communicate()[1]

    assert run.returncode == 0
    assert said.startswith("checked 0 of 1: ")
    assert "drained before the end" in said
    assert here.ask("SELECT asset_id, state, attempts FROM assets") == [("slow.scc", "running", 0)]


def test_bad_files_are_findings_and_what_cannot_be_read_is_left(here: Place) -> None:
    """Empty, binary, UTF-16, 10 MB, odd names: findings. A folder or file without rights: counted, the rest goes on."""
    files = {
        b"empty.scc": b"",
        b"binary.scc": bytes(range(256)) * 8,
        b"utf16.scc": GOOD.decode().encode("utf-16"),
        b"\xe9 %.scc": GOOD,
        b"sub/same.scc": GOOD,
        b"locked/unseen.scc": GOOD,
        b"secret.scc": GOOD,
    }
    for name, content in files.items():
        path = here.queue / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    with (here.queue / "large.scc").open("wb") as large:
        large.truncate(10_000_000)
    os.utime(here.queue / "sub" / "same.scc", ns=(0, 10_413_792_000 * 10**9))  # In the year 2300.
    (here.queue / "locked").chmod(0)
    (here.queue / "secret.scc").chmod(0)

    done = here.run(prefix=WITHOUT_ROOTS_RIGHTS)

    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert here.statuses == {
        "%E9 %25.scc": "pass",
        "binary.scc": "fail",
        "empty.scc": "fail",
        "large.scc": "fail",
        "sub/same.scc": "pass",
        "utf16.scc": "fail",
    }
    assert here.ask("SELECT rule FROM findings WHERE asset_id = 'large.scc'") == [("FMT_TOO_LARGE",)]
    assert ("FMT_ENCODING",) in here.ask("SELECT rule FROM findings WHERE asset_id = 'utf16.scc'")
    assert "warning: cannot read locked: Permission denied" in done.stderr.splitlines()
    assert "left  secret.scc: Permission denied" in done.stderr.splitlines()
    (large_sha,) = here.ask("SELECT content_sha256 FROM records WHERE asset_id = 'large.scc'")
    assert large_sha == (sha256(bytes(10_000_000)).hexdigest(),)

    (here.queue / "secret.scc").chmod(0o644)
    (here.queue / "empty.scc").write_bytes(GOOD)
    os.utime(here.queue / "utf16.scc")
    again = here.run()

    assert again.stderr.splitlines()[-1].startswith("checked 4 of 4: ")
    records = here.ask("SELECT asset_id, COUNT(*) FROM records GROUP BY 1 HAVING COUNT(*) > 1")
    assert records == [("empty.scc", 2)]


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(here: Place) -> None:
    """A write that the system refuses ends the run with 74 and loses nothing that was recorded."""
    here.fill(30)
    full = here.run(prefix=["sh", "-c", 'ulimit -f 150; exec "$@"', "sh"])

    assert full.returncode == 74
    assert full.stderr.splitlines()[-1].startswith("caption_qc: ")
    assert "Traceback" not in full.stderr
    assert temporary_files(here.state) == []

    assert here.run().returncode == 0
    assert len(here.statuses) == 30


def children(pid: int) -> list[int]:
    """Open a descriptor of each child process, which becomes readable when the child ends."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [os.pidfd_open(int(child)) for child in found]


def open_files(pid: int) -> list[Path]:
    """List what the children of a process have open."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [link.readlink() for child in found for link in Path(f"/proc/{child}/fd").iterdir()]


@contextlib.contextmanager
def until_opened(path: Path) -> Iterator[Callable[[], object]]:
    """Give a function that returns once a process has opened `path`."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    try:
        assert libc.inotify_add_watch(watch, bytes(path), _IN_OPEN) >= 0
        yield lambda: os.read(watch, 4096)
    finally:
        os.close(watch)


_IN_OPEN = 0x20
