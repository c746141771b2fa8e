"""Styles of characters, and the whole screen around a cue."""

from __future__ import annotations

import pytest
from caption_encoder import (
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
    line,
    preamble,
    scc,
    text,
    twice,
)
from caption_reports import checked

from examples.recipes.caption_qc.check.report import Row, Span, Style
from examples.recipes.caption_qc.check.scc import screens

GREEN, ITALICS = Style("green"), Style(italics=True)


def row_of(*words: list[str], mode: int = RCL) -> Row:
    """Send words to row 15, show them, and give the only row of the only cue."""
    show = twice(EOC) if mode == RCL else []
    (cue,) = checked(scc(line("00:00:01:00", twice(mode, ENM), *words, show))).cues
    (row,) = cue.rows
    return row


# Styles


def test_plain_row_has_no_spans() -> None:
    """White on black needs none, whatever the codes that say so."""
    assert row_of(preamble(15), text("AB")).styles == ()
    assert row_of(twice(0x1460), text("A"), twice(0x1120), text("B")).styles == ()


@pytest.mark.parametrize(
    ("number", "style"),
    [
        (0, Style()),
        (1, Style("green")),
        (2, Style("blue")),
        (3, Style("cyan")),
        (4, Style("red")),
        (5, Style("yellow")),
        (6, Style("magenta")),
        (7, ITALICS),
    ],
)
@pytest.mark.parametrize("underline", [0, 1])
def test_preamble_and_mid_row_code_set_colour_or_italics(number: int, style: Style, underline: int) -> None:
    """By the same three bits; the lowest one underlines."""
    wanted = Style(style.colour, italics=style.italics, underline=bool(underline))
    preamble_row = row_of(twice(0x1460 + 2 * number + underline), text("AB"))
    mid_row = row_of(preamble(15), twice(0x1120 + 2 * number + underline), text("AB"))

    assert preamble_row.styles == (() if wanted == Style() else (Span(1, 2, wanted),))
    assert mid_row.styles == (() if wanted == Style() else (Span(2, 2, wanted),))


def test_indent_underlines_and_is_white() -> None:
    """An indent has no colour."""
    assert row_of(twice(0x1473), text("A")).styles == (Span(5, 1, Style(underline=True)),)


def test_italics_keep_the_colour_and_a_colour_ends_italics() -> None:
    """The column of a mid-row code has the style that it sets."""
    row = row_of(twice(0x1462), text("A"), twice(0x112E), text("B"), twice(0x1128), text("C"))

    assert row.text == "A B C"
    assert row.styles == (
        Span(1, 1, GREEN),
        Span(2, 2, Style("green", italics=True)),
        Span(4, 2, Style("red")),
    )


@pytest.mark.parametrize(
    ("code", "style"),
    [
        (0x1020, Style(background="white")),
        (0x1022, Style(background="green")),
        (0x102D, Style(background="magenta")),
        (0x102E, Style(background="black")),
        (0x172D, Style(background="transparent")),
        (0x172E, Style("black")),
        (0x172F, Style("black", underline=True)),
    ],
)
def test_background_codes_set_the_background_or_black_text(code: int, style: Style) -> None:
    """In the place of the space before them."""
    row = row_of(preamble(15), text("A "), twice(code), text("B"))

    assert row.text == "A B"
    assert row.styles == (() if style == Style() else (Span(2, 2, style),))


def test_flash_lasts_to_the_next_mid_row_code() -> None:
    """Which ends it."""
    row = row_of(preamble(15), twice(FON), text("A"), twice(0x112E), text("B"))

    assert row.styles == (Span(2, 1, Style(flash=True)), Span(3, 2, ITALICS))


def test_styles_end_with_the_row() -> None:
    """At the next preamble, and at a CR."""
    load = [*twice(RCL, ENM, 0x1448), *text("UP"), *preamble(15), *text("DOWN"), *twice(EOC)]
    popon = checked(scc(line("00:00:01:00", load)))
    roll = [*twice(RU2, CR, 0x146E), *text("ONE"), *twice(CR), *text("TWO")]
    rollup = checked(scc(line("00:00:01:00", roll)))

    assert [[row.styles for row in cue.rows] for cue in popon.cues] == [[(Span(1, 2, Style("red")),), ()]]
    assert [row.styles for cue in rollup.cues for row in cue.rows] == [(Span(1, 3, ITALICS),), ()]


def test_what_overwrites_and_what_erases_takes_the_style_away() -> None:
    """A style is that of the character that stands there."""
    coloured = [*twice(0x1462), *text("ABCD")]

    assert row_of(coloured, preamble(15), text("xy")).styles == (Span(3, 2, GREEN),)
    assert row_of(coloured, twice(BS, BS), text("C")).styles == (Span(1, 3, GREEN),)
    assert row_of(coloured, preamble(15), twice(DER), text("x")).styles == ()
    assert row_of(coloured, twice(0x1221)).styles == (Span(1, 4, GREEN),)


def test_spans_are_of_the_visible_text_alone() -> None:
    """Coloured spaces around it are no part of the row."""
    assert row_of(twice(0x1462), text("  AB  ")).styles == (Span(3, 2, GREEN),)


def test_past_column_32_the_last_style_stands() -> None:
    """With the last character."""
    row = row_of(preamble(15), text("A" * 32), twice(0x1122), text("x"))

    assert (row.text, row.styles) == ("A" * 31 + "x", (Span(32, 1, GREEN),))


def test_painted_and_rolled_text_has_styles_too() -> None:
    """Also after its row has moved."""
    rolled = [*twice(RU2, CR), *preamble(15), *text("UP"), *preamble(5), *twice(0x1542), *text("GO")]
    (cue,) = checked(scc(line("00:00:01:00", rolled))).cues

    assert row_of(twice(0x1462), text("AB"), mode=RDC).styles == (Span(1, 2, GREEN),)
    assert [(row.row, row.text, row.styles) for row in cue.rows] == [(5, "GO", (Span(1, 2, GREEN),))]


# Screens


def shown(data: bytes) -> list[list[tuple[int, str]]]:
    cues = checked(data).cues
    whole = screens(data)
    assert len(whole) == len(cues)
    assert all(set(cue.rows) <= set(screen) for cue, screen in zip(cues, whole, strict=True))
    return [[(row.row, row.text) for row in screen] for screen in whole]


def test_screen_of_a_popon_cue_is_its_rows() -> None:
    """Nothing else stands there."""
    load = [*twice(RCL, ENM), *preamble(14), *text("A"), *preamble(15), *text("B"), *twice(EOC)]

    assert shown(scc(line("00:00:01:00", load), line("00:00:05:00", twice(EDM)))) == [[(14, "A"), (15, "B")]]


def test_screen_of_a_rollup_cue_has_the_rows_above() -> None:
    """As many as roll, just before the next CR."""
    rows = [word for name in ("ONE", "TWO", "THREE", "FOUR") for word in [*twice(CR), *text(name)]]

    assert shown(scc(line("00:00:01:00", twice(RU3), rows))) == [
        [(15, "ONE")],
        [(14, "ONE"), (15, "TWO")],
        [(13, "ONE"), (14, "TWO"), (15, "THREE")],
        [(13, "TWO"), (14, "THREE"), (15, "FOUR")],
    ]


def test_screen_of_a_painton_cue_has_what_stood_there() -> None:
    """The burst, and the text under it."""
    popon = [*twice(RCL, ENM), *preamble(14), *text("POP"), *twice(EOC)]
    burst = [*twice(RDC), *preamble(15), *text("PAINT")]

    assert shown(scc(line("00:00:01:00", popon, burst), line("00:00:05:00", twice(EDM)))) == [
        [(14, "POP")],
        [(14, "POP"), (15, "PAINT")],
    ]


def test_screens_leave_out_what_is_no_cue() -> None:
    """What a wipe left over, and the next one took: it was on screen in the cue before."""
    painted = [*twice(RDC), *preamble(14), *text("A"), *preamble(15), *text("B")]
    wiped = [*preamble(14), *twice(DER), *preamble(15), *twice(DER), *text("C")]

    assert shown(scc(line("00:00:01:00", painted, wiped))) == [[(14, "A"), (15, "B")], [(15, "C")]]


def test_screen_of_a_cue_that_was_wiped_is_the_one_before() -> None:
    """With the rows above it, whatever wiped it, and whoever wrote them."""
    rolled = [*twice(RU2, CR), *preamble(15), *text("UP"), *twice(CR), *text("WIPED"), *twice(BS, BS)]
    painted = [
        *twice(RDC),
        *preamble(1),
        *text("OLD"),
        *twice(RDC),
        *preamble(2),
        *text("NEW"),
        *twice(BS, BS),
    ]

    assert shown(scc(line("00:00:01:00", rolled, preamble(15), twice(DER))))[-1] == [
        (14, "UP"),
        (15, "WIPED"),
    ]
    assert shown(scc(line("00:00:01:00", painted, twice(BS))))[-1] == [(1, "OLD"), (2, "NEW")]
