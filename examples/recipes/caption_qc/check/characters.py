"""What bytes print: parity, and the characters of the standard.

CEA-608 gives every byte odd parity in bit 7. A printing byte that fails shows as a solid block, so that its
column is kept; a byte that prints nothing takes no column, whatever its parity.
"""

from __future__ import annotations

BLOCK = "█"
"""Stands for a printing byte whose parity failed."""

_BYTES = range(0x100)
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


def _odd(byte: int) -> bool:
    return byte.bit_count() % 2 == 1


def _printed(byte: int) -> str:
    character = _CHARACTERS.get(byte & 0x7F, "")
    return BLOCK if character and not _odd(byte) else character


ODD = bytes(byte for byte in _BYTES if _odd(byte))
"""The bytes whose parity is right."""

_PARITY = bytes(byte if _odd(byte) else byte ^ 0x80 for byte in range(0x80)) * 2
_PRINTED = [_printed(byte) for byte in _BYTES]


def with_parity(data: bytes) -> bytes:
    """Set or clear bit 7 of each byte so that the number of its ones is odd."""
    return data.translate(_PARITY)


def even_bytes(data: bytes) -> int:
    """Count the bytes whose parity failed."""
    return len(data.translate(None, ODD))


def printed(data: bytes) -> str:
    """Give the characters that bytes print."""
    return "".join(map(_PRINTED.__getitem__, data))


def word_of(data: bytes, index: int) -> int:
    """Say which word of `data`, from 0, prints character `index` of what it prints in all."""
    left = index
    for place, byte in enumerate(data):
        if _PRINTED[byte]:
            if not left:
                return place // 2
            left -= 1
    return 0
