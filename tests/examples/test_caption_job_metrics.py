"""The metrics: each figure true, absent where it is not known, and in a form that Prometheus takes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from caption_metrics import NOW, text_of
from caption_runs import GOOD, SAMPLES, WITHOUT_ROOTS_RIGHTS, Place, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import metrics_file
from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.metrics import write_failure
from examples.recipes.caption_qc.job.outcomes import Died, Left
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.totals import Totals
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

HOUR_NS = 3600 * 10**9
PROMTOOL = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")
SAMPLE = re.compile(r'(caption_qc_\w+)((?:\{(?:\w+="[^"]*",?)+\})?) (\S+)')


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def plan(here: Place) -> Plan:
    here.state.mkdir()
    return plan_of(build_parser({}).parse_args(here.arguments()), load("house"), NOW)


def values(text: str) -> dict[str, float]:
    """Read the samples, by name and labels."""
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for line in samples:
        match = SAMPLE.fullmatch(line)
        assert match, line
        found[match[1].removeprefix("caption_qc_") + match[2]] = float(match[3])
    assert len(found) == len(samples)
    return found


def of(here: Place) -> dict[str, float]:
    return values((here.state / "metrics.prom").read_text())


def age(before: float) -> int:
    """Return a moment so many hours before now, as files have it."""
    return int(NOW.timestamp() * 1e9) - int(before * HOUR_NS)


def waiting(name: str, hours: float) -> Asset:
    """Return an asset that has lain there for some hours, with the time of modification of a copy."""
    return Asset(name.encode(), Stat(1, age(100_000), age(hours), 1))


def written(plan: Plan, totals: Totals, *, success: datetime | None = NOW, code: int = 0) -> dict[str, float]:
    """Write the metrics of a run that counted `totals`."""
    return values(text_of(plan, totals, success=success, code=code))


# A run


def test_a_run_says_what_it_did(here: Place) -> None:
    """Each figure against what the queue holds and what the ledger has."""
    for file in (*SAMPLES.glob("*.scc"), *SAMPLES.glob("faulty/*.scc")):
        (here.queue / file.name).write_bytes(file.read_bytes())
    before = datetime.now(UTC).timestamp()
    assert here.run().returncode == 0

    found = of(here)

    statuses = dict(here.ask("SELECT status, COUNT(*) FROM records GROUP BY 1"))
    assert {name: found[f'assets{{status="{name}"}}'] for name in ("pass", "warn", "fail", "error")} == (
        {"pass": 0, "warn": 0, "fail": 0, "error": 0} | statuses
    )
    rows = here.ask("SELECT rule, severity, COUNT(*) FROM findings GROUP BY 1, 2")
    assert {name: value for name, value in found.items() if name.startswith("findings{")} == {
        f'findings{{rule="{rule}",severity="{severity}"}}': count for rule, severity, count in rows
    }
    assert found["seen_assets"] == len(list(here.queue.iterdir()))
    assert before <= found["last_success_timestamp_seconds"] <= before + 60
    assert 0 < found["run_duration_seconds"] < 60
    zeros = ("backlog_assets", "scan_errors", "dead_letter_assets", "lock_conflicts_total", "run_exit_code")
    assert [found[name] for name in zeros] == [0] * len(zeros)
    assert "oldest_unprocessed_seconds" not in found


def test_the_next_run_says_what_it_did_and_no_more(here: Place) -> None:
    """Statuses and findings are the last run's; an empty one has none."""
    here.fill(1)
    (here.queue / "bad.scc").write_bytes((SAMPLES / "faulty" / "no_parity.scc").read_bytes())
    here.run()
    assert of(here)['findings{rule="608_PARITY",severity="error"}'] == 1

    here.run()

    found = of(here)
    assert not [name for name in found if name.startswith("findings")]
    assert found['assets{status="fail"}'] == 0
    assert found["seen_assets"] == 2


@PROMTOOL
def test_promtool_finds_nothing_wrong(here: Place) -> None:
    """Of the file of a run with findings, of one that failed, and of refused runs; both files in one exposition."""
    (here.queue / "bad.scc").write_bytes((SAMPLES / "faulty" / "no_parity.scc").read_bytes())
    here.run()
    files = [here.state / name for name in ("metrics.prom", "metrics-skips.prom")]
    check("".join(file.read_text() for file in files))
    here.queue.rename(here.queue.with_name("gone"))
    assert here.run().returncode == Exit.NO_QUEUE
    check("".join(file.read_text() for file in files))


def check(text: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],  # noqa: S607 - where the machine has it
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_file_is_whole_readable_and_without_times(here: Place) -> None:
    """0644 by the usual umask, a help and a type before each family's samples, no timestamp, nothing left over."""
    here.run(prefix=["sh", "-c", 'umask 022; exec "$@"', "sh"])
    file = here.state / "metrics.prom"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    lines = file.read_text().splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert families == [line.split()[2] for line in lines if line.startswith("# HELP ")]
    assert len(set(families)) == len(families)
    order = [name for line in lines if not line.startswith("#") for name in [re.split(r"[{ ]", line)[0]]]
    assert list(dict.fromkeys(order)) == families
    assert not [path for path in here.state.iterdir() if path.name.startswith(".")]


# A run that failed


def test_the_last_success_survives_runs_that_fail(here: Place) -> None:
    """The code says how, the last success stays, what is not known is absent; the next success puts it right."""
    here.fill(1)
    here.run()
    success = of(here)["last_success_timestamp_seconds"]
    here.queue.rename(here.queue.with_name("gone"))

    assert here.run().returncode == Exit.NO_QUEUE
    found = of(here)
    assert found["last_success_timestamp_seconds"] == success
    assert found["run_exit_code"] == 66
    assert not {"seen_assets", "backlog_assets", "oldest_unprocessed_seconds"} & found.keys()

    here.queue.with_name("gone").rename(here.queue)
    here.run()
    assert of(here)["run_exit_code"] == 0
    assert of(here)["seen_assets"] == 1
    assert of(here)["last_success_timestamp_seconds"] > success


def test_a_success_that_is_yet_to_come_hides_no_failure(here: Place) -> None:
    """A clock was years ahead once: a run that succeeds says its own end, one that fails the last before its end."""
    here.fill(1)
    assert here.run().returncode == 0
    first = of(here)["last_success_timestamp_seconds"]
    assert here.run().returncode == 0
    with contextlib.closing(sqlite3.connect(here.state / "ledger.sqlite")) as ledger, ledger:
        ahead = 4 * 365 * 86_400 * 1_000_000
        ledger.execute(_AHEAD, (ahead, ahead))
    here.queue.rename(here.queue.with_name("gone"))
    assert here.run().returncode == Exit.NO_QUEUE
    assert of(here)["last_success_timestamp_seconds"] == first
    here.queue.with_name("gone").rename(here.queue)
    assert here.run().returncode == 0
    assert first < of(here)["last_success_timestamp_seconds"] <= datetime.now(UTC).timestamp()


_AHEAD = """
UPDATE runs SET finished_at = finished_at + ?, started_at = started_at + ?
WHERE started_at = (SELECT MAX(started_at) FROM runs)
"""


def test_a_run_that_failed_by_request_is_no_success(here: Place) -> None:
    """--fail-on: exit code, metrics and ping say the same."""
    (here.queue / "bad.scc").write_bytes((SAMPLES / "faulty" / "no_parity.scc").read_bytes())
    assert here.run("--fail-on", "error").returncode == Exit.FOUND
    found = of(here)
    assert found["run_exit_code"] == 65
    assert "last_success_timestamp_seconds" not in found
    assert found['assets{status="fail"}'] == 1


def test_without_a_ledger_the_code_alone_changes(plan: Plan) -> None:
    """All else stays as it was; what is no line of ours is not carried on."""
    plan.metrics_file.write_text(
        "# HELP caption_qc_run_exit_code With which code the last run ended.\n"
        "# TYPE caption_qc_run_exit_code gauge\ncaption_qc_run_exit_code 0\n"
        "# HELP caption_qc_assets What.\n# TYPE caption_qc_assets gauge\n"
        'caption_qc_assets{status="pass"} 3\nup 1\nhalf a line'
    )
    write_failure(plan, 74)
    assert values(plan.metrics_file.read_text()) == {"run_exit_code": 74, 'assets{status="pass"}': 3}
    assert plan.metrics_file.read_text().count("run_exit_code") == 3

    plan.metrics_file.write_bytes(b"\xff\x00" * 100)
    write_failure(plan, 73)
    assert values(plan.metrics_file.read_text()) == {"run_exit_code": 73}

    plan.metrics_file.unlink()
    write_failure(plan, 74)
    assert values(plan.metrics_file.read_text()) == {"run_exit_code": 74}


def test_what_is_no_file_is_refused_and_hangs_nothing(plan: Plan) -> None:
    """A FIFO in the place of the metrics."""
    os.mkfifo(plan.metrics_file)
    with pytest.raises(JobError, match="not a regular file"):
        write_failure(plan, 74)


# What waits


@pytest.mark.parametrize(
    ("endings", "settling", "expected"),
    [
        ([], None, None),
        ([], 0.001, 3.6),
        ([Left(asset=waiting("a", 2), why="unreadable", detail="")], 0.001, 7200),
        (
            [Left(asset=waiting("a", 2), why="changed", detail=""), Died(asset=waiting("b", 5), reason="")],
            None,
            18000,
        ),
        ([Left(asset=waiting("a", 9), why="gone", detail="")], None, None),
        ([Left(asset=waiting("a", -1), why="unreadable", detail="")], None, 0),
    ],
)
def test_the_oldest_that_waits_is_of_all_that_wait(
    plan: Plan, endings: list[Any], settling: float | None, expected: float | None
) -> None:
    """Just changed, left, or died: since it lies there as it is, whatever time a copy carried over."""
    totals = Totals(
        seen=Seen(oldest_settling_ns=None if settling is None else age(settling)), whole_queue=True
    )
    for ending in endings:
        totals.count(ending, new=False)
    assert written(plan, totals).get("oldest_unprocessed_seconds") == (
        None if expected is None else pytest.approx(expected, abs=0.01)
    )


def test_a_scan_that_was_cut_short_knows_no_backlog(plan: Plan) -> None:
    """Neither how many wait nor how old the oldest is; how many it met it knows, unless it met none."""
    totals = Totals(seen=Seen(assets=5, oldest_settling_ns=age(1)))
    found = written(plan, totals)
    assert not {"backlog_assets", "oldest_unprocessed_seconds"} & found.keys()
    assert found["seen_assets"] == 5
    assert "seen_assets" not in written(plan, Totals(seen=Seen()))
    assert written(plan, Totals(seen=Seen(), whole_queue=True))["seen_assets"] == 0


def test_a_file_that_cannot_be_read_grows_old_in_the_metrics(here: Place) -> None:
    """A real run that leaves it says since when it lies there, and counts it."""
    (here.queue / "secret.scc").write_bytes(GOOD)
    os.utime(here.queue / "secret.scc", (0, 0))
    (here.queue / "secret.scc").chmod(0)
    (here.queue / "locked").mkdir(mode=0)
    here.run(prefix=WITHOUT_ROOTS_RIGHTS)
    found = of(here)
    assert found["scan_errors"] == 2
    assert found["backlog_assets"] == 1
    assert 0 <= found["oldest_unprocessed_seconds"] < 60


def test_before_the_first_success_there_is_none(plan: Plan) -> None:
    """Absent, not 0: an alert on its age would be half a century old."""
    assert "last_success_timestamp_seconds" not in written(plan, Totals(seen=Seen()), success=None, code=74)
    found = written(plan, Totals(seen=Seen()), success=NOW - timedelta(days=1), code=74)
    assert found["last_success_timestamp_seconds"] == (NOW - timedelta(days=1)).timestamp()
    assert found["lock_conflicts_total"] == 7


def test_labels_are_escaped(plan: Plan) -> None:
    """A rule is named by whoever writes rules: backslash, quote and line feed do no harm."""
    totals = Totals(seen=Seen())
    totals.findings['A"B\\C\nD', "error"] = 2
    text = text_of(plan, totals)
    assert 'caption_qc_findings{rule="A\\"B\\\\C\\nD",severity="error"} 2\n' in text
    assert metrics_file._OUR_LINE.fullmatch('caption_qc_findings{rule="A\\"B\\\\C\\nD",severity="error"} 2')
