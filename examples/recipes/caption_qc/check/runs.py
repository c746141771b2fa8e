"""A line's bytes as the runs that they fall into: control codes with their second copies, and text.

A control code is ignored if it comes in the very next frame with equal bytes; a third copy acts again, and so
does one after any other word. So equal codes side by side are taken two by two. A pair with a failed byte is
ignored, which leaves its copy to act; it still is another word between two codes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.characters import ODD

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEADS = bytes(byte for byte in range(0x100) if byte & 0x7F in range(0x10, 0x20))
_SERVICES = bytes(byte for byte in ODD if byte & 0x7F in range(0x01, 0x10))


def _one_of(members: bytes) -> bytes:
    return b"[" + re.escape(members) + b"]"


_RUN = re.compile(
    b"(?P<code>" + _one_of(bytes(set(_LEADS) & set(ODD))) + _one_of(ODD) + b")(?P<copy>(?P=code))?"
    b"|(?P<failed>" + _one_of(_LEADS) + b".)"
    b"|(?P<text>(?:" + _one_of(bytes(set(range(0x100)) - set(_LEADS))) + b".)+)",
    re.DOTALL,
)
_BITS = (0, *(1 << bit for bit in range(8)))
_LOST = frozenset(first << 8 | second for first in _BITS for second in _BITS) - {0}
"""How two words differ if a bit of a byte, or of both, is lost."""
_SERVICE = re.compile(_one_of(_SERVICES))


def runs(data: bytes) -> Iterator[re.Match[bytes]]:
    """Part words into runs, none left out: `lastgroup` is code (sent once), copy (twice), failed, or text."""
    return _RUN.finditer(data)


def is_failed_copy(word: bytes, code: bytes) -> bool:
    """Say whether a word is a code as it comes in when one bit of a byte, or of both, is lost: parity tells."""
    return len(word) == len(code) and int.from_bytes(word) ^ int.from_bytes(code) in _LOST


def find_failed_copy(words: bytes, run: re.Match[bytes], spent: int) -> int | None:
    """Find a code's failed copy in the word before it or after it, and give where that ends.

    What stands before `spent` was found for another code.
    """
    for start in (run.start() - 2, run.end()):
        if start >= spent and is_failed_copy(words[start : start + 2], run["code"]):
            return start + 2
    return None


def first_service_byte(data: bytes) -> int | None:
    """Find the first byte 01 to 0f with the right parity: extended data on field 2, nothing on field 1."""
    found = _SERVICE.search(data)
    return found.start() if found else None


def service_bytes(data: bytes) -> int:
    """Count the bytes 01 to 0f with the right parity."""
    return len(_SERVICE.findall(data))
