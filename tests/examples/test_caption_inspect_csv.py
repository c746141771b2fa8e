"""`inspect --csv`: a row a finding, and no file missing, whoever reads it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest
from caption_encoder import CHANNEL_2, CR, EDM, ENM, EOC, RCL, RU2, line, preamble, scc, text, twice
from caption_inspect import inspect, objects, printed, without_libraries
from caption_reports import CASES, ROOT
from caption_runs import COMMAND, ENVIRONMENT, GOOD, SAMPLES, command
from caption_sheet import MARK, captions, read, sheet, too_fast

from examples.recipes.caption_qc.sheet import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = SAMPLES / "popon_clean.scc"
FAST = SAMPLES / "faulty" / "popon_load_overlap.scc"
NOTHING = CASES / "28_header_only.scc"
OPEN = CASES / "13_last_cue_never_cleared.scc"
DROP = SAMPLES / "popon_dropframe_clean.scc"
PLACED = ("rule", "severity", "line", "word", "timecode", "frame", "cue", "channel")
MEASURED = ("measured", "threshold", "unit", "message")
NUMBERS = {"line", "word", "frame", "cue", "measured", "threshold", "caption_start", "caption_end"}


@pytest.fixture
def strict(tmp_path: Path) -> tuple[str, Path]:
    return too_fast(tmp_path)


# What stands in it


def test_a_finding_is_a_row_with_all_its_fields(tmp_path: Path) -> None:
    """The same as in `--json`; what makes no sense for a rule is an empty cell."""
    bad = tmp_path / "reel.scc"
    bad.write_bytes(FAST.read_bytes() + b"00:00:50:00\tzzzz\n")
    (found,) = objects(bad)
    rows = sheet(bad)

    assert list(rows[0]) == list(COLUMNS)
    assert len(rows) == len(found["findings"]) > 4
    assert [row["rule"] for row in rows] == [finding["rule"] for finding in found["findings"]]
    for row, finding in zip(rows, found["findings"], strict=True):
        assert (row["file"], row["status"]) == (str(bad), "fail")
        fields = {name: "" if finding[name] is None else str(finding[name]) for name in (*PLACED, *MEASURED)}
        assert {name: row[name] for name in fields} == fields


def test_a_row_has_the_caption_and_when_it_shows() -> None:
    """Its rows as lines of one cell; in and out as labels of the file's time base and in seconds."""
    (found,) = objects(FAST)
    cue = found["cues"][0]
    row = next(row for row in sheet(FAST) if row["rule"] == "RATE_CPS")
    assert row["caption"] == "\n".join(row["text"] for row in cue["rows"])
    assert "\n" in row["caption"]
    assert (float(row["caption_start"]), float(row["caption_end"])) == (cue["start"], cue["end"])
    labels = f"{row['caption_in']}  {row['caption_out']}"
    assert labels in printed(FAST)


def test_labels_of_a_drop_frame_file_are_its_own(strict: tuple[str, Path]) -> None:
    """Frame by frame those of the table, across a minute that leaves two out."""
    rows = [row for row in sheet(*strict, DROP) if row["rule"] == "RATE_CPS"]
    page = printed(DROP)
    assert len(rows) == 4
    for row in rows:
        assert re.search(rf"{row['caption_in']}  {row['caption_out']}", page)
        assert ";" in row["caption_in"]


def test_a_caption_without_an_end_has_none() -> None:
    """The cells are empty; nothing is invented."""
    row = next(row for row in sheet(OPEN) if row["rule"] == "608_NO_FINAL_CLEAR")
    assert (row["caption"], row["caption_out"], row["caption_end"]) == ("NO CLEAR", "", "")
    assert row["caption_start"] != ""


def test_a_finding_of_no_channel_has_the_caption_of_the_one_that_is_judged(tmp_path: Path) -> None:
    """Which a profile may choose: a word that is none, while captions are on screen in two channels."""
    file = tmp_path / "reel.scc"
    second = [code | CHANNEL_2 for code in (RU2, CR)]
    loads = [
        line("00:00:01:00", twice(RCL, ENM), preamble(15), text("ONE"), twice(EOC)),
        line("00:00:03:00", twice(*second), text("TWO")),
        line("00:00:04:00", ["zzzz"]),
    ]
    file.write_bytes(scc(*loads, line("00:00:06:00", twice(EDM, EDM | CHANNEL_2))))
    profile = tmp_path / "second.toml"
    profile.write_text('name = "second"\nchannel = "CC2"\n')
    for chosen, caption in (((), "ONE"), (("--profile", profile), "TWO")):
        row = next(row for row in sheet(*chosen, file) if row["rule"] == "HEX_BAD_WORD")
        assert (row["channel"], row["caption"]) == ("", caption)


def test_what_is_found_in_the_whole_file_is_above_the_rest(tmp_path: Path) -> None:
    """The worst first, then places in the order of the file; what counts the rest is the last."""
    file = tmp_path / "reel.scc"
    file.write_bytes(b"Scenarist_SCC V1.0\n\n" + b"bad\n" * 200 + b"00:59:00:00\t1420 142e 142e\n" * 60)
    profile = tmp_path / "mild.toml"
    profile.write_text('name = "mild"\n[rules.608_PARITY]\nseverity = "info"\n')
    rows = sheet("--profile", profile, file)
    assert [row["rule"] for row in rows[:3]] == ["FMT_NO_CAPTIONS", "TC_FRAME_RATE", "608_PARITY"]
    lines = [int(row["line"]) for row in rows[3:] if row["line"]]
    assert lines == sorted(lines)
    assert (rows[-1]["rule"], rows[-1]["measured"], rows[-1]["unit"]) == ("FMT_BAD_LINE", "200", "findings")


# Which files


def test_many_files_have_one_header(tmp_path: Path) -> None:
    """And their rows in the order in which they were given, one file twice being answered twice."""
    files = [FAST, CLEAN, OPEN, FAST]
    out = inspect("--csv", *files).out
    assert out.count("caption_start") == 1
    names = [row["file"] for row in read(out)]
    assert list(dict.fromkeys(names)) == list(map(str, files[:3]))
    assert names.count(str(FAST)) == 2 * len(sheet(FAST))


def test_a_file_without_findings_has_one_row() -> None:
    """Else nobody would see that it was looked at."""
    (row,) = sheet(CLEAN)
    assert {name: cell for name, cell in row.items() if cell} == {"file": str(CLEAN), "status": "pass"}


def test_a_file_that_could_not_be_read_has_one_row_too(tmp_path: Path) -> None:
    """Of status `error`, with the reason, beside the line on standard error; the code is 66, or 78 for a sidecar."""
    (tmp_path / "reel.scc").write_bytes(GOOD)
    (tmp_path / "reel.toml").write_bytes(b"")
    for file, code, why in (
        (tmp_path / "missing.scc", 66, "No such file"),
        (tmp_path, 66, "it is a folder"),
        (tmp_path / "reel.scc", 78, "reel.toml"),
    ):
        said = inspect("--csv", file, CLEAN)
        first, second = read(said.out)
        assert (said.code, first["file"], first["status"], second["status"]) == (
            code,
            str(file),
            "error",
            "pass",
        )
        assert why in first["message"]
        assert said.errors == [f"caption_qc: {first['message']}"]
        assert {name for name, cell in first.items() if cell} == {"file", "status", "message"}


def test_a_file_that_is_too_large_has_its_finding(tmp_path: Path) -> None:
    """It is not read, and that is a finding."""
    profile = tmp_path / "small.toml"
    profile.write_text('name = "small"\nmax_bytes = 20\n')
    (row,) = sheet("--profile", profile, CLEAN)
    assert (row["status"], row["rule"], row["threshold"]) == ("fail", "FMT_TOO_LARGE", "20")


def test_rows_are_those_of_the_chosen_cues(tmp_path: Path) -> None:
    """As in `--json`; where they have none, the row says that there are others."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions(("ONE",), ("TWO",)).replace(b"00:00:04:00", b"00:00:01:16"))
    (found,) = objects("--cues", "1", file)
    rows = sheet("--cues", "1", file)
    assert [(row["rule"], row["cue"]) for row in rows] == [
        (finding["rule"], str(finding["cue"])) for finding in found["findings"]
    ]
    (other,) = sheet("--cues", "2", file)
    assert (other["status"], other["rule"]) == (found["status"], "")
    assert other["message"] == f"nothing was found about these cues; findings about others: {len(rows)}"


@pytest.mark.parametrize(
    ("fail_on", "code"), [((), 0), (("--fail-on", "error"), 65), (("--fail-on", "warn"), 65)]
)
def test_findings_change_the_code_where_it_is_asked_for(fail_on: tuple[str, ...], code: int) -> None:
    """As in the other forms."""
    assert inspect("--csv", *fail_on, FAST).code == code
    assert inspect("--csv", *fail_on, CLEAN).code == 0


@pytest.mark.parametrize("other", ["--json", "--grid"])
def test_it_is_one_form_or_the_other(other: str) -> None:
    """Two at once are refused, and nothing is printed."""
    said = inspect("--csv", other, CLEAN)
    assert (said.code, said.out, len(said.errors)) == (64, "", 1)
    assert "not allowed with argument" in said.errors[0]


# Who reads it


def test_it_is_as_the_standard_says(tmp_path: Path, strict: tuple[str, Path]) -> None:
    """UTF-8 with a mark, CR LF behind each row and nowhere else, text in quotes and numbers without."""
    file = tmp_path / 'a "quoted", name.scc'
    file.write_bytes(captions(("A, B",), ("ONE", "TWO")))
    first, *rows, last = printed("--csv", *strict, file, FAST).split("\r\n")
    assert first == MARK + ",".join(f'"{name}"' for name in COLUMNS)
    assert last == ""
    assert not any("\r" in row for row in rows)
    assert rows[0].startswith(f'"{tmp_path}/a ""quoted"", name.scc","warn","RATE_CPS","warn",3,')
    assert ',"A, B","00:00:01:' in rows[0]
    assert ',"ONE\nTWO","00:00:11:' in rows[1]


def test_it_is_utf_8_in_every_locale(tmp_path: Path, strict: tuple[str, Path]) -> None:
    """The mark promises it: to a program that was started where text is Latin-1, or ASCII."""
    (tmp_path / "reel.scc").write_bytes(captions(("CAF\\",)))
    for encoding in ("latin-1", "ascii", "utf-16"):
        done = subprocess.run(
            [*COMMAND, "inspect", "--csv", *map(str, strict), str(tmp_path / "reel.scc")],
            cwd=ROOT,
            env=ENVIRONMENT | {"PYTHONIOENCODING": encoding},
            capture_output=True,
            check=True,
        )
        assert done.stdout.startswith(b'\xef\xbb\xbf"file",')
        assert read(done.stdout.decode())[0]["caption"] == "CAF\N{LATIN SMALL LETTER E WITH ACUTE}"


def test_another_reader_finds_the_same(tmp_path: Path, strict: tuple[str, Path]) -> None:
    """DuckDB, told nothing: the header, numbers as numbers, and captions with their lines and their accents."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions(('=A, "B"; C', "- \\"), ("TWO",)))
    asked = (*strict, file, FAST, CLEAN, NOTHING)
    (tmp_path / "sheet.csv").write_bytes(printed("--csv", *asked).encode())
    with duckdb.connect() as connection:
        found = connection.read_csv(str(tmp_path / "sheet.csv"))
        kinds = dict(zip(found.columns, map(str, found.types), strict=True))
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert list(kinds) == list(COLUMNS)
    assert {name for name, kind in kinds.items() if kind in {"BIGINT", "DOUBLE"}} == NUMBERS
    assert [{name: row[name] for name in COLUMNS} for row in rows] == [
        {name: (float(cell) if name in NUMBERS else cell) if cell else None for name, cell in row.items()}
        for row in sheet(*asked)
    ]


def test_it_needs_none_of_the_libraries_of_the_rest() -> None:
    """As `--json`: the standard library reads and writes it."""
    program = without_libraries("rich", "pysubs2", "pyarrow", "async_batcher", "anyio", "duckdb")
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", "--csv", str(FAST)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert len(read(done.stdout.decode())) == 4


def test_a_reader_that_has_gone_is_no_error() -> None:
    """`inspect --csv | head` says nothing of it."""
    many = " ".join(["inspect", "--csv", *[str(CLEAN)] * 40])
    done = command(prefix=["sh", "-c", f'"$@" {many} | head -c 9', "sh"])
    assert (done.stdout, done.stderr) == (f'{MARK}"file"', "")


def test_a_full_disk_is_one_line_and_74() -> None:
    """A sheet that could not be written whole is no success."""
    done = command(prefix=["sh", "-c", f'"$@" inspect --csv {CLEAN} >/dev/full', "sh"])
    assert (done.returncode, len(done.stderr.splitlines())) == (74, 1)
