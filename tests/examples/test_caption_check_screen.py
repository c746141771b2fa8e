"""The decoder's characters, grid and cursor, and the cues that pop-on, roll-up and paint-on make."""

from __future__ import annotations

import pytest
from caption_encoder import (
    AOF,
    BS,
    CR,
    DER,
    EDM,
    ENM,
    EOC,
    FON,
    RCL,
    RDC,
    RU2,
    RU3,
    RU4,
    TO1,
    TO2,
    TO3,
    line,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import checked, row_15, shown, texts, times

CLEAR = line("00:00:09:00", twice(EDM))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


# Characters


def test_ten_characters_are_not_those_of_ascii() -> None:
    """Accents, a division sign, and the block stand for ASCII's signs."""
    assert row_15(text("*\\^_`{|}~\x7f")) == "áéíóúç÷Ññ█"


def test_second_channel_has_the_same_characters() -> None:
    """Bit 3 of the first byte says the channel and nothing else."""
    load = [*twice(RCL + 0x800, 0x1C70), *text("e"), *twice(0x1A21, 0x1937, 0x1F21), *text("!")]
    (cue,) = checked(scc(line("00:00:01:00", load, twice(EOC + 0x800)))).cues

    assert (cue.channel, cue.rows[0].text) == ("CC2", "É♪ !")


# The grid


@pytest.mark.parametrize("row", range(1, 16))
def test_preamble_sets_row_and_indent(row: int) -> None:
    """All rows and indents; a colour has no indent."""
    for indent in range(0, 32, 4):
        assert shown(preamble(row, 1 + indent), text("x")) == ((row, 1 + indent, "x"),)


def test_preamble_of_a_colour_starts_in_column_1() -> None:
    """Bit 4 of the second byte tells an indent from a colour."""
    for colour in range(0x1460, 0x1470):
        assert shown(twice(colour), text("x")) == ((15, 1, "x"),)


@pytest.mark.parametrize(("code", "column"), [(TO1, 2), (TO2, 3), (TO3, 4)])
def test_tab_moves_the_cursor_and_erases_nothing(code: int, column: int) -> None:
    """What it passes over stays."""
    assert shown(preamble(15), twice(code), text("x")) == ((15, column, "x"),)
    assert (
        row_15(text("abcd"), preamble(15), twice(code), text("x"))
        == f"{'abcd'[: column - 1]}x{'abcd'[column:]}"
    )


def test_tab_stops_in_the_last_column() -> None:
    """A row has 32 columns."""
    assert shown(preamble(15, 32), twice(TO3), text("x")) == ((15, 32, "x"),)
    assert row_15(preamble(15, 29), text("ab"), twice(TO3, BS), text("c")) == "abc"
    assert row_15(text(ALPHABET), twice(TO1, BS), text("!")) == ALPHABET[:31] + "!"


def test_what_goes_past_column_32_overwrites_it() -> None:
    """36 characters: four are lost, the last one stands."""
    assert row_15(text(ALPHABET + "6789")) == ALPHABET[:31] + "9"
    assert row_15(text(ALPHABET + "6")) == ALPHABET[:31] + "6"


def test_mid_row_and_flash_codes_take_a_column() -> None:
    """Both stand as a space."""
    assert row_15(text("A"), twice(0x112E), text("B"), twice(FON), text("C")) == "A B C"
    assert shown(preamble(15), twice(0x112E), text("B")) == ((15, 2, "B"),)


def test_backspace_erases_the_column_before() -> None:
    """It stops in column 1, and after a full row it erases the last column."""
    assert row_15(text("AB"), twice(BS), text("C")) == "AC"
    assert row_15(twice(BS), text("A")) == "A"
    assert row_15(text(ALPHABET), twice(BS), text("!")) == ALPHABET[:31] + "!"


def test_delete_to_end_erases_from_the_cursor_on() -> None:
    """What stands before the cursor stays, as do other rows."""
    assert row_15(text("ABCD"), preamble(15), twice(TO2, DER)) == "AB"
    assert row_15(text(ALPHABET), twice(DER)) == ALPHABET[:31]
    assert shown(
        preamble(14), text("UP"), preamble(15), text("ABCD"), preamble(15), twice(DER), text("x")
    ) == (
        (14, 1, "UP"),
        (15, 1, "x"),
    )


@pytest.mark.parametrize("code", [0x1020, 0x102F, 0x172D, 0x172F])
def test_background_code_takes_the_column_of_the_space_before_it(code: int) -> None:
    """With a space before it nothing moves; with none it leaves one."""
    assert row_15(text("A "), twice(code), text("B")) == "A B"
    assert row_15(text("A"), twice(code), text("B")) == "A B"
    assert shown(preamble(15), twice(code), text("B")) == ((15, 2, "B"),)


@pytest.mark.parametrize("code", [AOF, 0x1423, 0x1724, 0x172A])
def test_codes_without_effect_take_no_column(code: int) -> None:
    """Alarms and character sets."""
    assert row_15(text("A"), twice(code), text("B")) == "AB"


def test_extended_character_after_column_32_replaces_its_base_there() -> None:
    """The base character is the last one written."""
    assert row_15(text(ALPHABET[:31] + "e"), twice(0x1221)) == ALPHABET[:31] + "É"


def test_extended_character_without_a_base_stands_where_the_cursor_is() -> None:
    """Nothing is replaced, at the row's start or after a tab."""
    assert shown(preamble(15), twice(0x1221), text("A")) == ((15, 1, "ÉA"),)
    assert shown(preamble(15), twice(TO3, 0x1221), text("A")) == ((15, 4, "ÉA"),)


def test_rows_are_given_from_top_to_bottom() -> None:
    """In whatever order they were written."""
    assert shown(preamble(15), text("B"), preamble(2), text("A")) == ((2, 1, "A"), (15, 1, "B"))


def test_spaces_around_a_row_are_no_part_of_it() -> None:
    """Row and column are those of the first visible character; a row of spaces is none."""
    assert shown(preamble(3), text("    "), preamble(14, 5), text("  A B   ")) == ((14, 7, "A B"),)


# Pop-on


def test_popon_cue_lasts_from_its_end_of_caption_to_the_next() -> None:
    """It is loaded from its first visible character on, and EDM or the next caption ends it."""
    load = [*twice(RCL, ENM), *preamble(15), *text(" ONE"), *twice(EOC)]
    again = [*twice(RCL, ENM), *preamble(15), *text("TWO"), *twice(EOC)]
    report = checked(scc(line("00:00:01:00", load), line("00:00:04:00", again), CLEAR))

    assert times(report) == [(38, 128), (128, 270)]
    assert [cue.load_frame for cue in report.cues] == [36, 126]
    assert [cue.number for cue in report.cues] == [1, 2]


def test_end_of_caption_erases_nothing() -> None:
    """The old caption lies in hidden memory: it shows again, or under new text, unless ENM clears it."""
    old = line("00:00:01:00", twice(RCL, ENM), preamble(15), text("OLD"), twice(EOC))
    swaps = line("00:00:03:00", twice(EOC), ["8080"], twice(EOC))
    over = line("00:00:05:00", twice(RCL), preamble(14), text("NEW"), twice(EOC))
    report = checked(scc(old, swaps, over))

    assert texts(report) == [("OLD",), ("OLD",), ("NEW",)]
    assert times(report) == [(38, 90), (93, 156), (156, None)]
    assert [cue.load_frame for cue in report.cues] == [36, 36, 154]


def test_new_text_joins_what_lies_in_hidden_memory() -> None:
    """Without ENM the caption before the last one shows through."""
    loads = [
        line(f"00:00:0{second}:00", twice(RCL), preamble(row), text(name), twice(EOC))
        for second, row, name in ((1, 13, "ONE"), (3, 14, "TWO"), (5, 15, "THREE"))
    ]

    report = checked(scc(*loads))
    assert texts(report) == [("ONE",), ("TWO",), ("ONE", "THREE")]
    assert [cue.load_frame for cue in report.cues] == [34, 94, 154]


def test_load_begins_again_after_hidden_memory_is_erased() -> None:
    """What ENM took away was never shown."""
    dropped = line("00:00:01:00", twice(RCL), preamble(15), text("DROPPED"))
    kept = line("00:00:05:00", twice(ENM), preamble(15), text("KEPT"), twice(EOC))
    report = checked(scc(dropped, kept))

    assert texts(report) == [("KEPT",)]
    assert [cue.load_frame for cue in report.cues] == [154]


def test_erased_caption_does_not_come_back() -> None:
    """EDM empties the displayed memory: swapped away and back, it shows nothing."""
    show = line("00:00:01:00", twice(RCL, ENM), preamble(15), text("ONCE"), twice(EOC))
    swaps = line("00:00:05:00", twice(EOC), ["8080"], twice(EOC))
    report = checked(scc(show, line("00:00:03:00", twice(EDM)), swaps))

    assert times(report) == [(38, 90)]


def test_blank_caption_is_no_cue() -> None:
    """Spaces alone show nothing."""
    blank = line("00:00:01:00", twice(RCL, ENM), preamble(15), text("   "), twice(EOC))

    assert checked(scc(blank)).cues == ()


# Roll-up


def test_row_that_is_erased_again_was_shown() -> None:
    """It ends as it is emptied, however short that was."""
    words = [*twice(RU2), *preamble(15), *text("A"), *twice(BS, CR), *text("B")]

    assert rolled(words) == ([("A",), ("B",)], [(34, 35), (39, None)])


def test_carriage_return_goes_to_column_1() -> None:
    """The next row starts there, whatever the row above was indented by."""
    report = checked(
        scc(line("00:00:01:00", twice(RU2), preamble(15, 9), text("ONE"), twice(CR), text("TWO")))
    )

    assert [cue.rows[0].column for cue in report.cues] == [9, 1]


def rolled(*words: list[str]) -> tuple[list[tuple[str, ...]], list[tuple[int, int | None]]]:
    report = checked(scc(line("00:00:01:00", *words)))
    assert {cue.mode for cue in report.cues} <= {"roll-up"}
    return texts(report), times(report)


def test_rollup_cue_is_the_new_row_from_its_first_visible_character() -> None:
    """It ends with the next CR, and the rows above are no part of it."""
    rows = [*text("ONE"), *twice(CR), *text("  TWO"), *twice(CR), *text("X"), *twice(EDM)]

    assert rolled(twice(RU2, CR), preamble(15), rows) == (
        [("ONE",), ("TWO",), ("X",)],
        [(36, 38), (41, 43), (45, 46)],
    )


def test_rollup_row_is_one_cue_however_often_its_mode_is_sent() -> None:
    """RU in roll-up changes nothing on screen, so text after it joins the row."""
    assert rolled(twice(RU2), preamble(15), text("ON"), twice(RU2), text("LY")) == ([("ONLY",)], [(34, None)])


def test_rollup_depth_may_change_on_screen() -> None:
    """The base row stays, the rows above are cut: no cue ends, and the row goes on."""
    words = [*twice(RU4), *preamble(15), *text("A"), *twice(CR), *text("B"), *twice(RU2), *text("C")]

    assert rolled(words) == ([("A",), ("BC",)], [(34, 35), (37, None)])


def test_rollup_cuts_the_rows_above_its_depth() -> None:
    """Roll-up text that pop-on swaps to hidden memory and back has as many rows as its depth."""
    rows = [word for name in "ABCD" for word in [*text(name), *twice(CR)]]
    swapped = [*twice(RCL, EOC), "8080", *twice(EOC)]

    deep = checked(scc(line("00:00:01:00", twice(RU4), preamble(15), rows, text("E"), swapped)))
    cut = checked(scc(line("00:00:01:00", twice(RU4), preamble(15), rows, text("E"), twice(RU3), swapped)))
    assert texts(deep)[-1] == ("B", "C", "D", "E")
    assert texts(cut)[-1] == ("C", "D", "E")
    assert [row.row for row in cut.cues[-1].rows] == [13, 14, 15]


def test_rollup_base_row_moves_with_its_preamble() -> None:
    """The rows move with it; a base row smaller than the depth moves down to the depth."""
    row_5 = checked(scc(line("00:00:01:00", twice(RU2), preamble(5, 3), text("FIVE"))))
    moved = checked(scc(line("00:00:01:00", twice(RU2), preamble(15), text("MOVE"), preamble(7), text("D"))))
    low = checked(scc(line("00:00:01:00", twice(RU3), preamble(1), text("LOW"))))
    deeper = checked(scc(line("00:00:01:00", twice(RU2), preamble(2), text("A"), twice(RU4), text("B"))))

    assert [(row.row, row.column, row.text) for row in row_5.cues[0].rows] == [(5, 3, "FIVE")]
    assert [(row.row, row.text) for row in moved.cues[0].rows] == [(7, "DOVE")]
    assert [(row.row, row.text) for row in low.cues[0].rows] == [(3, "LOW")]
    assert [(row.row, row.text) for row in deeper.cues[0].rows] == [(4, "AB")]


def test_rollup_after_another_mode_starts_with_empty_memories_and_base_row_15() -> None:
    """What pop-on showed ends there, and what it had loaded is gone."""
    rollup = [*twice(RU2), *preamble(5), *text("FIVE")]
    popon = [*twice(RCL, ENM), *preamble(14), *text("POP!"), *twice(EOC), *preamble(13), *text("NEXT")]
    swaps = [*twice(RCL, EOC), "8080", *twice(EOC)]
    report = checked(scc(line("00:00:01:00", rollup, popon, twice(RU2), text("ROLL"), swaps)))

    assert [(cue.mode, *((row.row, row.column, row.text) for row in cue.rows)) for cue in report.cues] == [
        ("roll-up", (5, 1, "FIVE")),
        ("pop-on", (14, 1, "POP!")),
        ("roll-up", (15, 1, "ROLL")),
        ("pop-on", (15, 1, "ROLL")),
    ]
    assert times(report) == [(34, 44), (44, 50), (52, 56), (59, None)]


def test_resume_loading_ends_no_cue() -> None:
    """The screen stays as it is until the end of caption."""
    load = [*twice(RCL, ENM), *preamble(1), *text("POP"), *twice(EOC)]
    report = checked(scc(line("00:00:01:00", twice(RU2), preamble(15), text("ROLL"), load)))

    assert texts(report) == [("ROLL",), ("POP",)]
    assert times(report) == [(34, 44), (44, None)]
    assert report.cues[0].rows[0].row == 15


def test_carriage_return_acts_in_rollup_alone() -> None:
    """In pop-on it moves nothing."""
    assert row_15(text("A"), twice(CR), text("B")) == "AB"


# Paint-on


def test_painton_cue_is_what_its_burst_wrote() -> None:
    """From the first visible character after RDC or EDM to the next RDC or EDM."""
    one = line("00:00:01:00", twice(RDC), preamble(13), text(" ONE"))
    two = line("00:00:02:00", twice(RDC), preamble(14, 5), text("TWO"), preamble(15), text("MORE"))
    three = line("00:00:03:00", twice(EDM), preamble(14), text("THREE"))
    report = checked(scc(one, two, three, CLEAR))

    assert {cue.mode for cue in report.cues} == {"paint-on"}
    assert texts(report) == [("ONE",), ("TWO", "MORE"), ("THREE",)]
    assert times(report) == [(34, 60), (64, 90), (94, 270)]
    assert report.cues[1].rows[0].column == 5


def test_painton_burst_may_correct_itself() -> None:
    """Backspace, DER and extended characters act on what is painted; what leaves something in its row is typing."""
    burst = [*twice(RDC), *preamble(15), *text("CARE"), *twice(BS, 0x1221), *text("SX"), *twice(BS)]
    shorter = [*preamble(14), *text("GONE"), *preamble(14, 3), *twice(DER)]
    report = checked(scc(line("00:00:01:00", burst, shorter)))

    assert texts(report) == [("GO", "CAÉS")]


def test_painton_leaves_what_is_displayed() -> None:
    """RDC ends the pop-on cue, and its text stays on screen under what is painted."""
    popon = [*twice(RCL, ENM), *preamble(14), *text("POP"), *twice(EOC)]
    swaps = [*twice(RCL, EOC), "8080", *twice(EOC)]
    report = checked(scc(line("00:00:01:00", popon, twice(RDC), preamble(15), text("PAINT"), swaps)))

    assert [(cue.mode, *(row.text for row in cue.rows)) for cue in report.cues] == [
        ("pop-on", "POP"),
        ("paint-on", "PAINT"),
        ("pop-on", "POP", "PAINT"),
    ]
    assert times(report)[0] == (38, 40)
