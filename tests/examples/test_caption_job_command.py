"""The command and the order of a run: what it fails on, what it logs, and what it leaves when it fails."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from caption_runs import (
    COMMAND,
    ENVIRONMENT,
    GOOD,
    ROOT,
    SAMPLES,
    WITHOUT_ROOTS_RIGHTS,
    Place,
    command,
    place,
)
from caption_storm import ENDS_ITS_WORKER, command_with

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import run
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.options import build_parser

FAULTY = (SAMPLES / "faulty" / "no_parity.scc").read_bytes()
SCHEMA = ROOT / "examples" / "recipes" / "caption_qc" / "job" / "log.schema.json"


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def metric(file: Path, name: str) -> float:
    """Read one metric without labels."""
    (line,) = (line for line in file.read_text().splitlines() if line.startswith(f"caption_qc_{name} "))
    return float(line.split()[1])


def log_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Read standard error as what it is said to be: one object a line, of the published form."""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    schema = json.loads(SCHEMA.read_text())
    for line in lines:
        form = schema["$defs"][line["event"]]
        assert set(form["required"]) <= set(line) <= set(form["properties"]), line
    return lines


# What a run fails on


@pytest.mark.parametrize(
    ("content", "fail_on", "code"),
    [
        (GOOD, "dead-letter,error,warn", 0),
        (FAULTY, "dead-letter", 0),
        (FAULTY, "error", 65),
        (FAULTY, "warn", 65),
        (FAULTY, "warn,dead-letter", 65),
    ],
)
def test_a_run_exits_with_65_for_what_it_is_told_to_fail_on(
    content: bytes, fail_on: str, code: int, here: Place
) -> None:
    """As bad as that, or worse; ledger, dashboard and metrics say the same code."""
    (here.queue / "a.scc").write_bytes(content)

    done = here.run("--fail-on", fail_on)

    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith("checked 1 of 1: ")
    assert here.ask("SELECT exit_code FROM runs") == [(code,)]
    assert json.loads((here.state / "dashboard.json").read_text())["run"]["exit_code"] == code
    assert metric(here.state / "metrics.prom", "run_exit_code") == code


def test_a_dead_letter_that_stands_fails_every_run_that_is_told_so(here: Place) -> None:
    """Also one that finds nothing to do; one that is not told so goes on with 0."""
    (here.queue / "bad.scc").write_bytes(ENDS_ITS_WORKER)
    told = here.arguments("--max-attempts", "1", "--fail-on", "dead-letter")

    assert command_with(*told, CAPTION_BAD_FILES="1").returncode == 65
    assert here.run("--fail-on", "dead-letter").returncode == 65
    assert here.run().returncode == 0
    assert here.run("--fail-on", "error,warn").returncode == 0


def test_what_a_run_fails_on_is_read_from_the_environment(here: Place) -> None:
    """Like the queue and every other option."""
    (here.queue / "a.scc").write_bytes(FAULTY)
    given = {"QUEUE": here.queue, "STATE": here.state, "SETTLE": 0, "FAIL_ON": "error", "JSON_LOGS": "yes"}
    variables = [f"CAPTION_QC_{name}={value}" for name, value in given.items()]

    done = command(prefix=["env", *variables])

    assert done.returncode == 65
    assert log_of(done)[-1]["exit_code"] == 65
    plain = command("run", "--no-json-logs", prefix=["env", *variables])
    assert plain.stderr.startswith("nothing to do: ")


# JSON lines


def test_json_logs_are_one_object_a_line_and_the_summary_last(here: Place) -> None:
    """Whatever the names: an asset a line, with what was found; a warning; then the counts."""
    names = [b"a.scc", b"\xe9 \x1b[31m\n%.scc", "\N{RIGHT-TO-LEFT OVERRIDE}e.scc".encode()]
    for name in names:
        (here.queue / os.fsdecode(name)).write_bytes(FAULTY)

    done = here.run("--json-logs")

    lines = log_of(done)
    assert (done.returncode, done.stdout) == (0, "")
    assert [line["event"] for line in lines] == ["asset", "asset", "asset", "summary"]
    assert {line["asset_id"] for line in lines[:3]} == {"a.scc", "%E9 %1B[31m%0A%25.scc", "%E2%80%AEe.scc"}
    assert {line["status"] for line in lines[:3]} == {"fail"}
    assert {"rule": "608_PARITY", "severity": "error", "count": 1} in lines[0]["rules"]
    assert lines[3]["totals"]["statuses"] == {"fail": 3}
    assert len({line["run_id"] for line in lines}) == 1
    assert here.ask("SELECT run_id FROM runs") == [(lines[3]["run_id"],)]
    (summary,) = log_of(here.run("--json-logs"))
    assert (summary["status"], summary["totals"]["found"]) == ("complete", 0)


def test_a_run_that_cannot_be_done_ends_its_json_log_with_why(here: Place, tmp_path: Path) -> None:
    """A missing queue, a profile that is none, options that contradict each other: a summary, and nothing else."""
    for arguments, code in (
        (["run", str(tmp_path / "none")], 66),
        ([str(here.queue), "--profile", "none"], 78),
        ([str(here.queue), "--redo", "2026-01-01T0005Z", "--at", "2026-01-01"], 64),
    ):
        done = command(*arguments, "--state", str(here.state), "--json-logs")
        (line,) = log_of(done)
        assert (done.returncode, done.stdout) == (code, "")
        assert (line["event"], line["status"], line["exit_code"]) == ("summary", "failed", code)
        assert ";" in line["error"], "no way out"


def test_a_refused_run_tells_cron_as_ever_and_its_json_log_too(here: Place) -> None:
    """The line that people alert on stays what it is, on standard output."""
    here.fill(60)
    with here.held_run() as (holder, _):
        done = here.run("--json-logs")
    assert done.returncode == 75
    assert done.stdout.startswith(f"previous run still active: pid {holder.pid} since ")
    (line,) = log_of(done)
    assert (line["status"], line["exit_code"]) == ("skipped", 75)


def test_a_fault_of_ours_and_what_libraries_log_are_objects_too(
    here: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A reader of objects meets nothing else: where it was is a warning, and the summary says 1."""

    def fail(folder: object) -> None:
        logging.getLogger("some.library").warning("odd\n\x1b[31m")
        raise ZeroDivisionError(folder)

    monkeypatch.setattr(run, "make_reports", fail)
    here.state.mkdir()
    assert main(here.arguments("--json-logs"), Drain()) == 1
    library, trace, summary = map(json.loads, capfd.readouterr().err.splitlines())
    assert library["message"] == "some.library: odd%0A%1B[31m"
    assert "in fail" in trace["message"]
    assert (summary["status"], summary["exit_code"]) == ("failed", 1)
    assert here.ask("SELECT exit_code FROM runs") == [(1,)]
    assert not [found for found in logging.getLogger().handlers if "json_log" in type(found).__module__]
    with pytest.raises(ZeroDivisionError):
        main(here.arguments(), Drain())


def test_the_schema_of_the_log_is_what_is_written() -> None:
    """Each kind of line, with all that it may have."""
    schema = json.loads(SCHEMA.read_text())
    assert {form["$ref"] for form in schema["oneOf"]} == {f"#/$defs/{name}" for name in schema["$defs"]}
    for name, form in schema["$defs"].items():
        assert form["properties"]["event"] == {"const": name}


# Options that can't be


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["--fail-on", "fail"], "'fail'"),
        (["--fail-on", "error,"], "'error,'"),
        (["--redo", "yesterday"], "'yesterday'"),
        (["--redo", "2026-01-02T0000Z/2026-01-01T0000Z"], "ends before it begins"),
        (["--redo", "2026-01-01T0000Z/"], "''"),
        (["--redo", "2026-01-01T0005Z", "--at", "2026-01-01T00:05Z"], "--at names another"),
        (["--shard", "0/2"], "'0/2'"),
        (["--shard", "3/2"], "'3/2'"),
        (["--shard", "1"], "'1'"),
        (["--shard", "\N{SUPERSCRIPT TWO}/2"], "--shard"),
        (["--ping-url", "hc-ping.com/secret"], "http or https"),
        (["--ping-url", "ftp://hc-ping.com/secret"], "http or https"),
        (["--ping-url", "https:///secret"], "http or https"),
        (["--ping-url", "https://hc-ping.com:port/secret"], "http or https"),
        (["--ping-url", "https://hc-ping.com/secret\n"], "http or https"),
        (["--out", ""], "--out"),
        (["--lock", "{state}/metrics.prom"], "--lock"),
        (["--lock", "{state}/dead-letter"], "--lock"),
        (["--lock", "{state}/x-skips.prom", "--metrics-file", "{state}/x.prom"], "--lock"),
        (["--metrics-file", "{state}/ledger.sqlite"], "--metrics-file"),
        (["--metrics-file", "{state}/out/dashboard.json", "--out", "{state}/out"], "--metrics-file"),
    ],
)
def test_an_option_that_cannot_be_is_one_line_and_nothing_is_made(
    arguments: list[str], wrong: str, here: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """64, before anything is made; and of an address nothing is shown: it is a secret."""
    code = main(here.arguments(*(word.format(state=here.state) for word in arguments)), Drain())
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert (code, said.out) == (64, "")
    assert wrong in line
    assert "secret" not in line
    assert not here.state.exists()


@pytest.mark.parametrize("name", ["FAIL_ON", "REDO", "SHARD", "JSON_LOGS"])
def test_the_environment_is_checked_like_the_command_line(
    name: str, here: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And named."""
    monkeypatch.setenv(f"CAPTION_QC_{name}", "x")
    assert main(here.arguments(), Drain()) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert f"CAPTION_QC_{name} in the environment: 'x' is" in line


def test_windows_are_written_like_their_folders_or_as_times() -> None:
    """One, or the first and the last."""
    parse = build_parser({}).parse_args
    both = parse(["run", "--redo", "2026-01-01T0005Z/2026-01-01T01:10+01:00"]).redo
    assert both == (datetime(2026, 1, 1, 0, 5, tzinfo=UTC), datetime(2026, 1, 1, 0, 10, tzinfo=UTC))
    one = parse(["run", "--redo", "2026-01-01T0005Z"]).redo
    assert one == (both[0], both[0])


# Where things go


def test_reports_and_metrics_go_where_they_are_told_to(here: Place, tmp_path: Path) -> None:
    """The state folder keeps lock, ledger and skips alone; a second run writes what was lost there."""
    here.fill(1)
    out, metrics = tmp_path / "share" / "qc", tmp_path / "collector" / "captions.prom"
    places = ("--out", str(out), "--metrics-file", str(metrics))

    assert here.run(*places).returncode == 0

    named = ["dashboard.html", "dashboard.json", "owner.txt", "telemetry"]
    assert sorted(path.name for path in out.iterdir()) == named
    assert sorted(path.name for path in metrics.parent.iterdir()) == ["captions-skips.prom", "captions.prom"]
    assert {path.name for path in here.state.iterdir()} <= {
        "run.lock",
        "ledger.checked",
        "ledger.sqlite",
        "skips.log",
        "dead-letter",
        "state.id",
    }
    (out / "dashboard.html").unlink()
    (records,) = out.rglob("assets.parquet")
    records.unlink()
    done = here.run(*places)
    assert done.stderr.startswith("nothing to do: ")
    assert f"dashboard {out}/dashboard.html" in done.stderr
    assert (out / "dashboard.html").exists()
    assert records.exists()


@pytest.mark.parametrize("option", ["--out", "--metrics-file"])
def test_reports_that_can_go_nowhere_end_the_run_before_its_work(
    option: str, here: Place, tmp_path: Path
) -> None:
    """73 with the option, at once: not after an hour of checks."""
    here.fill(1)
    (tmp_path / "file").write_bytes(b"")

    done = here.run(option, str(tmp_path / "file" / "below" / "x.prom"))

    assert done.returncode == 73
    (line,) = done.stderr.splitlines()
    assert option in line
    assert here.statuses == {}


def test_each_shard_does_its_part_in_a_state_folder_of_its_own(here: Place) -> None:
    """Together they do everything, once."""
    here.fill(20)
    found: list[str] = []
    for part in ("1/2", "2/2"):
        done = command("run", str(here.queue), "--settle", "0", "--shard", part, cwd=here.queue.parent)
        assert done.returncode == 0
        found += [line.split()[1] for line in done.stderr.splitlines()[:-1]]
    assert sorted(found) == sorted(path.name for path in here.queue.iterdir())
    states = sorted(path.name for path in (here.queue.parent / "caption-qc-state").iterdir())
    assert [name[-7:] for name in states] == ["-1-of-2", "-2-of-2"]


@pytest.mark.parametrize(
    "command_line", ["run {queue}", "status", "prune --keep 1d", "prune {queue} --keep 1d"]
)
def test_a_state_below_a_folder_that_cannot_be_entered_is_77(
    command_line: str, here: Place, tmp_path: Path
) -> None:
    """One line with the way out, whatever asks for it."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    words = command_line.format(queue=here.queue).split()
    done = command(*words, "--state", str(tmp_path / "closed" / "state"), prefix=WITHOUT_ROOTS_RIGHTS)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, "Permission denied" in line, "--state" in line) == (77, True, True)
    (tmp_path / "closed").chmod(0o755)


# Runs that fail


def test_a_queue_that_is_gone_is_told_by_ledger_and_metrics(here: Place) -> None:
    """66: an unmounted queue alerts by the code of the last run, and the last success stays what it was."""
    here.fill(1)
    assert here.run().returncode == 0
    metrics = here.state / "metrics.prom"
    success = metric(metrics, "last_success_timestamp_seconds")
    here.queue.rename(here.queue.with_name("elsewhere"))

    done = here.run()

    assert done.returncode == 66
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"caption_qc: no queue at {here.queue}: ")
    assert here.ask("SELECT exit_code FROM runs ORDER BY started_at") == [(0,), (66,)]
    assert metric(metrics, "run_exit_code") == 66
    assert metric(metrics, "last_success_timestamp_seconds") == success
    here.queue.with_name("elsewhere").rename(here.queue)
    assert here.run().returncode == 0
    assert metric(metrics, "run_exit_code") == 0


def test_a_run_that_cannot_open_its_ledger_says_so_in_the_metrics(here: Place) -> None:
    """All else in them stays as the last run left it."""
    here.fill(1)
    assert here.run().returncode == 0
    metrics = here.state / "metrics.prom"
    success = metric(metrics, "last_success_timestamp_seconds")
    (here.state / "ledger.sqlite").rename(here.state / "aside")
    (here.state / "ledger.sqlite").mkdir()

    done = here.run()

    assert (done.returncode, len(done.stderr.splitlines())) == (73, 1)
    assert metric(metrics, "run_exit_code") == 73
    assert metric(metrics, "last_success_timestamp_seconds") == success


def test_reports_that_cannot_be_written_leave_ledger_and_metrics_with_the_code(
    here: Place, tmp_path: Path
) -> None:
    """What was checked is recorded and not checked again; the next run writes the reports."""
    here.fill(2)
    out = tmp_path / "out"
    (out / "telemetry").mkdir(parents=True)
    (out / "telemetry" / "assets").write_bytes(b"theirs")

    done = here.run("--out", str(out))

    assert done.returncode == 73
    assert done.stderr.splitlines()[-1].startswith("caption_qc: cannot write ")
    assert here.ask("SELECT exit_code FROM runs") == [(73,)]
    assert metric(here.state / "metrics.prom", "run_exit_code") == 73
    (out / "telemetry" / "assets").unlink()
    after = here.run("--out", str(out))
    assert (after.returncode, after.stderr.startswith("nothing to do")) == (0, True)
    assert (out / "dashboard.json").is_file()


# Signals


def test_the_first_process_of_a_container_ends_by_a_signal_too(tmp_path: Path) -> None:
    """The system spares it from what would end any other; `inspect`, which drains nothing, ends itself."""
    for number in range(8):
        (tmp_path / f"{number}.scc").write_bytes(GOOD)
    files = [str(path) for path in tmp_path.iterdir()] * 40
    alone = ["unshare", "--pid", "--fork", "--kill-child", *COMMAND, "inspect", "--json", *files]
    with subprocess.Popen(alone, stdout=subprocess.PIPE, cwd=ROOT, env=ENVIRONMENT) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith(b"{")  # It is at work, and waits until more is read.
        (first,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        assert run.wait(10) == 143


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output."""
    with pytest.raises(SystemExit) as ended:
        build_parser({}).parse_args(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("caption_qc 0.")


def test_importing_the_command_line_brings_nothing_heavy() -> None:
    """Each command brings its own: a run no reading of state, `status` no pool, none of them pyarrow."""
    heavy = ["asyncio", "async_batcher", "multiprocessing", "pyarrow", "rich", "urllib.request"]
    program = f"import sys, examples.recipes.caption_qc.cli; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"
