"""The decoder: an SCC file's bytes become its lines with frame numbers, and the cues of every channel.

Word i of a line goes out at the line's frame + i, whatever that word is. A line that starts before the words
of the one above have gone out keeps its nominal frames. Nothing in a file stops decoding: what can't be read
is counted with its line.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.channel import Channel, Showing
from examples.recipes.caption_qc.check.codes import Code, Op, Word, read_bare_word, read_word
from examples.recipes.caption_qc.check.faults import MOST_LISTED
from examples.recipes.caption_qc.check.lines import CaptionLine, OtherLine, Text, read_text
from examples.recipes.caption_qc.check.report import Cue, Mode
from examples.recipes.caption_qc.check.timecode import Timecode, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNELS = ("CC1", "CC2", "CC3", "CC4")

_FIELD_2 = 2
_END_OF_SERVICE = 0x0F


class Line(NamedTuple):
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
    timed: tuple[Line, ...]
    """Those of `lines` whose label is in range: they are compared with each other."""
    bad_lines: tuple[OtherLine, ...]
    """Lines below the first with text that are no caption lines: those that a report lists and one more."""
    more_bad_lines: int
    """How many there are beside those."""
    cues: tuple[Cue, ...]


def decode(data: bytes) -> Track:
    """Decode a file, whatever its bytes."""
    text = read_text(data)
    written, bad, more = _sorted_out(text)
    has_parity = any(_has_parity(line) for line in written)
    decoder = _Decoder(read_word if has_parity else read_bare_word)
    lines = tuple(map(decoder.take, written))
    timed = tuple(line for line in lines if line.timecode.in_range)
    return Track(text, has_parity, lines, timed, tuple(bad), more, decoder.finish())


def _sorted_out(text: Text) -> tuple[list[CaptionLine], list[OtherLine], int]:
    """Tell caption lines from bad ones. Any file can have millions of these: what no report lists is counted."""
    written: list[CaptionLine] = []
    bad: list[OtherLine] = []
    more = 0
    for line in text.lines():
        if isinstance(line, CaptionLine):
            written.append(line)
        elif line.number > 1 and len(bad) <= MOST_LISTED:
            bad.append(line)
        elif line.number > 1:
            more += 1
    return written, bad, more


def _has_parity(line: CaptionLine) -> bool:
    words = map(read_word, set(line.words()))  # Lines repeat few words.
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
        shown = deque(cue for cue in self._cues if cue.rows)
        self._cues.clear()
        cues: list[Cue] = []
        while shown:  # One by one: a file can have so many that to hold them twice would matter.
            cues.append(_cue(len(cues) + 1, shown.popleft()))
        return tuple(cues)

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
