"""The rules of format, words and parity: each finds its fault, its neighbour finds none."""

from __future__ import annotations

import pytest
from caption_cues import CLEAN, SHOW
from caption_encoder import (
    EDM,
    ENM,
    EOC,
    HEADER,
    RCL,
    RDC,
    line,
    odd,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import HOUSE, checked, found, rules, texts

from examples.recipes.caption_qc.check import too_large


def test_clean_file_has_no_finding() -> None:
    """Nothing over info, nor info."""
    report = checked(CLEAN)

    assert (report.status, report.findings) == ("pass", ())
    assert texts(report) == [("TEXT",)]


# The header and the bytes


@pytest.mark.parametrize(
    "header",
    [b"Scenarist SCC V1.0", b" Scenarist_SCC V1.0", b"scenarist_scc v1.0", b"Scenarist_SCC V1.0x", b""],
)
def test_wrong_header_is_found_and_decoding_goes_on(header: bytes) -> None:
    """The first line is the header to the letter, and is no bad line besides."""
    report = checked(CLEAN.replace(HEADER.encode(), header))

    assert rules(report) == [("FMT_HEADER", 1)]
    assert (report.findings[0].severity, texts(report)) == ("error", [("TEXT",)])
    assert repr(header.decode()) in report.findings[0].message


def test_missing_header_costs_no_caption() -> None:
    """A first line that is a caption line is decoded as one."""
    report = checked(CLEAN.removeprefix(HEADER.encode() + b"\n\n"))

    assert rules(report) == [("FMT_HEADER", 1)]
    assert texts(report) == [("TEXT",)]


def test_blanks_after_the_header_are_noted() -> None:
    """They are no wrong header."""
    report = checked(CLEAN.replace(HEADER.encode(), HEADER.encode() + b" \t"))

    assert rules(report) == [("FMT_HEADER_TRAILING_WS", 1)]
    assert (report.status, report.findings[0].measured) == ("pass", 2)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_is_read(end: bytes) -> None:
    """Lines keep their numbers; CR alone is noted, once."""
    report = checked(CLEAN.replace(b"\n", end).replace(b"942c 942c", b"942c 942c zz"))

    assert texts(report) == [("TEXT",)]
    assert [finding.line for finding in found(report, "HEX_BAD_WORD")] == [5]
    lone = [(finding.severity, finding.line, finding.measured) for finding in found(report, "FMT_CR_ONLY")]
    assert lone == ([("info", 1, 5)] if end == b"\r" else [])


def test_byte_order_mark_is_noted_and_nothing_more() -> None:
    """A UTF-8 mark is taken off before the header is read."""
    report = checked(b"\xef\xbb\xbf" + CLEAN)

    assert (rules(report), report.status) == ([("FMT_BOM", 1)], "pass")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_one_finding_and_is_checked_on(encoding: str) -> None:
    """By its mark; the rest of the file is judged as if it were ASCII."""
    faulty = CLEAN.replace(b"942c 942c", b"942c 942c zz").decode()
    report = checked(("\ufeff" + faulty).encode(encoding))

    assert rules(report) == [("FMT_ENCODING", 1), ("HEX_BAD_WORD", 5)]
    assert texts(report) == [("TEXT",)]


def test_utf16_that_is_cut_short_is_still_read() -> None:
    """Half a character at the end is no reason to stop."""
    assert texts(checked(("\ufeff" + CLEAN.decode()).encode("utf-16-le")[:-1])) == [("TEXT",)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
@pytest.mark.parametrize("last", ["\n\n", "\n\U0001f600"])
def test_character_that_the_end_cuts_off_is_no_finding(encoding: str, cut: int, last: str) -> None:
    """Half a character, or half a pair that makes one."""
    whole = ("\ufeff" + CLEAN.decode().rstrip("\n") + last).encode(encoding)
    report = checked(whole[: len(whole) - cut] if cut else whole)
    wanted = [("FMT_ENCODING", 1)]
    if last[-1] != "\n" and not cut:
        wanted += [("FMT_BAD_LINE", 6)]

    assert rules(report) == wanted


def test_nul_in_utf16_is_no_other_finding() -> None:
    """Nor is what else UTF-16 brings."""
    report = checked(("\ufeff" + CLEAN.decode() + "\n\0\u00e9\n").encode("utf-16-le"))

    assert rules(report) == [("FMT_ENCODING", 1), ("FMT_BAD_LINE", 7)]


def test_nul_bytes_are_found_by_the_line() -> None:
    """One finding a line, with how many."""
    report = checked(CLEAN + b"\n\0\0\0\n\n\0\n")

    nul = [(finding.severity, finding.line, finding.measured) for finding in found(report, "FMT_NUL")]
    assert nul == [("error", 7, 3), ("error", 9, 1)]


def test_bytes_outside_ascii_are_found_by_the_line() -> None:
    """One finding a line, with how many; a word with one is bad too."""
    report = checked(CLEAN.replace(b"942c 942c", b"942c \x80\xe994"))

    (outside,) = found(report, "FMT_ENCODING")
    assert (outside.severity, outside.line, outside.measured) == ("error", 5, 2)
    assert r"\xe9" in found(report, "HEX_BAD_WORD")[0].message


@pytest.mark.parametrize(
    "bad",
    [
        b"Scenarist_SCC V1.0",
        b"00:00:09:00",
        b"00:00:09:00\t",
        b"0:00:09:00\t8080",
        b"00:00:09.00\t8080",
        b"00:00:09:000\t8080",
        b"00:00:09:00x8080",
        b" 00:00:09:00\t8080",
        b"\t2020 2020",
        b"some words",
        b"\xff\xfe\x00",
    ],
)
def test_line_that_is_no_time_code_and_words_is_found(bad: bytes) -> None:
    """It is passed over, and what follows is read."""
    report = checked(CLEAN.replace(b"\n\n00:00:04", b"\n" + bad + b"\n00:00:04"))

    (finding,) = found(report, "FMT_BAD_LINE")
    assert (finding.severity, finding.line) == ("error", 4)
    assert report.cues[0].end_frame == 120


def test_blank_lines_are_no_bad_lines() -> None:
    """Blanks and line ends part captions, however many."""
    assert checked(CLEAN.replace(b"\n\n", b"\n \t \n\n\r\n")).findings == ()


def test_space_for_the_tab_is_found_and_read() -> None:
    """Every such line is one finding; blanks after a tab are none."""
    spaced = checked(CLEAN.replace(b"\t", b"  "))
    assert rules(spaced) == [("FMT_NO_TAB", 3), ("FMT_NO_TAB", 5)]
    assert (spaced.status, texts(spaced)) == ("warn", [("TEXT",)])

    assert checked(CLEAN.replace(b"\t", b"\t  ")).findings == ()
    assert rules(checked(CLEAN.replace(b"\t", b" \t"))) == [("FMT_NO_TAB", 3), ("FMT_NO_TAB", 5)]


def test_file_that_shows_nothing_is_found() -> None:
    """In no channel; a caption in any one is enough."""
    cleared = checked(scc(line("00:00:01:00", twice(EDM))))
    assert rules(cleared) == [("FMT_NO_CAPTIONS", None)]
    assert cleared.status == "fail"

    other = checked(scc(line("00:00:01:00", twice(RDC + 0x900), text("CC4"))))
    assert found(other, "FMT_NO_CAPTIONS") == []


def test_file_over_the_limit_is_refused_by_its_size() -> None:
    """A report without having read it; at the limit it is checked."""
    assert too_large(8_000_000, HOUSE) is None
    report = too_large(8_000_001, HOUSE)

    assert report is not None
    assert (report.status, report.cues, rules(report)) == ("fail", (), [("FMT_TOO_LARGE", None)])
    finding = report.findings[0]
    assert (finding.measured, finding.threshold, finding.unit) == (8_000_001, 8_000_000, "bytes")


@pytest.mark.parametrize(
    "bad", ["9", "94", "94202", "94209420", "942g", "0x94", "+942", "94_2", "\u0660" * 4]
)
def test_word_that_is_not_four_hex_digits_is_found(bad: str) -> None:
    """It says which word of the line, and when it would have gone out."""
    report = checked(CLEAN.decode().replace("942c 942c", f"942c {bad} 942c").encode())

    (finding,) = found(report, "HEX_BAD_WORD")
    assert (finding.severity, finding.line, finding.word, finding.frame) == ("error", 5, 1, 121)
    assert finding.timecode == "00:00:04:00"


@pytest.mark.parametrize("control", [chr(code) for code in range(32) if chr(code) not in "\t\n\r"] + ["\x7f"])
def test_control_byte_parts_no_words(control: str) -> None:
    """Blanks alone do, so two words with any other byte between them, or one with it inside, are one bad word."""
    for spoiled in (f"942c{control}942c", f"94{control}2c", f"{control}942c", f"942c{control}", control):
        report = checked(CLEAN.decode().replace("942c 942c", f"942c {spoiled} 942c").encode())

        (finding,) = found(report, "HEX_BAD_WORD")
        assert (finding.line, finding.word, report.figures.words) == (5, 1, len(SHOW) + 3)
        assert [(nul.line, nul.measured) for nul in found(report, "FMT_NUL")] == [(5, 1)] * (control == "\0")
        assert report.cues[0].end_frame == 120


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x85"])
def test_control_byte_is_no_blank_around_a_line(control: str) -> None:
    """After a time code, before it, or alone in a line, it makes a bad line."""
    label = "00:00:06:00"
    for spoiled in (f"{label}{control}8080", f"{label}\t{control}", f"{control}{label}\t8080", control):
        report = checked(CLEAN + f"{spoiled}\n".encode("latin-1"))

        faults = found(report, "FMT_BAD_LINE") + found(report, "HEX_BAD_WORD")
        assert [fault.line for fault in faults] == [6], spoiled
    assert found(checked(CLEAN.replace(b"\n\n", b"\n\x0c\n")), "FMT_BAD_LINE")[0].line == 2


# Parity


def test_bytes_of_even_parity_are_found_by_the_line() -> None:
    """One finding a line, at its first such word, with how many bytes."""
    report = checked(scc(line("00:00:01:00", SHOW), line("00:00:03:00", ["8080", "0041", "4141", "c1c1"])))

    (finding,) = found(report, "608_PARITY")
    assert (finding.severity, finding.line, finding.word, finding.measured) == ("error", 5, 1, 4)
    assert finding.frame == 91
    assert report.figures.parity_errors == 4


def test_file_without_words_has_no_parity_to_miss() -> None:
    """At least one word that can be read makes it one finding."""
    assert found(checked(HEADER.encode()), "608_PARITY") == []
    assert found(checked(scc(line("00:00:01:00", ["zzzz"]))), "608_PARITY") == []
    assert len(found(checked(scc(line("00:00:01:00", ["2020"], ["zzzz"]))), "608_PARITY")) == 1


@pytest.mark.parametrize("byte", range(0x20, 0x80))
def test_printing_byte_of_even_parity_is_a_block_and_one_finding(byte: int) -> None:
    """Any of the 96, first or second of its word: its own parity decides, and the other byte prints."""
    failed, good = odd(byte) ^ 0x80, odd(ord("A"))
    for pair, shown in ((failed << 8 | good, "█A"), (good << 8 | failed, "A█"), (failed << 8 | failed, "██")):
        load = [*twice(RCL, ENM), *preamble(15), f"{pair:04x}", *text("B"), *twice(EOC)]
        report = checked(scc(line("00:00:01:00", load)))

        assert texts(report) == [(f"{shown}B",)]
        (finding,) = found(report, "608_PARITY")
        assert (finding.word, finding.frame, finding.measured) == (6, 36, shown.count("█"))
