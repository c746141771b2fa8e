"""The sessions in the documents are true: each command runs, and prints what is written under it.

Written lines may be in another order than printed ones (checks end in any order). `...` alone on a line stands
for further lines, within a line for any text; without a line of it nothing else may be printed. The sessions of
a page are run in order, in one folder in which `examples` is that of the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages import ROOT, Block, console_blocks

from examples.recipes.caption_qc.options import COMMANDS, build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPT = "$ "
CAPTION_QC = "python -m examples.recipes.caption_qc"
BLOCKS = console_blocks()
SESSIONS = [block for block in BLOCKS if block.is_run and PROMPT in block.source]
PAGES = {str(page.relative_to(ROOT)): list(blocks) for page, blocks in groupby(SESSIONS, lambda b: b.page)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("blocks", PAGES.values(), ids=PAGES)
def test_session_prints_what_is_written(blocks: list[Block], tmp_path: Path) -> None:
    """Command by command, `$?` too."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code = 0
    for command, written in (step for block in blocks for step in steps(block)):
        done = run(f"(exit {code})\n{command}", tmp_path)
        code = done.returncode
        assert left_over(written, done.stdout) == [], f"{command}\n{done.stdout}"


def test_a_line_that_is_not_printed_is_noticed() -> None:
    """The comparison can fail: a missing line, a line too many, a line that is printed once and written twice."""
    assert left_over(["pass  a", "..."], "pass  b\npass  c\n") == ["pass  a"]
    assert left_over(["pass  a"], "pass  a\npass  b\n") == ["pass  b"]
    assert left_over(["pass  a", "pass  a", "..."], "pass  a\npass  b\n") == ["pass  a"]
    assert left_over(["took ... s", "..."], "took 0.3 s\npass  b\n") == []


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_commands_have_the_options_that_are_written(block: Block) -> None:
    """Every command of the checker's that stands in a console block, run or not, is one that its parser takes."""
    for line in block.source.splitlines():
        _, found, arguments = line.partition(CAPTION_QC)
        if found:
            words = re.split(r"[|#>;&]", arguments)[0].split()
            build_parser({}).parse_args(words or ["run"])


def test_every_command_of_the_checker_is_shown() -> None:
    """Without an argument, and each by its name."""
    shown = "\n".join(block.source for block in BLOCKS)
    for command in ("\n", *(f" {name} " for name in COMMANDS)):
        assert f"{CAPTION_QC}{command}" in shown


def steps(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Split a session into its commands and what they print."""
    for step in re.split(rf"^{re.escape(PROMPT)}", block.source, flags=re.MULTILINE)[1:]:
        command, *written = step.splitlines()
        yield command, written


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader does, in the environment of these tests and 80 columns."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("CAPTION_QC_")}
    path = f"{Path(sys.executable).parent}:{mine['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=mine | {"PATH": path, "COLUMNS": "80", "PYTHONWARNINGS": "error"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def left_over(written: list[str], printed: str) -> list[str]:
    """Return the written lines that were not printed, and the printed ones that nothing stands for."""
    rest = [line.rstrip() for line in printed.splitlines()]
    missing = []
    for line in written:
        if line == "...":
            continue
        pattern = ".*".join(map(re.escape, line.rstrip().split("...")))
        found = next((number for number, text in enumerate(rest) if re.fullmatch(pattern, text)), None)
        if found is None:
            missing.append(line)
        else:
            del rest[found]
    return missing if "..." in written else missing + rest
