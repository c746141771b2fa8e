"""Every link of a page to another place of the project leads there: the file is there, and so is the heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pages import PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[str, str]]:
    """Return each link's path and anchor."""
    return [(match[1], match[2] or "") for match in _LINK.finditer(_CODE.sub("", page.read_text()))]


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings get where it is shown."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """By path, relative to the page, and by anchor."""
    for path, anchor in links(page):
        target = (page.parent / path) if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_links_are_found() -> None:
    """The finder finds."""
    assert ("batching.md", "options") in links(ROOT / "docs" / "recipes.md")
    assert "async_groups" in anchors(ROOT / "docs" / "recipes.md")
