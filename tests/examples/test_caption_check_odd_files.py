"""Whole files of odd kinds: what each shows, frame by frame, was worked out by hand from the public tables."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    RCL,
    RDC,
    RTD,
    RU2,
    RU3,
    TR,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import checked, rules

# A cue as mode, frames of load, start and end, and its rows as row, column and text.
Seen: TypeAlias = tuple[str, int, int, int | None, list[tuple[int, int, str]]]

BACKGROUND, E_ACUTE = 0x1020, 0x1221
PAD = ["8080"]
POP = [*twice(RCL, ENM), *preamble(15)]  # Six words.
ROLL = [*twice(RU2), *preamble(15)]  # Four words.
PAINT = [*twice(RDC), *preamble(15)]

# Each line starts at 00:00:01:00, so that word i goes out in frame 30 + i.
ODD: dict[str, tuple[list[list[str]], list[Seen]]] = {
    "roll-up takes a load away, and its row lies under the next": (
        [POP, text("LOST"), twice(RU2), text("R"), twice(EOC), text("x"), PAD, twice(EOC)],
        [("roll-up", 40, 40, 41, [(15, 1, "R")]), ("pop-on", 43, 45, None, [(15, 1, "Rx")])],
    ),
    "RCL within a burst ends no cue, and the cursor goes on": (
        [PAINT, text("AB"), twice(RCL), text("CD"), twice(RDC), text("EF"), twice(EDM)],
        [("paint-on", 34, 34, 38, [(15, 1, "AB")]), ("paint-on", 40, 40, 41, [(15, 5, "EF")])],
    ),
    "paint-on ends with EOC, and what was loaded before it shows": (
        [POP[:4], preamble(14), text("HID"), PAINT, text("P"), twice(EOC), PAD, twice(EOC)],
        [
            ("paint-on", 42, 42, 43, [(15, 1, "P")]),
            ("pop-on", 36, 43, 46, [(14, 1, "HID")]),
            ("pop-on", 42, 46, None, [(15, 1, "P")]),
        ],
    ),
    "backspace in column 1, and EDM four times": (
        [PAINT, twice(BS), text("A"), twice(EDM, EDM), PAD, twice(EDM), text("B")],
        [("paint-on", 36, 36, 37, [(15, 1, "A")]), ("paint-on", 44, 44, None, [(15, 2, "B")])],
    ),
    "ENM within a burst leaves the screen": (
        [PAINT, text("AB"), twice(ENM), text("CD"), twice(EDM, EOC)],
        [("paint-on", 34, 34, 38, [(15, 1, "ABCD")])],
    ),
    "EDM within a load leaves the load": (
        [POP, text("AB"), twice(EDM), text("CD"), twice(EOC, EDM)],
        [("pop-on", 36, 40, 42, [(15, 1, "ABCD")])],
    ),
    "EDM within a roll-up row leaves the cursor": (
        [ROLL, text("AB"), twice(EDM), text("CD"), twice(CR)],
        [("roll-up", 34, 34, 35, [(15, 1, "AB")]), ("roll-up", 37, 37, 38, [(15, 3, "CD")])],
    ),
    "third EOC takes the caption away": (
        [POP, text("A"), twice(EOC), [word(EOC)]],
        [("pop-on", 36, 37, 39, [(15, 1, "A")])],
    ),
    "deeper roll-up within a row moves its base down": (
        [twice(RU2), preamble(2), text("A"), twice(RU3), text("B")],
        [("roll-up", 34, 34, None, [(3, 1, "AB")])],
    ),
    "background in column 32 and in column 1": (
        [
            *(POP[:4], preamble(15, 32), twice(BACKGROUND), text("A")),
            *(preamble(14), twice(BACKGROUND), text("B"), twice(EOC)),
        ],
        [("pop-on", 40, 46, None, [(14, 2, "B"), (15, 32, "A")])],
    ),
    "background over a space in column 32": (
        [POP[:4], preamble(15, 31), text("A "), twice(BACKGROUND), text("B"), twice(EOC)],
        [("pop-on", 38, 42, None, [(15, 31, "AB")])],
    ),
    "extended character whose base stands in column 31": (
        [POP[:4], preamble(15, 31), text("e"), twice(E_ACUTE), text("Z"), twice(EOC)],
        [("pop-on", 38, 42, None, [(15, 31, "ÉZ")])],
    ),
    "extended character in column 1 after CR has no base": (
        [ROLL, text("e"), twice(CR, E_ACUTE), text("A")],
        [("roll-up", 34, 34, 35, [(15, 1, "e")]), ("roll-up", 37, 37, None, [(15, 1, "ÉA")])],
    ),
    "extended data within a load of field 1 prints its printing bytes": (
        [POP, text("AB"), [word(0x0103), word(0x4142), word(0x0F1D)], text("CD"), twice(EOC)],
        [("pop-on", 36, 41, None, [(15, 1, "ABABCD")])],
    ),
    "text page within a load leaves load and cursor": (
        [POP, text("AB"), twice(TR), preamble(1), text("TT"), twice(RCL), text("CD"), twice(EOC)],
        [("pop-on", 36, 45, None, [(15, 1, "ABCD")])],
    ),
    "text page within a roll-up row leaves row and cursor": (
        [ROLL, text("AB"), twice(RTD), text("TT"), twice(CR, RU2), text("CD"), twice(EDM)],
        [("roll-up", 34, 34, 43, [(15, 1, "ABCD")])],
    ),
}


def seen(data: bytes) -> list[Seen]:
    return [
        (
            cue.mode,
            cue.load_frame,
            cue.start_frame,
            cue.end_frame,
            [(row.row, row.column, row.text) for row in cue.rows],
        )
        for cue in checked(data).cues
    ]


@pytest.mark.parametrize("name", ODD)
def test_odd_file_shows_what_the_tables_say(name: str) -> None:
    """Text, place and frames of every cue."""
    words, cues = ODD[name]

    assert seen(scc(line("00:00:01:00", *words))) == cues


def test_file_of_the_second_channel_alone_has_captions() -> None:
    """Channel 2 of field 1 shows them, and the profile's channel has none."""
    load = [
        *twice(RCL + CHANNEL_2, ENM + CHANNEL_2, 0x1470 + CHANNEL_2),
        *text("TWO"),
        *twice(EOC + CHANNEL_2),
    ]
    report = checked(scc(line("00:00:01:00", load), line("00:00:03:00", twice(EDM + CHANNEL_2))))

    assert [(cue.channel, cue.start_frame, cue.end_frame) for cue in report.cues] == [("CC2", 38, 90)]
    assert (rules(report), report.figures.cues) == ([("608_CHANNEL2", 3)], 0)


def test_extended_data_on_field_2_is_passed_over_within_a_burst() -> None:
    """What follows its end is caption again."""
    service = [word(0x0101), word(0x4142), word(0x0F40)]
    burst = [*twice(RDC + FIELD_2), *service, *text("CC"), *twice(EDM + FIELD_2)]

    assert seen(scc(line("00:00:01:00", burst))) == [("paint-on", 35, 35, 36, [(15, 1, "CC")])]


@pytest.mark.parametrize(
    ("before", "at", "first"),
    [("00:09:59;29", "00:10:00;00", 17_982), ("00:08:59;29", "00:09:00;02", 16_184)],
)
def test_painted_text_starts_in_its_frame_at_a_drop_frame_minute(before: str, at: str, first: int) -> None:
    """The tenth minute drops nothing, the ninth two labels; the frame before is one less in both."""
    report = checked(scc(line(before, PAD), line(at, PAINT, text("A"))))

    assert [cue.start_frame for cue in report.cues] == [first + 4]
    assert (rules(report), report.figures.duration_frames) == ([("608_NO_FINAL_CLEAR", 5)], 1 + 5)


@pytest.mark.parametrize(("separator", "day"), [(":", 2_592_000), (";", 2_589_408)])
def test_load_that_midnight_cuts_short_overlaps(separator: str, day: int) -> None:
    """Fourteen words in ten frames: four are missing, and the caption ends before it starts."""
    load = line(f"23:59:59{separator}25", POP, text("ABCDEFGHIJKL"), twice(EOC))
    report = checked(scc(load, line(f"00:00:00{separator}05", twice(EDM))))

    assert [(cue.start_frame, cue.end_frame) for cue in report.cues] == [(day + 7, day + 5)]
    assert [(finding.rule, finding.line, finding.measured) for finding in report.findings] == [
        ("TC_HOUR_OFFSET", 3, 23),
        ("CUE_ZERO_OR_NEGATIVE", 3, -2),
        ("TC_LOAD_OVERLAP", 5, 4),
        ("TC_WRAP", 5, None),
    ]


def test_words_without_a_time_code_are_bad_lines() -> None:
    """They have no frame to go out in; in the first line they are no header."""
    words = " ".join([*POP, *text("AB"), *twice(EOC)]).encode()

    assert rules(checked(scc() + words)) == [("FMT_BAD_LINE", 2), ("FMT_NO_CAPTIONS", None)]
    assert rules(checked(words + b"\n" + words)) == [
        ("FMT_HEADER", 1),
        ("FMT_BAD_LINE", 2),
        ("FMT_NO_CAPTIONS", None),
    ]
