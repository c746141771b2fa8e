"""The rules over cues: time on screen, gaps, rows and colours, each exact at its boundary."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from caption_cues import at, cleared, load, popon, shown
from caption_encoder import (
    CHANNEL_2,
    CR,
    EDM,
    ENM,
    EOC,
    RCL,
    RDC,
    RU2,
    RU4,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import checked, found
from hypothesis import given
from hypothesis import strategies as st

from examples.recipes.caption_qc.check import check, parse
from examples.recipes.caption_qc.check.limits import longest, shortest
from examples.recipes.caption_qc.check.profiles import MOST
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from decimal import Decimal

OVER_CUES = ("LAY_ROWS", "CUE_", "STYLE_", "RATE_")
WHITE = parse(b'name = "white"\ncolours = ["white"]', "white.toml")
YELLOW_ROW, YELLOW, WHITE_AGAIN = 0x146A, 0x112A, 0x1120  # A preamble of row 15, and two mid-row codes.


def tripped(data: bytes) -> list[str]:
    """Give the rules over cues that find something, but CUE_BLANK."""
    return [
        finding.rule
        for finding in checked(data).findings
        if finding.rule.startswith(OVER_CUES) and finding.rule != "CUE_BLANK"
    ]


def painted(start: int, end: int, row: str = "PAINTED") -> bytes:
    words = [*twice(RDC), *preamble(15)]
    return scc(line(at(start - len(words)), words, text(row)), cleared(end))


def rolled(start: int, end: int, row: str = "ROLLED") -> bytes:
    words = [*twice(RU2, CR), *preamble(15)]
    return scc(line(at(start - len(words)), words, text(row)), line(at(end), twice(CR)))


MODES = {"pop-on": lambda start, end: popon((start, end, "POPPED")), "paint-on": painted, "roll-up": rolled}


# Time on screen


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("frames", "wanted"),
    [
        (1, ["CUE_SHORT"]),
        (24, ["CUE_SHORT"]),
        (25, []),
        (209, []),
        (210, ["CUE_LONG"]),
        (479, ["CUE_LONG"]),
        (480, ["CUE_LONG", "CUE_STUCK"]),
    ],
)
def test_time_on_screen_is_judged_to_the_frame(mode: str, frames: int, wanted: list[str]) -> None:
    """25 frames are 0.834 s, 209 are 6.974, 479 are 15.983; a roll-up row may be short or long, not stuck."""
    judged = [rule for rule in tripped(MODES[mode](60, 60 + frames)) if not rule.startswith("RATE_")]

    assert judged == [rule for rule in wanted if mode != "roll-up" or rule == "CUE_STUCK"]


def test_finding_about_a_cue_says_where_it_appears_and_how_long_it_stays() -> None:
    """The line and the word that show it, its number, its channel, and the time against the limit."""
    (finding,) = found(checked(popon((60, 150, "ONE"), (200, 220, "I"))), "CUE_SHORT")

    assert (finding.severity, finding.cue, finding.channel) == ("warn", 2, "CC1")
    assert (finding.line, finding.word, finding.timecode, finding.frame) == (7, 7, "00:00:06:13", 200)
    assert (finding.measured, finding.threshold, finding.unit) == (seconds(20), 5 / 6, "seconds")


def test_cue_of_unknown_end_has_no_length() -> None:
    """No rule invents one, however much of the file follows."""
    assert tripped(scc(shown(60, "STILL HERE"), line(at(2000), ["8080"]))) == []


@pytest.mark.parametrize(("end", "frames"), [(60, 0), (59, -1), (50, -10)])
def test_cue_that_ends_before_it_starts_is_one_finding(end: int, frames: int) -> None:
    """Not short besides, nor too fast to read."""
    data = scc(line(at(60 - 11), load("NEGATIVE"), ["8080"], twice(EOC)), cleared(end))
    report = checked(data)

    assert report.cues[0].start_frame == 60
    (finding,) = found(report, "CUE_ZERO_OR_NEGATIVE")
    assert (finding.severity, finding.measured, finding.unit, finding.cue) == ("error", frames, "frames", 1)
    assert tripped(data) == ["CUE_ZERO_OR_NEGATIVE"]


def test_other_channels_are_not_judged() -> None:
    """A cue of CC2 that is short, and one of CC1 that is not."""
    codes = [code + CHANNEL_2 for code in (RCL, ENM, 0x1470)]
    cc2 = [*twice(*codes), *text("TWO"), *twice(EOC + CHANNEL_2), *["8080"] * 5, *twice(EDM + CHANNEL_2)]
    data = scc(line(at(0), cc2), shown(60, "ONE"), cleared(120))

    assert tripped(data) == []
    cc2_judged = check(data, parse(b'name = "two"\nchannel = "CC2"', "two.toml"))
    assert [(finding.cue, finding.channel) for finding in found(cc2_judged, "CUE_SHORT")] == [(1, "CC2")]


# Gaps


@pytest.mark.parametrize(("gap", "found_gaps"), [(1, [1]), (2, []), (3, [])])
def test_gap_of_one_frame_is_found(gap: int, found_gaps: list[int]) -> None:
    """It is seen as a flicker; two are a gap that the eye accepts."""
    words = load("SECOND")
    second = line(
        at(200 - len(words)), words, ["8080"] * (30 - gap), [word(EDM)], ["8080"] * (gap - 1), twice(EOC)
    )
    report = checked(scc(shown(60, "FIRST"), second, cleared(300)))

    assert [cue.start_frame for cue in report.cues] == [60, 230]
    assert [(finding.measured, finding.cue) for finding in found(report, "CUE_GAP")] == [
        (n, 2) for n in found_gaps
    ]


def test_cues_back_to_back_have_no_gap() -> None:
    """The end of caption that shows the next one takes the last one away."""
    assert found(checked(scc(shown(60, "FIRST"), shown(160, "SECOND"), cleared(250))), "CUE_GAP") == []


def test_text_that_stays_on_screen_leaves_no_gap() -> None:
    """CR moves a row up and RDC erases nothing: the first character a frame later follows text."""
    rows = [[word(CR)], text("FIRST"), ["8080"] * 40, [word(CR)], text("SECOND"), ["8080"] * 40, twice(EDM)]
    bursts = [
        [word(RDC)],
        text("FIRST"),
        ["8080"] * 40,
        [word(RDC)],
        text("SECOND"),
        ["8080"] * 40,
        twice(EDM),
    ]
    for data in (scc(line(at(30), twice(RU4), *rows)), scc(line(at(30), twice(RDC), *bursts))):
        report = checked(data)
        assert report.cues[1].start_frame - (report.cues[0].end_frame or 0) == 1
        assert found(report, "CUE_GAP") == []


def test_profile_sets_the_shortest_gap() -> None:
    """4 frames are enough where 4 are wanted, 3 are not."""
    profile = parse(b'name = "four"\n[rules.CUE_GAP]\nthreshold = 4', "four.toml")
    words = load("SECOND")
    for gap, findings in ((3, 1), (4, 0)):
        second = [*words, *["8080"] * 30, word(EDM), *["8080"] * (gap - 1), *twice(EOC)]
        data = scc(shown(60, "FIRST"), line(at(150), second), cleared(300))
        assert len(found(check(data, profile), "CUE_GAP")) == findings


# Rows


@pytest.mark.parametrize("paint", [False, True])
@pytest.mark.parametrize(
    ("rows", "wanted"),
    [(1, []), (2, []), (3, [("warn", 3, 2)]), (4, [("warn", 4, 2)]), (5, [("error", 5, 4)])],
)
def test_rows_over_two_are_a_warning_and_over_four_an_error(
    rows: int, wanted: list[tuple[str, int, int]], paint: bool
) -> None:
    """Of pop-on and paint-on cues; the threshold is the one that was passed."""
    written = load(*["ROW"] * rows)
    words = [*twice(RDC), *written[4:]] if paint else written
    report = checked(scc(line(at(30), words, [] if paint else twice(EOC)), cleared(200)))

    assert len(report.cues[0].rows) == rows
    findings = found(report, "LAY_ROWS")
    assert [(finding.severity, finding.measured, finding.threshold) for finding in findings] == wanted
    assert {finding.unit for finding in findings} <= {"rows"}


def test_rollup_has_its_depth_for_rows() -> None:
    """Four rows on screen are what RU4 is for."""
    rows = [part for number in range(6) for part in (twice(CR), text(f"ROW {number}"), ["8080"] * 60)]

    assert found(checked(scc(line(at(30), twice(RU4), *rows, twice(EDM)))), "LAY_ROWS") == []


def test_profile_sets_the_rows_and_decoders_set_the_error() -> None:
    """One row wanted: two are a warning. Six wanted: seven are an error."""
    data = {rows: scc(shown(200, *["ROW"] * rows), cleared(400)) for rows in (2, 5, 6, 7)}
    one, six = (parse(b'name = "x"\n[rules.LAY_ROWS]\nthreshold = %d' % most, "x.toml") for most in (1, 6))

    assert [finding.severity for finding in found(check(data[2], one), "LAY_ROWS")] == ["warn"]
    assert [finding.severity for finding in found(check(data[5], one), "LAY_ROWS")] == ["error"]
    assert found(check(data[6], six), "LAY_ROWS") == []
    assert [finding.threshold for finding in found(check(data[7], six), "LAY_ROWS")] == [6]


def test_many_rows_are_listed_the_worst_first() -> None:
    """120 cues of three rows, then one of five: the error is listed, and the rest is counted."""
    three = [part for number in range(120) for part in (shown(200 + 150 * number, "A", "B", "C"),)]
    report = checked(scc(*three, shown(200 + 150 * 120, *"ABCDE"), cleared(200 + 150 * 121)))

    findings = found(report, "LAY_ROWS")
    assert [finding.severity for finding in findings] == ["warn"] * 99 + ["error"] + ["warn"]
    assert (findings[-1].measured, findings[-1].unit, findings[-1].channel) == (121, "findings", "CC1")
    assert report.status == "fail"


# Colours


def coloured(*parts: list[str]) -> bytes:
    return scc(line(at(30), twice(RCL, ENM), *parts, twice(EOC)), cleared(200))


@pytest.mark.parametrize(
    "parts",
    [
        [twice(YELLOW_ROW), text("ALL")],
        [preamble(15), text("HALF"), twice(YELLOW), text("HALF")],
        [preamble(14), text("WHITE"), twice(YELLOW_ROW), text("ROW")],
    ],
)
def test_colour_that_is_not_listed_is_found(parts: list[list[str]]) -> None:
    """In a whole row, in a part of one, in one of two rows; the default lists all."""
    data = coloured(*parts)

    (finding,) = found(check(data, WHITE), "STYLE_COLOUR")
    assert (finding.severity, finding.cue) == ("warn", 1)
    assert "yellow" in finding.message
    assert found(checked(data), "STYLE_COLOUR") == []


@pytest.mark.parametrize(
    "parts",
    [
        [preamble(15), text("PLAIN")],
        [preamble(15), text("A"), twice(YELLOW, WHITE_AGAIN), text("B")],
        [preamble(15), text("WHITE"), twice(YELLOW)],
        [twice(YELLOW_ROW, WHITE_AGAIN), text("WHITE")],
    ],
)
def test_coloured_space_is_no_coloured_text(parts: list[list[str]]) -> None:
    """A mid-row code takes a column of its own, in which nothing is to be seen."""
    assert found(check(coloured(*parts), WHITE), "STYLE_COLOUR") == []


def test_white_may_be_what_a_profile_does_not_list() -> None:
    """Text that no code colours is white."""
    yellow = parse(b'name = "yellow"\ncolours = ["yellow"]', "yellow.toml")

    assert found(check(coloured(twice(YELLOW_ROW), text("YELLOW")), yellow), "STYLE_COLOUR") == []
    (finding,) = found(check(coloured(preamble(15), text("WHITE")), yellow), "STYLE_COLOUR")
    assert "has text in white; the profile lists yellow" in finding.message


# Limits


@given(st.decimals(min_value=0, max_value=MOST, allow_nan=False, places=6))
def test_limit_is_the_decimal_number_that_was_written(limit: Decimal) -> None:
    """The longest time within it and the shortest not under it, in whole frames; they differ by one or none."""
    most, fewest = longest(float(limit)), shortest(float(limit))

    written = Fraction(repr(float(limit)))
    assert Fraction(most * 1001, 30000) <= written < Fraction((most + 1) * 1001, 30000)
    assert Fraction((fewest - 1) * 1001, 30000) < written <= Fraction(fewest * 1001, 30000)


@pytest.mark.parametrize("frames", [30, 480, 3000, 30_000])
def test_time_at_the_limit_is_within_it(frames: int) -> None:
    """1.001 s are 30 frames to the frame, though no binary number is 1.001."""
    limit = frames * 1001 / 30000

    assert (longest(limit), shortest(limit)) == (frames, frames)
    profile = parse(f'name = "x"\n[rules.CUE_LONG]\nthreshold = {limit}'.encode(), "x.toml")
    assert found(check(popon((60, 60 + frames, "A")), profile), "CUE_LONG") == []
    assert len(found(check(popon((60, 61 + frames, "A")), profile), "CUE_LONG")) == 1
