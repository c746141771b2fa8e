"""The rules about single codes, channels and characters: what each finds, where, and what it lets pass."""

from __future__ import annotations

import pytest
from caption_encoder import (
    BS,
    CHANNEL_2,
    DER,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    FON,
    RCL,
    RDC,
    RTD,
    RU2,
    TO1,
    TR,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_one_line import CLEAR, LOAD, ROLL, SHOW, judging, one_line, only, places
from caption_reports import checked, found, texts

from examples.recipes.caption_qc.check import check

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


# Every finding


def test_finding_has_its_whole_place() -> None:
    """Line, word, label and frame of the word itself; the cue, the channel, and what was measured."""
    finding = only(one_line(LOAD, text(ALPHABET + "678"), twice(EOC)), "LAY_OVER_32_COLS")

    assert (finding.line, finding.word, finding.timecode, finding.frame) == (3, 22, "00:00:01:00", 52)
    assert (finding.cue, finding.channel, finding.severity) == (1, "CC1", "error")
    assert (finding.measured, finding.threshold, finding.unit) == (3, 0, "characters")
    assert finding.message == "row 15 goes past column 32: characters lost 3"


def test_word_is_that_of_its_own_line_where_lines_overlap() -> None:
    """Two words go out in one frame; the place is the line's that holds the fault."""
    first = line("00:00:01:00", LOAD, text("ABCDEFGH"))
    report = checked(scc(first, line("00:00:01:03", twice(FON, EOC)), CLEAR))

    flash = only(report, "608_FLASH")
    assert (flash.line, flash.word, flash.frame, flash.timecode) == (5, 0, 33, "00:00:01:03")


def test_frames_of_findings_count_on_over_midnight() -> None:
    """As those of cues do."""
    report = checked(
        scc(line("23:59:59:00", SHOW), line("00:00:01:00", LOAD, twice(FON), text("A"), twice(EOC)))
    )

    flash = only(report, "608_FLASH")
    assert (flash.frame, flash.timecode, flash.cue) == (2_592_000 + 36, "00:00:01:00", 2)


def test_hundred_findings_are_listed_and_the_rest_counted() -> None:
    """Of a rule that the decoder notes, too."""
    flashes = [code for _ in range(150) for code in [*twice(FON), "8080"]]
    flashing = found(one_line(LOAD, flashes, text("A"), twice(EOC)), "608_FLASH")

    assert len(flashing) == 101
    assert [finding.word for finding in flashing[:3]] == [6, 9, 12]
    assert {finding.cue for finding in flashing[:100]} == {1}
    assert (flashing[-1].measured, flashing[-1].line) == (150, None)


def test_cue_of_a_finding_is_numbered_as_the_report_numbers_it() -> None:
    """What a wipe leaves over for the next one is no cue; those after it count without it."""
    painted = [*twice(RDC), *preamble(14), *text("A"), *preamble(15), *text("B")]
    wiped = [*preamble(14), *twice(DER), *preamble(15), *twice(DER)]
    report = one_line(painted, wiped, ROLL, twice(FON), text("TWO"))

    assert texts(report) == [("A", "B"), ("TWO",)]
    assert only(report, "608_FLASH").cue == 2


def test_finding_about_a_load_that_is_erased_has_no_cue() -> None:
    """What never shows belongs to no caption."""
    report = one_line(LOAD, twice(FON), text("GONE"), twice(ENM), preamble(15), text("KEPT"), twice(EOC))

    assert texts(report) == [("KEPT",)]
    assert only(report, "608_FLASH").cue is None


def test_finding_about_a_row_that_never_comes_has_no_cue() -> None:
    """Another mode's text is not what it was about."""
    assert only(one_line(ROLL, twice(FON), twice(RDC), text("PAINT")), "608_FLASH").cue is None


def test_finding_about_a_load_waits_for_its_cue_over_other_modes() -> None:
    """Paint-on text in between is another cue."""
    report = one_line(LOAD, twice(FON), text("POP"), twice(RDC), preamble(1), text("PAINT"), twice(RCL, EOC))

    assert texts(report) == [("PAINT",), ("POP",)]
    assert only(report, "608_FLASH").cue == 2


# Control codes


@pytest.mark.parametrize(
    ("words", "count", "first"),
    [
        (SHOW, 0, None),
        ([word(RCL), *SHOW[2:]], 1, 0),
        ([*LOAD, *text("AB"), word(EOC)], 1, 7),
        ([word(RCL), word(ENM), *preamble(15), *text("A"), *twice(EOC)], 2, 0),
        ([*twice(RCL), word(ENM), "8080", word(ENM), *preamble(15), *text("A"), *twice(EOC)], 2, 2),
        ([*twice(RCL), *[word(ENM)] * 3, *preamble(15), *text("A"), *twice(EOC)], 1, 4),
        ([*LOAD, *text("A"), word(0x1137), *text("B"), *twice(EOC)], 1, 7),
        ([*LOAD, *text("A"), word(0x1221), *twice(EOC)], 1, 7),
        ([*LOAD, *text("A"), word(0x1430), *twice(EOC)], 1, 7),
    ],
    ids=["none", "RCL", "EOC", "two", "padding between", "three times", "special", "extended", "reserved"],
)
def test_single_codes_are_one_finding_a_file(words: list[str], count: int, first: int | None) -> None:
    """How many, and where the first stands; a third copy is a new command that has none."""
    single = found(one_line(words), "608_CTRL_NOT_DOUBLED")

    assert [(finding.measured, finding.word, finding.severity) for finding in single] == (
        [(count, first, "info")] if count else []
    )


@pytest.mark.parametrize(("label", "singles"), [("00:00:01:08", 0), ("00:00:01:09", 2)])
def test_code_that_ends_a_line_has_its_copy_in_the_next_frame(label: str, singles: int) -> None:
    """In the line below, if no frame lies between."""
    first = line("00:00:01:00", LOAD, text("AB"), [word(EOC)])
    report = checked(scc(first, line(label, [word(EOC)]), CLEAR))

    assert sum(finding.measured or 0 for finding in found(report, "608_CTRL_NOT_DOUBLED")) == singles


def test_code_at_the_end_of_the_file_is_single() -> None:
    """Nothing comes after it."""
    report = checked(scc(line("00:00:01:00", SHOW), line("00:00:04:00", [word(EDM)])))

    single = only(report, "608_CTRL_NOT_DOUBLED")
    assert (single.line, single.word, single.frame, single.measured) == (5, 0, 120, 1)


def test_single_codes_of_field_2_and_of_other_channels_are_not_counted() -> None:
    """Field 2 need not double, and another channel is not judged."""
    others = [word(RCL + FIELD_2), word(RCL + CHANNEL_2), *twice(EDM)]

    assert found(one_line(others), "608_CTRL_NOT_DOUBLED") == []
    assert found(check(scc(line("00:00:01:00", others)), judging("CC3")), "608_CTRL_NOT_DOUBLED") == []
    assert only(check(scc(line("00:00:01:00", others)), judging("CC2")), "608_CTRL_NOT_DOUBLED").word == 1


@pytest.mark.parametrize("pair", [0x1430, 0x1060, 0x107F, 0x1720, 0x172B, 0x1530, 0x1400, 0x1000])
def test_reserved_code_is_told_once_for_both_copies(pair: int) -> None:
    """Whatever it is, its text is kept."""
    report = one_line(LOAD, text("UN"), twice(pair), text("IT"), twice(EOC))

    assert texts(report) == [("UNIT",)]
    unknown = only(report, "608_UNKNOWN_CTRL")
    assert (unknown.line, unknown.word, unknown.severity) == (3, 7, "error")
    assert unknown.message.startswith(f"{pair >> 8:02x} {pair & 0xFF:02x} ")


def test_reserved_code_of_another_channel_is_that_channels_data() -> None:
    """It is judged with its own channel."""
    data = scc(line("00:00:01:00", SHOW, twice(0x1C30)), CLEAR)

    assert found(checked(data), "608_UNKNOWN_CTRL") == []
    assert only(checked(data), "608_CHANNEL2").measured == 2
    assert only(check(data, judging("CC2")), "608_UNKNOWN_CTRL").channel == "CC2"


def test_failed_pair_is_no_control_code() -> None:
    """A reserved code of even parity is a fault of parity alone."""
    broken = f"{int(word(0x1430), 16) ^ 0x80:04x}"
    report = one_line(LOAD, text("AB"), [broken], twice(EOC))

    assert found(report, "608_UNKNOWN_CTRL") == []
    assert only(report, "608_PARITY").word == 7


# Channels and fields


def test_data_of_channel_2_is_one_finding() -> None:
    """With every word that carries something, at the first one; padding carries nothing."""
    two = [*twice(RCL + CHANNEL_2), *text("AB"), "8080", *twice(EOC + CHANNEL_2)]
    report = checked(scc(line("00:00:01:00", SHOW, two), line("00:00:03:00", two), CLEAR))

    other = only(report, "608_CHANNEL2")
    assert (other.line, other.word, other.measured, other.unit) == (3, 9, 10, "words")
    assert (other.severity, other.channel) == ("info", "CC2")


@pytest.mark.parametrize(("bits", "channel"), [(FIELD_2, "CC3"), (FIELD_2 + CHANNEL_2, "CC4")])
def test_data_of_field_2_is_one_finding(bits: int, channel: str) -> None:
    """Of either of its channels, extended data included."""
    load = [*twice(RCL + bits, ENM + bits, 0x1470 + (bits & CHANNEL_2)), *text("AB")]
    report = checked(scc(line("00:00:01:00", load, [word(0x0101)], text("X"), twice(EOC + bits)), CLEAR))

    other = only(report, "608_FIELD2")
    assert (other.line, other.word, other.measured, other.channel) == (3, 0, 11, channel)
    assert found(report, "608_CHANNEL2") == []


def test_file_of_cc3_is_judged_by_a_profile_of_cc3() -> None:
    """Its cues and its faults are those of the channel; nothing is said of field 2."""
    load = [
        *twice(RCL + FIELD_2, ENM + FIELD_2),
        *preamble(15),
        *twice(FON + FIELD_2),
        *text("THREE"),
        *twice(EOC + FIELD_2),
    ]
    report = check(scc(line("00:00:01:00", load), line("00:00:04:00", twice(EDM + FIELD_2))), judging("CC3"))

    assert [(cue.channel, cue.rows[0].text) for cue in report.cues] == [("CC3", "THREE")]
    assert [(finding.rule, finding.channel, finding.cue) for finding in report.findings] == [
        ("608_FLASH", "CC3", 1)
    ]
    assert report.figures.cues == 1


def test_codes_of_rows_stay_in_the_field_of_the_last_miscellaneous_one() -> None:
    """A preamble, a tab and a colour are no codes of field 1 by themselves."""
    three = [
        *twice(RCL + FIELD_2, ENM + FIELD_2),
        *preamble(5, 6),
        *twice(0x1128),
        *text("3"),
        *twice(EOC + FIELD_2),
    ]
    report = checked(scc(line("00:00:01:00", SHOW, three), CLEAR))

    assert [(cue.channel, cue.rows[0].row, cue.rows[0].text) for cue in report.cues] == [
        ("CC1", 15, "AB"),
        ("CC3", 5, "3"),
    ]
    assert only(report, "608_FIELD2").measured == len(three)


def test_data_of_field_1_is_not_that_of_a_profile_of_field_2() -> None:
    """The message names the channel that it is for."""
    report = check(scc(line("00:00:01:00", SHOW), CLEAR), judging("CC4"))

    other = only(report, "608_FIELD2")
    assert (other.channel, other.measured) == ("CC1", len(SHOW) + 2)
    assert "CC1" in other.message


def test_faults_of_other_channels_are_not_told() -> None:
    """Only that their data is there."""
    bad = [*twice(RCL + CHANNEL_2, FON + CHANNEL_2), *text(ALPHABET + "67"), *twice(EOC + CHANNEL_2)]
    report = one_line(SHOW, bad)

    assert {finding.rule for finding in report.findings} == {"608_CHANNEL2", "CUE_LONG"}


@pytest.mark.parametrize("code", [TR, RTD])
def test_text_mode_is_told_where_it_is_selected(code: int) -> None:
    """Each time anew, and not again for a code of the same page."""
    page = [*twice(code), *text("PAGE")]
    report = one_line(SHOW, page, twice(RTD), twice(RCL), page)

    assert places(report, "608_TEXT_MODE") == [(3, 9, None), (3, 17, None)]
    assert found(report, "608_TEXT_NO_MODE") == []


def test_text_mode_of_another_channel_is_not_told() -> None:
    """It is that channel's data."""
    assert found(one_line(SHOW, twice(TR + CHANNEL_2)), "608_TEXT_MODE") == []


# Text without a place


def test_text_before_any_mode_is_one_finding_a_line() -> None:
    """With the characters that are lost, at the word of the first; special and extended ones too."""
    lost = line("00:00:00:00", preamble(15), ["8080"], text("LOST"), twice(0x1137, 0x1221))
    report = checked(scc(lost, line("00:00:00:20", text("A")), line("00:00:01:00", SHOW), CLEAR))

    nowhere = found(report, "608_TEXT_NO_MODE")
    assert [(finding.line, finding.word, finding.measured) for finding in nowhere] == [(3, 3, 6), (5, 0, 1)]
    assert {finding.severity for finding in nowhere} == {"warn"}
    assert texts(report) == [("AB",)]


@pytest.mark.parametrize("code", [0x1120, 0x112E, 0x1139, 0x1020, 0x172D, FON])
def test_codes_and_spaces_before_any_mode_are_no_text(code: int) -> None:
    """Nobody misses them; beside text they are no characters either."""
    for blank in (twice(code), text("   "), [*twice(code), *text("  ")]):
        assert found(one_line(blank, SHOW), "608_TEXT_NO_MODE") == []
    lost = only(one_line(twice(code), text("  A B"), SHOW), "608_TEXT_NO_MODE")

    assert (lost.measured, lost.word) == (2, 3)


@pytest.mark.parametrize("mode", [RCL, RU2, RDC, EOC])
def test_text_after_any_mode_has_a_place(mode: int) -> None:
    """RCL, RU, RDC and EOC select one."""
    assert found(one_line(twice(mode), text("A")), "608_TEXT_NO_MODE") == []


@pytest.mark.parametrize(
    "before",
    [[], [*text("A"), *twice(BS)], twice(TO1), [*text("A"), *preamble(15), *twice(DER)], preamble(14)],
    ids=["row's start", "erased", "after a tab", "deleted", "another row"],
)
def test_extended_character_with_nothing_before_it_is_told(before: list[str]) -> None:
    """It shows all the same."""
    report = one_line(LOAD, before, twice(0x1221), text("B"), twice(EOC))

    alone = only(report, "608_EXT_NO_BASE_CHAR")
    assert (alone.word, alone.cue, alone.severity) == (6 + len(before), 1, "warn")
    assert "É" in alone.message
    assert "É" in texts(report)[0][0]


def test_extended_character_with_a_base_is_not_told() -> None:
    """Even if the base is a space, or was written in an earlier line."""
    late = checked(scc(line("00:00:01:00", LOAD, text("E")), line("00:00:02:00", twice(0x1221, EOC)), CLEAR))

    assert found(one_line(LOAD, text("A "), twice(0x1221, EOC)), "608_EXT_NO_BASE_CHAR") == []
    assert found(late, "608_EXT_NO_BASE_CHAR") == []


@pytest.mark.parametrize(("characters", "told"), [(31, False), (32, True), (33, True)])
def test_extended_character_whose_base_stands_in_column_32_is_told(characters: int, told: bool) -> None:
    """It replaces what stands there, and nothing of the row is lost by it."""
    row = (ALPHABET + "6")[:characters]
    report = one_line(LOAD, text(row), twice(0x1221, EOC))

    at_the_end = found(report, "LAY_EXT_COL_32")
    assert [(finding.cue, finding.severity) for finding in at_the_end] == [(1, "warn")] * told
    assert texts(report) == [(row[: min(characters, 32) - 1] + "É",)]
    assert sum(finding.measured or 0 for finding in found(report, "LAY_OVER_32_COLS")) == max(
        0, characters - 32
    )
