"""Text that is wiped off the screen was shown, and whether the screen was blank between two cues."""

from __future__ import annotations

import pytest
from caption_cues import cleared, load
from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    DER,
    EDM,
    EOC,
    RCL,
    RDC,
    RU2,
    RU3,
    TO2,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import checked, found, texts, times

from examples.recipes.caption_qc.check import check, parse

P14, P15 = preamble(14), preamble(15)
HELLO = text("Hello.")
WIPES = {
    "DER": [*P15, *twice(DER)],
    "backspaces": twice(*[BS] * 6),
    "spaces": [*P15, *text("      ")],
    "mid-row codes": [*P15, *[*twice(0x1120), "8080"] * 6],
    "background codes": [*P15, *(twice(0x1020) + text("  ")) * 6],
}
MODES = {"paint-on": twice(RDC), "roll-up": twice(RU2, CR)}


def shows(report_of: bytes) -> list[tuple[tuple[str, ...], tuple[int, int | None]]]:
    """Give rows and frames of every cue."""
    report = checked(report_of)
    return list(zip(texts(report), times(report), strict=True))


# Wipes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wipe", WIPES)
def test_text_that_is_wiped_was_shown(mode: str, wipe: str) -> None:
    """It ends where nothing of it is left, with the text as it stood before the wipe; the file has captions."""
    start = 30 + len([*MODES[mode], *P15])
    words = WIPES[wipe]
    data = scc(line("00:00:01:00", MODES[mode], P15, HELLO), line("00:00:04:00", words), cleared(180))
    report = checked(data)

    assert texts(report) == [("Hello.",)]
    ((begin, end),) = times(report)
    assert begin == start
    assert 120 <= (end or 0) < 120 + len(words)
    assert found(report, "FMT_NO_CAPTIONS") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wipe", ["DER", "backspaces", "spaces"])
def test_what_is_written_after_a_wipe_is_another_cue(mode: str, wipe: str) -> None:
    """With its own frames, from its first visible character."""
    lines = [
        line("00:00:01:00", MODES[mode], P15, HELLO),
        line("00:00:04:00", WIPES[wipe], P15, text("World")),
        line("00:00:06:00", twice(CR if mode == "roll-up" else EDM), text("Next")),
    ]
    (first, second, third) = shows(scc(*lines, cleared(240)))

    assert [cue[0] for cue in (first, second, third)] == [("Hello.",), ("World",), ("Next",)]
    assert second[1] == (120 + len([*WIPES[wipe], *P15]), 180)
    assert (first[1][1] or 0) <= second[1][0]


def test_wipe_of_another_channel_is_that_channels() -> None:
    """Each has its own screen."""
    others = [code + CHANNEL_2 for code in (RDC, 0x1470)]
    two = [*twice(*others), *HELLO, *twice(0x1470 + CHANNEL_2, DER + CHANNEL_2), *twice(EDM + CHANNEL_2)]
    data = scc(line("00:00:01:00", twice(RDC), P15, text("ONE"), two), cleared(180))

    assert [(cue.channel, cue.rows[0].text) for cue in checked(data).cues] == [
        ("CC1", "ONE"),
        ("CC2", "Hello."),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("typed", "row"),
    [
        ([*text("HELO"), *twice(BS), *text("LO")], "HELLO"),
        ([*text("HXXX"), *twice(BS, BS, BS), *text("ELLO")], "HELLO"),
        ([*text("HELLO WORD"), *preamble(15, 5), *twice(TO2, DER), *text("WORLD")], "HELLO WORLD"),
        ([*text("AB"), *P15, *text(" "), *text("B"), *P15, *text("A")], "AB"),
        ([*text("AXB"), *preamble(15), *twice(0x1721), *text(" ")], "A B"),
    ],
)
def test_correction_that_leaves_something_in_the_row_ends_no_cue(
    mode: str, typed: list[str], row: str
) -> None:
    """It is typing."""
    report = checked(scc(line("00:00:01:00", MODES[mode], P15, typed), cleared(180)))

    assert texts(report) == [(row,)]
    assert times(report)[0][1] == 180


def test_rows_that_a_wipe_leaves_are_another_cue() -> None:
    """The screen shows other text from then on."""
    painted = line("00:00:01:00", twice(RDC), P14, text("UP"), P15, text("DOWN"))
    data = scc(painted, line("00:00:04:00", P14, twice(DER)), cleared(180))
    again = scc(painted, line("00:00:04:00", P14, twice(DER), text("NEW!")), cleared(180))

    assert shows(data) == [(("UP", "DOWN"), (34, 122)), (("DOWN",), (122, 180))]
    assert shows(again) == [(("UP", "DOWN"), (34, 122)), (("NEW!", "DOWN"), (122, 180))]


def test_rows_wiped_one_after_the_other_are_one_cue() -> None:
    """What is left of it for a few frames of one line is no cue; what stands by itself until a later line is."""
    painted = line("00:00:01:00", twice(RDC), P14, text("UP"), P15, text("DOWN"))
    at_once = scc(painted, line("00:00:04:00", P14, twice(DER), P15, twice(DER)), cleared(180))
    apart = scc(
        painted, line("00:00:04:00", P14, twice(DER)), line("00:00:06:00", P15, twice(DER)), cleared(240)
    )

    assert shows(at_once) == [(("UP", "DOWN"), (34, 122))]
    assert [finding.rule for finding in checked(at_once).findings if finding.cue] == []
    assert shows(apart) == [(("UP", "DOWN"), (34, 122)), (("DOWN",), (122, 182))]


def test_wipe_of_what_is_loaded_ends_nothing_on_screen() -> None:
    """Pop-on codes act on the hidden memory."""
    first = line("00:00:01:00", load("FIRST"), twice(EOC))
    data = scc(
        first, line("00:00:03:00", load("GONE"), P15, twice(DER), text("NEXT"), twice(EOC)), cleared(240)
    )

    assert texts(checked(data)) == [("FIRST",), ("NEXT",)]


@pytest.mark.parametrize("mode", MODES)
def test_text_as_it_stood_is_what_the_typing_came_to(mode: str) -> None:
    """A correction on the way is no part of it."""
    typed = [*text("HXX"), *twice(BS), "8080", *twice(BS), *text("ELLO")]
    data = scc(
        line("00:00:01:00", MODES[mode], P15, typed), line("00:00:04:00", P15, twice(DER)), cleared(180)
    )

    assert texts(checked(data)) == [("HELLO",)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("spaces", "over"), [(6, 2), (7, 2), (20, 2), (32, 2)])
def test_spaces_wipe_with_the_one_over_the_last_character(mode: str, spaces: int, over: int) -> None:
    """The third word of two is over `o.`; what follows it changes nothing."""
    data = scc(
        line("00:00:01:00", MODES[mode], P15, HELLO),
        line("00:00:04:00", P15, text(" " * spaces)),
        cleared(180),
    )

    assert times(checked(data))[0][1] == 120 + len(P15) + over


# Blank between two cues


GAP_MODES = {
    "paint-on": [*twice(RDC), *P15, *HELLO],
    "roll-up": [*twice(RU2, CR), *P15, *HELLO],
    "pop-on": [*twice(RCL), *P15, *HELLO, *twice(EOC)],
}


def gaps(*lines: str) -> list[float | None]:
    return [finding.measured for finding in found(checked(scc(*lines, cleared(300))), "CUE_GAP")]


@pytest.mark.parametrize("mode", GAP_MODES)
@pytest.mark.parametrize(("blank", "wanted"), [(1, [1]), (2, []), (3, [])])
def test_one_blank_frame_is_a_gap_in_every_mode(mode: str, blank: int, wanted: list[int]) -> None:
    """EDM clears the screen whatever the mode, and so do the codes that come before paint-on or roll-up text."""
    resumed = [word(RDC)] if mode == "pop-on" else []
    cleared_for = [*resumed, word(EDM), *["8080"] * (blank - 1), *text("There.")]

    assert gaps(line("00:00:01:00", GAP_MODES[mode]), line("00:00:03:00", cleared_for)) == wanted


@pytest.mark.parametrize("mode", MODES)
def test_wipe_of_all_that_shows_leaves_the_screen_blank(mode: str) -> None:
    """A frame of it is a gap; where something else still shows there is none."""
    wipe = line("00:00:03:00", P15, [word(DER)], text("There."))
    above = [*twice(RDC), *P14, *text("UP"), *twice(RDC)] if mode == "paint-on" else []
    above = above or [*twice(RU2, CR), *P15, *text("UP"), *twice(CR)]

    assert gaps(line("00:00:01:00", GAP_MODES[mode]), wipe) == [1]
    assert gaps(line("00:00:01:00", above, P15, HELLO), wipe) == []


def test_old_text_that_a_burst_wipes_leaves_the_screen_blank() -> None:
    """RDC ended its cue, and DER takes it away."""
    wipe = line("00:00:03:00", twice(RDC), P15, [word(DER)], text("There."))

    assert gaps(line("00:00:01:00", GAP_MODES["pop-on"]), wipe) == [1]


def test_last_row_that_rolls_out_leaves_the_screen_blank() -> None:
    """Two carriage returns with two rows, three with three."""
    for mode, returns in ((RU2, 2), (RU3, 3)):
        first = line("00:00:01:00", twice(mode, CR), P15, HELLO)
        out = [*[word(CR), "8080"] * (returns - 1), word(CR), *text("There.")]
        assert gaps(first, line("00:00:03:00", out)) == [1]
        assert gaps(first, line("00:00:03:00", out[2:])) == []


def test_mode_that_erases_nothing_leaves_no_gap() -> None:
    """RDC ends a pop-on cue, RCL none; the text is there until the EOC that shows the next."""
    first = line("00:00:01:00", load("FIRST"), twice(EOC))
    for codes in ([word(RDC), word(EOC)], [word(RDC), "8080", word(EOC)], [word(RCL), word(EOC)]):
        assert gaps(first, line("00:00:03:00", load("SECOND")), line("00:00:05:00", codes)) == []


def test_empty_end_of_caption_leaves_the_screen_blank() -> None:
    """For the frames until text shows again: two, in pop-on and by what is painted."""
    wide = parse(b'name = "wide"\n[rules.CUE_GAP]\nthreshold = 9', "wide.toml")
    first = line("00:00:01:00", load("FIRST"), twice(EOC))
    for after in ([word(EOC), "8080", word(EOC)], [word(EOC), word(RDC), *text("NEXT")]):
        report = check(scc(first, line("00:00:04:00", after), cleared(300)), wide)
        assert [finding.measured for finding in found(report, "CUE_GAP")] == [2]


def test_rollup_from_another_mode_leaves_the_screen_blank() -> None:
    """RU clears what was there."""
    for mode in ("pop-on", "paint-on"):
        assert gaps(line("00:00:01:00", GAP_MODES[mode]), line("00:00:03:00", [word(RU2)], text("NEXT"))) == [
            1
        ]


def test_screen_is_blank_from_the_first_of_several_codes_that_clear_it() -> None:
    """A second EDM a frame before the text makes no gap of one frame."""
    clearing = line("00:00:03:00", [word(EDM)], ["8080"] * 20, [word(EDM)], text("There."))

    assert gaps(line("00:00:01:00", GAP_MODES["paint-on"]), clearing) == []


def test_gap_is_that_of_its_own_cue_where_others_were_none() -> None:
    """What a wipe left over for the next one is not among the cues."""
    painted = line("00:00:01:00", twice(RDC), P14, text("UP"), P15, text("DOWN"))
    wiped = line("00:00:04:00", P14, twice(DER), P15, [word(DER)], text("There."))
    report = checked(scc(painted, wiped, cleared(240)))

    assert texts(report) == [("UP", "DOWN"), ("There.",)]
    assert [(finding.measured, finding.cue) for finding in found(report, "CUE_GAP")] == [(1, 2)]


def test_gap_of_another_channel_is_that_channels() -> None:
    """A screen of its own, and not the one that is judged."""
    paint, preamble_15, clear = (code + CHANNEL_2 for code in (RDC, 0x1470, EDM))
    two = [*twice(paint, preamble_15), *HELLO, *["8080"] * 20, word(clear), *text("There."), *twice(clear)]

    assert gaps(line("00:00:01:00", GAP_MODES["paint-on"]), line("00:00:03:00", two)) == []


def test_blank_before_the_first_text_is_no_gap() -> None:
    """Nothing was there to be missed."""
    assert gaps(line("00:00:01:00", twice(RDC), [word(EDM)], HELLO)) == []
