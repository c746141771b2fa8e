"""The page on deploying says what is there: each file, each metric with its kind, each alert."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml
from caption_metrics import NOW, every_name, every_text
from caption_runs import ROOT, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.job import ping
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

DEPLOY = ROOT / "examples" / "recipes" / "caption_qc" / "deploy"
PAGE = (ROOT / "docs" / "caption-deploy.md").read_text()


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `header`, without its first two lines."""
    _, _, rest = PAGE.partition(f"\n{header}")
    lines = rest.splitlines()[2:]
    table = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(build_parser({}).parse_args(place(tmp_path).arguments()), load("house"), NOW)


def test_each_metric_is_listed_with_its_kind(plan: Plan) -> None:
    """Those of both files, and no other."""
    listed = {re.sub("`", "", name): kind for name, kind, _ in rows("| metric ")}
    assert set(listed) == every_name(plan)
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", every_text(plan), re.MULTILINE))
    assert kinds.items() <= listed.items()


def test_each_alert_is_listed() -> None:
    """In the order of the rules."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    assert [row[0] for row in rows("| alert ")] == [f"`{rule['alert']}`" for rule in group["rules"]]


def test_each_file_is_listed_and_linked() -> None:
    """All that lies in the folder."""
    linked = {
        name for row in rows("| file ") for name in re.findall(r"caption_qc/deploy/([\w.-]+)\)", row[0])
    }
    assert linked == {path.name for path in DEPLOY.iterdir()}


@pytest.mark.parametrize("page", ["caption-deploy.md", "caption-qc.md", "tutorial.md"])
def test_the_pages_have_the_line_of_the_crontab(page: str) -> None:
    """Word by word: with other paths `status` and `prune` would look elsewhere."""
    (line,) = (line for line in (DEPLOY / "crontab").read_text().splitlines() if line.startswith("*/5"))
    assert line in (ROOT / "docs" / page).read_text().splitlines()


def test_the_pings_numbers_are_the_codes() -> None:
    """Tries and seconds."""
    tries = {3: "three"}[ping.TRIES]
    assert f"{tries} tries of {ping.TRY_SECONDS:.0f} s, and {ping.DRAIN_SECONDS:.0f} s in all" in PAGE
