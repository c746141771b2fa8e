"""What a control code means.

Without parity, a control code's first byte is 10 to 1f: bit 3 says which channel of its field the code is
for, the lower three bits and the second byte say which code it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, auto
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.report import PLAIN, Style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Op(StrEnum):
    """The kinds of control code that act. Text, since that is hashed once."""

    RESUME_LOADING = auto()  # RCL
    BACKSPACE = auto()  # BS
    ALARM = auto()  # AOF and AON: without effect
    DELETE_TO_END = auto()  # DER
    ROLL_UP = auto()  # RU2, RU3, RU4
    FLASH_ON = auto()  # FON
    RESUME_DIRECT = auto()  # RDC
    TEXT_MODE = auto()  # TR and RTD
    ERASE_DISPLAYED = auto()  # EDM
    CARRIAGE_RETURN = auto()  # CR
    ERASE_HIDDEN = auto()  # ENM
    END_OF_CAPTION = auto()  # EOC
    PREAMBLE = auto()  # PAC
    TAB = auto()  # TO1, TO2, TO3
    MID_ROW = auto()
    SPECIAL = auto()
    EXTENDED = auto()
    BACKGROUND = auto()
    CHARACTER_SET = auto()  # without effect
    RESERVED = auto()  # has no function


def _unchanged(style: Style) -> Style:
    return style


@dataclass(frozen=True, slots=True)
class Code:
    """A control code. Fields that its kind has no use for keep their default."""

    op: Op
    second_channel: bool = False
    field: int | None = None
    """The field that the code selects; only miscellaneous codes select one."""
    row: int = 0
    column: int = 0
    amount: int = 0
    """Rows of a roll-up, columns of a tab."""
    character: str = ""
    style: Style = PLAIN
    """What a preamble sets."""
    change: Callable[[Style], Style] = _unchanged
    """What a mid-row, flash or background code makes of the style before it."""

    def restyled(self, before: Style) -> Style:
        """Give the style that text has after the code; one object a style, so that equal ones are found fast."""
        return _restyled(self.change, before)


# The transparent space (11 39) takes a column as a space does.
_SPECIAL = "®°½¿™¢£♪à èâêîôû"
_EXTENDED = {
    2: "ÁÉÓÚÜü\u2018¡*'—©℠•“”ÀÂÇÈÊËëÎÏïÔÙùÛ«»",
    3: "ÃãÍÌìÒòÕõ{}\\^_|~ÄäÖöß¥¤│ÅåØø┌┐└┘",
}
_MISCELLANEOUS = (
    Code(Op.RESUME_LOADING),
    Code(Op.BACKSPACE),
    Code(Op.ALARM),
    Code(Op.ALARM),
    Code(Op.DELETE_TO_END),
    Code(Op.ROLL_UP, amount=2),
    Code(Op.ROLL_UP, amount=3),
    Code(Op.ROLL_UP, amount=4),
    Code(Op.FLASH_ON, change=partial(replace, flash=True)),
    Code(Op.RESUME_DIRECT),
    Code(Op.TEXT_MODE),
    Code(Op.TEXT_MODE),
    Code(Op.ERASE_DISPLAYED),
    Code(Op.CARRIAGE_RETURN),
    Code(Op.ERASE_HIDDEN),
    Code(Op.END_OF_CAPTION),
)
# A preamble's two rows by the lower three bits of its first byte; bit 5 of the second byte chooses.
_PREAMBLE_ROWS = ((11, None), (1, 2), (3, 4), (12, 13), (14, 15), (5, 6), (7, 8), (9, 10))
# The colour of a preamble or a mid-row code by bits 1 to 3 of its second byte; bit 0 is the underline.
_COLOURS = ("white", "green", "blue", "cyan", "red", "yellow", "magenta")
_ITALICS = len(_COLOURS)
_BACKGROUNDS = (*_COLOURS, "black")
# 17 2x by the second byte's lower half.
_ATTRIBUTES = (
    {low: Code(Op.TAB, amount=low) for low in (1, 2, 3)}
    | dict.fromkeys(range(0x4, 0xB), Code(Op.CHARACTER_SET))
    | {
        0xD: Code(Op.BACKGROUND, change=partial(replace, background="transparent")),
        0xE: Code(Op.BACKGROUND, change=partial(replace, colour="black", underline=False)),
        0xF: Code(Op.BACKGROUND, change=partial(replace, colour="black", underline=True)),
    }
)


@lru_cache(maxsize=1 << 12)  # More than there are.
def _one(style: Style) -> Style:
    """Give the one object that stands for all equal styles: they can then be told apart by identity."""
    return style


_one(PLAIN)


def _style(second: int) -> Style:
    """Read the style that a preamble sets: an indent is white."""
    number, underline = second >> 1 & 0x7, bool(second & 1)
    if second & 0x10:
        return Style(underline=underline)
    if number == _ITALICS:
        return Style(italics=True, underline=underline)
    return Style(_COLOURS[number], underline=underline)


def _mid_row(second: int) -> Code:
    """Read a mid-row code: italics keep the colour, a colour ends the italics, and either ends the flash."""
    number, underline = second >> 1 & 0x7, bool(second & 1)
    if number == _ITALICS:
        return Code(Op.MID_ROW, change=partial(replace, italics=True, underline=underline, flash=False))
    colour = Style(_COLOURS[number], underline=underline)
    return Code(Op.MID_ROW, change=lambda style: replace(colour, background=style.background))


def _background(second: int) -> Code:
    return Code(Op.BACKGROUND, change=partial(replace, background=_BACKGROUNDS[second >> 1 & 0x7]))


def _preambles() -> Iterator[tuple[tuple[int, int], Code]]:
    for group, second in product(range(8), range(0x40, 0x80)):
        row = _PREAMBLE_ROWS[group][bool(second & 0x20)]
        indent = 4 * ((second & 0x0E) >> 1) if second & 0x10 else 0
        if row is not None:
            yield (group, second), Code(Op.PREAMBLE, row=row, column=1 + indent, style=_one(_style(second)))


# Every code of the first channel, by its first byte's lower three bits and its second byte.
_CODES: Mapping[tuple[int, int], Code] = {
    **{(0, 0x20 + low): _background(low) for low in range(16)},
    **{(1, 0x20 + low): _mid_row(low) for low in range(16)},
    **{(1, 0x30 + low): Code(Op.SPECIAL, character=char) for low, char in enumerate(_SPECIAL)},
    **{
        (group, 0x20 + low): Code(Op.EXTENDED, character=char)
        for group, characters in _EXTENDED.items()
        for low, char in enumerate(characters)
    },
    **{(4, 0x20 + low): replace(code, field=1) for low, code in enumerate(_MISCELLANEOUS)},
    **{(5, 0x20 + low): replace(code, field=2) for low, code in enumerate(_MISCELLANEOUS)},
    **{(7, 0x20 + low): code for low, code in _ATTRIBUTES.items()},
    **dict(_preambles()),
}


@lru_cache(maxsize=1 << 14)  # More than there are.
def _restyled(change: Callable[[Style], Style], before: Style) -> Style:
    return _one(change(before))


_RESERVED = Code(Op.RESERVED)


@lru_cache(maxsize=1 << 11)  # All the pairs there are.
def read_code(pair: bytes) -> Code:
    """Look up a control code by its two bytes, with parity or without; the first is 10 to 1f without."""
    first, second = pair[0] & 0x7F, pair[1] & 0x7F
    code = _CODES.get((first & 0x07, second), _RESERVED)
    return replace(code, second_channel=True) if first & 0x08 else code
