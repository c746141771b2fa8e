"""Where ttconv is installed: what pop-on captions of real files start at, and what the codes print, agree with it.

It is asked about pop-on alone: a roll-up or paint-on row it starts at its CR or PAC, we at its first visible character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from caption_encoder import text, twice, word
from caption_reports import CORPUS, SAMPLES, checked, row_15

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check import Report

to_model = pytest.importorskip("ttconv.scc.reader").to_model
standard = pytest.importorskip("ttconv.scc.codes.standard_characters").SCC_STANDARD_CHARACTERS_MAPPING
special = pytest.importorskip("ttconv.scc.codes.special_characters").SccSpecialCharacter
extended = pytest.importorskip("ttconv.scc.codes.extended_characters").SccExtendedCharacter

CORPUS_FILES = sorted(CORPUS.glob("*.scc"))


def is_clean_popon(report: Report) -> bool:
    """Say whether the oracle may be asked: pop-on alone, and nothing wrong with bytes or times but a long pause."""
    faults = {finding.rule for finding in report.findings if finding.severity != "info"}
    told_apart = {rule for rule in faults if rule.startswith(("FMT_", "HEX_", "TC_", "608_PARITY"))}
    return told_apart <= {"TC_JUMP"} and {cue.mode for cue in report.cues} == {"pop-on"}


def oracle_starts(data: bytes) -> list[float]:
    """Ask ttconv when captions begin."""
    body = to_model(data.decode("ascii")).get_body()
    return sorted(
        {float(begin) for element in body.dfs_iterator() if (begin := element.get_begin()) is not None}
    )


@pytest.mark.shared_files
def test_popon_start_times_agree_with_the_oracle() -> None:
    """Within a millisecond, on every clean pop-on file of the corpus."""
    files = cues = 0
    for path in CORPUS_FILES:
        data = path.read_bytes()
        report = checked(data)
        if is_clean_popon(report):
            starts = [cue.start for cue in report.cues]
            assert starts == pytest.approx(oracle_starts(data), abs=0.001), path.name
            files, cues = files + 1, cues + len(report.cues)

    print(f"agreed with the oracle: {files} files, {cues} cues")  # noqa: T201 - the numbers, with -rP
    assert files >= 17
    assert cues >= 1901


@pytest.mark.shared_files
def test_samples_agree_with_the_oracle() -> None:
    """The clean pop-on samples are read by others as they are here."""
    for name in ("popon_clean.scc", "popon_dropframe_clean.scc"):
        data = (SAMPLES / name).read_bytes()
        starts = [cue.start for cue in checked(data).cues]
        assert starts == pytest.approx(oracle_starts(data), abs=0.001)


def test_standard_characters_are_those_of_the_standard() -> None:
    """Every printing byte has its character; ten of them are not ASCII's."""
    for byte in range(0x21, 0x80):
        assert row_15([word(byte << 8)]) == standard[byte]


def test_special_characters_are_those_of_the_standard() -> None:
    """Each takes one column, the transparent space too."""
    for character in special:
        sent = row_15(text("("), twice(character.get_ch1_value()), text(")"))
        assert sent == f"({character.get_unicode_value()})"


def test_extended_characters_are_those_of_the_standard() -> None:
    """Each replaces the character before it. The oracle draws dash, caret and box with heavier signs."""
    heavy = str.maketrans(
        "\u2501\u028c\u2503\u250f\u2513\u2517\u251b", "\u2014^\u2502\u250c\u2510\u2514\u2518"
    )
    for character in extended:
        sent = row_15(text("(x"), twice(character.get_ch1_value()), text(")"))
        assert sent == f"({character.get_unicode_value().translate(heavy)})"
