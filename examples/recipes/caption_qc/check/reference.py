"""A reference track: captions of the same programme whose times are right, from SCC, WebVTT or SubRip.

Markup is taken out here, in time that grows with the text, and not by the library, whose expressions look
for the end of a tag from each of its beginnings.
"""

from __future__ import annotations

import html
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from examples.recipes.caption_qc.check.lines import HEADER, read_text
from examples.recipes.caption_qc.check.programme import GivenError
from examples.recipes.caption_qc.check.scc import CHANNELS, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

_WANTED = "give captions as SCC, WebVTT or SubRip"
_TAG = re.compile(
    r"< ?/? ?(?:(?:b|i|u|s|c|br|ruby|rt)(?:\.[^<>]*| ?/?)|(?:v|font|lang)(?:[ \t.][^<>]*)?)>|\{\\[^{}]*\}",
    re.IGNORECASE | re.ASCII,
)
"""Those of WebVTT, SubRip and, in braces, SubStation; any other text in angle brackets is said."""
_TIME_TAG = re.compile(r"<[\d:.]{5,20}>", re.ASCII)
_ENTITY = re.compile(r"&(?:\w{1,31}|#\d{1,7}|#x[\da-f]{1,6});", re.IGNORECASE | re.ASCII)
_BLANK_LINES = re.compile(r"\n{3,}")


class Moment(NamedTuple):
    """A caption of a track: when it appears, and what it says."""

    milliseconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What is compared with a file's cues."""

    origin: str
    moments: tuple[Moment, ...]
    """Those of an SCC file are of the first channel that has any."""
    channels: Mapping[str, tuple[Moment, ...]] = field(default_factory=dict, hash=False)
    """Those of each channel, where there are channels."""

    def moments_for(self, channel: str) -> tuple[Moment, ...]:
        """Give what is compared with cues of a channel: the same one, if the reference has it."""
        return self.channels.get(channel, self.moments)


def read_reference(data: bytes, origin: str) -> Reference:
    """Read a reference from a file's bytes; `origin` is what messages call it.

    Raises:
        GivenError: They are no captions that can be read.
    """
    channels: dict[str, tuple[Moment, ...]] = {}
    if read_text(data).first_line().rstrip().startswith(HEADER):
        channels = _of_scc(data)
        moments = next(iter(channels.values()), ())
    else:
        moments = tuple(_of_text(_decoded(data, origin), origin))
    if not moments:
        raise GivenError(f"reference {origin!r} shows nothing; {_WANTED}")
    return Reference(origin, moments, channels)


def _of_scc(data: bytes) -> dict[str, tuple[Moment, ...]]:
    """Take the cues of each channel that has any, in the order of the channels."""
    cues = decode(data).cues
    shown = {cue.channel for cue in cues}
    return {
        channel: tuple(
            Moment(cue.start * 1000, " ".join(row.text for row in cue.rows))
            for cue in cues
            if cue.channel == channel
        )
        for channel in CHANNELS
        if channel in shown
    }


def _decoded(data: bytes, origin: str) -> str:
    encoding = "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise GivenError(
            f"reference {origin!r}: byte {error.start} is not {encoding.removesuffix('-sig').upper()}; {_WANTED}"
        ) from error


def _of_text(text: str, origin: str) -> list[Moment]:
    """Read WebVTT or SubRip, told apart by the first line."""
    if "-->" not in text:
        raise GivenError(f"reference {origin!r} has no time of a caption; {_WANTED}")
    try:
        from pysubs2 import SSAFile  # noqa: PLC0415 - checks without a reference need no library
        from pysubs2.exceptions import Pysubs2Error  # noqa: PLC0415
    except ImportError as error:
        raise GivenError(
            f"reference {origin!r} needs the library pysubs2; install it, or give SCC"
        ) from error
    kind = "vtt" if text.startswith("WEBVTT") else "srt"
    try:
        events = SSAFile.from_string(_tamed(text), format_=kind, keep_html_tags=True).events
    except (Pysubs2Error, ValueError, OverflowError) as error:
        raise GivenError(f"reference {origin!r}: {' '.join(str(error).split())}; {_WANTED}") from error
    end = r"\N\N" if kind == "vtt" else None  # What follows a blank line is the next cue's name, or a note.
    return [
        Moment(event.start, _said(event.text.partition(end)[0] if end else event.text)) for event in events
    ]


def _tamed(text: str) -> str:
    """Take out what the library takes for a cue's times, or spends the square of its length on."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK_LINES.sub("\n\n", _TIME_TAG.sub("", lines))


def _said(text: str) -> str:
    """Take markup away and entities back to what they stand for."""
    plain = _TAG.sub("", text.replace(r"\N", " "))
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), plain)
