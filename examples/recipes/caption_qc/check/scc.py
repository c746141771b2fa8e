"""The decoder: an SCC file's bytes become its lines with frame numbers, and the cues of every channel.

Word i of a line goes out at the line's frame + i, whatever that word is. A line that starts before the words
of the one above have gone out keeps its nominal frames. Nothing in a file stops decoding: what can't be read
is counted with its line.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.characters import even_bytes, with_parity
from examples.recipes.caption_qc.check.faults import MOST_LISTED, Place
from examples.recipes.caption_qc.check.lines import CaptionLine, OtherLine, Text, read_text
from examples.recipes.caption_qc.check.notes import Here, Notes
from examples.recipes.caption_qc.check.report import Mode
from examples.recipes.caption_qc.check.showings import Screens, Showings
from examples.recipes.caption_qc.check.stream import CHANNELS, Stream

if TYPE_CHECKING:
    from array import array

    from examples.recipes.caption_qc.check.report import Cue, Row
    from examples.recipes.caption_qc.check.timecode import Timecode

__all__ = ["CHANNELS", "Line", "Track", "decode", "screens"]


class Line(NamedTuple):
    """A caption line as it was decoded."""

    written: CaptionLine
    in_range: bool
    """Whether a clock has the label."""
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


_number = attrgetter("number")


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
    """Those of every channel."""
    blank_before: array[int]
    """Of each cue, for how many frames the screen of its channel was blank before it; 0 before the first text."""
    notes: Notes
    """What was noticed of the channel that is judged."""

    def place(self, number: int, frame: int) -> Place:
        """Give the place of the word that goes out in `frame`, in the line of that number."""
        line = self.lines[bisect_left(self.lines, number, key=_number)]
        return Place(number, frame - line.frame, str(line.timecode), frame)

    def place_of(self, cue: Cue) -> Place:
        """Give the place of the word that makes a cue appear."""
        return self.place(cue.line, cue.start_frame)


def decode(data: bytes, judged: str = CHANNELS[0]) -> Track:
    """Decode a file, whatever its bytes, and take notes of one channel."""
    here = Here()
    return _decode(data, judged, here, Showings(here))


def screens(data: bytes) -> tuple[tuple[Row, ...], ...]:
    """Give all that stood on the screen of a cue's channel when the cue ended, cue by cue.

    A cue's own rows are the new row in roll-up, and those of the burst in paint-on.
    """
    here = Here()
    showings = Screens(here)
    _decode(data, CHANNELS[0], here, showings)
    return showings.screens()


def _decode(data: bytes, judged: str, here: Here, showings: Showings) -> Track:
    text = read_text(data)
    written, bad, more = _sorted_out(text)
    has_parity = any(not line.read_words()[0].isascii() for line in written)
    notes = Notes(here)
    decoder = _Decoder(Stream(judged, showings, notes), here, has_parity=has_parity)
    lines = tuple(map(decoder.take, written))
    decoder.stream.finish()
    cues = showings.finish()
    notes.number_cues(showings.number_of)
    timed = tuple(line for line in lines if line.in_range)
    return Track(text, has_parity, lines, timed, tuple(bad), more, cues, showings.blank_before, notes)


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


class _Clock:
    """Numbers frames on over midnight: a step back of more than half a day is the next day."""

    def __init__(self) -> None:
        self.day = 0
        self._latest: int | None = None

    def frame(self, timecode: Timecode, *, in_range: bool) -> int:
        a_day = timecode.frames_a_day
        frame = timecode.number + self.day * a_day
        if not in_range:  # Counted as written; it says nothing about the hour.
            return frame
        if self._latest is not None and self._latest - frame > a_day // 2:
            self.day += 1
            frame += a_day
        self._latest = frame
        return frame


class _Decoder:
    """Takes line after line: times its words, and hands them on."""

    def __init__(self, stream: Stream, here: Here, *, has_parity: bool) -> None:
        self.stream = stream
        self._here = here
        self._has_parity = has_parity
        self._clock = _Clock()

    def take(self, written: CaptionLine) -> Line:
        in_range = written.timecode.in_range
        frame = self._clock.frame(written.timecode, in_range=in_range)
        words, bad = written.read_words()
        even = even_bytes(words) - 2 * bad  # A bad word has no parity that could be wrong.
        self._here.line = written.number
        self.stream.send(words if self._has_parity else with_parity(words), frame)
        return Line(written, in_range, self._clock.day, frame, len(words) // 2, bad, even, self.stream.mode)
