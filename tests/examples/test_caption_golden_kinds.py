"""Other files of the kinds that the SCC cases are of, and of kinds without a case: right values, by hand.

Most load a caption at 00:00:01:00 (frame 30) by six words, RCL, ENM and a preamble sent twice, so that text
begins at word 6; an EDM at 00:00:06:00 (frame 180) ends what is shown then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    HEADER,
    RCL,
    RDC,
    RU2,
    RU3,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import CASES, HOUSE, checked

from examples.recipes.caption_qc.check import check

E_ACUTE, NOTE, RESERVED = 0x1221, 0x1137, 0x1060
OTHER = CHANNEL_2 | FIELD_2
POP = [*twice(RCL, ENM), *preamble(15)]
SHOW = twice(EOC)
CLEAR = line("00:00:06:00", twice(EDM))
NOTHING_SHOWN = ("FMT_NO_CAPTIONS", "error", None, None)


class Kind(NamedTuple):
    """A file's bytes; its cues as start, end, column and text of the only row; its findings with line and word."""

    data: bytes
    cues: list[tuple[int, int | None, int, str]]
    findings: list[tuple[str, str, int | None, int | None]] = []  # noqa: RUF012 - a tuple's default, never changed


def load(*words: list[str], at: str = "00:00:01:00") -> str:
    """Load these words into row 15, and show them."""
    return line(at, POP, *words, SHOW)


def short(*words: list[str]) -> bytes:
    """Write a file of one such load, cleared five seconds later."""
    return scc(load(*words), CLEAR)


KINDS = {
    # Times
    "01 shown at its EOC, in drop-frame": Kind(  # Ten minutes have 18,000 labels, 18 of which do not exist.
        scc(load(text("DROP"), at="00:10:00;00"), line("00:10:03;00", twice(EDM))),
        [(17982 + 8, 18072, 1, "DROP")],
    ),
    "02 ten hours of non-drop labels": Kind(
        scc(load(text("LATE"), at="10:00:00:00"), line("10:00:03:00", twice(EDM))),
        [(1080000 + 8, 1080090, 1, "LATE")],
        [("TC_HOUR_OFFSET", "info", 3, None)],
    ),
    "03 frame 01 of a minute that drops it": Kind(  # 16,201 labels before it, 18 of which do not exist.
        scc(load(text("NONE"), at="00:09:00;01"), line("00:09:06;00", twice(EDM))),
        [(16183 + 8, 16362, 1, "NONE")],
        [("TC_DROPPED_FRAME_LABEL", "error", 3, None)],
    ),
    "04 frame 30": Kind(
        scc(load(text("HIGH"), at="00:00:09:30"), line("00:00:15:00", twice(EDM))),
        [(300 + 8, 450, 1, "HIGH")],
        [("TC_RANGE", "error", 3, None)],
    ),
    "05 a tab costs frames": Kind(short(twice(0x1722), text("TAB!")), [(30 + 10, 180, 3, "TAB!")]),
    "20 cleared in the frame in which it shows": Kind(
        scc(load(text("NO")), line("00:00:01:07", twice(EDM))),
        [(30 + 7, 37, 1, "NO")],
        [("CUE_ZERO_OR_NEGATIVE", "error", 3, 7), ("TC_LOAD_OVERLAP", "error", 5, None)],
    ),
    "27 two drop-frame lines after one that is not": Kind(
        scc(load(text("NO")), load(text("DF"), at="00:00:04;00"), line("00:00:06;00", twice(EDM))),
        [(30 + 7, 120 + 7, 1, "NO"), (120 + 7, 180, 1, "DF")],
        [("TC_MIXED_DF_NDF", "error", 5, None)],
    ),
    "32 one frame less than 5/6 of a second": Kind(
        scc(load(text("A")), line("00:00:02:01", twice(EDM))),
        [(37, 37 + 24, 1, "A")],
        [("CUE_SHORT", "warn", 3, 7)],
    ),
    "-- midnight passes while a caption shows": Kind(
        scc(load(text("EVE!"), at="23:59:59:00"), line("00:00:02:00", twice(EDM))),
        [(2591970 + 8, 2592000 + 60, 1, "EVE!")],
        [("TC_HOUR_OFFSET", "info", 3, None), ("TC_WRAP", "info", 5, None)],
    ),
    # The file
    "08 two spaces for a tab, in one line": Kind(
        scc(load(text("GAP!")).replace("\t", "  "), CLEAR),
        [(30 + 8, 180, 1, "GAP!")],
        [("FMT_NO_TAB", "warn", 3, None)],
    ),
    "09 a byte order mark alone": Kind(
        b"\xef\xbb\xbf" + short(text("BOM!")), [(30 + 8, 180, 1, "BOM!")], [("FMT_BOM", "info", 1, None)]
    ),
    "10 a header in lower case": Kind(
        short(text("LOW!")).replace(HEADER.encode(), HEADER.lower().encode()),
        [(30 + 8, 180, 1, "LOW!")],
        [("FMT_HEADER", "error", 1, None)],
    ),
    "23 a word of three digits": Kind(
        short(["c1c"], text("THEN")), [(30 + 9, 180, 1, "THEN")], [("HEX_BAD_WORD", "error", 3, 6)]
    ),
    "29 blank lines alone": Kind(b"\n\n \n", [], [("FMT_HEADER", "error", 1, None), NOTHING_SHOWN]),
    "36 hex in upper case, but for the header": Kind(
        HEADER.encode() + short(text("CASE")).removeprefix(HEADER.encode()).upper(),
        [(30 + 8, 180, 1, "CASE")],
    ),
    "39 UTF-16, the high byte first": Kind(
        "\ufeff".encode("utf-16-be") + short(text("WIDE")).decode().encode("utf-16-be"),
        [(30 + 8, 180, 1, "WIDE")],
        [("FMT_ENCODING", "error", 1, None)],
    ),
    # Bytes
    "22 the first copy of EOC fails": Kind(  # The second acts, a frame later; two were sent.
        scc(line("00:00:01:00", POP, text("OK"), ["142f", "942f"]), CLEAR),
        [(30 + 8, 180, 1, "OK")],
        [("608_PARITY", "error", 3, 7)],
    ),
    "34 text without parity under codes with it": Kind(
        short(["4142"], text("C")), [(30 + 8, 180, 1, "██C")], [("608_PARITY", "error", 3, 6)]
    ),
    "-- bytes 01 to 0f on field 1": Kind(
        short([word(0x0141)], text("B")), [(30 + 8, 180, 1, "AB")], [("608_XDS", "warn", 3, 6)]
    ),
    # Codes
    "11 text behind a preamble and before any mode": Kind(
        scc(line("00:00:01:00", preamble(15), text("LOST")), CLEAR),
        [],
        [("608_TEXT_NO_MODE", "warn", 3, 2), NOTHING_SHOWN],
    ),
    "17 backspace over a character too many": Kind(
        short(text("CATSX"), twice(BS)), [(30 + 11, 180, 1, "CATS")]
    ),
    "30 codes of a roll-up sent once": Kind(
        scc(
            line("00:00:01:00", [word(RU2), word(CR), preamble(15)[0]], text("ROLLING")),
            line("00:00:06:00", [word(EDM)]),
        ),
        [(30 + 3, 180, 1, "ROLLING")],
        [("608_CTRL_NOT_DOUBLED", "info", 3, 0)],
    ),
    "33 a preamble that is reserved": Kind(
        short(twice(RESERVED), text("STAY")),
        [(30 + 10, 180, 1, "STAY")],
        [("608_UNKNOWN_CTRL", "error", 3, 6)],
    ),
    "-- a code three times in a row acts twice": Kind(
        short(text("CATSXY"), [word(BS)] * 3),
        [(30 + 12, 180, 1, "CATS")],
        [("608_CTRL_NOT_DOUBLED", "info", 3, 11)],
    ),
    "-- a code, padding, and the same code act twice": Kind(
        short(text("CATSXY"), [word(BS), "8080", word(BS)]),
        [(30 + 12, 180, 1, "CATS")],
        [("608_CTRL_NOT_DOUBLED", "info", 3, 9)],
    ),
    # Characters and places
    "07 an extended character behind its base": Kind(
        short(text("CAFe"), twice(E_ACUTE)), [(30 + 10, 180, 1, "CAFÉ")]
    ),
    "25 two characters past an indent": Kind(
        scc(line("00:00:01:00", twice(RCL, ENM), preamble(15, 29), text("ABCDEF"), SHOW), CLEAR),
        [(30 + 9, 180, 29, "ABCF")],
        [("LAY_OVER_32_COLS", "error", 3, 8)],
    ),
    "42 a note three times in a row is two": Kind(
        short([word(NOTE)] * 3), [(30 + 9, 180, 1, "♪♪")], [("608_CTRL_NOT_DOUBLED", "info", 3, 8)]
    ),
    "-- an extended character whose base is in column 32": Kind(
        scc(line("00:00:01:00", twice(RCL, ENM), preamble(15, 31), text("ae"), twice(E_ACUTE), SHOW), CLEAR),
        [(30 + 11, 180, 31, "aÉ")],
        [("LAY_EXT_COL_32", "warn", 3, 9)],
    ),
    # Modes and channels
    "13 a roll-up row that stays": Kind(
        scc(line("00:00:01:00", twice(RU2, CR), preamble(15), text("ON"))),
        [(30 + 6, None, 1, "ON")],
        [("608_NO_FINAL_CLEAR", "warn", 3, 6)],
    ),
    "14 pop-on after paint-on": Kind(
        scc(
            line("00:00:01:00", twice(RDC), preamble(15), text("PAINT")),
            load(text("POP!"), at="00:00:04:00"),
            CLEAR,
        ),
        [(30 + 4, 120 + 8, 1, "PAINT"), (120 + 8, 180, 1, "POP!")],
        [("608_MODE_CHANGE", "info", 5, 0)],
    ),
    "18 all of it on CC4": Kind(
        scc(
            line(
                "00:00:01:00",
                twice(RCL | OTHER, ENM | OTHER, 0x1460 | CHANNEL_2),
                text("FOUR"),
                twice(EOC | OTHER),
            ),
            line("00:00:06:00", twice(EDM | OTHER)),
        ),
        [(30 + 8, 180, 1, "FOUR")],
        [("608_FIELD2", "info", 3, 0)],
    ),
    "41 a load of channel 2 within one of channel 1": Kind(
        short(text("ONE!"), twice(RCL | CHANNEL_2, 0x1460 | CHANNEL_2), text("TWO!")),
        [(30 + 14, 180, 1, "ONE!")],
        [("608_CHANNEL2", "info", 3, 8)],
    ),
    "-- a roll-up whose depth changes on screen": Kind(
        scc(
            line("00:00:01:00", twice(RU2, CR), preamble(15), text("ONE")),
            line("00:00:04:00", twice(RU3, CR), text("TWO")),
            CLEAR,
        ),
        [(30 + 6, 120 + 2, 1, "ONE"), (120 + 4, 180, 1, "TWO")],
        [("608_ROLLUP_DEPTH_CHANGE", "info", 5, 0)],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_the_kind_shows_what_it_must(name: str) -> None:
    """Each cue by its frames, the column of its text and the text: one row here, the last."""
    shown = []
    for cue in checked(KINDS[name].data).cues:
        (row,) = cue.rows
        shown.append((cue.start_frame, cue.end_frame, row.column, row.text))
        assert row.row == 15

    assert shown == KINDS[name].cues


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_the_kind_has_its_findings_and_no_other(name: str) -> None:
    """By rule, severity, line and word."""
    kind = KINDS[name]
    found = [(each.rule, each.severity, each.line, each.word) for each in checked(kind.data).findings]

    assert sorted(found, key=str) == sorted(kind.findings, key=str)


def test_every_kind_of_case_has_another_file_here() -> None:
    """By its number; those that are about several positions or none are beside them."""
    numbers = {path.name[:2] for path in CASES.glob("*.scc")}
    assert numbers - {name[:2] for name in KINDS} == {"15", "28"}


def test_three_positions_are_one_cue_of_three_rows() -> None:
    """The kind of case 15: one screen, one start; three rows are one more than the house wants."""
    rows = [word for row in (1, 8, 15) for word in [*preamble(row), *text("HERE")]]
    report = checked(scc(line("00:00:01:00", twice(RCL, ENM), rows, SHOW), CLEAR))

    (cue,) = report.cues
    assert (cue.start_frame, [row.row for row in cue.rows]) == (30 + 16, [1, 8, 15])
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.measured, finding.cue) == ("LAY_ROWS", "warn", 3, 1)


def test_times_without_a_caption_show_nothing() -> None:
    """The kind of case 28: a header and lines that only clear."""
    report = checked(scc(CLEAR, line("00:00:12:00", twice(EDM))))

    assert report.cues == ()
    assert [(each.rule, each.measured) for each in report.findings] == [("FMT_NO_CAPTIONS", 0)]


def test_a_file_of_cc3_is_clean_for_a_house_that_checks_cc3() -> None:
    """Case 18 under such a profile: it is judged, and nothing of it is foreign."""
    report = check((CASES / "18_field2_pac.scc").read_bytes(), replace(HOUSE, channel="CC3"))

    assert (report.status, report.findings, report.figures.cues) == ("pass", (), 1)
