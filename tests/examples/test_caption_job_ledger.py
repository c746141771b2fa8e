"""The ledger and its projections, on real SQLite and real Parquet."""

import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from caption_ledgers import (
    CLEAN,
    NOW,
    PROFILE,
    STAT,
    A,
    B,
    ask,
    asset_rows,
    checked,
    died,
    ended,
    finish,
    new_run,
    plan_in,
)
from pyarrow import parquet

from examples.recipes.caption_qc.check import Finding
from examples.recipes.caption_qc.job import ledger_file, projections
from examples.recipes.caption_qc.job.assets import Asset, stat_of
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.ledger import Finished, Started
from examples.recipes.caption_qc.job.outcomes import Died, Left
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import window_files, write_projections
from examples.recipes.caption_qc.job.schema import migrate


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def test_what_was_checked_is_not_done_again_until_its_stat_or_the_profile_is_another(plan: Plan) -> None:
    """The page comes back without what is done; any of the four figures, or the profile, makes it new."""
    with new_run(plan) as ledger:
        assert ledger.todo([A, B]) == [A, B]
        finish(ledger, checked(A), checked(B))
        assert ledger.todo([A, B]) == []
        for field in ("size", "mtime_ns", "ctime_ns", "inode"):
            other = Asset(A.name, STAT._replace(**{field: 99}))
            assert ledger.todo([other, B]) == [other]
    stricter = replace(plan, profile=replace(PROFILE, name="other", sha256="f" * 64))
    with new_run(stricter, "run-2") as ledger:
        assert ledger.todo([A, B]) == [A, B]
        by_another = replace(CLEAN, profile_sha256="f" * 64)
        assert finish(ledger, checked(A, report=by_another)) == (True,)


def test_equal_content_gives_no_new_record_and_the_ledger_takes_the_new_stat(plan: Plan) -> None:
    """A touched file is done; a content that comes back has its record already."""
    touched, changed, back = (Asset(A.name, STAT._replace(mtime_ns=n)) for n in (10, 11, 12))
    with new_run(plan) as ledger:
        assert finish(ledger, checked(A)) == (True,)
        assert finish(ledger, checked(touched)) == (False,)
        assert ledger.todo([touched]) == []
        assert finish(ledger, checked(changed, "2" * 64)) == (True,)
        assert finish(ledger, checked(back)) == (False,)
        assert ledger.todo([back]) == []
        contents = ledger.read("SELECT content_sha256 FROM records ORDER BY 1").fetchall()
        assert contents == [("1" * 64,), ("2" * 64,)]


def test_what_cannot_be_written_of_one_asset_takes_no_other_with_it(plan: Plan) -> None:
    """It is undone whole and left to the next run, in the same transaction as its neighbours."""
    broken = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="m", line=1 << 70),))
    odd = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="\ud800"),))
    with new_run(plan) as ledger:
        ledger.write([Started((A, B))])
        endings = (checked(B, report=broken), checked(A), checked(B, report=odd))
        (recorded,) = ledger.write([Finished(endings, NOW)])
        assert [new for _, new in recorded] == [False, True, False]
        assert [ending.why for ending, _ in recorded if isinstance(ending, Left)] == ["unrecorded"] * 2
        assert asset_rows(ledger) == [("a.scc", "done", 0)]
        assert ledger.read("SELECT asset_id FROM records").fetchall() == [("a.scc",)]
        assert ledger.read("SELECT COUNT(*) FROM findings").fetchone() == (len(CLEAN.findings),)
        assert ledger.todo([A, B]) == [B]


def test_a_batch_is_one_transaction(plan: Plan) -> None:
    """When the ledger itself refuses, nothing of the batch is there, and one line says why."""
    with new_run(plan) as ledger:
        ledger._writer.set_authorizer(
            lambda action, table, *_: (
                sqlite3.SQLITE_DENY if (action, table) == (sqlite3.SQLITE_INSERT, "findings") else 0
            )
        )
        report = replace(CLEAN, findings=(Finding(rule="X", severity="error", message="m"),))
        with pytest.raises(JobError, match=r"the ledger .* failed"):
            ledger.write([Started((B,)), Finished((checked(A, report=report),), NOW)])
        ledger._writer.set_authorizer(None)
        assert asset_rows(ledger) == []
        assert ledger.read("SELECT COUNT(*) FROM records").fetchone() == (0,)
        assert finish(ledger, checked(A)) == (True,)


@pytest.mark.parametrize("figure", ["mtime_ns", "ctime_ns", "inode"])
@pytest.mark.parametrize("value", [(1 << 64) - 1, 10_413_792_000 * 10**9, -(1 << 63) - 5])
def test_a_stat_beyond_64_bits_is_recorded_like_any_other(plan: Plan, figure: str, value: int) -> None:
    """A year past 2262 or a huge inode: done and known again, with a record that Parquet holds."""
    found = SimpleNamespace(st_size=5, **{f"st_{name}": 1 for name in ("mtime_ns", "ctime_ns", "ino")})
    setattr(found, "st_ino" if figure == "inode" else f"st_{figure}", value)
    asset = Asset(b"far.scc", stat_of(found))  # type: ignore[arg-type]
    with new_run(plan) as ledger:
        ledger.write([Started((asset,))])
        assert finish(ledger, checked(asset)) == (True,)
        assert ledger.todo([asset]) == []
        write_projections(plan, ledger, ended())
    (row,) = parquet.read_table(window_files(plan.state, plan.window)[1]).to_pylist()
    assert row["mtime_ns"] == asset.stat.mtime_ns


def test_inodes_beyond_63_bits_stay_different() -> None:
    """Each of the 2**64 has its own number in the ledger; a small one keeps it."""

    def kept(inode: int) -> int:
        return stat_of(SimpleNamespace(st_size=0, st_mtime_ns=0, st_ctime_ns=0, st_ino=inode)).inode  # type: ignore[arg-type]

    inodes = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    assert len({kept(inode) for inode in inodes}) == len(inodes)
    assert [kept(inode) for inode in inodes[:3]] == inodes[:3]
    assert all(-(1 << 63) <= kept(inode) < 1 << 63 for inode in inodes)


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
    changed = Asset(A.name, STAT._replace(size=6))
    with new_run(plan) as ledger:
        for attempts in (1, 2):
            ledger.write([Started((A,), alone=True)])
            finish(ledger, Died(asset=A, reason="hung"))
            assert asset_rows(ledger) == [("a.scc", "suspect", attempts)]
        ledger.write([Started((A,), alone=True)])
        finish(ledger, died(A))
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
        finish(ledger, died(A))
    touched = Asset(A.name, STAT._replace(ctime_ns=9))
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


def test_a_stale_look_at_a_file_does_not_undo_what_was_recorded_since(plan: Plan) -> None:
    """A suspect that is left because it changed keeps the row that its new content has got."""
    changed = Asset(A.name, STAT._replace(size=6))
    with new_run(plan) as ledger:
        finish(ledger, checked(changed))
        finish(ledger, Left(asset=A, why="changed", detail="it changed since it was seen"))
        assert ledger.todo([changed]) == []


def refused(plan: Plan) -> JobError:
    """Open the ledger and project it; return the one line that comes of it."""

    def fire() -> None:
        with new_run(plan, "run-2") as ledger:
            ledger.suspects()
            ledger.todo([A, B])
            write_projections(plan, ledger, ended())

    with pytest.raises(JobError) as error:
        fire()
    assert "\n" not in str(error.value)
    return error.value


@pytest.fixture
def written(plan: Plan) -> Plan:
    """A ledger with two records, closed, and its projections."""
    with new_run(plan) as ledger:
        finish(ledger, checked(A), checked(B))
        write_projections(plan, ledger, ended())
    return plan


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE summary SET content = CAST(x'ff' AS TEXT)",
        "UPDATE summary SET content = '{\"rules\"'",
        "UPDATE summary SET content = '[]'",
        "UPDATE windows SET counts = NULL",
        "UPDATE windows SET counts = '[1]'",
        "UPDATE windows SET window_start = 9223372036854775807",
        "UPDATE assets SET asset_id = CAST(x'ff' AS TEXT), state = 'running'",
        "UPDATE assets SET state = 'running', size = 'large', asset_id = x'00'",
        "UPDATE records SET cues = 'many'; UPDATE windows SET projected = 0",
        "DROP TABLE runs",
    ],
)
def test_a_ledger_of_odd_values_is_one_line_too(written: Plan, damage: str) -> None:
    """What `quick_check` does not see: text that is none, JSON that is none, another kind of value."""
    with contextlib.closing(sqlite3.connect(written.ledger)) as connection:
        connection.execute("DELETE FROM assets WHERE asset_id = 'a.scc'")
        connection.executescript(damage)
    error = refused(written)
    assert error.code == Exit.IO_ERROR
    assert str(written.ledger) in str(error)


def test_a_database_of_something_else_is_refused_and_not_changed(plan: Plan) -> None:
    """It may be anybody's: no table is made in it, and no mode set."""
    with contextlib.closing(sqlite3.connect(plan.ledger)) as connection:
        connection.executescript("CREATE TABLE theirs (x); PRAGMA user_version = 2;")
    theirs = plan.ledger.read_bytes()
    error = refused(plan)
    assert error.code == Exit.IO_ERROR
    assert "not a ledger of ours; choose another folder with --state" in str(error)
    assert plan.ledger.read_bytes() == theirs


def test_a_ledger_that_is_a_fifo_or_a_folder_hangs_nothing(plan: Plan) -> None:
    """Refused before it is opened."""
    os.mkfifo(plan.ledger)
    assert refused(plan).code == Exit.CANNOT_CREATE
    plan.ledger.unlink()
    plan.ledger.mkdir()
    assert refused(plan).code == Exit.CANNOT_CREATE


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage")


def same_size(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link(path: Path) -> None:
    path.rename(path.with_name("there"))
    path.symlink_to("there")


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace_by", [garbage, same_size, a_folder, a_link, a_fifo, Path.unlink])
@pytest.mark.parametrize("table", [0, 1], ids=["findings", "assets"])
def test_other_files_in_the_place_of_records_are_noticed_and_replaced(
    written: Plan, replace_by: Callable[[Path], object], table: int
) -> None:
    """By a run with nothing to check too; and the next one finds them in order."""
    path = window_files(written.state, written.window)[table]
    before = parquet.read_table(path)
    replace_by(path)
    times = []
    for run in ("run-2", "run-3"):
        with new_run(written, run) as ledger:
            write_projections(written, ledger, ended())
        assert not path.is_symlink()
        assert parquet.read_table(path).equals(before)
        times.append(path.stat().st_mtime_ns)
    assert times[0] == times[1]


def test_without_pyarrow_the_run_ends_with_one_line_and_loses_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found is in the ledger; the next run that can writes it."""
    module = "examples.recipes.caption_qc.job.parquet"
    monkeypatch.delitem(sys.modules, module, raising=False)
    with new_run(plan) as ledger, monkeypatch.context() as without:
        finish(ledger, checked(A))
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(JobError, match=r"cannot write Parquet: .*pyarrow.*; install") as error:
            write_projections(plan, ledger, ended())
    assert error.value.code == Exit.BAD_CONFIG
    with new_run(plan, "run-2") as ledger:
        write_projections(plan, ledger, ended())
    assert parquet.read_table(window_files(plan.state, plan.window)[1]).num_rows == 1


def test_a_ledger_of_another_version_is_refused(plan: Plan) -> None:
    """An older program must not write into a newer ledger."""
    with contextlib.closing(sqlite3.connect(plan.ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(JobError, match="version 99") as error, new_run(plan):
        pytest.fail("opened a ledger of the future")
    assert error.value.code == Exit.BAD_CONFIG


_AS_VERSION_2 = """
ALTER TABLE assets DROP COLUMN sidecar; ALTER TABLE runs DROP COLUMN rebuilt;
DROP TABLE dead_letters; DROP TABLE pruned; DROP TABLE skips; PRAGMA user_version = 2;
"""


def test_a_ledger_of_the_version_before_is_brought_up(written: Plan) -> None:
    """Its records and assets stay, and its dead letters are to be moved; both versions' runs are there."""
    with new_run(written, "run-2") as ledger:
        finish(ledger, died(Asset(b"dead.scc", STAT), "2" * 64))
        before = ask(ledger, "SELECT * FROM records")
        letters = ask(ledger, "SELECT * FROM dead_letters")
    with contextlib.closing(sqlite3.connect(written.ledger)) as old:
        old.executescript(_AS_VERSION_2)
    with new_run(written, "run-3") as ledger:
        assert ask(ledger, "SELECT * FROM records") == before
        found = ask(ledger, "SELECT * FROM dead_letters")
        assert [row[:4] + row[5:] for row in found] == [row[:4] + row[5:] for row in letters]
        assert [row[4] for row in found] == ["not checked: hung, 3 times alone"]
        assert ledger.todo([A, B]) == []
        assert ask(ledger, "PRAGMA user_version") == [(3,)]
        assert len(ask(ledger, "SELECT 1 FROM runs")) == 3


def test_a_migration_that_is_killed_has_not_begun(written: Plan) -> None:
    """One transaction: the next run does it."""
    with contextlib.closing(sqlite3.connect(written.ledger)) as old:
        old.executescript(_AS_VERSION_2)
    with contextlib.closing(sqlite3.connect(written.ledger)) as half:
        half.executescript(migrate().removesuffix("COMMIT;"))
    with new_run(written, "run-3") as ledger:
        assert ask(ledger, "PRAGMA user_version") == [(3,)]
        assert ledger.todo([A, B]) == []


@pytest.fixture
def read_through(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The ledgers that are read through from now on."""
    found: list[Path] = []
    whole = ledger_file._require_whole

    def noted(connection: sqlite3.Connection) -> None:
        found.append(Path(connection.execute("PRAGMA database_list").fetchone()[2]))
        whole(connection)

    monkeypatch.setattr(ledger_file, "_require_whole", noted)
    return found


def test_a_ledger_is_read_through_once_a_day_and_when_it_is_not_as_the_last_run_left_it(
    written: Plan, read_through: list[Path]
) -> None:
    """After a run that failed too, and without the note of the last one."""

    def fire(name: str, hours: int = 0) -> int:
        read_through.clear()
        with new_run(replace(written, started=NOW + timedelta(hours=hours)), name):
            pass
        return len(read_through)

    assert [fire("1"), fire("2"), fire("3", 23)] == [0, 0, 0]
    assert [fire("4", 24), fire("5", 25), fire("6", 48)] == [1, 0, 1]
    assert fire("before", 0) == 1  # A clock that was put back.
    os.utime(written.ledger)
    assert [fire("7"), fire("8")] == [1, 0]
    with pytest.raises(ZeroDivisionError), new_run(written, "9"):
        raise ZeroDivisionError
    assert [fire("10"), fire("11")] == [1, 0]
    for note in ("", "nonsense", "1 2 3", "9" * 5000):
        (written.state / "ledger.checked").write_text(note)
        assert fire(f"note {note[:9]}") == 1
    (written.state / "ledger.checked").unlink()
    (written.state / "ledger.checked").mkdir()
    assert [fire("12"), fire("13")] == [1, 1]


def test_a_ledger_of_a_run_that_was_killed_is_read_through(written: Plan, read_through: list[Path]) -> None:
    """What it wrote lies beside the file, which is as it was."""
    child = os.fork()
    if child == 0:
        with new_run(written, "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with new_run(written, "next") as ledger:
        assert ask(ledger, "SELECT COUNT(*) FROM runs") == [(3,)]
    assert read_through == [written.ledger]


def test_skips_and_the_last_success_are_kept(plan: Plan) -> None:
    """A count with what tells what is in it, as one value; the end of the newest run with exit code 0."""
    with new_run(plan) as ledger:
        assert ledger.folded_skips() == (0, "")
        assert ledger.last_success() is None
        ledger.fold_skips(3, "120 abc")
        ledger.fold_skips(5, "200 def")
        assert ledger.folded_skips() == (5, "200 def")
        ledger.end_run(ended())
        assert ledger.last_success() == NOW
    with new_run(replace(plan, started=NOW + timedelta(hours=1)), "run-2") as ledger:
        ledger.end_run(replace(ended(), code=Exit.IO_ERROR, at=NOW + timedelta(hours=1)))
        assert ledger.last_success() == NOW


def test_another_sidecar_is_another_check_and_the_same_file(plan: Plan) -> None:
    """A new, changed or removed sidecar makes an asset new; what a suspect had beside it is kept."""
    sidecars = [None, STAT, STAT._replace(mtime_ns=9)]
    with new_run(plan) as ledger:
        for sidecar in (*sidecars, None):
            asset = replace(A, sidecar=sidecar)
            others = [replace(A, sidecar=other) for other in sidecars if other != sidecar]
            assert ledger.todo([asset]) == [asset]
            ledger.write([Started((asset,))])
            finish(ledger, Left(asset=others[0], why="changed", detail="stale"))
            assert [suspect.asset for suspect in ledger.suspects()] == [asset]
            finish(ledger, checked(asset, report=replace(CLEAN, profile_sha256=f"{sidecar}")))
            assert ledger.todo([asset]) == []
            assert all(ledger.todo([other]) == [other] for other in others)
        assert len(ask(ledger, "SELECT 1 FROM records")) == len(sidecars)


def test_files_of_old_windows_are_looked_for_once_a_day_and_those_of_all_in_a_new_place(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run looks for those of the newest; with another `--out` nothing is missing there."""
    monkeypatch.setattr(projections, "_NEWEST", 2)
    windows = [plan.window + number * timedelta(minutes=5) for number in range(4)]
    for number, window in enumerate(windows):
        with new_run(plan, f"run-{number}", window) as ledger:
            finish(ledger, checked(A, f"{number}" * 64))
            write_projections(plan, ledger, ended())
    oldest, newest = (window_files(plan.out, windows[number])[1] for number in (0, -1))

    def fire(name: str, hours: int, plan: Plan = plan) -> tuple[bool, bool]:
        oldest.unlink(missing_ok=True)
        newest.unlink(missing_ok=True)
        with new_run(replace(plan, started=NOW + timedelta(hours=hours)), name) as ledger:
            write_projections(plan, ledger, ended())
        return oldest.exists(), newest.exists()

    assert fire("same day", 1) == (False, True)
    assert fire("next day", 25) == (True, True)
    elsewhere = replace(plan, out=plan.state.with_name("out"))
    fire("elsewhere", 26, elsewhere)
    assert all(path.is_file() for window in windows for path in window_files(elsewhere.out, window))
