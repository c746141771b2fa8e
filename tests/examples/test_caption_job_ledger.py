"""The ledger and its projections, on real SQLite and real Parquet."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from caption_runs import GOOD
from pyarrow import parquet

from examples.recipes.caption_qc.check import Finding, Report, check, load
from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.ledger import Finished, Ledger, Started, open_ledger
from examples.recipes.caption_qc.job.outcomes import Checked, DeadLetter, Died, Ending, Left
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import window_files, write_projections
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.totals import Ended, Totals

NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)
PROFILE = load("house")
CLEAN = check(GOOD, PROFILE)
STAT = Stat(size=5, mtime_ns=1, ctime_ns=2, inode=3)
A, B = Asset(b"a.scc", STAT), Asset(b"b/\xe9.scc", STAT)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    state = tmp_path / "state"
    state.mkdir()
    return Plan(
        run_id="run-1",
        queue=tmp_path / "queue",
        state=state,
        lock=state / "run.lock",
        profile=PROFILE,
        started=NOW,
        window=NOW.replace(minute=5, second=0),
        workers=1,
        settle=0.0,
        asset_timeout=30.0,
        drain_timeout=25.0,
        max_attempts=3,
    )


@contextlib.contextmanager
def new_run(plan: Plan, name: str = "run-1", window: datetime | None = None) -> Iterator[Ledger]:
    plan = replace(plan, run_id=name, window=window or plan.window)
    with open_ledger(plan) as ledger:
        ledger.begin_run()
        yield ledger


def checked(asset: Asset, content: str = "1" * 64, report: Report = CLEAN) -> Checked:
    return Checked(asset=asset, content_sha256=content, report=report, seconds=0.5)


def finish(ledger: Ledger, *endings: Ending) -> tuple[bool, ...]:
    (new,) = ledger.write([Finished(endings, NOW)])
    return new


def ended() -> Ended:
    return Ended(totals=Totals(seen=Seen()), code=Exit.OK, drained=False, at=NOW, seconds=1.0)


def asset_rows(ledger: Ledger) -> list[tuple[object, ...]]:
    return ledger.read("SELECT asset_id, state, attempts FROM assets ORDER BY asset_id").fetchall()


def test_what_was_checked_is_not_done_again_until_its_stat_or_the_profile_is_another(plan: Plan) -> None:
    """The page comes back without what is done; any of the four figures, or the profile, makes it new."""
    with new_run(plan) as ledger:
        assert ledger.todo([A, B]) == [A, B]
        finish(ledger, checked(A), checked(B))
        assert ledger.todo([A, B]) == []
        for field in ("size", "mtime_ns", "ctime_ns", "inode"):
            other = Asset(A.name, replace(STAT, **{field: 99}))
            assert ledger.todo([other, B]) == [other]
    stricter = replace(plan, profile=replace(PROFILE, name="other", sha256="f" * 64))
    with new_run(stricter, "run-2") as ledger:
        assert ledger.todo([A, B]) == [A, B]
        assert finish(ledger, checked(A)) == (True,)


def test_equal_content_gives_no_new_record_and_the_ledger_takes_the_new_stat(plan: Plan) -> None:
    """A touched file is done; a content that comes back has its record already."""
    touched, changed, back = (Asset(A.name, replace(STAT, mtime_ns=n)) for n in (10, 11, 12))
    with new_run(plan) as ledger:
        assert finish(ledger, checked(A)) == (True,)
        assert finish(ledger, checked(touched)) == (False,)
        assert ledger.todo([touched]) == []
        assert finish(ledger, checked(changed, "2" * 64)) == (True,)
        assert finish(ledger, checked(back)) == (False,)
        assert ledger.todo([back]) == []
        contents = ledger.read("SELECT content_sha256 FROM records ORDER BY 1").fetchall()
        assert contents == [("1" * 64,), ("2" * 64,)]


def test_a_batch_is_one_transaction(plan: Plan) -> None:
    """When one write of a batch fails, nothing of it is there."""
    broken = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="m", line=1 << 70),))
    with new_run(plan) as ledger:
        with pytest.raises(OverflowError):
            ledger.write([Started((B,)), Finished((checked(A), checked(B, report=broken)), NOW)])
        assert asset_rows(ledger) == []
        assert ledger.read("SELECT COUNT(*) FROM records").fetchone() == (0,)
        assert finish(ledger, checked(A)) == (True,)


def test_what_a_dead_run_left_running_is_suspect_and_what_it_died_of_alone_goes_last(plan: Plan) -> None:
    """Suspect, not guilty: no attempt is counted, and none keeps the queue from being checked."""
    with new_run(plan) as ledger:
        ledger.write([Started((A,), alone=True), Started((B,))])
    with new_run(plan, "run-2") as ledger:
        assert ledger.todo([A, B]) == []
        suspects = ledger.suspects()
        assert [(suspect.asset, suspect.attempts, suspect.last) for suspect in suspects] == [
            (B, 0, False),
            (A, 0, True),
        ]
        assert finish(ledger, checked(A), checked(B)) == (True, True)
        assert ledger.suspects() == []


def test_attempts_are_of_one_content(plan: Plan) -> None:
    """A death alone is an attempt; another file of the same name begins anew; a dead letter waits for that."""
    changed = Asset(A.name, replace(STAT, size=6))
    with new_run(plan) as ledger:
        for attempts in (1, 2):
            ledger.write([Started((A,), alone=True)])
            finish(ledger, Died(asset=A, reason="hung"))
            assert asset_rows(ledger) == [("a.scc", "suspect", attempts)]
        ledger.write([Started((A,), alone=True)])
        finish(ledger, DeadLetter(asset=A, content_sha256="1" * 64, attempts=3, reason="hung"))
        assert asset_rows(ledger) == [("a.scc", "dead", 3)]
        assert ledger.todo([A]) == []
        assert ledger.suspects() == []
        assert ledger.todo([changed]) == [changed]
        ledger.write([Started((changed,))])
        assert asset_rows(ledger) == [("a.scc", "running", 0)]
        finish(ledger, checked(changed, "2" * 64))
        records = ledger.read("SELECT status, attempt FROM records ORDER BY content_sha256").fetchall()
        assert records == [("error", 3), ("pass", 1)]


def test_a_check_takes_the_place_of_a_dead_letters_record_and_nothing_else(plan: Plan) -> None:
    """The same bytes, checked after all: one record, of the check, and both windows have changed."""
    later = plan.window + timedelta(minutes=5)
    with new_run(plan) as ledger:
        finish(ledger, DeadLetter(asset=A, content_sha256="1" * 64, attempts=3, reason="hung"))
    touched = Asset(A.name, replace(STAT, ctime_ns=9))
    with new_run(plan, "run-2", later) as ledger:
        assert finish(ledger, checked(touched)) == (True,)
        assert ledger.read("SELECT status, run_id FROM records").fetchall() == [("pass", "run-2")]
        assert ledger.read("SELECT COUNT(*) FROM findings").fetchone() == (len(CLEAN.findings),)
        assert ledger.read("SELECT changes FROM windows ORDER BY 1 DESC").fetchall() == [(2,), (1,)]


def test_what_is_left_is_new_to_the_next_fire(plan: Plan) -> None:
    """A file that changed while it was read leaves no trace."""
    with new_run(plan) as ledger:
        ledger.write([Started((A,))])
        assert finish(ledger, Left(asset=A, why="changed", detail="it grew")) == (False,)
        assert ledger.todo([A]) == [A]


def test_findings_of_one_rule_at_one_place_are_numbered(plan: Plan) -> None:
    """`number` counts within rule and place, so that it names the same finding in every run."""
    places = (("X", 1), ("X", 1), ("X", 2), ("Y", 1), ("X", 1))
    found = tuple(Finding(rule=rule, severity="warn", message="m", line=line) for rule, line in places)
    with new_run(plan) as ledger:
        finish(ledger, checked(A, report=replace(CLEAN, findings=found)))
        rows = ledger.read("SELECT rule, line, number FROM findings ORDER BY place").fetchall()
    assert rows == [("X", 1, 1), ("X", 1, 2), ("X", 2, 1), ("Y", 1, 1), ("X", 1, 3)]


def test_only_the_windows_that_are_behind_are_written_again(plan: Plan) -> None:
    """Untouched files stay as they are; the rows are the ledger's, in the order of the key."""
    later = plan.window + timedelta(minutes=5)
    with new_run(plan) as ledger:
        finish(ledger, checked(B), checked(A))
        write_projections(plan, ledger, ended())
    findings, assets = window_files(plan.state, plan.window)
    inode = assets.stat().st_ino
    with new_run(plan, "run-2", later) as ledger:
        finish(ledger, checked(A, "2" * 64))
        write_projections(plan, ledger, ended())
        assert assets.stat().st_ino == inode
        findings.unlink()
        write_projections(plan, ledger, ended())
    assert assets.stat().st_ino != inode
    assert parquet.read_table(assets).column("asset_id").to_pylist() == ["a.scc", "b/%E9.scc"]
    row = parquet.read_table(assets).to_pylist()[0]
    assert row["window_start"] == plan.window
    assert row["checked_at"] == NOW
    assert row["cues"] == CLEAN.figures.cues
    assert parquet.read_table(window_files(plan.state, later)[1]).num_rows == 1
    trend = json.loads((plan.state / "dashboard.json").read_bytes())["trend"]
    assert [(window["window"], window["assets"]) for window in trend] == [
        ("2026-01-01T00:05:00Z", 2),
        ("2026-01-01T00:10:00Z", 1),
    ]


class _Tags(HTMLParser):
    """Checks that every element is closed, and keeps what there is."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_names_and_messages_are_data_in_the_page(plan: Plan) -> None:
    """Nothing that a stranger delivers is markup; the page is one file, without script or network."""
    evil = "<script>alert('&')</script><img src=x onerror=\"x\">"
    finding = Finding(rule="X", severity="error", message=evil, timecode=evil)
    asset = Asset(evil.replace("/", "_").encode(), STAT)
    with new_run(plan) as ledger:
        finish(ledger, checked(asset, report=replace(CLEAN, findings=(finding,), status="fail")))
        write_projections(plan, ledger, ended())
    page = (plan.state / "dashboard.html").read_text()
    tags = _Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == ["html"]
    assert tags.seen.isdisjoint({"script", "img", "link", "iframe"})
    assert "http" not in page.replace("http-equiv", "")
    assert "&lt;script&gt;alert(" in page


def test_metrics_are_a_text_file_without_timestamps(plan: Plan) -> None:
    """Each family has its type once; what is not known is not there."""
    with new_run(plan) as ledger:
        finish(ledger, checked(A))
        write_projections(plan, ledger, ended())
    lines = (plan.state / "metrics.prom").read_text().splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert len(families) == len(set(families))
    assert {name.partition("{")[0] for name in samples} == set(families)
    assert float(samples["caption_qc_last_success_timestamp_seconds"]) == NOW.timestamp()
    assert "caption_qc_backlog_assets" not in samples


@pytest.mark.parametrize("content", [b"this is no database, and long enough to be read as one" * 20])
def test_a_ledger_that_is_none_is_one_line_with_the_way_out(plan: Plan, content: bytes) -> None:
    """A damaged ledger is named, with what to do."""
    plan.ledger.write_bytes(content)
    with pytest.raises(JobError, match=r"damaged .*; move it away") as error, new_run(plan):
        pytest.fail("opened what is no ledger")
    assert error.value.code == Exit.IO_ERROR


def test_a_ledger_of_another_version_is_refused(plan: Plan) -> None:
    """An older program must not write into a newer ledger."""
    with contextlib.closing(sqlite3.connect(plan.ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(JobError, match="version 99") as error, new_run(plan):
        pytest.fail("opened a ledger of the future")
    assert error.value.code == Exit.BAD_CONFIG
