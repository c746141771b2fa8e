"""Each finding has the caption that shows there: in the ledger, in Parquet, on the dashboard."""

from __future__ import annotations

import contextlib
import pickle
import shutil
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from caption_dashboards import SAMPLES, looked_at, recorded, sampled, shown_in, write
from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice
from caption_ledgers import PROFILE, STAT, A, ask, checked, finish, new_run, plan_in, window_paths
from caption_runs import Place, place
from pyarrow import parquet

from examples.recipes.caption_qc.check import Cue, Finding, Row, check
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.captions import Caption, Captions, captions_of
from examples.recipes.caption_qc.job.records import FINDINGS, KEY
from examples.recipes.caption_qc.job.rows import finding_rows

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

FPS = 30000 / 1001


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def cue(number: int, start: int, end: int | None, load: int, place: str = "CC1 0") -> Cue:
    """Show two rows; `place` is channel and line, which loads them and shows them."""
    rows = (Row(row=14, column=1, text=f"first of {number}"), Row(row=15, column=1, text="second"))
    channel, _, line = place.partition(" ")
    return Cue(
        number=number,
        channel=channel,
        mode="pop-on",
        load_frame=load,
        start_frame=start,
        end_frame=end,
        start=start / FPS,
        end=None if end is None else end / FPS,
        rows=rows,
        line=int(line),
        load_line=int(line),
    )


CUES = (
    cue(1, 100, 150, 60, "CC1 3"),
    cue(2, 120, 400, 120, "CC2 4"),
    cue(3, 200, 300, 160, "CC1 5"),
    cue(4, 300, 350, 250, "CC1 7"),
    cue(5, 500, None, 450, "CC1 9"),
)


def finding(**place: Any) -> Finding:
    return Finding(rule="X", severity="error", message="x", **place)


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ({"line": 5, "frame": 260, "cue": 1}, 1),
        ({"line": 5, "frame": 260, "cue": 2}, 2),
        ({"cue": 5}, 5),
        ({"line": 5, "frame": 200}, 3),
        ({"line": 7, "frame": 299}, 4),
        ({"line": 7, "frame": 300}, 4),
        ({"line": 4, "frame": 130}, 1),
        ({"line": 4, "frame": 130, "channel": "CC2"}, 2),
        ({"line": 4, "frame": 399, "channel": "CC2"}, 2),
        ({"line": 4, "frame": 400, "channel": "CC2"}, 2),
        ({"line": 4, "frame": 401, "channel": "CC2"}, None),
        ({"line": 4, "frame": 130, "channel": "CC3"}, None),
        ({"line": 3, "frame": 70}, 1),
        ({"line": 3, "frame": 59}, 1),
        ({"line": 2, "frame": 59}, None),
        ({"line": 5, "frame": 150}, 3),
        ({"line": 4, "frame": 150}, 1),
        ({"line": 4, "frame": 151}, None),
        ({"line": 9, "frame": 400}, 5),
        ({"line": 8, "frame": 400}, None),
        ({"line": 8, "frame": 299}, 3),
        ({"line": 9, "frame": 460}, 5),
        ({"line": 99, "frame": 10**9}, 5),
        ({"line": 7}, 4),
        ({"line": 4}, None),
        ({"line": 4, "channel": "CC2"}, 2),
        ({}, None),
        ({"frame": 260}, None),
        ({"cue": 9}, None),
        ({"cue": 0}, None),
    ],
)
def test_the_caption_is_the_cues_else_what_is_loaded_else_what_shows(
    place: dict[str, Any], number: int | None
) -> None:
    """In the finding's channel, or the judged one; what is said of the whole file has none."""
    found = Captions(CUES, "CC1").of(finding(**place))
    wanted = None
    if number is not None:
        its = CUES[number - 1]
        wanted = Caption(f"first of {number}\nsecond", its.start, its.end)
    assert found == wanted


def test_cues_whose_times_run_back_are_found_by_time() -> None:
    """A file whose lines run back shows what began last and is still there."""
    cues = (cue(1, 900, 950, 900), cue(2, 100, 150, 100), cue(3, 100, 120, 100))
    captions = Captions(cues, "CC1")
    texts = [
        found and found.text
        for found in map(captions.of, (finding(line=1, frame=f) for f in (910, 110, 130)))
    ]
    assert texts == [f"first of {number}\nsecond" for number in (1, 3, 2)]


def test_a_cue_that_ends_before_it_starts_hides_none() -> None:
    """Of those that began, the last that has not ended is on screen; so it is wherever one is asked."""
    cues = (cue(1, 100, 900, 90), cue(2, 200, 260, 190), cue(3, 436, 429, 430), cue(4, 433, 513, 432))
    captions = Captions(cues, "CC1")
    for frame in range(80, 950):
        begun = [one for one in cues if one.start_frame <= frame <= (one.end_frame or 0)]
        found = captions.of(finding(line=99, frame=frame))
        wanted = max(begun, key=lambda one: one.start_frame, default=None)
        assert (found and found.start) == (wanted and wanted.start)


def test_no_cues_have_no_captions() -> None:
    """As of a file without captions, or none that could be decoded."""
    assert captions_of((finding(line=1, frame=2), finding(line=1), finding()), (), "CC1") == (
        None,
        None,
        None,
    )


def test_a_real_file_shows_what_its_captions_say() -> None:
    """A bad parity while a caption loads spoils it, whatever is on screen meanwhile."""
    first = line("00:00:01:00", twice(ENM, RCL), preamble(15, 1), text("ONE"), twice(EDM, EOC))
    second = line("00:00:03:00", twice(ENM, RCL), preamble(15, 1), text("TWO"), twice(EDM, EOC))
    good = scc(first, second)
    assert [one.rows[0].text for one in check(good, PROFILE).cues] == ["ONE", "TWO"]
    report = check(good.replace(b"4fce", b"4f4e").replace(b"5457", b"d457"), PROFILE)
    captions = captions_of(report.findings, report.cues, PROFILE.channel)
    assert [one.rows[0].text for one in report.cues] == ["O\N{FULL BLOCK}E", "\N{FULL BLOCK}WO"]
    found = [
        (one.line, caption and caption.text)
        for one, caption in zip(report.findings, captions, strict=True)
        if one.rule == "608_PARITY"
    ]
    assert found == [(3, "O\N{FULL BLOCK}E"), (5, "\N{FULL BLOCK}WO")]


def test_a_hundred_findings_of_one_caption_carry_one_string() -> None:
    """What travels from a worker grows with the captions, not with the findings."""
    report = check(b"", PROFILE)
    long = replace(CUES[0], rows=tuple(Row(row=row, column=1, text="x" * 32) for row in range(1, 16)))
    findings = tuple(finding(line=3, frame=110 + number % 30, cue=1) for number in range(100))
    few = checked(A, report=replace(report, findings=findings))
    many = replace(few, captions=captions_of(findings, (long,), "CC1"))
    assert len({id(caption) for caption in many.captions}) == 1
    assert len(pickle.dumps(many)) - len(pickle.dumps(few)) < 32 * 15 + 1000
    assert {id(caption) for caption in pickle.loads(pickle.dumps(many)).captions} | {0} != {0}  # noqa: S301 - ours
    assert len({id(caption) for caption in pickle.loads(pickle.dumps(many)).captions}) == 1  # noqa: S301 - ours


def test_what_the_job_adds_to_a_report_has_no_caption(plan: Plan) -> None:
    """A sidecar that can't be used, and a dead letter; the others keep theirs."""
    report, ending = sampled()["faulty/popon_load_overlap.scc"]
    added = replace(ending.report, findings=(*report.findings, finding()))
    rows = finding_rows(plan, replace(ending, report=added))
    assert len(rows) == len(report.findings) + 1
    assert rows[-1][-3:] == (None, None, None)
    assert rows[0][-3] == "This caption is too long for\nall the time that it is given."
    assert finding_rows(plan, checked(A, report=added))[0][-3:] == (None, None, None)


def test_a_run_records_captions_everywhere(tmp_path: Path) -> None:
    """Real workers, ledger, Parquet and dashboard say what the checker's cues say."""
    here: Place = place(tmp_path)
    shutil.copytree(SAMPLES, here.queue, dirs_exist_ok=True)
    assert here.run().returncode == 0
    wanted = {
        (name, number): (None,) * 3 if caption is None else (caption.text, caption.start, caption.end)
        for name, (_, ending) in sampled().items()
        for number, caption in enumerate(ending.captions)
    }
    assert len({value for value in wanted.values() if value[0]}) == 4
    rows = here.ask("SELECT asset_id, place, caption, caption_start, caption_end FROM findings")
    assert {(name, number): tuple(caption) for name, number, *caption in rows} == wanted
    (path,) = (here.state / "telemetry" / "findings").glob("*/*.parquet")
    table = parquet.read_table(path).to_pylist()
    assert {row["schema_version"] for row in table} == {2}
    assert sorted((row["asset_id"], row["caption"] or "") for row in table) == sorted(
        (name, value[0] or "") for (name, _), value in wanted.items()
    )
    for asset in shown_in(here.state)["assets"]:
        for one in asset["first_findings"]:
            shows = (one["caption"], one["caption_start"], one["caption_end"])
            assert shows in [value for (name, _), value in wanted.items() if name == asset["asset_id"]]


def as_version_1(path: Path) -> None:
    """Write a Parquet file again as the version before captions did."""
    table = parquet.read_table(path, partitioning=None)
    newer = [name for name in table.column_names if name.startswith("caption")]
    table = table.drop_columns(newer).replace_schema_metadata({"schema_version": "1"})
    place_of = table.schema.get_field_index("schema_version")
    ones = [1] * table.num_rows
    field = table.schema.field(place_of)
    parquet.write_table(table.set_column(place_of, field, [ones]), path)


def test_a_ledger_is_made_again_from_parquet_of_version_1(plan: Plan) -> None:
    """What that version had is there, captions are null; the files stay as they are, and the next window has both."""
    ending = sampled()["faulty/popon_load_overlap.scc"][1]
    before = recorded(plan, "run-1", ending, checked(A))
    paths = window_paths(plan, plan.window)
    for path in paths:
        as_version_1(path)
    old = [path.read_bytes() for path in paths]
    plan.ledger.unlink()
    columns = ", ".join(column.name for column in FINDINGS[1:] if column.name not in KEY)
    said: list[str] = []
    with new_run(plan, "run-2", warn=said.append) as ledger:
        found = write(plan, ledger)
        rows = ask(ledger, f"SELECT {columns} FROM findings ORDER BY place")  # noqa: S608 - our own names
        finish(ledger, replace(ending, asset=Asset(b"new.scc", STAT), content_sha256="2" * 64))
        after = write(plan, ledger)
    assert len(said) == 1
    assert [path.read_bytes() for path in paths] != old, "the window has a new record"
    assert [row[-3:] for row in rows] == [(None, None, None)] * len(ending.report.findings)
    assert [row[1:3] for row in rows] == [(one.rule, one.severity) for one in ending.report.findings]
    for name in ("totals", "rules", "profiles", "reading_speed", "trend"):
        assert found[name] == before[name]
    captions = {
        asset["asset_id"]: [one["caption"] for one in asset["first_findings"]] for asset in after["assets"]
    }
    assert captions[ending.asset.asset_id] == [None] * 4
    assert None not in captions["new.scc"]


def test_files_of_version_1_that_show_what_the_ledger_has_stay(plan: Plan) -> None:
    """No window is written again because a column was added."""
    ending = sampled()["faulty/popon_load_overlap.scc"][1]
    recorded(plan, "run-1", ending)
    paths = window_paths(plan, plan.window)
    for path in paths:
        as_version_1(path)
    old = [path.read_bytes() for path in paths]
    plan.ledger.unlink()
    with new_run(plan, "run-2", warn=lambda _: None) as ledger:
        write(plan, ledger)
    looked_at(plan, "run-3")
    assert [path.read_bytes() for path in paths] == old


def test_characters_that_would_act_are_escaped_where_they_leave(plan: Plan) -> None:
    """A ledger's text is what was in the file; the JSON has escapes, and the page shows no control character."""
    evil = "\x1b[31m\u202e</script>\u2028\x00"
    ending = replace(checked(A), captions=(Caption(evil, 0.0, None),))
    ending = replace(ending, report=replace(ending.report, findings=(finding(line=1),)))
    found = recorded(plan, "run-1", ending)
    assert found["assets"][0]["first_findings"][0]["caption"] == evil
    with contextlib.closing(sqlite3.connect(plan.ledger)) as ledger:
        assert ledger.execute("SELECT caption FROM findings").fetchall() == [(evil,)]
    for name in ("dashboard.json", "dashboard.html"):
        data = (plan.state / name).read_bytes()
        assert not {b"\x1b", b"\x00", "\u202e".encode(), "\u2028".encode()} & {
            part for part in (b"\x1b", b"\x00", "\u202e".encode(), "\u2028".encode()) if part in data
        }
