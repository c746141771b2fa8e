"""What is made from the ledger, on real SQLite and real Parquet."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from caption_ledgers import (
    CLEAN,
    NOW,
    STAT,
    A,
    B,
    checked,
    died,
    ended,
    finish,
    new_run,
    plan_in,
    window_paths,
    write_two,
)
from pyarrow import parquet

from examples.recipes.caption_qc.check import Finding
from examples.recipes.caption_qc.job import projections
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.captions import Caption
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.projections import write_projections
from examples.recipes.caption_qc.job.reports_folder import Folder


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


@pytest.fixture
def written(plan: Plan) -> Plan:
    return write_two(plan)


def test_only_the_windows_that_are_behind_are_written_again(plan: Plan) -> None:
    """Untouched files stay as they are; the rows are the ledger's, in the order of the key."""
    later = plan.window + timedelta(minutes=5)
    with new_run(plan) as ledger:
        finish(ledger, checked(B), checked(A))
        write_projections(plan, ledger, ended())
    findings, assets = window_paths(plan, plan.window)
    inode = assets.stat().st_ino
    with new_run(plan, "run-2", later) as ledger:
        finish(ledger, checked(A, "2" * 64))
        write_projections(plan, ledger, ended())
        assert assets.stat().st_ino == inode
        findings.unlink()
        write_projections(plan, ledger, replace(ended(), at=later))
    assert assets.stat().st_ino != inode
    assert parquet.read_table(assets).column("asset_id").to_pylist() == ["a.scc", "b/%E9.scc"]
    row = parquet.read_table(assets).to_pylist()[0]
    assert row["window_start"] == plan.window
    assert row["checked_at"] == NOW
    assert row["cues"] == CLEAN.figures.cues
    assert parquet.read_table(window_paths(plan, later)[1]).num_rows == 1
    trend = json.loads((plan.state / "dashboard.json").read_bytes())["trend"]
    assert [(window["window"], window["assets"]) for window in trend] == [
        ("2026-01-01T00:05:00Z", 2),
        ("2026-01-01T00:10:00Z", 1),
    ]


class _Tags(HTMLParser):
    """Keeps what elements and attributes there are, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[str]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, [name for name, _ in attrs]))


EVIL = "</script><script>alert('&')</script><img src=x onerror=\"x\"><!--"


def page_with(plan: Plan, text: str) -> str:
    """Show a text wherever one that a stranger delivers can stand."""
    finding = Finding(rule="X", severity="error", message=text, timecode=text, line=1)
    report = replace(CLEAN, findings=(finding,), status="fail")
    asset = Asset(text.replace("/", "_").encode(), STAT)
    with new_run(plan) as ledger:
        finish(ledger, replace(checked(asset, report=report), captions=(Caption(text, 0.0, None),)))
        finish(ledger, replace(died(asset, "2" * 64), reason=text))
        write_projections(plan, ledger, ended())
    return (plan.state / "dashboard.html").read_text()


def test_names_messages_and_captions_are_data_in_the_page(tmp_path: Path) -> None:
    """Nothing that a stranger delivers is markup: the page has the elements that it has with harmless ones."""
    plans = {}
    for name in ("harmless", "evil"):
        (tmp_path / name).mkdir()
        plans[name] = plan_in(tmp_path / name)
    page = page_with(plans["evil"], EVIL)
    assert _Tags(page).seen == _Tags(page_with(plans["harmless"], "harmless")).seen
    assert "<script>alert" not in page
    assert "<img" not in page
    shown = json.loads((plans["evil"].state / "dashboard.json").read_bytes())
    (finding,) = shown["assets"][1]["first_findings"]
    assert (finding["message"], finding["caption"], finding["timecode"]) == (EVIL, EVIL, EVIL)
    assert shown["dead_letters"][0]["reason"] == EVIL


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


@pytest.mark.parametrize("replace_by", [garbage, same_size, a_link, Path.unlink])
@pytest.mark.parametrize("table", [0, 1], ids=["findings", "assets"])
def test_other_files_in_the_place_of_records_are_noticed_and_replaced(
    written: Plan, replace_by: Callable[[Path], object], table: int
) -> None:
    """By a run with nothing to check too; and the next one finds them in order."""
    path = window_paths(written, written.window)[table]
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


@pytest.mark.parametrize("replace_by", [a_folder, a_fifo])
def test_what_is_no_file_in_the_place_of_records_is_noticed_and_refused(
    written: Plan, replace_by: Callable[[Path], object]
) -> None:
    """One line with 73 that names it: it is somebody's, and no run of ours made it."""
    path = window_paths(written, written.window)[1]
    replace_by(path)
    with (
        new_run(written, "run-2") as ledger,
        pytest.raises(
            JobError, match=rf"cannot write {path}: it is not a regular file; move it away"
        ) as refused,
    ):
        write_projections(written, ledger, ended())
    assert refused.value.code == Exit.CANNOT_CREATE


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
    assert parquet.read_table(window_paths(plan, plan.window)[1]).num_rows == 1


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
    oldest, newest = (window_paths(plan, windows[number])[1] for number in (0, -1))

    def fire(name: str, hours: int, plan: Plan = plan) -> tuple[bool, bool]:
        oldest.unlink(missing_ok=True)
        newest.unlink(missing_ok=True)
        with new_run(replace(plan, started=NOW + timedelta(hours=hours)), name) as ledger:
            write_projections(plan, ledger, ended())
        return oldest.exists(), newest.exists()

    assert fire("same day", 1) == (False, True)
    assert fire("next day", 25) == (True, True)
    elsewhere = replace(plan, out=Folder(plan.state.with_name("out")))
    fire("elsewhere", 26, elsewhere)
    assert all(path.is_file() for window in windows for path in window_paths(elsewhere, window))
