"""A small SCC encoder, written apart from the decoder: tests and samples are made with it.

Control codes are named by the two bytes that the public tables give, without parity.
"""

from __future__ import annotations

from itertools import chain, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEADER = "Scenarist_SCC V1.0"
RCL, BS, AOF, AON, DER = 0x1420, 0x1421, 0x1422, 0x1423, 0x1424
RU2, RU3, RU4, FON, RDC = 0x1425, 0x1426, 0x1427, 0x1428, 0x1429
TR, RTD, EDM, CR, ENM, EOC = 0x142A, 0x142B, 0x142C, 0x142D, 0x142E, 0x142F
TO1, TO2, TO3 = 0x1721, 0x1722, 0x1723
CHANNEL_2 = 0x0800
FIELD_2 = 0x0100  # For miscellaneous codes alone.

_PREAMBLES = {
    1: 0x1140,
    2: 0x1160,
    3: 0x1240,
    4: 0x1260,
    5: 0x1540,
    6: 0x1560,
    7: 0x1640,
    8: 0x1660,
    9: 0x1740,
    10: 0x1760,
    11: 0x1040,
    12: 0x1340,
    13: 0x1360,
    14: 0x1440,
    15: 0x1460,
}


def odd(byte: int) -> int:
    """Give a 7-bit byte odd parity."""
    ones = sum(byte >> bit & 1 for bit in range(7))
    return byte if ones % 2 else byte + 0x80


def word(pair: int) -> str:
    """Write two 7-bit bytes as a word with parity."""
    return f"{odd(pair >> 8):02x}{odd(pair & 0xFF):02x}"


def twice(*pairs: int) -> list[str]:
    """Send each control code two times, as is usual."""
    return [word(pair) for pair in pairs for _ in range(2)]


def preamble(row: int, column: int = 1) -> list[str]:
    """Move the cursor: to an indent of four columns, then by a tab offset."""
    indent, tab = divmod(column - 1, 4)
    address = _PREAMBLES[row] + (0x10 + 2 * indent if indent else 0)
    return twice(address, TO1 - 1 + tab) if tab else twice(address)


def text(characters: str) -> list[str]:
    """Send ASCII characters, the last byte filled with padding."""
    data = [ord(character) for character in characters] + [0] * (len(characters) % 2)
    return [word(first << 8 | second) for first, second in zip(data[::2], data[1::2], strict=True)]


def line(timecode: str, *words: Iterable[str]) -> str:
    """Write one caption line."""
    return f"{timecode}\t{' '.join(chain(*words))}"


def scc(*lines: str) -> bytes:
    """Write a file, with the header and the blank lines."""
    return ("\n\n".join((HEADER, *lines)) + "\n").encode("ascii")


def labels(hours: Iterable[int], *, drop: bool) -> Iterator[str]:
    """Count through the labels of whole hours one by one, as a clock would."""
    for hour, minute, second, frame in product(hours, range(60), range(60), range(30)):
        if not (drop and second == 0 and frame in {0, 1} and minute % 10):
            yield f"{hour:02}:{minute:02}:{second:02}{';' if drop else ':'}{frame:02}"
