"""The decoder's stream and grid: frames, parity, doubled codes, channels, the cursor."""

from __future__ import annotations

import re

import pytest
from caption_encoder import (
    AOF,
    AON,
    BS,
    CHANNEL_2,
    CR,
    DER,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    RCL,
    RTD,
    TR,
    labels,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import checked, found, row_15, rules, shown, texts, times

from examples.recipes.caption_qc.check.characters import BLOCK
from examples.recipes.caption_qc.check.lines import CaptionLine, read_text
from examples.recipes.caption_qc.check.scc import decode
from examples.recipes.caption_qc.check.timecode import Timecode, seconds

CLEAR = line("00:00:09:00", twice(EDM))


def timecode(label: str) -> Timecode:
    (read,) = read_text(f"{label}\t8080".encode()).lines()
    assert isinstance(read, CaptionLine)
    assert str(read.timecode) == label
    return read.timecode


# Frames


@pytest.mark.parametrize("drop", [False, True])
def test_frame_number_is_the_count_of_labels_before_it(drop: bool) -> None:
    """A label's frame is how many labels a clock counts before it; every hour has as many."""
    hour = list(labels([0], drop=drop))
    assert len(hour) == (107_892 if drop else 108_000)

    for number in [*range(0, len(hour), 331), *range(1790, 1810), *range(17_975, 17_990), len(hour) - 1]:
        for hours in (0, 1, 9, 23):
            label = f"{hours:02}{hour[number][2:]}"
            assert timecode(label).number == hours * len(hour) + number, label
    assert timecode("00:00:00;00" if drop else "00:00:00:00").frames_a_day == 24 * len(hour)


def test_only_dropped_labels_do_not_exist() -> None:
    """The labels that a drop-frame clock never counts are exactly those that are said not to exist."""
    counted = set(labels([0], drop=True))
    every = (
        f"00:{minute:02}:{second:02};{frame:02}"
        for minute in range(60)
        for second in (0, 1, 59)
        for frame in range(30)
    )

    assert all(timecode(label).exists == (label in counted) for label in every)
    assert timecode("00:01:00:00").exists


def test_seconds_are_frames_of_1001_over_30000() -> None:
    """An hour of drop-frame labels is within 4 ms of an hour; one of non-drop labels is 3.6 s longer."""
    assert seconds(107_892) == pytest.approx(3599.9964)
    assert seconds(108_000) == pytest.approx(3603.6)


@pytest.mark.parametrize(("drop", "day"), [(False, 2_592_000), (True, 2_589_408)])
def test_recording_that_passes_midnight_counts_on(drop: bool, day: int) -> None:
    """A cue that midnight passes keeps its duration, and the wrap is a finding of severity info."""
    separator = ";" if drop else ":"
    show = [*twice(RCL, ENM), *preamble(15), *text("LATE"), *twice(EOC)]
    report = checked(scc(line(f"23:59:58{separator}00", show), line(f"00:00:01{separator}00", twice(EDM))))

    assert times(report) == [(day - 60 + 8, day + 30)]
    assert report.status == "pass"
    (wrap,) = found(report, "TC_WRAP")
    assert (wrap.line, wrap.severity, wrap.frame) == (5, "info", day + 30)


def test_midnight_passes_twice() -> None:
    """Each midnight adds a day."""
    lines = [line(label, text("x")) for label in ("13:00:00:00", "00:30:00:00", "13:00:00:00", "00:30:00:00")]
    report = checked(scc(*lines))

    assert [finding.frame for finding in found(report, "TC_WRAP")] == [
        2_592_000 + 54_000,
        2 * 2_592_000 + 54_000,
    ]


def test_step_back_of_half_a_day_is_no_midnight() -> None:
    """Twelve hours back is a line out of order; more than that is the next day."""
    report = checked(scc(line("12:00:00:00", text("x")), line("00:00:00:00", text("x"))))

    assert found(report, "TC_WRAP") == []
    assert [finding.measured for finding in found(report, "TC_BACKWARD")] == [12 * 108_000]


def test_label_out_of_range_is_counted_as_written_and_is_no_midnight() -> None:
    """What follows an impossible hour is measured against the line before that."""
    show = [*twice(RCL, ENM), *preamble(15), *text("ON"), *twice(EOC)]
    report = checked(
        scc(line("00:00:01:00", show), line("99:00:00:00", ["8080"]), line("00:00:03:00", twice(EDM)))
    )

    assert times(report) == [(37, 90)]
    assert rules(report) == [("TC_RANGE", 5)]
    assert [finding.frame for finding in report.findings] == [99 * 108_000]


def test_bad_word_counts_its_frame() -> None:
    """Words after one that cannot be read go out when they would have."""
    assert times(
        checked(scc(line("00:00:01:00", twice(RCL), text("AB"), ["zz", "12345"], twice(EOC)), CLEAR))
    ) == [(35, 270)]


@pytest.mark.parametrize(
    ("words", "bad"),
    [
        ("9420  9420", 0),
        ("9420\t9420 \t 94ae", 0),
        ("9420 94   942f", 1),
        ("9420 94   20   942f", 2),
        ("9420 942 0942f", 2),
        ("9420 942\v 942f", 1),
        ("9420 94g0 942f", 1),
        ("9420 9 4 2 0", 4),
        ("9420 942f9 420", 2),
        ("94209420", 1),
        ("9420 +420", 1),
        ("9420 0x42", 1),
    ],
)
def test_words_are_parted_by_blanks_alone(words: str, bad: int) -> None:
    """However many; what lies between is four hex digits, or a bad word of one frame."""
    (read,) = decode(f"Scenarist_SCC V1.0\n00:00:01:00\t{words}".encode()).lines

    assert (read.words, read.bad_words) == (len(re.split("[ \t]+", words)), bad)


# Parity


def test_printing_byte_of_even_parity_is_a_block_in_its_column() -> None:
    """Under control codes with parity, text without it shows blocks where bit 7 is missed, and keeps columns."""
    bare = [f"{ord(first):02x}{ord(second):02x}" for first, second in ("NO", "PE")]

    assert row_15(bare, text("!")) == f"{BLOCK}O{BLOCK}E!"


@pytest.mark.parametrize("bit", [0x8000, 0x0080, 0x8080])
def test_control_code_of_even_parity_is_ignored_and_its_copy_acts(bit: int) -> None:
    """The first copy that fails, in either byte, leaves the second to act, one frame later."""
    broken = [f"{int(word(EOC), 16) ^ bit:04x}", word(EOC)]
    report = checked(scc(line("00:00:01:00", twice(RCL, ENM), preamble(15), text("AB"), broken), CLEAR))

    assert times(report) == [(30 + 7 + 1, 270)]


def test_failed_second_copy_leaves_the_next_one_to_act() -> None:
    """A failed pair is another word between two codes: the code after it is a new command."""
    failed = f"{int(word(BS), 16) ^ 0x80:04x}"

    assert row_15(text("ABCD"), [word(BS), failed, word(BS)]) == "AB"


def test_zero_bytes_are_nothing() -> None:
    """With the right parity or without it: 80 and 00 print nothing."""
    assert row_15(["80c1", "00c2", "4300", "0000"], text("D")) == "ABCD"


def test_file_without_bit_7_is_decoded_as_if_it_had_parity() -> None:
    """One finding for the file, and the text as it was meant."""
    show = [*twice(RCL, ENM), *preamble(15), *text("NO PARITY"), *twice(EOC)]
    data = scc(line("00:00:01:00", show), line("00:00:04:00", twice(EDM)))
    bare = b"\n".join(
        b"\t".join(part if b":" in part else _stripped(part) for part in row.split(b"\t"))
        for row in data.split(b"\n")
    )
    report = checked(bare)

    assert texts(report) == [("NO PARITY",)]
    assert rules(report) == [("608_PARITY", None)]


def _stripped(words: bytes) -> bytes:
    if not words or words.startswith(b"Sc"):
        return words
    return b" ".join(b"%04x" % (int(token, 16) & 0x7F7F) for token in words.split())


# Doubled codes


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ([word(BS)], "ABC"),
        ([word(BS)] * 2, "ABC"),
        ([word(BS)] * 3, "AB"),
        ([word(BS)] * 4, "AB"),
        ([word(BS), "8080", word(BS)], "AB"),
        ([word(BS), "zz", word(BS)], "AB"),
        ([word(BS), word(BS), "8080", word(BS), word(BS)], "AB"),
        ([word(BS), word(AOF), word(BS)], "AB"),
    ],
    ids=["once", "twice", "three times", "four times", "padding", "bad word", "padded pairs", "other code"],
)
def test_second_copy_in_the_next_frame_is_ignored_and_nothing_else_is(words: list[str], left: str) -> None:
    """A code acts, its copy in the very next frame does not, and the third is a new command."""
    assert row_15(text("ABCD"), words) == left


@pytest.mark.parametrize(("label", "left"), [("00:00:01:13", "ABC"), ("00:00:01:14", "AB")])
def test_copy_across_lines_counts_only_without_a_gap(label: str, left: str) -> None:
    """The first word of a line is a copy only where the line above ended in the frame before."""
    first = [*twice(RCL, ENM), *preamble(15), *text("ABCD"), *["8080"] * 4, word(BS)]
    assert len(first) == 13
    report = checked(scc(line("00:00:01:00", first), line(label, [word(BS)], twice(EOC)), CLEAR))

    assert texts(report) == [(left,)]


def test_equal_effect_is_no_copy() -> None:
    """Two codes of different bytes both act, even where they do the same."""
    assert row_15(text("A"), [word(0x1120), word(0x1121)], text("B")) == "A  B"


def test_special_and_extended_characters_are_doubled_too() -> None:
    """One note for two copies, two for three."""
    assert row_15([word(0x1137)] * 2, text("A")) == "♪A"
    assert row_15([word(0x1137)] * 3, text("A")) == "♪♪A"
    assert row_15(text("A"), [word(0x1221)] * 2) == "É"


@pytest.mark.parametrize(("sent", "left"), [([word(BS)] * 2, "AB"), ([word(BS), *text("X")], "ABC")])
def test_copy_is_told_by_the_words_between_where_lines_overlap(sent: list[str], left: str) -> None:
    """A line that starts in the frame of the word above its end brings a new command, not a copy."""
    first = [*twice(RCL, ENM), *preamble(15), *text("ABCD"), *sent]
    report = checked(scc(line("00:00:01:00", first), line("00:00:01:09", [word(BS)], twice(EOC)), CLEAR))

    assert texts(report) == [(left,)]


# Channels and fields


def test_each_channel_keeps_its_own_screen() -> None:
    """Loads of four channels in one line show four texts, each in its channel."""
    channels = {"CC1": 0, "CC2": CHANNEL_2, "CC3": FIELD_2, "CC4": CHANNEL_2 + FIELD_2}
    loads = [
        twice(RCL + bits, ENM + bits) + twice(0x1470 + (bits & CHANNEL_2)) + text(name) + twice(EOC + bits)
        for name, bits in channels.items()
    ]
    for order in (1, -1):
        report = checked(scc(line("00:00:01:00", *loads[::order])))
        shown_in = [(cue.channel, cue.rows[0].text) for cue in report.cues]
        assert shown_in == [(name, name) for name in channels][::order]


def test_characters_belong_to_the_channel_of_the_last_valid_code() -> None:
    """A code of channel 2 takes what follows with it; a reserved one does not."""
    assert row_15(text("AB"), twice(0x1C2E), text("CD"), twice(AON)) == "AB"
    assert row_15(text("AB"), twice(0x1C30), text("CD")) == "ABCD"


def test_other_codes_stay_in_the_field_of_the_last_miscellaneous_one() -> None:
    """A preamble of row 5 starts with 15, and still is field 1's."""
    assert shown(preamble(5), text("ROW 5")) == ((5, 1, "ROW 5"),)


def test_reserved_code_has_no_function() -> None:
    """Neither 14 30 nor a preamble 10 60 changes what is loaded."""
    assert row_15(text("AB"), twice(0x1430, 0x1060, 0x1000, 0x1720), text("CD")) == "ABCD"


def test_bytes_01_to_0f_on_field_1_are_ignored_alone() -> None:
    """The other byte of the word prints."""
    assert row_15([word(0x0141), word(0x4203), word(0x0F0F)], text("C")) == "ABC"


def test_extended_data_on_field_2_is_not_text() -> None:
    """From 01 to 0f what field 2 sends is no caption, and a caption code ends it early."""
    load = twice(RCL + FIELD_2, ENM + FIELD_2, 0x1470)
    service = [word(0x0103), *text("NEWS"), word(0x0F41)]
    cut_short = [word(0x0203), *text("NEWS"), *twice(0x1721)]
    report = checked(
        scc(
            line(
                "00:00:01:00", load, text("A"), service, text("B"), cut_short, text("C"), twice(EOC + FIELD_2)
            )
        )
    )

    assert [(cue.channel, cue.rows[0].text) for cue in report.cues] == [("CC3", "AB C")]


@pytest.mark.parametrize("reserved", [0x1060, 0x1430 + FIELD_2, 0x1C30 + FIELD_2, 0x1000, 0x1720, 0x1868])
def test_reserved_code_does_not_end_extended_data(reserved: int) -> None:
    """It has no function, so what follows is no caption until 0f or a code that has one."""
    load = twice(RCL + FIELD_2, ENM + FIELD_2, 0x1470)
    service = [word(0x0103), *text("NEWS"), *twice(reserved), *text("MORE")]
    for end in ([word(0x0F41)], twice(0x1721)):
        report = checked(scc(line("00:00:01:00", load, service, end, text("C"), twice(EOC + FIELD_2))))
        assert [cue.rows[0].text for cue in report.cues] == ["C"]


def test_extended_data_does_not_start_with_a_failed_byte() -> None:
    """A byte 01 of even parity is ignored alone, on field 2 too."""
    load = twice(RCL + FIELD_2, ENM + FIELD_2, 0x1470)
    report = checked(scc(line("00:00:01:00", load, ["8180"], text("TEXT"), twice(EOC + FIELD_2))))

    assert texts(report) == [("TEXT",)]


@pytest.mark.parametrize("code", [TR, RTD])
def test_text_mode_is_no_caption(code: int) -> None:
    """What a channel sends in text mode shows nowhere, moves no cursor, and ends with the next mode."""
    page = [*twice(code), *preamble(1), *text("PAGE"), *twice(CR, BS, DER)]

    assert row_15(text("AB"), page, twice(RCL), text("CDE"), twice(BS)) == "ABCD"


def test_text_mode_still_erases_captions() -> None:
    """EDM acts in every mode."""
    show = [*twice(RCL, ENM), *preamble(15), *text("ON"), *twice(EOC)]
    report = checked(scc(line("00:00:01:00", show), line("00:00:05:00", twice(TR, EDM))))

    assert times(report) == [(37, 152)]


def test_text_before_any_mode_shows_nothing() -> None:
    """There is no memory to write to before RCL, RU, RDC or EOC."""
    report = checked(scc(line("00:00:01:00", preamble(15), text("LOST"), twice(EOC)), CLEAR))

    assert rules(report) == [("608_TEXT_NO_MODE", 3), ("608_EOC_EMPTY", 3), ("FMT_NO_CAPTIONS", None)]
