"""Who mends a file finds the caption that a fault spoils: real files, a fault in each, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from caption_encoder import CR, EDM, ENM, EOC, RCL, RDC, RU2, line, preamble, scc, text, twice
from caption_ledgers import PROFILE
from caption_sheet import sheet

from examples.recipes.caption_qc.check import check
from examples.recipes.caption_qc.job.captions import captions_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., str]

BAD = ["zzzz"]
LONG = "THIS IS TOO LONG FOR ITS TIME"


def pop(at: str, said: str, *, bad: int | None = None) -> str:
    """Load a caption and show it, with a bad word before one of its words."""
    words = [*twice(ENM, RCL), *preamble(15), *text(said), *twice(EDM, EOC)]
    return line(at, words if bad is None else [*words[:bad], *BAD, *words[bad:]])


def roll(at: str, said: str, *, bad: int | None = None) -> str:
    """Roll a row in."""
    words = [*twice(RU2, CR), *preamble(15), *text(said)]
    return line(at, words if bad is None else [*words[:bad], *BAD, *words[bad:]])


def paint(at: str, said: str, *, bad: int | None = None) -> str:
    """Paint a burst over what stood there."""
    words = [*twice(EDM, RDC), *preamble(15), *text(said)]
    return line(at, words if bad is None else [*words[:bad], *BAD, *words[bad:]])


def clear(at: str) -> str:
    return line(at, twice(EDM))


def captions_of_rule(content: bytes, rule: str) -> list[str | None]:
    """Check a file, and name the caption of each finding of a rule."""
    report = check(content, PROFILE)
    captions = captions_of(report.findings, report.cues, PROFILE.channel)
    return [
        None if caption is None else caption.text
        for finding, caption in zip(report.findings, captions, strict=True)
        if finding.rule == rule
    ]


FIRST, SECOND, THIRD, FOURTH = "00:00:01:00", "00:00:03:00", "00:00:06:00", "00:00:09:00"


@pytest.mark.parametrize("write", [pop, roll, paint])
@pytest.mark.parametrize("bad", [0, 1, 3, 5, 7])
def test_a_bad_word_belongs_to_the_caption_that_its_line_writes(write: Write, bad: int) -> None:
    """Before its codes, between them, in its text: never to the one on screen meanwhile, nor to the next."""
    content = scc(write(FIRST, "ONES"), write(SECOND, "TWOS", bad=bad), write(THIRD, "NEXT"), clear(FOURTH))
    assert captions_of_rule(content, "HEX_BAD_WORD") == ["TWOS"]


@pytest.mark.parametrize(("write", "wanted"), [(pop, "TWOS"), (roll, "ONES"), (paint, "ONES")])
def test_a_bad_word_of_a_line_that_loads_nothing_belongs_to_what_waits_or_stands(
    write: Write, wanted: str
) -> None:
    """A load may take several lines, and another may show it; without one there is what is on screen."""
    loads = (
        line(SECOND, twice(ENM, RCL), BAD, preamble(15), text("TWOS")) if write is pop else line(SECOND, BAD)
    )
    shows = line(THIRD, BAD, twice(EDM, EOC)) if write is pop else line(THIRD, BAD, twice(EDM))
    content = scc(write(FIRST, "ONES"), loads, line("00:00:04:00", BAD), shows, clear(FOURTH))
    assert captions_of_rule(content, "HEX_BAD_WORD") == [wanted] * 3


@pytest.mark.parametrize("write", [pop, roll, paint])
def test_a_failed_parity_belongs_to_the_text_that_it_spoils(write: Write) -> None:
    """The caption says so itself: it has the block there."""
    content = scc(write(FIRST, "ONES"), write(SECOND, "TWOS"), clear(FOURTH))
    assert captions_of_rule(content.replace(b"5457", b"d457"), "608_PARITY") == ["\N{FULL BLOCK}WOS"]
    first_code = content.replace(b"00:00:03:00\t9", b"00:00:03:00\t1")
    assert captions_of_rule(first_code, "608_PARITY") == ["TWOS"]


@pytest.mark.parametrize("write", [pop, roll, paint])
@pytest.mark.parametrize("second", ["00:00:01:01", "00:00:01:08", "00:00:01:12"])
def test_an_overlap_belongs_to_the_caption_whose_words_are_too_many(write: Write, second: str) -> None:
    """However soon the next line comes; a bad word there is the next line's own."""
    content = scc(write(FIRST, LONG), write(second, "TWOS", bad=3), clear(FOURTH))
    assert captions_of_rule(content, "TC_LOAD_OVERLAP") == [LONG]
    assert captions_of_rule(content, "HEX_BAD_WORD") == ["TWOS"]


def test_an_overlap_of_words_without_text_belongs_to_the_next_caption() -> None:
    """What was shown long ago has nothing to do with it."""
    long = line(SECOND, twice(EDM), ["8080"] * 40)
    content = scc(pop(FIRST, "ONES"), long, pop("00:00:03:20", "TWOS"), clear(FOURTH))
    assert captions_of_rule(content, "TC_LOAD_OVERLAP") == ["TWOS"]


@pytest.mark.parametrize("write", [pop, roll, paint])
def test_characters_past_the_last_column_belong_to_their_caption(write: Write) -> None:
    """The finding names its cue."""
    content = scc(write(FIRST, "ONES"), write(SECOND, "x" * 40), clear(FOURTH))
    assert captions_of_rule(content, "LAY_OVER_32_COLS") == ["x" * 32]


def test_an_empty_end_of_caption_belongs_to_what_it_clears() -> None:
    """To what it was to show there is nothing; if its line loads another caption, to that."""
    ones, clears = pop(FIRST, "ONES"), [*twice(ENM, EOC)]
    alone = scc(ones, line(SECOND, clears), pop(THIRD, "NEXT"), clear(FOURTH))
    assert captions_of_rule(alone, "608_EOC_EMPTY") == ["ONES"]
    loads = line(SECOND, clears, twice(ENM, RCL), preamble(15), text("TWOS"), twice(EOC))
    assert captions_of_rule(scc(ones, loads, clear(FOURTH)), "608_EOC_EMPTY") == ["TWOS"]


@pytest.mark.parametrize("write", [pop, roll, paint])
def test_text_without_a_mode_shows_nowhere(write: Write) -> None:
    """Unless its line goes on to load a caption."""
    lost = line(FIRST, preamble(15), text("LOST"))
    assert captions_of_rule(scc(lost, write(SECOND, "ONES"), clear(FOURTH)), "608_TEXT_NO_MODE") == [None]
    same = write(SECOND, "ONES").replace("\t", f"\t{' '.join(text('LOST'))} ")
    assert captions_of_rule(scc(same, clear(FOURTH)), "608_TEXT_NO_MODE") == ["ONES"]


def test_a_caption_that_appears_again_is_not_being_loaded() -> None:
    """It was loaded long before: what is on screen meanwhile has the bad word, be it the same one before."""
    ones, twos = (
        line(at, twice(RCL), preamble(15), text(said), twice(EOC))
        for at, said in ((FIRST, "ONES"), (SECOND, "TWOS"))
    )
    again = line(THIRD, twice(EOC))
    content = scc(ones, line("00:00:02:00", BAD), twos, line("00:00:04:00", BAD), again, clear(FOURTH))
    report = check(content, PROFILE)
    assert [cue.rows[0].text for cue in report.cues] == ["ONES", "TWOS", "ONES"]
    captions = captions_of(report.findings, report.cues, PROFILE.channel)
    bad = [
        caption for one, caption in zip(report.findings, captions, strict=True) if one.rule == "HEX_BAD_WORD"
    ]
    assert [caption and caption.start for caption in bad] == [cue.start for cue in report.cues[:2]]


def test_a_line_that_runs_back_belongs_to_its_own_caption() -> None:
    """Not to one that was being loaded at that time, lines above."""
    content = scc(
        pop(FIRST, "ONES"), pop(SECOND, LONG), pop(THIRD, "LAST"), pop("00:00:03:10", "BACK"), clear(FOURTH)
    )
    assert captions_of_rule(content, "TC_BACKWARD") == ["BACK"]


def test_a_line_without_a_frame_belongs_to_what_it_loads_or_shows() -> None:
    """As a line without its tab; one that is no caption line has none."""
    loads = line(SECOND, twice(ENM, RCL), preamble(15), text("TWOS")).replace("\t", " ")
    shows = line("00:00:05:00", twice(EDM, EOC)).replace("\t", " ")
    content = scc(pop(FIRST, "ONES"), loads, "no caption", shows, clear(FOURTH))
    assert captions_of_rule(content, "FMT_NO_TAB") == ["TWOS", "TWOS"]
    assert captions_of_rule(content, "FMT_BAD_LINE") == [None]


def test_the_sheet_of_inspect_names_the_same(tmp_path: Path) -> None:
    """`inspect --csv` asks the same function."""
    file = tmp_path / "reel.scc"
    file.write_bytes(scc(pop(FIRST, "ONES"), pop(SECOND, "TWOS", bad=0), clear(FOURTH)))
    rows = sheet(file)
    assert [row["caption"] for row in rows if row["rule"] == "HEX_BAD_WORD"] == ["TWOS"]
