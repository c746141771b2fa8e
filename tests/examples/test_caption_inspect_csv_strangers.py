"""No cell of `inspect --csv` is a formula: file names and captions come from strangers."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from caption_inspect import inspect, printed
from caption_runs import SAMPLES
from caption_sheet import MARK, captions, read, sheet, too_fast

from examples.recipes.caption_qc.job.assets import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

FAST = SAMPLES / "faulty" / "popon_load_overlap.scc"
# What a spreadsheet begins a formula with, whatever blanks and quotes stand before it.
FORMULA = re.compile(r"""[\s"']*[-=+@＝＋－＠\t\r]""")  # noqa: RUF001
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
NAMES = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    " =1",
    "a;=1",
    "a; @b",
    "\uff1d1",
    '"=1',
    "'=1",
    "a\n=1",
)
TEXTS = (
    ("=1+1",),
    ("- Yes.", "- No."),
    ("ONE", "=1+1"),
    ("A;=1",),
    ("A; @B",),
    ("+1", "@A"),
    ('"=1"',),
    ("'-A",),
)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_file_is_a_formula(name: str, tmp_path: Path) -> None:
    """Whatever it begins with, in a program that parts cells at commas, semicolons or tabs; a missing file's too."""
    with contextlib.chdir(tmp_path):
        Path(f"{name}.scc").write_bytes(FAST.read_bytes())
        outs = [inspect("--csv", "--", f"{name}{ending}").out for ending in (".scc", ".txt")]
    for out in outs:
        assert formulas(out) == []
        assert same(read(out)[0]["file"].rpartition(".")[0], shown(Path(name)))


@pytest.mark.parametrize("rows", TEXTS)
def test_no_caption_is_a_formula(rows: tuple[str, ...], tmp_path: Path) -> None:
    """Nor any line of one, which a program that does not part cells at commas takes for a row of its own."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions(rows))
    out = printed("--csv", *too_fast(tmp_path), file)
    assert formulas(out) == []
    assert same(read(out)[0]["caption"], "\n".join(rows))


def test_text_that_is_no_formula_stays_as_it_is(tmp_path: Path) -> None:
    """Signs within it, and an apostrophe before a letter."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions(("'TIS A-B, -C +D; E=F",)))
    assert sheet(*too_fast(tmp_path), file)[0]["caption"] == "'TIS A-B, -C +D; E=F"


def same(cell: str, said: str) -> bool:
    """Whether a cell says what was said, and has at least one apostrophe more where it would be a formula."""
    return cell.replace("'", "") == said.replace("'", "") and (cell != said or not FORMULA.match(said))


def formulas(out: str) -> list[str]:
    """Return the cells that a spreadsheet would calculate, whichever separator it parts them at."""
    return [
        cell for cell in cells(out) if FORMULA.match(cell) and not marked(cell) and not NUMBER.fullmatch(cell)
    ]


def marked(cell: str) -> bool:
    """Whether an apostrophe stands right before what would begin a formula."""
    return re.match(r"""[\s"']*'[-=+@＝＋－＠]""", cell) is not None  # noqa: RUF001


def cells(out: str) -> Iterator[str]:
    """Part the sheet by commas with its quotes, and by semicolons and tabs without any, as their readers do."""
    out = out.removeprefix(MARK)
    yield from chain.from_iterable(csv.reader(io.StringIO(out, newline="")))
    for line_ in re.split("[\r\n]+", out):
        yield from re.split("[;\t]", line_)
