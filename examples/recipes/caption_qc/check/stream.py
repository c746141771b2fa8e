"""The stream of words: which channel each is for, and which is the second copy of a control code.

A word costs a frame. Miscellaneous control codes choose the field, every control code the channel of that
field, and characters go to the channel of the last one. What is for a channel that nobody judges is decoded
too, and told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.channel import Channel
from examples.recipes.caption_qc.check.characters import even_bytes
from examples.recipes.caption_qc.check.codes import Op, read_code
from examples.recipes.caption_qc.check.notes import Here, Note, Notes
from examples.recipes.caption_qc.check.runs import (
    find_failed_copy,
    first_service_byte,
    is_failed_copy,
    runs,
    service_bytes,
)
from examples.recipes.caption_qc.check.witness import Witness

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.notes import NotedRule
    from examples.recipes.caption_qc.check.report import Mode
    from examples.recipes.caption_qc.check.showings import Showings

CHANNELS = ("CC1", "CC2", "CC3", "CC4")

_CHANNELS_A_FIELD = 2
_END_OF_SERVICE = 0x0F


class _Unpaired(NamedTuple):
    """A control code that ended its line without a second copy: that may begin the next line."""

    pair: bytes
    due: int
    """The frame in which it would have to come."""
    line: int
    counts: bool
    """Whether it is told of if it does not come."""


class Stream:
    """The four channels, and what is sent to them."""

    def __init__(self, judged: str, showings: Showings, notes: Notes) -> None:
        self._notes = notes
        self._channels = [
            Channel(
                name,
                1 + number // _CHANNELS_A_FIELD,
                showings,
                Witness(notes if name == judged else Notes(Here())),
            )
            for number, name in enumerate(CHANNELS)
        ]
        self._judged = self._channels[CHANNELS.index(judged)]
        self._channel = self._channels[0]
        self._field = 1
        self._in_service = False
        self._unpaired: _Unpaired | None = None

    @property
    def mode(self) -> Mode | None:
        """The mode of the channel that is selected."""
        return self._channel.mode

    def send(self, words: bytes, frame: int) -> None:
        """Send the words of a line, the first in `frame`."""
        if self._unpaired and self._is_paired(words, frame):
            words, frame = words[2:], frame + 1
        any_failed, spent = even_bytes(words) > 0, 0
        for run in runs(words):
            due = frame + run.start() // 2
            match run.lastgroup:
                case "copy":
                    self._control(run["code"], due, copies=2)
                case "code":
                    counts = self._control(run["code"], due, copies=1)
                    if counts and any_failed and (copy_end := find_failed_copy(words, run, spent)):
                        spent, counts = copy_end, False
                    if run.end() == len(words):
                        self._unpaired = _Unpaired(run["code"], due + 1, self._notes.here.line, counts)
                    elif counts:
                        self._notes.add_to_file("608_CTRL_NOT_DOUBLED", self._notes.here.line, due, 1)
                case "text":
                    self._text(run[0], due)

    def finish(self) -> None:
        """End the file."""
        self._is_paired(b"", 0)
        for channel in self._channels:
            channel.finish()

    def _is_paired(self, words: bytes, frame: int) -> bool:
        """Say whether a line begins with the second copy of the code that ended the line above."""
        last, self._unpaired = self._unpaired, None
        if last is None or (last.pair == words[:2] and last.due == frame):
            return last is not None
        if last.counts and not (last.due == frame and is_failed_copy(words[:2], last.pair)):
            self._notes.add_to_file("608_CTRL_NOT_DOUBLED", last.line, last.due - 1, 1)
        return False

    def _control(self, pair: bytes, frame: int, copies: int) -> bool:
        """Do what a code says, and say whether it had to be sent twice and be told of otherwise."""
        code = read_code(pair)
        self._field = code.field or self._field
        channel = self._channels[_CHANNELS_A_FIELD * (self._field - 1) + code.second_channel]
        judged = channel is self._judged
        if not judged:
            self._tell(channel, frame, copies)
        if code.op is not Op.RESERVED:
            self._in_service = False
            self._channel = channel
            channel.act(code, frame)
        elif judged:
            self._notes.add("608_UNKNOWN_CTRL", Note(self._notes.here.line, frame, _without_parity(pair)))
        return judged and self._field == 1

    def _text(self, words: bytes, frame: int) -> None:
        service = first_service_byte(words)
        if self._field == 1:
            if service is not None and self._judged.field == 1:
                note = Note(self._notes.here.line, frame + service // 2, measured=service_bytes(words))
                self._notes.add_to_line("608_XDS", note)
            self._channel.write(words, frame)
        elif service is None and not self._in_service:
            self._channel.write(words, frame)
        else:
            self._write_between_services(words, frame)
        if self._channel is not self._judged:
            self._tell_text(words, frame)

    def _write_between_services(self, words: bytes, frame: int) -> None:
        """Write what is no extended data: that goes from 01 to 0f, or to a caption code."""
        for start in range(0, len(words), 2):
            word = words[start : start + 2]
            if first_service_byte(word) == 0:
                self._in_service = word[0] & 0x7F != _END_OF_SERVICE
            elif not self._in_service:
                self._channel.write(word, frame + start // 2)

    def _tell_text(self, words: bytes, frame: int) -> None:
        carrying = [place // 2 for place in range(0, len(words), 2) if _carries(words[place : place + 2])]
        if carrying:
            self._tell(self._channel, frame + carrying[0], len(carrying))

    def _tell(self, channel: Channel, frame: int, words: int) -> None:
        rule: NotedRule = "608_CHANNEL2" if channel.field == self._judged.field else "608_FIELD2"
        self._notes.add_to_file(rule, self._notes.here.line, frame, words, channel.name)


def _carries(word: bytes) -> bool:
    return any(byte & 0x7F for byte in word)


def _without_parity(pair: bytes) -> str:
    return bytes(byte & 0x7F for byte in pair).hex(" ")
