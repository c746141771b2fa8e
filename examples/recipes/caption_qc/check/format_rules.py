"""The rules FMT_, HEX_ and 608_PARITY: what the bytes of a file are, before any caption is looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.codes import read_word
from examples.recipes.caption_qc.check.faults import Fault, Place, at_line, at_word, quote
from examples.recipes.caption_qc.check.lines import HEADER, CaptionLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.recipes.caption_qc.check.scc import Line, Track

_BLANKS = b" \t"
_LONE_CR = re.compile(rb"\r(?!\n)")
_FIRST_LINE = Place(line=1)


def header(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_HEADER: the first line is not the header."""
    first = track.text.first_line()
    if first.rstrip(_BLANKS) != HEADER:
        yield Fault(
            message=f"the first line is {quote(first)}; it must be exactly {quote(HEADER)}", place=_FIRST_LINE
        )


def header_trailing_blanks(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_HEADER_TRAILING_WS: blanks after the header."""
    first = track.text.first_line()
    blanks = len(first) - len(HEADER)
    if blanks and first.rstrip(_BLANKS) == HEADER:
        yield Fault(
            message=f"blanks follow the header: {blanks}; it must end the line",
            place=_FIRST_LINE,
            measured=blanks,
        )


def byte_order_mark(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_BOM: a UTF-8 byte order mark."""
    if track.text.bom:
        yield Fault(
            message="the file starts with a UTF-8 byte order mark; SCC is ASCII without one",
            place=_FIRST_LINE,
        )


def cr_only(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_CR_ONLY: lines that end in CR alone; one finding a file."""
    data = track.text.data
    if first := _LONE_CR.search(data):
        count = sum(1 for _ in _LONE_CR.finditer(data))
        line = 1 + data.count(b"\n", 0, first.start())
        yield Fault(
            message=f"lines that end in CR alone: {count}; LF or CR LF is what all tools read",
            place=Place(line=line),
            measured=count,
        )


def nul(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NUL: NUL bytes, one finding a line."""
    if not track.text.utf16 and b"\0" in track.text.data:
        yield from _per_line(track, lambda raw: raw.count(b"\0"), "NUL bytes; SCC is text")


def encoding(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_ENCODING: UTF-16, once; or bytes outside ASCII, one finding a line."""
    if track.text.utf16:
        yield Fault(
            message="the file is UTF-16 by its byte order mark, and was checked as such; SCC is ASCII",
            place=_FIRST_LINE,
        )
    elif not track.text.data.isascii():
        yield from _per_line(track, lambda raw: sum(byte > 0x7F for byte in raw), "bytes outside ASCII")  # noqa: PLR2004


def bad_line(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_BAD_LINE: a line with text that is not a time code and words. The first line is FMT_HEADER's."""
    if not track.other_lines:
        return
    for line in track.text.lines():
        if line.number > 1 and not isinstance(line, CaptionLine):
            yield Fault(
                message=f"the line is {quote(line.text)}; it must be hh:mm:ss:ff (or ;ff), a tab, and words",
                place=Place(line=line.number),
            )


def no_tab(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NO_TAB: something else than a tab after the time code."""
    for line in track.lines:
        if not line.written.separator.startswith(b"\t"):
            yield Fault(
                message="a space follows the time code; without a tab other tools lose the line",
                place=at_line(line),
            )


def no_captions(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NO_CAPTIONS: no channel ever shows anything."""
    if not track.cues:
        lines = len(track.lines)
        yield Fault(
            message=f"no caption is ever shown, in any channel; caption lines read: {lines}", measured=0
        )


def bad_word(track: Track, _limit: float) -> Iterator[Fault]:
    """HEX_BAD_WORD: a word that is not four hex digits."""
    for line in track.lines:
        if line.bad_words:
            yield from _bad_words(line)


def parity(track: Track, _limit: float) -> Iterator[Fault]:
    """608_PARITY: bytes of even parity, one finding a line; or one for a file that has no parity at all."""
    if track.has_parity:
        yield from (_even_bytes(line) for line in track.lines if line.even_bytes)
    elif any(line.words > line.bad_words for line in track.lines):
        yield Fault(
            message="the file has no parity: no byte has bit 7 set; it was decoded as if it had",
            measured=sum(line.even_bytes for line in track.lines),
        )


def _bad_words(line: Line) -> Iterator[Fault]:
    for number, token in enumerate(line.written.words()):
        if read_word(token) is None:
            yield Fault(
                message=f"the word is {quote(token)}; it must be four hex digits", place=at_word(line, number)
            )


def _even_bytes(line: Line) -> Fault:
    words = enumerate(line.written.words())
    first, token = next(
        (number, token) for number, token in words if (word := read_word(token)) and word.even
    )
    return Fault(
        message=f"bytes of even parity in this line: {line.even_bytes}, the first in word {quote(token)}; "
        "parity must be odd",
        place=at_word(line, first),
        measured=line.even_bytes,
    )


def _per_line(track: Track, count: Callable[[bytes], int], what: str) -> Iterator[Fault]:
    for number, raw in track.text.raw_lines():
        if found := count(raw):
            yield Fault(message=f"{found} {what}", place=Place(line=number), measured=found)
