"""What a word means: two bytes become printing characters, a control code, or nothing.

CEA-608 gives every byte odd parity in bit 7. Without it, a control code's first byte is 10 to 1f: bit 3 says
which channel of its field the code is for, the lower three bits and the second byte say which code it is.
"""

from __future__ import annotations

from binascii import unhexlify
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BLOCK = "█"
"""Stands for a printing byte whose parity failed."""


class Op(Enum):
    """The kinds of control code that act."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """Two bytes of the stream, read once. A word that is neither code nor text is padding, or ignored."""

    pair: int
    """Both bytes without parity, the first one high."""
    code: Code | None = None
    text: str = ""
    service: int = 0
    """The first byte where it is 01 to 0f: extended data on field 2."""
    even: int = 0
    """How many of the bytes have even parity as they were written."""
    high: bool = False
    """Whether any byte has bit 7 set as it was written."""


_DIGITS = 4

_CHARACTERS = {code: chr(code) for code in range(0x20, 0x7F)} | {
    0x2A: "á",
    0x5C: "é",
    0x5E: "í",
    0x5F: "ó",
    0x60: "ú",
    0x7B: "ç",
    0x7C: "÷",
    0x7D: "Ñ",
    0x7E: "ñ",
    0x7F: BLOCK,
}
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
    Code(Op.FLASH_ON),
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
# 17 2x by the second byte's lower half.
_ATTRIBUTES = (
    {low: Code(Op.TAB, amount=low) for low in (1, 2, 3)}
    | dict.fromkeys(range(0x4, 0xB), Code(Op.CHARACTER_SET))
    | dict.fromkeys(range(0xD, 0x10), Code(Op.BACKGROUND))
)


def _preambles() -> Iterator[tuple[tuple[int, int], Code]]:
    for group, second in product(range(8), range(0x40, 0x80)):
        row = _PREAMBLE_ROWS[group][bool(second & 0x20)]
        indent = 4 * ((second & 0x0E) >> 1) if second & 0x10 else 0
        if row is not None:
            yield (group, second), Code(Op.PREAMBLE, row=row, column=1 + indent)


# Every code of the first channel, by its first byte's lower three bits and its second byte.
_CODES: Mapping[tuple[int, int], Code] = {
    **{(0, 0x20 + low): Code(Op.BACKGROUND) for low in range(16)},
    **{(1, 0x20 + low): Code(Op.MID_ROW) for low in range(16)},
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
_RESERVED = Code(Op.RESERVED)
_CONTROL = range(0x10, 0x20)
_SERVICE = range(0x01, 0x10)


def read_word(token: bytes) -> Word | None:
    """Read four hex digits as two bytes with parity; `None` where they are no such digits."""
    pair = _bytes_of(token)
    return None if pair is None else _word(pair)


def read_bare_word(token: bytes) -> Word | None:
    """Read four hex digits of a file without parity, as if every byte had the right one."""
    pair = _bytes_of(token)
    return None if pair is None else _bare_word(pair)


def with_parity(byte: int) -> int:
    """Set or clear bit 7 of a byte so that the number of its ones is odd."""
    low = byte & 0x7F
    return low if low.bit_count() % 2 else low | 0x80


def read_code(first: int, second: int) -> Code:
    """Look up a control code by its two bytes without parity; `first` is 10 to 1f."""
    code = _CODES.get((first & 0x07, second), _RESERVED)
    return replace(code, second_channel=bool(first & 0x08))


def _bytes_of(token: bytes) -> bytes | None:
    if len(token) != _DIGITS:
        return None
    try:
        return unhexlify(token)
    except ValueError:
        return None


# Files repeat few words, so each is read once. The caches hold all pairs there are: no file can make them miss.
@lru_cache(maxsize=1 << 16)
def _word(written: bytes) -> Word:
    first, second = written
    failed = [byte for byte in (first, second) if byte != with_parity(byte)]
    even, high = len(failed), bool((first | second) & 0x80)
    lead, pair = first & 0x7F, (first << 8 | second) & 0x7F7F
    if lead in _CONTROL:
        code = None if failed else read_code(lead, second & 0x7F)
        return Word(pair, code=code, even=even, high=high)
    service = lead if lead in _SERVICE and first not in failed else 0
    return Word(pair, text=_printed(first) + _printed(second), service=service, even=even, high=high)


@lru_cache(maxsize=1 << 16)
def _bare_word(written: bytes) -> Word:
    as_written = _word(written)
    return replace(_word(bytes(map(with_parity, written))), even=as_written.even, high=as_written.high)


def _printed(byte: int) -> str:
    character = _CHARACTERS.get(byte & 0x7F, "")
    return BLOCK if character and byte != with_parity(byte) else character
