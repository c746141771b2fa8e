"""The rules FMT_, HEX_ and 608_PARITY: what the bytes of a file are, before any caption is looked at."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.characters import even_bytes
from examples.recipes.caption_qc.check.faults import Fault, Place, at_line, at_word, each, quote
from examples.recipes.caption_qc.check.lines import HEADER, read_word
from examples.recipes.caption_qc.check.rule import Rule, of_track

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.recipes.caption_qc.check.lines import OtherLine
    from examples.recipes.caption_qc.check.rule import Subject
    from examples.recipes.caption_qc.check.scc import Line, Track

_BLANKS = b" \t"
_LONE_CR = re.compile(rb"\r(?!\n)")
_FIRST_LINE = Place(line=1)
_LAST_OF_ASCII = 0x7F


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
        count = data.count(b"\r") - data.count(b"\r\n")
        line = 1 + data.count(b"\n", 0, first.start())
        yield Fault(
            message=f"lines that end in CR alone: {count}; LF or CR LF is what all tools read",
            place=Place(line=line),
            measured=count,
        )


def nul(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NUL: NUL bytes, one finding a line."""

    def tell(line: tuple[int, bytes]) -> Fault:
        number, raw = line
        count = raw.count(b"\0")
        return Fault(message=f"NUL bytes: {count}; SCC is text", place=Place(line=number), measured=count)

    if not track.text.utf16 and b"\0" in track.text.data:
        yield from each((line for line in track.text.raw_lines() if b"\0" in line[1]), tell)


def encoding(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_ENCODING: UTF-16, once; or bytes outside ASCII, one finding a line."""

    def tell(line: tuple[int, bytes]) -> Fault:
        number, raw = line
        count = sum(byte > _LAST_OF_ASCII for byte in raw)
        return Fault(
            message=f"bytes outside ASCII: {count}; SCC is ASCII", place=Place(line=number), measured=count
        )

    if track.text.utf16:
        yield Fault(
            message="the file is UTF-16 by its byte order mark, and was checked as such; SCC is ASCII",
            place=_FIRST_LINE,
        )
    elif not track.text.data.isascii():
        yield from each((line for line in track.text.raw_lines() if not line[1].isascii()), tell)


def bad_line(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_BAD_LINE: a line with text that is not a time code and words. The first line is FMT_HEADER's."""

    def tell(line: OtherLine) -> Fault:
        return Fault(
            message=f"the line is {quote(line.text)}; it must be hh:mm:ss:ff (or ;ff), a tab, and words",
            place=Place(line=line.number),
        )

    faults = [tell(line) for line in track.bad_lines]
    if more := track.more_bad_lines:
        faults[-1] = replace(faults[-1], count=1 + more)
    return iter(faults)


def no_tab(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NO_TAB: something else than a tab after the time code."""

    def tell(line: Line) -> Fault:
        return Fault(
            message="a space follows the time code; without a tab other tools lose the line",
            place=at_line(line),
        )

    return each((line for line in track.lines if not line.written.separator.startswith(b"\t")), tell)


def no_captions(track: Track, _limit: float) -> Iterator[Fault]:
    """FMT_NO_CAPTIONS: no channel ever shows anything."""
    if not track.cues:
        lines = len(track.lines)
        yield Fault(
            message=f"no caption is ever shown, in any channel; caption lines read: {lines}", measured=0
        )


def bad_word(track: Track, _limit: float) -> Iterator[Fault]:
    """HEX_BAD_WORD: a word that is not four hex digits."""

    def tell(found: tuple[Line, int, bytes]) -> Fault:
        line, number, token = found
        return Fault(
            message=f"the word is {quote(token)}; it must be four hex digits", place=at_word(line, number)
        )

    return each(
        (
            (line, number, token)
            for line in track.lines
            if line.bad_words
            for number, token in enumerate(line.written.words())
            if read_word(token) is None
        ),
        tell,
    )


def parity(track: Track, _limit: float) -> Iterator[Fault]:
    """608_PARITY: bytes of even parity, one finding a line; or one for a file that has no parity at all."""
    if track.has_parity:
        yield from each((line for line in track.lines if line.even_bytes), _even_bytes)
    elif any(line.words > line.bad_words for line in track.lines):
        yield Fault(
            message="the file has no parity: no byte has bit 7 set; it was decoded as if it had",
            measured=sum(line.even_bytes for line in track.lines),
        )


def _even_bytes(line: Line) -> Fault:
    words = enumerate(line.written.words())
    first, token = next(
        (number, token) for number, token in words if (pair := read_word(token)) and even_bytes(pair)
    )
    return Fault(
        message=f"bytes of even parity in this line: {line.even_bytes}, the first in word {quote(token)}; "
        "parity must be odd",
        place=at_word(line, first),
        measured=line.even_bytes,
    )


def _never(_subject: Subject, _limit: float) -> Iterator[Fault]:
    """Find nothing: such a file is refused by its size, and never decoded."""
    return iter(())


RULES = (
    Rule(
        "FMT_HEADER",
        "error",
        of_track(header),
        "The first line, less a byte order mark and trailing blanks, is not `Scenarist_SCC V1.0`; decoding goes on.",
    ),
    Rule("FMT_BOM", "info", of_track(byte_order_mark), "The file begins with a UTF-8 byte order mark."),
    Rule(
        "FMT_HEADER_TRAILING_WS",
        "info",
        of_track(header_trailing_blanks),
        "Blanks follow the header in its line.",
        unit="blanks",
    ),
    Rule("FMT_CR_ONLY", "info", of_track(cr_only), "Lines end in CR alone.", unit="lines"),
    Rule("FMT_NUL", "error", of_track(nul), "The file holds NUL bytes.", unit="bytes"),
    Rule(
        "FMT_ENCODING",
        "error",
        of_track(encoding),
        "The file is UTF-16 by its byte order mark (it is decoded and checked on), or holds bytes outside ASCII.",
        unit="bytes",
    ),
    Rule("FMT_BAD_LINE", "error", of_track(bad_line), "A line with text is not a time code and words."),
    Rule(
        "FMT_NO_TAB",
        "warn",
        of_track(no_tab),
        "Something else than a tab follows the time code; other tools lose such lines.",
    ),
    Rule(
        "FMT_NO_CAPTIONS",
        "error",
        of_track(no_captions),
        "Nothing is ever shown, in any channel.",
        unit="cues",
    ),
    Rule(
        "FMT_TOO_LARGE",
        "error",
        _never,
        "The file is over the profile's `max_bytes`; it is not read.",
        unit="bytes",
    ),
    Rule("HEX_BAD_WORD", "error", of_track(bad_word), "A word is not four hex digits."),
    Rule(
        "608_PARITY",
        "error",
        of_track(parity),
        "Bytes have even parity, or no byte of the file has any parity.",
        unit="bytes",
    ),
)
