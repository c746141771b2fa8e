"""The rules about what captions become in the decoder: what each finds, where, and what it lets pass."""

from __future__ import annotations

import pytest
from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    FON,
    RCL,
    RDC,
    RU2,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_one_line import CLEAR, LOAD, ROLL, SHOW, judging, one_line, only, places
from caption_reports import HOUSE, checked, found, texts

from examples.recipes.caption_qc.check import check, parse

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


# End of caption


def test_end_of_caption_with_nothing_loaded_is_told() -> None:
    """It clears the screen, and is no fault."""
    report = checked(scc(line("00:00:01:00", SHOW), line("00:00:04:00", twice(RCL, ENM, EOC))))

    empty = only(report, "608_EOC_EMPTY")
    assert (empty.line, empty.word, empty.severity, empty.cue) == (5, 4, "info", None)
    assert report.status == "pass"
    assert [cue.end_frame for cue in report.cues] == [124]


def test_second_copy_of_an_end_of_caption_is_no_empty_one() -> None:
    """A third one is."""
    assert found(one_line(SHOW), "608_EOC_EMPTY") == []
    assert only(one_line(SHOW, [word(EOC)]), "608_EOC_EMPTY").word == len(SHOW)


def test_load_on_old_text_is_told() -> None:
    """The caption before the last one lies there, and shows through."""
    one, two, three = (
        line(f"00:00:0{second}:00", twice(RCL), preamble(row), text(name), twice(EOC))
        for second, row, name in ((1, 13, "ONE"), (3, 14, "TWO"), (5, 15, "THREE"))
    )
    report = checked(scc(one, two, three, CLEAR))

    old = only(report, "608_LOAD_ON_OLD_TEXT")
    assert (old.line, old.word, old.cue, old.measured, old.severity) == (7, 4, 3, 1, "error")
    assert "'ONE'" in old.message
    assert "what it does not cover will show too" in old.message
    assert texts(report)[-1] == ("ONE", "THREE")


@pytest.mark.parametrize(
    "erase",
    [[(ENM, 0)], [(EDM, 1)]],
    ids=["ENM before the load", "EDM before the caption went away"],
)
def test_load_on_erased_text_is_not_told(erase: list[tuple[int, int]]) -> None:
    """Either code empties the memory in time."""
    ((code, when),) = erase
    one = line("00:00:01:00", SHOW)
    two = line("00:00:03:00", LOAD, text("TWO"), twice(code) if when else [], twice(EOC))
    three = line(
        "00:00:05:00", twice(RCL), [] if when else twice(code), preamble(14), text("THREE"), twice(EOC)
    )

    assert found(checked(scc(one, two, three, CLEAR)), "608_LOAD_ON_OLD_TEXT") == []


def test_load_that_goes_on_is_not_on_old_text() -> None:
    """One load may come in many lines, and RCL may be sent in each."""
    lines = [
        line(f"00:00:0{second}:00", twice(RCL), preamble(10 + second), text("ROW")) for second in (1, 2, 3)
    ]
    report = checked(scc(*lines, line("00:00:04:00", twice(EOC)), CLEAR))

    assert found(report, "608_LOAD_ON_OLD_TEXT") == []
    assert texts(report) == [("ROW",) * 3]


def test_old_caption_that_is_shown_again_is_told() -> None:
    """Each time, with the cue that it makes."""
    swaps = [code for _ in range(4) for code in [*twice(EOC), "8080"]]
    report = checked(scc(line("00:00:01:00", SHOW), line("00:00:03:00", swaps), CLEAR))

    assert texts(report) == [("AB",)] * 3
    assert places(report, "608_OLD_CAPTION_SHOWN") == [(5, 3, 2), (5, 9, 3)]
    assert places(report, "608_EOC_EMPTY") == [(5, 0, None), (5, 6, None)]
    assert found(report, "608_PRELOADED") == []


def test_old_caption_that_is_shown_again_late_has_not_waited() -> None:
    """It was loaded long ago, and shown in time."""
    report = checked(
        scc(line("00:00:01:00", SHOW), line("00:00:03:00", SHOW), line("00:00:30:00", twice(EOC)))
    )

    assert places(report, "608_OLD_CAPTION_SHOWN") == [(7, 0, 3)]
    assert found(report, "608_PRELOADED") == []


def test_finding_about_a_load_is_not_of_the_caption_on_screen() -> None:
    """An EOC selects pop-on, too: what follows it is the next caption, without an RCL."""
    report = checked(scc(line("00:00:01:00", SHOW, twice(ENM, FON), text("NEXT"), twice(EOC)), CLEAR))

    assert texts(report) == [("AB",), ("NEXT",)]
    assert places(report, "608_FLASH") == [(3, 11, 2)]


def test_caption_that_replaces_another_is_not_an_old_one() -> None:
    """Nor is one that was loaded before the last EOC's caption went away."""
    two = [*twice(RCL, ENM), *preamble(14), *text("TWO"), *twice(EOC)]

    assert (
        found(
            checked(scc(line("00:00:01:00", SHOW), line("00:00:03:00", two), CLEAR)), "608_OLD_CAPTION_SHOWN"
        )
        == []
    )


@pytest.mark.parametrize(("label", "told"), [("00:00:16:05", False), ("00:00:16:06", True)])
def test_caption_that_waits_over_15_seconds_is_told(label: str, told: bool) -> None:
    """449 frames are 14.98 s; 450 are 15.015 s. The place is that of its EOC."""
    report = checked(
        scc(line("00:00:01:00", LOAD, text("AB")), line(label, twice(EOC)), line("00:00:18:00", twice(EDM)))
    )

    waited = found(report, "608_PRELOADED")
    assert [(finding.line, finding.word, finding.cue) for finding in waited] == ([(5, 0, 1)] if told else [])
    assert {(finding.threshold, finding.unit, finding.severity) for finding in waited} <= {
        (15, "seconds", "warn")
    }


@pytest.mark.parametrize("seconds", range(1, 8))
def test_caption_that_waits_exactly_as_long_as_it_may_is_passed_over(seconds: int) -> None:
    """So many times 30 frames are 1.001 s each, whatever binary number is next to that; one frame more is over."""
    profile = parse(f'name = "x"\n[rules.608_PRELOADED]\nthreshold = {seconds}.00{seconds}\n'.encode(), "x")
    load = line("00:00:01:00", LOAD, text("AB"))  # Its text goes out from frame 36 on.

    for frame, told in ((6, 0), (7, 1)):
        data = scc(load, line(f"00:00:{seconds + 1:02}:{frame:02}", twice(EOC)), CLEAR)
        assert len(found(check(data, profile), "608_PRELOADED")) == told


def test_profile_may_change_how_long_a_caption_may_wait() -> None:
    """The finding and its message carry the number that holds."""
    profile = parse(b'name = "x"\n[rules.608_PRELOADED]\nthreshold = 1\n', "x")
    data = scc(line("00:00:01:00", LOAD, text("AB")), line("00:00:03:00", twice(EOC)), CLEAR)

    waited = only(check(data, profile), "608_PRELOADED")
    assert waited.threshold == 1
    assert "1 s" in waited.message
    assert found(check(data, HOUSE), "608_PRELOADED") == []


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ([], [], (3, 6)),
        (SHOW, [], (3, 15)),
        (SHOW, twice(ENM), (3, 15)),
        (SHOW, twice(RU2), (3, 15)),
        ([], twice(EOC), None),
    ],
    ids=["no EOC at all", "after the last EOC", "erased", "mode changed", "shown"],
)
def test_text_that_is_loaded_and_never_shown_is_told(
    before: list[str], after: list[str], place: tuple[int, int] | None
) -> None:
    """At its first visible character."""
    report = one_line(before, LOAD, text(" X"), after)

    assert [(finding.line, finding.word) for finding in found(report, "608_LOADED_NEVER_SHOWN")] == (
        [place] if place else []
    )


def test_caption_that_was_swapped_out_does_not_count_as_never_shown() -> None:
    """It lies in hidden memory at the end, and it was shown."""
    report = checked(scc(line("00:00:01:00", SHOW), line("00:00:04:00", twice(EOC))))

    assert found(report, "608_LOADED_NEVER_SHOWN") == []


# The end of the file


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (SHOW, (3, 7, 1)),
        ([*ROLL, *text("AB")], (3, 6, 1)),
        ([*twice(RDC), *preamble(15), *text("AB")], (3, 4, 1)),
        ([*ROLL, *text("AB"), *twice(CR)], (3, 6, 1)),
        ([*SHOW, *twice(RDC)], (3, 7, 1)),
        ([*SHOW, *twice(EDM)], None),
        ([*SHOW, *twice(ENM, RCL, EOC)], None),
        ([*SHOW, *twice(RU2)], None),
    ],
    ids=["pop-on", "roll-up", "paint-on", "rolled up", "RDC leaves it", "EDM", "empty EOC", "RU"],
)
def test_caption_on_screen_at_the_end_is_told(words: list[str], place: tuple[int, int, int] | None) -> None:
    """At the word that made it appear; RU, EDM and an empty EOC clear, CR and RDC do not."""
    report = checked(scc(line("00:00:01:00", words)))

    assert places(report, "608_NO_FINAL_CLEAR") == ([place] if place else [])


def test_caption_of_another_channel_on_screen_at_the_end_is_not_told() -> None:
    """That channel is not judged."""
    two = [*twice(RCL + CHANNEL_2), *text("TWO"), *twice(EOC + CHANNEL_2)]

    assert found(one_line(SHOW, two), "608_NO_FINAL_CLEAR") == []


# Bytes and codes that don't belong


def test_bytes_of_extended_data_on_field_1_are_one_finding_a_line() -> None:
    """Either byte of a word, at the first; those of even parity are faults of parity."""
    report = checked(
        scc(
            line("00:00:01:00", LOAD, text("AB"), [word(0x0141), word(0x4203), "0180"], twice(EOC)),
            line("00:00:03:00", [word(0x0F0F)]),
            CLEAR,
        )
    )

    extended = found(report, "608_XDS")
    assert [(finding.line, finding.word, finding.measured) for finding in extended] == [(3, 7, 3), (5, 0, 2)]
    assert texts(report) == [("ABAB",)]


def test_extended_data_on_field_2_belongs_there() -> None:
    """It is data of field 2 and nothing else."""
    report = one_line(SHOW, twice(RCL + FIELD_2), [word(0x0103), word(0x0F1D)])

    assert found(report, "608_XDS") == []
    assert only(report, "608_FIELD2").measured == 4


def test_extended_data_on_field_1_is_not_told_of_field_2() -> None:
    """A profile of another field does not judge it."""
    data = scc(line("00:00:01:00", SHOW, [word(0x0103)]), CLEAR)

    assert found(check(data, judging("CC2")), "608_XDS") != []
    assert found(check(data, judging("CC3")), "608_XDS") == []


def test_flash_is_told_where_it_begins() -> None:
    """It takes a column, as the message says."""
    flash = only(one_line(LOAD, text("A"), twice(FON), text("B"), twice(EOC)), "608_FLASH")

    assert (flash.word, flash.severity, flash.cue) == (7, "warn", 1)


# Blank captions


@pytest.mark.parametrize(
    ("words", "code", "spaces", "at"),
    [
        ([*LOAD, *text("    "), *twice(EOC)], "EOC", 4, 8),
        ([*LOAD, *twice(0x112E), *twice(EOC)], "EOC", 1, 8),
        ([*ROLL, *text("  "), *twice(CR)], "CR", 2, 7),
    ],
    ids=["pop-on", "mid-row code", "roll-up"],
)
def test_caption_of_spaces_is_told(words: list[str], code: str, spaces: int, at: int) -> None:
    """How many, and by which code it shows; it is no cue."""
    report = one_line(words)

    blank = only(report, "CUE_BLANK")
    assert (blank.measured, blank.unit, blank.cue) == (spaces, "spaces", None)
    assert words[blank.word or 0] == word(EOC if code == "EOC" else CR)
    assert blank.message.startswith(code)
    assert report.cues == ()
    assert found(report, "608_EOC_EMPTY") == []


@pytest.mark.parametrize(
    "words",
    [twice(CR), [*text("A"), *twice(CR, CR)], [*text("A"), *twice(BS), *twice(CR)]],
    ids=["bare", "two", "erased"],
)
def test_row_that_holds_nothing_is_not_a_blank_one(words: list[str]) -> None:
    """CR on an empty row shows nothing at all."""
    assert found(one_line(ROLL, words), "CUE_BLANK") == []
