"""The questions of the page are asked, of the records that its own session makes, and answered as it says.

A block with `sql` is run, in the order of the page and on one connection. A table right below one is what it
answers, to the letter; a block without a table makes views or files for those that follow.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pages import ROOT, table
from test_console import SESSIONS, run, steps

from examples.recipes.caption_qc.sheet import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = ROOT / "docs" / "caption-questions.md"
_SQL = re.compile(r"^```sql\n(.*?)^```\n(?:\n((?:\|[^\n]*\n)+))?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Question:
    """One block, and the lines of the table below it."""

    sql: str
    answer: str

    def __str__(self) -> str:
        return self.sql.partition("\n")[0]


QUESTIONS = [Question(match[1], match[2] or "") for match in _SQL.finditer(PAGE.read_text())]
ANSWERED = [question for question in QUESTIONS if question.answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the records as the page's first session does, and return the folder that has `state`."""
    folder = tmp_path_factory.mktemp("house")
    (folder / "examples").symlink_to(ROOT / "examples")
    first = next(block for block in SESSIONS if block.page == PAGE)
    for command, _ in steps(first):
        done = run(command, folder)
        assert done.returncode == 0, done.stdout
    return folder


@contextlib.contextmanager
def asking(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect in a folder, with all that the page makes in blocks without an answer."""
    with contextlib.chdir(folder), duckdb.connect() as connection:
        for question in QUESTIONS:
            if not question.answer:
                connection.execute(question.sql)
        yield connection


def answered(connection: duckdb.DuckDBPyConnection, question: Question) -> list[list[str]]:
    """Ask, and return the header and the rows as the page writes them."""
    found = connection.sql(question.sql)
    return [found.columns, *([_cell(value) for value in row] for row in found.fetchall())]


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def written(question: Question) -> list[list[str]]:
    """Return the header and the rows that stand below a question."""
    head, _, *rows = question.answer.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *rows)]


@pytest.mark.parametrize("question", ANSWERED, ids=str)
def test_a_question_has_the_answer_that_is_written(question: Question, folder: Path) -> None:
    """Its columns and its rows, in their order."""
    with asking(folder) as connection:
        assert answered(connection, question) == written(question)


def test_there_are_the_questions_that_a_house_asks() -> None:
    """Three at least, each with an answer of several rows."""
    assert len([question for question in ANSWERED if len(written(question)) > 2]) >= 3


@pytest.fixture
def old_window(folder: Path, tmp_path: Path) -> Path:
    """Copy the records, with the first window as an older version wrote it: without some of the columns."""
    shutil.copytree(folder / "state" / "telemetry", tmp_path / "state" / "telemetry")
    for name, added in (("findings", "caption"), ("assets", "max_cols")):
        file = min((tmp_path / "state" / "telemetry" / name).glob("*/*.parquet"))
        found = pq.read_table(file, partitioning=None)
        kept = [column for column in found.column_names if not column.startswith(added)]
        assert len(kept) < len(found.column_names)
        pq.write_table(found.select(kept), file)
    return tmp_path


@pytest.mark.parametrize("view", ["assets", "findings", "newest"])
def test_all_columns_are_there_whichever_window_has_them(view: str, folder: Path, old_window: Path) -> None:
    """A view over windows of two versions has the columns of the newer one."""
    columns = []
    for place in (folder, old_window):
        with asking(place) as connection:
            columns.append(set(connection.sql(f"FROM {view}").columns))
    assert columns[0] == columns[1]


@pytest.mark.parametrize("question", ANSWERED, ids=str)
def test_old_windows_are_asked_with_new_ones(question: Question, folder: Path, old_window: Path) -> None:
    """The answer is the same but for the cells that the old window does not have, which are empty."""
    with asking(folder) as connection:
        now = answered(connection, question)
    with asking(old_window) as connection:
        then = answered(connection, question)
    lost = {column for column, name in enumerate(now[0]) if name in {"at", "caption"}}
    assert [[cell for column, cell in enumerate(row) if column not in lost] for row in now] == [
        [cell for column, cell in enumerate(row) if column not in lost] for row in then
    ]


def test_time_is_named_by_the_window_or_by_the_glob(folder: Path) -> None:
    """A filter on the folders' names reads these alone, and a glob of them finds the same."""
    with asking(folder) as connection:
        filtered = "SELECT DISTINCT asset_id FROM assets WHERE \"window\" >= '2026-01-12' ORDER BY ALL"
        ((_, plan),) = connection.execute(f"EXPLAIN ANALYZE {filtered}").fetchall()
        found = connection.execute(filtered).fetchall()
        named = "FROM 'state/telemetry/assets/window=2026-01-1*/*.parquet'"
        assert connection.execute(f"SELECT DISTINCT asset_id {named} ORDER BY ALL").fetchall() == found
    assert len(found) == 7
    assert "2/3" in plan


def test_the_newest_record_is_that_of_the_bytes_that_came_last(folder: Path) -> None:
    """One a file and profile, of those that came twice the second."""
    with asking(folder) as connection:
        assert connection.sql("SELECT count(*), count(DISTINCT asset_id) FROM newest").fetchall() == [
            (10, 10)
        ]
        again = "SELECT status, week FROM newest WHERE asset_id = 'south/reel-4.scc'"
        assert connection.sql(again).fetchall() == [("fail", "2026-W03")]


def test_the_night_is_asked_by_the_clock_too(folder: Path) -> None:
    """As the page says, for the last `AND` of the question: all of today's failures, whatever their window."""
    (night,) = (question.sql for question in ANSWERED if '"then"' in question.sql)
    (clock,) = re.findall(r"`(AND assets\.checked_at .*?)`", PAGE.read_text())
    before, _, after = night.rpartition("    AND ")
    with asking(folder) as connection:
        found = connection.sql(f"{before}{clock}\n{after.partition(chr(10))[2]}").fetchall()
    assert len(found) == 6


def test_what_was_mended_does_not_fail_now(folder: Path) -> None:
    """The second answer is those of all nights that still fail."""
    (now,) = (question for question in ANSWERED if "SELECT asset_id, status, errors" in question.sql)
    with asking(folder) as connection:
        every = connection.sql("SELECT DISTINCT asset_id FROM assets WHERE status = 'fail'").fetchall()
    fail = {asset for asset, *_ in written(now)[1:]}
    assert {asset for (asset,) in every} - fail == {"north/reel-2.scc", "south/reel-5.scc"}


def test_the_views_are_a_file_to_start_with(folder: Path) -> None:
    """`duckdb -init views.sql` reads it; here the library does, by the page's own line."""
    views = next(question.sql for question in QUESTIONS if not question.answer)
    (folder / "views.sql").write_text(views)
    (folder / "question.sql").write_text("SELECT max(asset_id) FROM newest;")
    (line,) = (
        line.removeprefix("$ ")
        for line in PAGE.read_text().splitlines()
        if line.startswith("$ ") and "views.sql" in line
    )
    done = run(line, folder)
    assert done.returncode == 0, done.stdout
    assert "south/reel-9.scc" in done.stdout


def test_what_an_edited_profile_judges_anew_is_no_delivery(folder: Path, tmp_path: Path) -> None:
    """It has one record more, which is the newest; what was delivered again is what was."""
    shutil.copytree(folder / "state", tmp_path / "state")
    (tmp_path / "edited.toml").write_text('name = "house"\n[rules.RATE_WPM]\nseverity = "info"\n')
    options = f"--state {tmp_path}/state --profile {tmp_path}/edited.toml --settle 0"
    assert run(f"python -m examples.recipes.caption_qc run queue {options}", folder).returncode == 0
    again = next(question for question in ANSWERED if "errors_before" in question.sql)
    with asking(tmp_path) as connection:
        assert connection.sql("SELECT count(*) FROM assets").fetchall() == [(13 + 10,)]
        assert connection.sql("SELECT count(*) FROM newest WHERE status = 'warn'").fetchall() == [(1,)]
        assert answered(connection, again) == written(again)


def test_true_numbers_are_counted(folder: Path, tmp_path: Path) -> None:
    """Of a rule that was found 250 times, whose records are 101."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "queue").mkdir()
    words = b" ".join([b"zz"] * 250)
    (tmp_path / "queue" / "many.scc").write_bytes(b"Scenarist_SCC V1.0\n\n00:00:01:00\t" + words + b"\n")
    command = "python -m examples.recipes.caption_qc run queue --state state --settle 0"
    assert run(command, tmp_path).returncode == 0
    with asking(tmp_path) as connection:
        asked = "SELECT count(*), sum(times)::INT FROM findings WHERE rule = 'HEX_BAD_WORD'"
        assert connection.sql(asked).fetchall() == [(101, 250)]


def test_no_cell_of_the_copy_is_a_formula() -> None:
    """The macro puts an apostrophe before what would be one: at the beginning, in a further line, behind `;`."""
    macro = next(question.sql for question in QUESTIONS if "CREATE MACRO" in question.sql)
    with duckdb.connect() as connection:
        connection.execute(macro.partition(";\n\n")[0] + ";")
        texts = ["=1+1", "- Yes.\n- No.", "a;=1", 'a; "=1', "@x", "+1", "\uff1d1", "a-b, -c", "plain"]
        said = [connection.execute("SELECT as_text(?)", [text]).fetchall()[0][0] for text in texts]
    assert said == [
        "'=1+1",
        "'- Yes.\n'- No.",
        "a;'=1",
        "a; \"'=1",
        "'@x",
        "'+1",
        "'\uff1d1",
        "a-b, -c",
        "plain",
    ]


def test_every_column_of_the_sheet_is_in_the_table() -> None:
    """In its order."""
    names = [name for row in table(PAGE, "| column of `--csv` ") for name in re.findall(r"`([^`]+)`", row[0])]
    assert names == list(COLUMNS)
