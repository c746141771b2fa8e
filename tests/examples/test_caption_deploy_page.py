"""The page on deploying says what is there: each file, the line of the crontab, the numbers of the ping."""

from __future__ import annotations

import re

import pytest
from caption_runs import ROOT

from examples.recipes.caption_qc.job import ping

DEPLOY = ROOT / "examples" / "recipes" / "caption_qc" / "deploy"
PAGE = (ROOT / "docs" / "caption-deploy.md").read_text()


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `header`, without its first two lines."""
    _, _, rest = PAGE.partition(f"\n{header}")
    lines = rest.splitlines()[2:]
    table = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_each_file_is_listed_and_linked() -> None:
    """All that lies in the folder."""
    linked = {
        name for row in rows("| file ") for name in re.findall(r"caption_qc/deploy/([\w.-]+)\)", row[0])
    }
    assert linked == {path.name for path in DEPLOY.iterdir()}


@pytest.mark.parametrize("page", ["caption-deploy.md", "caption-tutorial.md", "tutorial.md"])
def test_the_pages_have_the_line_of_the_crontab(page: str) -> None:
    """Word by word: with other paths `status` and `prune` would look elsewhere."""
    (line,) = (line for line in (DEPLOY / "crontab").read_text().splitlines() if line.startswith("*/5"))
    assert line in (ROOT / "docs" / page).read_text().splitlines()


def test_the_pings_numbers_are_the_codes() -> None:
    """Tries and seconds."""
    tries = {3: "three"}[ping.TRIES]
    assert f"{tries} tries of {ping.TRY_SECONDS:.0f} s, and {ping.DRAIN_SECONDS:.0f} s in all" in PAGE
