"""The text of an SCC file: its encoding, its header, and its lines of a time code and words."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.timecode import Timecode

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = b"Scenarist_SCC V1.0"

_BLANKS = b" \t"
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_CAPTION_LINE = re.compile(rb"(\d\d):(\d\d):(\d\d)([:;])(\d\d)([ \t]+)([^ \t].*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CaptionLine:
    """A time code and the words that go out from it on, one a frame."""

    number: int
    timecode: Timecode
    separator: bytes
    text: bytes

    def words(self) -> list[bytes]:
        """Split the text into words, good ones and bad ones, each as it was written."""
        return self.text.split()


@dataclass(frozen=True, slots=True)
class OtherLine:
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
        """Number the lines from 1, without their ends: CR, LF or CR LF. An empty file has one line."""
        return enumerate((match[1] for match in _LINE.finditer(self.data)), 1)

    def lines(self) -> Iterator[CaptionLine | OtherLine]:
        """Read the lines that are not blank."""
        for number, raw in self.raw_lines():
            text = raw.rstrip(_BLANKS)
            if text:
                yield _read(number, text)

    def first_line(self) -> bytes:
        """Give the first line, blank or not; an empty file has an empty one."""
        return next(raw for _, raw in self.raw_lines())


def read_text(data: bytes) -> Text:
    """Take the byte order mark off, and UTF-16 back to the ASCII that it stands for."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace").encode("ascii", "replace")
        return Text(text, bom=False, utf16=True)
    bom = data.startswith(BOM_UTF8)
    return Text(data.removeprefix(BOM_UTF8), bom=bom, utf16=False)


def _read(number: int, text: bytes) -> CaptionLine | OtherLine:
    match = _CAPTION_LINE.fullmatch(text)
    if match is None:
        return OtherLine(number, text)
    hour, minute, second, colon, frame, separator, words = match.groups()
    timecode = Timecode(int(hour), int(minute), int(second), int(frame), drop=colon == b";")
    return CaptionLine(number, timecode, separator, words)
