"""The text of an SCC file: its encoding, its header, and its lines of a time code and words."""

from __future__ import annotations

import re
from binascii import unhexlify
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.timecode import Timecode

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = b"Scenarist_SCC V1.0"

_FIRST_LINE = re.compile(rb"[^\r\n]*")
_CAPTION_LINE = re.compile(rb"(\d\d):(\d\d):(\d\d)([:;])(\d\d)([ \t]+)([^ \t].*)", re.DOTALL)
_WORD = re.compile(rb"[^ \t]+")  # Not `split`, which parts words at a form feed or a vertical tab as well.
_WORD_DIGITS = 4
_UNREAD = b"\0\0"
_Utf16 = getincrementaldecoder("utf-16")


class CaptionLine(NamedTuple):
    """A time code and the words that go out from it on, one a frame."""

    number: int
    timecode: Timecode
    separator: bytes
    text: bytes

    def words(self) -> list[bytes]:
        """Split the text at its blanks into words, good ones and bad ones, each as it was written."""
        return _WORD.findall(self.text)

    def read_words(self) -> tuple[bytes, int]:
        """Read the words, two bytes each, and count the bad ones, which stand as two null bytes."""
        words = _read_at_once(self.text)
        if words is not None:
            return words, 0
        pairs = [read_word(token) for token in self.words()]
        return b"".join(pair or _UNREAD for pair in pairs), pairs.count(None)


class OtherLine(NamedTuple):
    """A line with text that is no caption line; the header is one too."""

    number: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """A file's bytes without the byte order mark; UTF-16 was made ASCII, with `?` for what is none."""

    data: bytes
    bom: bool
    utf16: bool

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """Number the lines from 1; each ends in LF, whatever ended it (CR, LF or CR LF), but maybe the last."""
        return enumerate(BytesIO(self.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")), 1)

    def lines(self) -> Iterator[CaptionLine | OtherLine]:
        """Read the lines that are not blank."""
        for number, raw in self.raw_lines():
            if text := raw.rstrip(b" \t\n"):
                yield _read(number, text)

    def first_line(self) -> bytes:
        """Give the first line without its end, blank or not; an empty file has an empty one."""
        first = _FIRST_LINE.match(self.data)
        return first[0] if first else b""


def read_text(data: bytes) -> Text:
    """Take the byte order mark off, and UTF-16 back to the ASCII that it stands for."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        # A character that the end of the file cuts off is left out: it would be a word or a line of its own.
        text = _Utf16("replace").decode(data).encode("ascii", "replace")
        return Text(text, bom=False, utf16=True)
    bom = data.startswith(BOM_UTF8)
    return Text(data.removeprefix(BOM_UTF8), bom=bom, utf16=False)


def read_word(token: bytes) -> bytes | None:
    """Read four hex digits as two bytes; `None` where they are no such digits."""
    return _unhex(token) if len(token) == _WORD_DIGITS else None


def _read_at_once(text: bytes) -> bytes | None:
    """Read words of four digits with one blank between; `None` where they are not all so."""
    words = None if text[_WORD_DIGITS :: _WORD_DIGITS + 1].strip(b" ") else _unhex(text.replace(b" ", b""))
    return words if words and len(text) + 1 == len(words) // 2 * (_WORD_DIGITS + 1) else None


def _unhex(digits: bytes) -> bytes | None:
    try:
        return unhexlify(digits)
    except ValueError:
        return None


def _read(number: int, text: bytes) -> CaptionLine | OtherLine:
    match = _CAPTION_LINE.fullmatch(text)
    if match is None:
        return OtherLine(number, text)
    hour, minute, second, colon, frame, separator, words = match.groups()
    timecode = Timecode(int(hour), int(minute), int(second), int(frame), drop=colon == b";")
    return CaptionLine(number, timecode, separator, words)
