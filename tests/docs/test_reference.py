"""The reference has every public name, and the site's menu every page."""

from __future__ import annotations

import re

import yaml
from pages import ROOT

import async_batcher
import async_batcher.testing


def test_every_public_name_has_its_entry() -> None:
    """Those of the library and those for tests, each once, and no other."""
    entries = re.findall(
        r"^::: (async_batcher\.[\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE
    )
    names = [f"async_batcher.{name}" for name in async_batcher.__all__]
    names += [f"async_batcher.testing.{name}" for name in async_batcher.testing.__all__]
    assert sorted(entries) == sorted([*names, "async_batcher._errors"])  # the last is the tree of errors


def test_every_page_is_in_the_menu_once() -> None:
    """A page that is in no menu is found by nobody."""
    menu = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"[\w-]+\.md", yaml.safe_dump(yaml.safe_load(menu)["nav"]))
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
