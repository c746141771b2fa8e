"""The ledger's file: whose it is, whether it is whole, and of which version."""

import contextlib
import json
import os
import signal
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from caption_ledgers import (
    AS_VERSION_2,
    AS_VERSION_3,
    AS_VERSION_4,
    FAULTY,
    NOW,
    STAT,
    A,
    B,
    ask,
    checked,
    died,
    ended,
    finish,
    new_run,
    plan_in,
    write_two,
)

from examples.recipes.caption_qc.job import ledger_file
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.rows import RECORD_COLUMNS
from examples.recipes.caption_qc.job.schema import LEDGER_VERSION, migrate


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


@pytest.fixture
def written(plan: Plan) -> Plan:
    return write_two(plan)


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


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE summary SET counts = '[]'",
        "UPDATE summary SET counts = '{\"pass\"'",
        "UPDATE summary SET fragment = CAST(x'ff' AS TEXT)",
        "UPDATE summary SET fragment = fragment || ' '",
        "UPDATE summary SET checksum = 'none'",
        "UPDATE summary_text SET content = CAST(x'ff' AS TEXT)",
        "UPDATE summary_text SET content = '\"rules\":'",
        "DELETE FROM summary_text",
        "UPDATE windows SET counts = 7",
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


def test_a_ledger_of_another_version_is_refused(plan: Plan) -> None:
    """An older program must not write into a newer ledger."""
    with contextlib.closing(sqlite3.connect(plan.ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(JobError, match="version 99") as error, new_run(plan):
        pytest.fail("opened a ledger of the future")
    assert error.value.code == Exit.BAD_CONFIG


@pytest.mark.parametrize("older", [AS_VERSION_2, AS_VERSION_3, AS_VERSION_4], ids=["2", "3", "4"])
def test_a_ledger_of_each_version_before_is_brought_up(written: Plan, older: str) -> None:
    """Tables, records and findings are as a new one has them; what was not kept then is null, and it goes on."""
    with new_run(written, "run-2") as ledger:
        finish(ledger, checked(A, "2" * 64, report=FAULTY))
        tables = ask(ledger, _COLUMNS)
        runs = len(ask(ledger, "SELECT 1 FROM runs"))
        found = ask(ledger, "SELECT rule, severity, line, message FROM findings ORDER BY place")
    with contextlib.closing(sqlite3.connect(written.ledger)) as old:
        old.executescript(older)
    with new_run(written, "run-3") as ledger:
        assert ask(ledger, _COLUMNS) == tables
        assert len(ask(ledger, "SELECT 1 FROM runs")) == runs + 1
        assert ask(ledger, "SELECT rule, severity, line, message FROM findings ORDER BY place") == found
        assert ask(ledger, "SELECT DISTINCT caption, caption_start, caption_end FROM findings") == [
            (None,) * 3
        ]
        write_projections(written, ledger, ended())
        finish(ledger, checked(B, "2" * 64, report=FAULTY))
        write_projections(written, ledger, ended())
    shown = json.loads((written.state / "dashboard.json").read_bytes())
    assert (shown["totals"]["assets"], len(shown["rules"]) > 0) == (4, True)


_COLUMNS = """
SELECT t.name, c.name, c.type, c.pk FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'
ORDER BY t.name, c.cid
"""


def test_a_ledger_of_the_version_before_is_brought_up(written: Plan) -> None:
    """Its records and assets stay, and its dead letters are to be moved; both versions' runs are there."""
    records = f"SELECT {', '.join(RECORD_COLUMNS)} FROM records"  # noqa: S608 - our own names
    with new_run(written, "run-2") as ledger:
        finish(ledger, died(Asset(b"dead.scc", STAT), "2" * 64))
        before = ask(ledger, records)
        letters = ask(ledger, "SELECT * FROM dead_letters")
    with contextlib.closing(sqlite3.connect(written.ledger)) as old:
        old.executescript(AS_VERSION_2)
    with new_run(written, "run-3") as ledger:
        assert ask(ledger, records) == before
        found = ask(ledger, "SELECT * FROM dead_letters")
        assert [row[:4] + row[5:] for row in found] == [row[:4] + row[5:] for row in letters]
        assert [row[4] for row in found] == ["not checked: hung, 3 times alone"]
        assert ledger.todo([A, B]) == []
        assert ask(ledger, "PRAGMA user_version") == [(LEDGER_VERSION,)]
        assert len(ask(ledger, "SELECT 1 FROM runs")) == 3


def test_a_migration_that_is_killed_has_not_begun(written: Plan) -> None:
    """One transaction: the next run does it."""
    with contextlib.closing(sqlite3.connect(written.ledger)) as old:
        old.executescript(AS_VERSION_2)
    with contextlib.closing(sqlite3.connect(written.ledger)) as half:
        half.executescript(migrate(2).removesuffix("COMMIT;"))
    with new_run(written, "run-3") as ledger:
        assert ask(ledger, "PRAGMA user_version") == [(LEDGER_VERSION,)]
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
    os.utime(written.ledger, (1, 1))  # Not now: the system's clock of files may have been there before.
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


def test_a_damage_that_a_run_meets_is_looked_for_by_the_next(written: Plan) -> None:
    """Bits that rot change no time: the run that meets them fails, and the one after it mends them."""
    data = bytearray(written.ledger.read_bytes())
    page = 4096
    data[page:] = b"\xa5" * (len(data) - page)
    with written.ledger.open("r+b") as file:
        file.write(data)
    ledger_file.note_whole(written.ledger, written.started)
    for name in ("2", "3"):
        warnings: list[str] = []
        with contextlib.suppress(JobError), new_run(written, name, warn=warnings.append) as ledger:
            assert ask(ledger, "SELECT COUNT(*) FROM records") == [(2,)]
        assert len(warnings) == (name == "3")


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
