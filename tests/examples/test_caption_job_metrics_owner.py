"""Whose a file of metrics is: nobody else's is written over, and neither queue is silent about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from caption_ledgers import plan_in
from caption_runs import Place, place

from examples.recipes.caption_qc.job import skips
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.folders import make_reports
from examples.recipes.caption_qc.job.lock import Holder
from examples.recipes.caption_qc.job.metrics import write_failure
from examples.recipes.caption_qc.job.reports_folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan


WRITERS: dict[str, Callable[[Plan], None]] = {
    "metrics_file": lambda plan: write_failure(plan, 74),
    "metrics_skips": lambda plan: skips.note(plan, Holder("1", "here", "now")),
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A run whose metrics stand in a textfile folder."""
    plan = plan_in(tmp_path)
    (tmp_path / "textfile").mkdir()
    return replace(plan, metrics_file=tmp_path / "textfile" / "captions.prom")


def other(plan: Plan) -> Plan:
    """A run of another state folder, with the same metrics."""
    state = plan.state.with_name("other")
    state.mkdir(exist_ok=True)
    return replace(plan, state=state, out=Folder(state), lock=state / "run.lock")


def test_two_queues_with_one_metrics_file_are_told_apart(tmp_path: Path) -> None:
    """The second is refused with the name of the first, before its work; the first goes on."""
    (tmp_path / "second").mkdir()
    first, second = place(tmp_path), place(tmp_path / "second")
    metrics = tmp_path / "textfile" / "captions.prom"
    shared = ("--metrics-file", str(metrics))
    assert first.run(*shared).returncode == 0
    written = [path.read_text() for path in sorted(metrics.parent.iterdir())]

    second.fill(1)
    refused = second.run(*shared)

    assert refused.returncode == Exit.CANNOT_CREATE
    assert f"the metrics {metrics} are those of the state folder {first.state}; " in refused.stderr
    assert "a --metrics-file of its own" in refused.stderr
    assert [path.read_text() for path in sorted(metrics.parent.iterdir())] == written
    assert _ends(second) == [(Exit.CANNOT_CREATE,)]
    assert second.ask("SELECT COUNT(*) FROM records") == [(0,)]
    assert first.run(*shared).returncode == 0


def _ends(here: Place) -> list[tuple[int]]:
    return here.ask("SELECT exit_code FROM runs ORDER BY number")


@pytest.mark.parametrize("which", ["metrics_file", "metrics_skips"])
def test_a_file_of_something_else_is_not_written_over(plan: Plan, which: str) -> None:
    """A textfile folder has other programs' files too; what a refused run or a failed one would write as well."""
    path: Path = getattr(plan, which)
    path.write_text("# HELP backup_age Of the backup.\n# TYPE backup_age gauge\nbackup_age 5\n")
    before = path.read_text()
    with pytest.raises(JobError, match="holds something else than these metrics") as refused:
        make_reports(plan)
    assert refused.value.code == Exit.CANNOT_CREATE
    with pytest.raises(JobError, match="holds something else"):
        WRITERS[which](plan)
    assert path.read_text() == before


def test_refused_and_failed_runs_leave_anothers_metrics(plan: Plan) -> None:
    """They say less, and never in another's place."""
    write_failure(plan, 74)
    skips.note(plan, Holder("1", "here", "now"))
    before = [path.read_text() for path in (plan.metrics_file, plan.metrics_skips)]
    with pytest.raises(JobError, match="are those of the state folder"):
        write_failure(other(plan), 78)
    with pytest.raises(JobError, match="are those of the state folder"):
        skips.note(other(plan), Holder("2", "here", "now"))
    assert [path.read_text() for path in (plan.metrics_file, plan.metrics_skips)] == before


@pytest.mark.parametrize(
    "content", ["", "\0" * 64, "# TYPE caption_qc_run_exit_code gauge\ncaption_qc_run_exit_code 0\n"]
)
def test_what_names_nobody_and_is_ours_is_taken(plan: Plan, content: str) -> None:
    """A file of an older version, and one that a power cut has left empty."""
    plan.metrics_file.write_text(content)
    make_reports(plan)
    write_failure(plan, 74)
    assert plan.metrics_file.read_text().splitlines()[0] == f"# Of the state folder {plan.state}"
    assert "caption_qc_run_exit_code 74\n" in plan.metrics_file.read_text()


def test_in_its_own_state_folder_a_file_is_its_own(plan: Plan) -> None:
    """A state folder may be moved with all that is in it."""
    write_failure(replace(plan, metrics_file=plan.state / "metrics.prom"), 74)
    moved = other(plan)
    (plan.state / "metrics.prom").rename(moved.state / "metrics.prom")
    write_failure(replace(moved, metrics_file=moved.state / "metrics.prom"), 73)
    assert "caption_qc_run_exit_code 73\n" in (moved.state / "metrics.prom").read_text()
