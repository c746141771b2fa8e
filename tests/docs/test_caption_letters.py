"""The tutorial's letters and codes are those that the checker reads, and things can be typed in its folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pages import ROOT, table
from test_console import run

from examples.recipes.caption_qc.check.characters import even_bytes, printed, with_parity
from examples.recipes.caption_qc.check.codes import Op, read_code
from examples.recipes.caption_qc.job.rows import DEAD_LETTER_RULE
from examples.recipes.caption_qc.job.sidecar import SIDECAR_RULE

if TYPE_CHECKING:
    from pathlib import Path

TUTORIAL = ROOT / "docs" / "caption-tutorial.md"
LETTERS = {letters: bytes.fromhex(codes.replace("`", "")) for letters, codes in table(TUTORIAL, "| letters ")}
CODES = [
    (bytes.fromhex(code), name, does)
    for codes, names, does in table(TUTORIAL, "| code ")
    for code, name in zip(re.findall(r"`(\w+)`", codes), names.split(", ") * 2, strict=False)
]
OPS = {
    "RCL": (Op.RESUME_LOADING, 0),
    "ENM": (Op.ERASE_HIDDEN, 0),
    "EOC": (Op.END_OF_CAPTION, 0),
    "EDM": (Op.ERASE_DISPLAYED, 0),
    "RU2": (Op.ROLL_UP, 2),
    "RU3": (Op.ROLL_UP, 3),
    "RU4": (Op.ROLL_UP, 4),
    "CR": (Op.CARRIAGE_RETURN, 0),
    "RDC": (Op.RESUME_DIRECT, 0),
    "BS": (Op.BACKSPACE, 0),
    "PAC": (Op.PREAMBLE, 0),
    "TO1": (Op.TAB, 1),
    "TO2": (Op.TAB, 2),
    "TO3": (Op.TAB, 3),
    "": (Op.MID_ROW, 0),
}


def named(letters: str) -> str:
    """Write a row's heading out: a range, or each character by itself."""
    first, to, last = letters.partition(" to ")
    if to:
        return "".join(map(chr, range(ord(first), ord(last) + 1)))
    return "".join(" " if word == "space" else word for word in letters.split())


@pytest.mark.parametrize("letters", LETTERS)
def test_letters_are_those_of_the_checker(letters: str) -> None:
    """Each of a row, with its parity."""
    assert printed(LETTERS[letters]) == named(letters)
    assert even_bytes(LETTERS[letters]) == 0


@pytest.mark.parametrize(("code", "name"), [(code, name) for code, name, _ in CODES])
def test_codes_do_what_is_written(code: bytes, name: str) -> None:
    """By its name, on the first channel, with its parity."""
    found = read_code(code)
    assert (found.op, found.amount) == OPS[name]
    assert not found.second_channel
    assert with_parity(code) == code


def test_rows_and_italics_are_those_of_the_codes() -> None:
    """The two preambles' rows, in their order, at column 1 and white; the last code is italics."""
    preambles = [read_code(code) for code, name, _ in CODES if name == "PAC"]
    assert [(code.row, code.column, code.style.colour) for code in preambles] == [
        (14, 1, "white"),
        (15, 1, "white"),
    ]
    assert "row 14, row 15, from column 1, white" in TUTORIAL.read_text()
    (italics,) = (read_code(code) for code, name, _ in CODES if not name)
    assert italics.restyled(preambles[0].style).italics


def test_things_are_typed_in_a_folder_that_sees_the_examples(tmp_path: Path) -> None:
    """The page's three lines, typed in the checkout, and a command of the first session after them."""
    section = TUTORIAL.read_text().partition("\n## A folder to try things in\n")[2]
    lines = section.partition("```console\n")[2].partition("```")[0].replace("~", str(tmp_path))
    sample = "examples/recipes/caption_qc/samples/popon_clean.scc"
    done = run(f"{lines}python -m examples.recipes.caption_qc inspect {sample}", ROOT)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("pass  ")
    assert [path.name for path in tmp_path.iterdir()] == ["caption-tutorial"]


def test_findings_of_the_job_have_their_rows() -> None:
    """Both, and no other."""
    listed = [row[0].strip("`") for row in table(ROOT / "docs" / "caption-qc.md", "| rule | status of ")]
    assert listed == [SIDECAR_RULE, DEAD_LETTER_RULE]
