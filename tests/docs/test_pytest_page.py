"""The tests shown in the documents are tests: pytest collects each block, runs it, and all of them pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pages import ROOT, Block, python_blocks

if TYPE_CHECKING:
    from pathlib import Path

WITH_TESTS = [
    block for block in python_blocks() if re.search(r"^(async )?def test_", block.source, re.MULTILINE)
]


def outcome(source: str, folder: Path) -> tuple[int, str]:
    """Run a block as its reader does: alone in a folder, and no warning passes."""
    (folder / "test_shown.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("block", WITH_TESTS, ids=str)
def test_shown_tests_pass(block: Block, tmp_path: Path) -> None:
    """Each function that is called a test is run, on each of its loops."""
    code, said = outcome(block.source, tmp_path)
    assert code == 0, said
    shown = len(re.findall(r"^(?:async )?def test_", block.source, re.MULTILINE))
    passed = re.search(r"^(\d+) passed", said, re.MULTILINE)
    assert passed is not None, said
    assert int(passed[1]) >= shown


def test_a_shown_test_that_fails_is_noticed(tmp_path: Path) -> None:
    """The check can fail."""
    code, said = outcome("def test_it() -> None:\n    assert 1 + 1 == 3\n", tmp_path)
    assert code == 1
    assert "1 failed" in said


def test_the_page_on_pytest_shows_some() -> None:
    """It is the one that is about them."""
    assert {block.page for block in WITH_TESTS} >= {ROOT / "docs" / "pytest.md"}
