"""The decoder: an SCC file's bytes become its lines with frame numbers, and the cues of every channel.

Word i of a line goes out at the line's frame + i, whatever that word is. A line that starts before the words
of the one above have gone out keeps its nominal frames. Nothing in a file stops decoding: what can't be read
is counted with its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.channel import Channel, Showing
from examples.recipes.caption_qc.check.codes import Code, Op, Word, read_bare_word, read_word
from examples.recipes.caption_qc.check.lines import CaptionLine, Text, read_text
from examples.recipes.caption_qc.check.report import Cue, Mode
from examples.recipes.caption_qc.check.timecode import Timecode, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNELS = ("CC1", "CC2", "CC3", "CC4")

_FIELD_2 = 2
_END_OF_SERVICE = 0x0F


@dataclass(frozen=True, slots=True)
class Line:
    """A caption line as it was decoded."""

    written: CaptionLine
    day: int
    """How often midnight had passed."""
    frame: int
    """The frame of its first word, counted on over midnight."""
    words: int
    bad_words: int
    even_bytes: int
    """Bytes of even parity."""
    mode: Mode | None
    """The mode of the channel that the line left selected."""

    @property
    def number(self) -> int:
        """The line's place in the file."""
        return self.written.number

    @property
    def timecode(self) -> Timecode:
        """The line's label."""
        return self.written.timecode

    @property
    def end(self) -> int:
        """The frame after that of its last word."""
        return self.frame + self.words


@dataclass(frozen=True, slots=True)
class Track:
    """A whole file as it was decoded. Lines and cues are in the order of the file."""

    text: Text
    has_parity: bool
    lines: tuple[Line, ...]
    other_lines: int
    """Lines with text that are no caption lines."""
    cues: tuple[Cue, ...]


def decode(data: bytes) -> Track:
    """Decode a file, whatever its bytes."""
    text = read_text(data)
    has_parity = _has_parity(text)
    decoder = _Decoder(read_word if has_parity else read_bare_word)
    lines, others = [], 0
    for line in text.lines():
        if isinstance(line, CaptionLine):
            lines.append(decoder.take(line))
        else:
            others += 1
    return Track(text, has_parity, tuple(lines), others, decoder.finish())


def _has_parity(text: Text) -> bool:
    words = (
        read_word(token) for line in text.lines() if isinstance(line, CaptionLine) for token in line.words()
    )
    return any(word.high for word in words if word)


class _Clock:
    """Numbers frames on over midnight: a step back of more than half a day is the next day."""

    def __init__(self) -> None:
        self.day = 0
        self._latest: int | None = None

    def frame(self, timecode: Timecode) -> int:
        frame = self._number(timecode)
        if not timecode.in_range:  # Counted as written; it says nothing about the hour.
            return frame
        if self._latest is not None and self._latest - frame > timecode.frames_a_day // 2:
            self.day += 1
            frame = self._number(timecode)
        self._latest = frame
        return frame

    def _number(self, timecode: Timecode) -> int:
        return timecode.number + self.day * timecode.frames_a_day


class _Decoder:
    """The stream of words: which channel each is for, and which is the second copy of a control code."""

    def __init__(self, read: Callable[[bytes], Word | None]) -> None:
        self._read = read
        self._clock = _Clock()
        self._cues: list[Showing] = []
        self._channels = [Channel(name, self._cues) for name in CHANNELS]
        self._channel = self._channels[0]
        self._field = 1
        self._in_service = False
        self._sent: tuple[int, int] | None = None
        """The code that acted last and the frame after it, in which an equal one is its second copy."""

    def take(self, line: CaptionLine) -> Line:
        first = self._clock.frame(line.timecode)
        words = [self._read(token) for token in line.words()]
        for frame, word in enumerate(words, first):
            if word and word.code:
                self._control(word, word.code, frame)
            else:
                self._sent = None
                if word and (word.text or word.service):
                    self._text(word, frame)
        even = sum(word.even for word in words if word)
        return Line(line, self._clock.day, first, len(words), words.count(None), even, self._channel.mode)

    def finish(self) -> tuple[Cue, ...]:
        for channel in self._channels:
            channel.finish()
        shown = (cue for cue in self._cues if cue.rows)
        return tuple(_cue(number, cue) for number, cue in enumerate(shown, 1))

    def _control(self, word: Word, code: Code, frame: int) -> None:
        if self._sent == (word.pair, frame):
            self._sent = None
            return
        self._sent = (word.pair, frame + 1)
        self._in_service = False
        if code.field:
            self._field = code.field
        if code.op is not Op.RESERVED:
            self._channel = self._channels[2 * (self._field - 1) + code.second_channel]
            self._channel.act(code, frame)

    def _text(self, word: Word, frame: int) -> None:
        if self._field == _FIELD_2 and word.service:
            self._in_service = word.service != _END_OF_SERVICE
        elif word.text and not self._in_service:
            self._channel.write(word.text, frame)


def _cue(number: int, shown: Showing) -> Cue:
    return Cue(
        number=number,
        channel=shown.channel,
        mode=shown.mode,
        load_frame=shown.load_frame,
        start_frame=shown.start_frame,
        end_frame=shown.end_frame,
        start=seconds(shown.start_frame),
        end=None if shown.end_frame is None else seconds(shown.end_frame),
        rows=shown.rows,
    )
