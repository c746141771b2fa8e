"""The HTTP service's table of statuses stands in two places, which say the same."""

from __future__ import annotations

from pages import ROOT, table

from examples.recipes import http_answers

DOCSTRING = http_answers.__doc__ or ""


def test_the_page_has_the_table_of_the_code() -> None:
    """Row by row: what happened, the status, and whether sending again is safe."""
    lines = [line for line in DOCSTRING.splitlines() if line.startswith("|")]
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert told[0] == ["what happened", "status", "sending again"]
    assert table(ROOT / "docs" / "recipes.md", "| what happened ") == told[2:]
