"""What findings add up to: true counts, and what is said of the whole file before the rest."""

from __future__ import annotations

from caption_cues import CLEAN, SHOW
from caption_encoder import line, scc
from caption_reports import checked

from examples.recipes.caption_qc.check.tally import Tally, is_of_file, tally


def test_what_is_not_listed_is_counted() -> None:
    """By the finding that says how many there were, and that is no finding of its own."""
    report = checked(scc(line("00:00:01:00", SHOW, ["zz"] * 205)))
    assert sum(finding.rule == "HEX_BAD_WORD" for finding in report.findings) == 101
    assert tally(report.findings)[0] == Tally("error", "HEX_BAD_WORD", 205, of_file=False)


def test_the_whole_file_comes_before_places_and_errors_before_warnings() -> None:
    """However many there are: a file without captions has little else to say."""
    report = checked(b"x\n\n" + b"bad\n" * 300 + b"00:00:01:00 8080\n")
    assert [(found.severity, found.rule, found.count, found.of_file) for found in tally(report.findings)] == [
        ("error", "FMT_HEADER", 1, True),
        ("error", "FMT_NO_CAPTIONS", 1, True),
        ("error", "FMT_BAD_LINE", 300, False),
        ("warn", "FMT_NO_TAB", 1, False),
    ]


def test_each_severity_of_a_rule_is_counted_apart() -> None:
    """What is not listed counts as the finding that sums it up."""
    report = checked(scc(*(line(f"00:00:{n:02}:00", SHOW, ["zz"] * n) for n in range(1, 30))))
    counts = {(found.severity, found.rule): found.count for found in tally(report.findings)}
    assert counts["error", "HEX_BAD_WORD"] == sum(range(1, 30))
    assert tally(()) == []


def test_a_file_without_parity_or_of_another_encoding_is_the_whole_file() -> None:
    """One byte that is not ASCII has a place, and so has a byte of even parity."""
    utf16 = b"\xff\xfe" + CLEAN.decode().encode("utf-16-le")
    cases = {utf16: True, CLEAN.replace(b"V1.0", b"V1.0\n\n\xe9"): False}
    for data, whole in cases.items():
        (found,) = (finding for finding in checked(data).findings if finding.rule == "FMT_ENCODING")
        assert is_of_file(found) is whole
