"""The pages that people read, and the blocks in them that promise something.

A block with `python` behind its fence is a whole program: it is run, and the `#> ` lines at its end are all that
it prints. A block with `console` is a session: lines that begin with `$ ` are commands, and what follows is what
they print; one without such a line lists commands that install things, and is not run. A block of either kind
that can't be run as it stands has this line above its fence, with the reason:

    <!-- not run: it shows one function of a service -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_examples import find_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/recipes/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)

_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_OUTPUT = "#> "
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of a page; `line` is that of its fence, from 1."""

    page: Path
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether it is said to run as it stands."""
        above = self.page.read_text().splitlines()[: self.line - 1]
        return not (above and _NOT_RUN.fullmatch(above[-1]))

    @property
    def program(self) -> str:
        """The program without the output at its end."""
        lines = self.source.splitlines()
        return "\n".join(lines[: len(lines) - len(self.output)]) + "\n"

    @property
    def output(self) -> list[str]:
        """The lines that the program prints, as the block says."""
        lines = self.source.splitlines()
        first = len(lines)
        while first and lines[first - 1].startswith(_OUTPUT.rstrip()):
            first -= 1
        return [line.removeprefix(_OUTPUT.rstrip()).removeprefix(" ") for line in lines[first:]]


def python_blocks() -> list[Block]:
    """Find every Python block, whether it runs or not."""
    return [Block(example.path, example.start_line, example.source) for example in find_examples(*PAGES)]


def console_blocks() -> list[Block]:
    """Find every console block, whether it runs or not."""
    return [block for page in PAGES for block in _console_blocks(page)]


def _console_blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _CONSOLE.finditer(text):
        yield Block(page, text.count("\n", 0, match.start()) + 1, match[1])


def table(page: Path, header: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `header`, without its first two lines."""
    lines = page.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
