"""The operator's page has a row for everything that an operator can see: nothing is missing, nothing is invented."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pages import ROOT, table

from examples.recipes.caption_qc.job.errors import Exit

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
OPERATE, TUTORIAL = DOCS / "caption-operate.md", DOCS / "caption-tutorial.md"
RULES = ROOT / "examples" / "recipes" / "caption_qc" / "deploy" / "alerts.yaml"
GUIDES = sorted(DOCS.glob("caption-*.md"))
MOST_BYTES = 200_000


def bare(cell: str) -> str:
    """Return what stands in a cell without its backticks."""
    return cell.replace("`", "")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return each metric, and its kind, of a run of which everything is known.

    One file has just changed, and one has findings.
    """
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "queue").mkdir()
    for name in ("old.scc", "new.scc"):
        (folder / "queue" / name).write_text("Scenarist_SCC V1.0\n")
    os.utime(folder / "queue" / "old.scc", (0, 0))
    command = [sys.executable, "-m", "examples.recipes.caption_qc", "run", str(folder / "queue")]
    options = ["--state", str(folder / "state"), "--settle", "1h"]
    subprocess.run([*command, *options], cwd=ROOT, capture_output=True, check=True)
    files = (folder / "state" / name for name in ("metrics.prom", "metrics-skips.prom"))
    text = "".join(file.read_text() for file in files)
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def test_every_exit_code_has_a_row() -> None:
    """Those of the one table in the code, in its order."""
    assert [int(code) for code, *_ in table(OPERATE, "| code ")] == [code.value for code in Exit]


def test_every_metric_has_a_row(written: dict[str, str]) -> None:
    """Those of both files, and no other."""
    names = [bare(name) for name, *_ in table(OPERATE, "| metric ")]
    assert sorted(names) == sorted(written)


def test_the_kinds_of_the_metrics_are_those_of_the_files(written: dict[str, str]) -> None:
    """As the sentence above the table says."""
    assert "All are gauges, but for the one that ends in `_total`, a counter." in OPERATE.read_text()
    counters = [name for name, kind in written.items() if kind == "counter"]
    assert counters == [name for name in written if name.endswith("_total")]
    assert len(counters) == 1


def test_every_alert_has_a_row_with_its_severity() -> None:
    """In the order of the rules."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    rows = table(OPERATE, "| alert ")
    listed = [(bare(name), meaning.partition(".")[0].lower()) for name, meaning, _ in rows]
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in rules]


@pytest.mark.parametrize("header", ["| code ", "| metric ", "| alert "])
def test_every_row_says_what_it_means_and_what_to_do(header: str) -> None:
    """No cell is empty."""
    for row in table(OPERATE, header):
        assert all(row), row


def test_the_commands_of_the_alerts_stand_in_the_page_too() -> None:
    """What an alert names beside `status` is a metric or an option that the page knows."""
    page = OPERATE.read_text()
    for name in re.findall(r"node_textfile_\w+|caption_qc_\w+", RULES.read_text()):
        assert name in page, name


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_picture_is_small_and_says_what_it_shows(page: Path) -> None:
    """A picture has a text for those who do not see it, and does not weigh on the site."""
    for text, name in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text()):
        assert len(text.split()) > 3, name
        assert (page.parent / name).stat().st_size < MOST_BYTES, name


def test_the_tutorial_has_its_pictures() -> None:
    """Of the terminal and of the dashboard."""
    pictures = re.findall(r"\]\(([\w-]+\.(?:png|svg))\)", TUTORIAL.read_text())
    assert {name.rpartition(".")[2] for name in pictures} == {"png", "svg"}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_page_is_in_the_navigation(page: Path) -> None:
    """Else a reader of the site does not meet it."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\nmarkdown_extensions:")[0]
    assert re.search(rf": {re.escape(page.name)}$", nav, re.MULTILINE)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_no_page_promises_what_is_still_to_be_written(page: Path) -> None:
    """No placeholder is left."""
    assert not re.search(r"PLACEHOLDER|TODO|TBD|XXX", page.read_text())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")
def test_prometheus_takes_the_rules_of_the_disk(tmp_path: Path) -> None:
    """Those that the page has, for the node exporter's own metric."""
    (rules,) = re.findall(r"^```yaml\n(groups:.*?)^```$", OPERATE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "disk.yaml").write_text(rules)
    command = ["promtool", "check", "rules", str(tmp_path / "disk.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rules found" in done.stdout
