"""The rules of format, words, time codes and parity: each finds its fault, its neighbour finds none."""

from __future__ import annotations

import pytest
from caption_encoder import (
    EDM,
    ENM,
    EOC,
    HEADER,
    RCL,
    RDC,
    RU2,
    labels,
    line,
    odd,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import HOUSE, checked, found, rules, texts

from examples.recipes.caption_qc.check import check, parse, too_large

SHOW = [*twice(RCL, ENM), *preamble(15), *text("TEXT"), *twice(EOC)]
SHOWN = [*SHOW, *["8080"] * 25, *twice(EDM)]
CLEAN = scc(line("00:00:01:00", SHOW), line("00:00:04:00", twice(EDM)))


def padded(timecode: str, words: int = 1) -> str:
    """Write a line of padding: its time code is all that matters."""
    return line(timecode, ["8080"] * words)


def timed(*timecodes: str) -> bytes:
    """Write a file that shows a caption for 27 frames at its start, then lines at these time codes."""
    return scc(line("00:00:00:00", SHOWN), *(padded(timecode) for timecode in timecodes))


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


# Time codes


@pytest.mark.parametrize(
    ("timecode", "value", "greatest"),
    [("00:00:01:30", 30, 29), ("00:00:60:00", 60, 59), ("00:60:00;00", 60, 59), ("24:00:00:00", 24, 23)],
)
def test_label_out_of_range_is_one_finding_and_no_other(timecode: str, value: int, greatest: int) -> None:
    """It is counted as written, and the lines around it are compared with each other."""
    report = checked(
        timed("00:00:01:00").replace(b"00:00:01:00", timecode.encode()) + b"\n00:00:02:00\t8080\n"
    )

    (finding,) = found(report, "TC_RANGE")
    assert (finding.severity, finding.line) == ("error", 5)
    assert (finding.measured, finding.threshold) == (value, greatest)
    others = {"TC_MIXED_DF_NDF"} if ";" in timecode else set()
    assert {rule for rule, _ in rules(report)} - {"TC_RANGE"} == others


def test_greatest_label_is_in_range() -> None:
    """23:59:59:29 exists."""
    assert found(checked(timed("23:59:59:29")), "TC_RANGE") == []


def test_line_before_the_line_above_is_backward() -> None:
    """One finding, though its words overlap too; what follows is measured against it."""
    report = checked(timed("00:00:05:00", "00:00:03:00", "00:00:04:00"))

    assert rules(report) == [("TC_BACKWARD", 7)]
    assert (report.findings[0].severity, report.findings[0].measured) == ("error", 60)


def test_line_at_the_frame_of_the_line_above_is_a_duplicate() -> None:
    """By the frame, not by the label: a dropped label is that of two frames before."""
    report = checked(timed("00:00:05:00", "00:00:05:00"))
    assert [(finding.rule, finding.line) for finding in found(report, "TC_DUPLICATE")] == [
        ("TC_DUPLICATE", 7)
    ]
    assert found(report, "TC_DUPLICATE")[0].severity == "warn"
    assert found(report, "TC_BACKWARD") == []

    dropped = checked(timed("00:00:59;28", "00:01:00;00"))
    assert len(found(dropped, "TC_DUPLICATE")) == 1


@pytest.mark.parametrize(
    ("mode", "severity"), [(twice(RCL), "error"), (twice(RU2), "warn"), (twice(RDC), "warn"), ([], "warn")]
)
def test_overlap_counts_the_missing_frames(mode: list[str], severity: str) -> None:
    """An error where the mode is pop-on, a warning elsewhere."""
    above = line("00:00:01:00", mode, ["8080"] * (20 - len(mode)))
    missing = {
        following: [
            (finding.severity, finding.line, finding.measured)
            for finding in found(checked(scc(above, padded(following))), "TC_LOAD_OVERLAP")
        ]
        for following in ("00:00:01:19", "00:00:01:20", "00:00:01:00")
    }

    assert missing == {
        "00:00:01:19": [(severity, 5, 1)],
        "00:00:01:20": [],
        "00:00:01:00": [(severity, 5, 20)],
    }


def test_overlap_is_judged_by_the_mode_of_the_line_above() -> None:
    """It is that line's caption that is late."""
    popon, rollup = twice(RCL, 0x1470, ENM, ENM), twice(RU2, 0x1470, 0x1470, 0x1470)
    for above, below, severity in ((popon, rollup, "error"), (rollup, popon, "warn")):
        report = checked(scc(line("00:00:01:00", above), line("00:00:01:05", below)))
        assert [finding.severity for finding in found(report, "TC_LOAD_OVERLAP")] == [severity]


def test_first_hour_that_is_not_0_is_noted() -> None:
    """Programmes often start at hour 1 or 10; once a file."""
    report = checked(scc(line("10:00:01:00", SHOW), line("10:00:04:00", twice(EDM))))

    assert rules(report) == [("TC_HOUR_OFFSET", 3)]
    assert (report.status, report.findings[0].measured) == ("pass", 10)


def test_dropped_labels_are_found_and_others_are_not() -> None:
    """Frames 00 and 01 of a minute that ten does not divide; only in drop-frame."""
    report = checked(
        timed("00:00:59;29", "00:01:00;00", "00:01:00;02", "00:02:00;01", "00:10:00;00", "00:11:00:00")
    )

    assert [finding.line for finding in found(report, "TC_DROPPED_FRAME_LABEL")] == [7, 11]
    assert {finding.severity for finding in found(report, "TC_DROPPED_FRAME_LABEL")} == {"error"}


def test_two_time_bases_are_one_finding() -> None:
    """At the first line that differs, with how many do."""
    report = checked(timed("00:00:04;00", "00:00:05:00", "00:00:06;00"))

    (finding,) = found(report, "TC_MIXED_DF_NDF")
    assert (finding.severity, finding.line, finding.measured) == ("error", 5, 2)
    assert report.figures.time_base == "mixed"


def test_jump_is_over_ten_minutes() -> None:
    """17,982 frames are 599.999 s, one more is over the limit."""
    at = list(labels([0], drop=False))
    assert found(checked(timed(at[17_982])), "TC_JUMP") == []
    report = checked(timed(at[17_983]))

    assert rules(report) == [("TC_JUMP", 5)]
    jump = report.findings[0]
    assert (jump.severity, jump.threshold, jump.unit) == ("warn", 600, "seconds")
    assert jump.measured == pytest.approx(600.0328, abs=1e-4)


@pytest.mark.parametrize(("lines", "frame", "findings"), [(50, 23, 1), (49, 23, 0), (50, 24, 0)])
def test_fifty_lines_without_a_frame_over_23_are_suspect(lines: int, frame: int, findings: int) -> None:
    """The file may count 24 or 25 frames a second."""
    timecodes = [f"00:00:{second:02}:{frame if second == 1 else second % 24:02}" for second in range(lines)]
    report = checked(scc(*map(padded, timecodes)))

    suspect = found(report, "TC_FRAME_RATE")
    assert len(suspect) == findings
    assert [(finding.severity, finding.measured, finding.line) for finding in suspect] == [
        ("warn", 23, None)
    ] * findings


def test_jump_compares_whole_frames() -> None:
    """1,001 s are 30,000 frames to the frame: at the limit there is no finding; a limit of 0 finds every line."""
    at = list(labels([0], drop=False))
    profile = {
        limit: parse(f'name="x"\n[rules.TC_JUMP]\nthreshold={limit}'.encode(), "x") for limit in (0, 1001)
    }

    assert found(check(timed(at[30_000]), profile[1001]), "TC_JUMP") == []
    assert len(found(check(timed(at[30_001]), profile[1001]), "TC_JUMP")) == 1
    assert len(found(check(timed(at[20], at[21]), profile[0]), "TC_JUMP")) == 2


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


# What is reported


def test_findings_are_listed_in_the_order_of_the_file() -> None:
    """By line, then by word; what has no place comes last."""
    report = checked(b"x\n\nbad\n00:00:05:00 zz 4141 yy c1c1\n00:00:04:00\t8080\n")

    places = [(finding.line, finding.word) for finding in report.findings]
    assert places == sorted(places, key=lambda place: (place[0] or 99, -1 if place[1] is None else place[1]))
    assert rules(report) == [
        ("FMT_HEADER", 1),
        ("FMT_BAD_LINE", 3),
        ("FMT_NO_TAB", 4),
        ("HEX_BAD_WORD", 4),
        ("608_PARITY", 4),
        ("608_TEXT_NO_MODE", 4),
        ("HEX_BAD_WORD", 4),
        ("TC_BACKWARD", 5),
        ("FMT_NO_CAPTIONS", None),
    ]


@pytest.mark.parametrize(("faults", "listed"), [(100, 100), (101, 101), (250, 101)])
def test_a_hundred_findings_of_a_rule_are_listed_and_the_rest_counted(faults: int, listed: int) -> None:
    """One more finding says how many there were, and is as severe."""
    findings = found(checked(scc(line("00:00:01:00", SHOW, ["zz"] * faults))), "HEX_BAD_WORD")

    assert len(findings) == listed
    assert [finding.word for finding in findings[:100]] == list(range(len(SHOW), len(SHOW) + 100))
    if faults > 100:
        assert (findings[-1].measured, findings[-1].severity, findings[-1].line) == (faults, "error", None)


def overlapping(mode: list[str], overlaps: int, minute: int) -> list[str]:
    """Write so many overlaps of lines of a mode, and one line that comes in time."""
    clocks = [f"00:{minute:02}:{number // 25:02}:{number % 25:02}" for number in range(overlaps + 1)]
    return [*(line(clock, mode, ["8080"] * 20) for clock in clocks), padded(f"00:{minute:02}:30:00")]


@pytest.mark.parametrize("warnings", [99, 100, 104, 300])
@pytest.mark.parametrize("errors", [1, 2])
def test_error_after_a_hundred_warnings_decides_the_status(warnings: int, errors: int) -> None:
    """Errors are listed before warnings; in the file's order, as all findings are."""
    rollups = overlapping(twice(RU2), warnings, minute=1)
    report = checked(scc(*rollups, *overlapping(twice(RCL), errors, minute=2)))

    overlaps = found(report, "TC_LOAD_OVERLAP")
    more = warnings + errors > 100
    assert report.status == "fail"
    assert [finding.severity for finding in overlaps] == [
        *["warn"] * min(warnings, 100 - errors),
        *["error"] * errors,
        *["warn"] * more,
    ]
    if more:
        assert (overlaps[-1].line, overlaps[-1].measured) == (None, warnings + errors)


def test_errors_that_are_not_listed_make_the_summary_an_error() -> None:
    """What is left out is as severe as the worst of it; a warning more does not make it milder."""
    report = checked(scc(*overlapping(twice(RCL), 150, 1), *overlapping(twice(RU2), 150, 2)))

    overlaps = found(report, "TC_LOAD_OVERLAP")
    assert [finding.severity for finding in overlaps] == ["error"] * 101
    assert (overlaps[-1].measured, report.status) == (300, "fail")


@pytest.mark.parametrize("faults", [100, 101, 102, 300])
@pytest.mark.parametrize(
    "bad", ["x", "\0", "00:00:09:29 8080", "25:00:00:29\t8080", "00:00:09:29\tzz", "\xff"]
)
def test_every_rule_counts_what_it_does_not_list(bad: str, faults: int) -> None:
    """Whatever the rule, so many lines are so many findings, and one more record says how many."""
    report = checked(CLEAN + (bad + "\n").encode("latin-1") * faults)

    counted = {name: found(report, name) for name, _ in rules(report)}
    for name, findings in counted.items():
        listed = [finding.line for finding in findings if finding.unit != "findings"]
        summary = [finding.measured for finding in findings if finding.unit == "findings"]
        count = faults - (
            name in {"TC_DUPLICATE", "TC_LOAD_OVERLAP"}
        )  # They compare a line with the one above.
        assert len(set(listed)) == len(listed) == min(count, 100), name
        assert summary == [count] * (count > 100), name
    assert {"FMT_BAD_LINE", "FMT_NO_TAB", "TC_RANGE", "HEX_BAD_WORD"} & set(counted)


def test_messages_are_one_printable_line() -> None:
    """What a file holds is quoted, and cut short."""
    report = checked(b"\x1b[31m\x07" * 30 + b"\n<script>\n00:00:01:00\t" + b"\xff" * 500)

    for finding in report.findings:
        assert finding.message.isprintable()
        assert finding.message.isascii()
        assert len(finding.message) < 250


def test_equal_bytes_give_an_equal_report() -> None:
    """The checker keeps nothing between files."""
    faulty = CLEAN.replace(b"942c", b"942d")
    first = checked(faulty)
    checked(CLEAN)

    assert checked(faulty) == first


def test_profile_sets_severity_and_threshold() -> None:
    """Both are the profile's where it names them; the report names the profile."""
    profile = parse(
        b'name = "strict"\n[rules.TC_JUMP]\nseverity = "error"\nthreshold = 2.5\n'
        b'[rules.TC_LOAD_OVERLAP]\nseverity = "info"\nthreshold = 5\n[rules.FMT_NO_TAB]\nseverity = "info"\n',
        "strict.toml",
    )
    late, early = line("00:00:04:00", ["8080"] * 20), padded("00:00:04:16")
    report = check(scc(line("00:00:00:00", SHOWN), late, early).replace(b"\t", b" "), profile)

    assert [(finding.rule, finding.severity, finding.threshold) for finding in report.findings] == [
        ("FMT_NO_TAB", "info", None),
        ("FMT_NO_TAB", "info", None),
        ("TC_JUMP", "error", 2.5),
        ("FMT_NO_TAB", "info", None),
    ]
    assert (report.profile, report.profile_sha256) == ("strict", profile.sha256)


# Figures


def test_figures_count_what_the_file_holds() -> None:
    """Frames to the last word, words of the stream, and the cues of the profile's channel."""
    other = line("00:00:03;00", twice(RDC + 0x800), text("CC2 IS LONGER"))
    rolled = line("00:00:05;00", twice(RU2), preamble(15), text("ROLL"))
    painted = line("00:00:06;00", twice(RDC), preamble(14), text("PA"), preamble(15), text("INT"))
    data = scc(line("00:00:01;00", SHOW), other, rolled, painted)
    figures = checked(data).figures

    assert (figures.time_base, figures.first_tc, figures.last_tc) == ("df", "00:00:01;00", "00:00:06;00")
    assert (figures.duration_frames, figures.words) == (150 + 9, 10 + 9 + 6 + 9)
    assert (figures.cues, figures.mode_pop, figures.mode_roll, figures.mode_paint) == (3, 1, 1, 1)
    assert (figures.max_rows, figures.max_cols) == (2, 4)

    cc2 = check(data, parse(b'name = "cc2"\nchannel = "CC2"', "cc2.toml")).figures
    assert (cc2.cues, cc2.mode_paint, cc2.max_rows, cc2.max_cols) == (1, 1, 1, 13)


def test_file_without_lines_has_no_figures() -> None:
    """Counts are 0, all else is unknown."""
    figures = checked(b"").figures

    assert (figures.cues, figures.words, figures.parity_errors) == (0, 0, 0)
    assert (figures.first_tc, figures.last_tc, figures.duration_frames, figures.max_rows) == (None,) * 4
