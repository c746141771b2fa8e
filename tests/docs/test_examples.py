"""Every example in the documents is true: it runs as it stands, and prints what is written under it.

pytest-examples finds the blocks. Each is run as its reader runs it, as a program of its own in an empty folder
and with warnings as errors: run inside this process, as that plugin does, it would replace `__main__` and share
loops and threads with the tests, and its output would be checked print by print, so that the order of what two
tasks print is lost. `pages.py` says how a block is marked that can't be run.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pages import PAGES, ROOT, Block, python_blocks

import async_batcher

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = python_blocks()
RUN = [block for block in BLOCKS if block.is_run]


def run(program: str, folder: Path) -> list[str]:
    """Run a program in `folder`, and return the lines that it printed: nothing may come by another way."""
    folder.mkdir(exist_ok=True)
    (folder / "example.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "example.py"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("CAPTION_QC_")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.mark.parametrize("block", RUN, ids=str)
def test_example_runs_and_prints_what_is_written(block: Block, tmp_path: Path) -> None:
    """A block is a whole program: no error, no warning, and exactly the output that stands at its end.

    Where a block has short times in it, as one that shows a deadline, and the machine stands still in the middle,
    it prints something else, and truly so: it is run once more.
    """
    if _SHORT.search(block.source):
        with contextlib.suppress(AssertionError):
            assert run(block.program, tmp_path / "first") == block.output
            return
    assert run(block.program, tmp_path / "last") == block.output


_SHORT = re.compile(r"(?:timeout|expires_after|grace|queue_time)=\d|sleep\(0?\.\d")


@pytest.mark.parametrize("block", RUN, ids=str)
def test_example_prints_something(block: Block) -> None:
    """An example that prints nothing shows nothing, and would pass whatever it did."""
    assert block.output


def test_the_package_shows_an_example_that_runs(tmp_path: Path) -> None:
    """What stands in the package's docstring under its first line is a program; its last comment is its output."""
    assert async_batcher.__doc__ is not None
    _, _, program = async_batcher.__doc__.partition("\n\n")
    assert run(program, tmp_path) == [program.rstrip().rpartition("# ")[2]]


def test_examples_are_written_as_the_code_is(tmp_path: Path) -> None:
    """The project's formatter changes nothing but blank lines, of which a page has one where code has two.

    It is asked about the program alone: over a page it would write `# >` for the `#>` of an output.
    """
    files = written(tmp_path)
    done = ruff("format", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for file, block in files.items():
        assert re.sub(r"\n{3,}", "\n\n", file.read_text()) == block.program, block


def test_examples_have_no_slips(tmp_path: Path) -> None:
    """The project's linter finds no slip: unused, never awaited, out of date, without types."""
    written(tmp_path)
    done = ruff("check", "--select", "F,E,W,B,ASYNC,RUF,UP,SIM,C4,PIE,PT,ANN", folder=tmp_path)
    assert done.returncode == 0, done.stdout


def written(folder: Path) -> dict[Path, Block]:
    """Write every block to a file that is called as its place."""
    names = {
        folder / f"{block.page.stem.replace('-', '_').lower()}_{block.line}.py": block for block in BLOCKS
    }
    for file, block in names.items():
        file.write_text(block.program)
    return names


def ruff(command: str, *options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the project's ruff over a folder."""
    config = ["--no-cache", "--config", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [sys.executable, "-m", "ruff", command, *options, *config, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_page_is_without_examples_by_accident() -> None:
    """The finder finds: each page that shows Python has blocks, and most of them run."""
    with_python = {page for page in PAGES if "```python" in page.read_text()}
    assert {block.page for block in BLOCKS} == with_python
    assert ROOT / "README.md" in with_python
    assert len(RUN) > len(BLOCKS) / 2
