"""A reference track: captions of the same programme whose times are right, from SCC, WebVTT or SubRip."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass
from typing import NamedTuple

from examples.recipes.caption_qc.check.lines import HEADER, read_text
from examples.recipes.caption_qc.check.programme import GivenError
from examples.recipes.caption_qc.check.scc import CHANNELS, decode

_WANTED = "give captions as SCC, WebVTT or SubRip"
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")


class Moment(NamedTuple):
    """A caption of a track: when it appears, and what it says."""

    milliseconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What is compared with a file's cues."""

    origin: str
    moments: tuple[Moment, ...]


def read_reference(data: bytes, origin: str) -> Reference:
    """Read a reference from a file's bytes; `origin` is what messages call it.

    Raises:
        GivenError: They are no captions that can be read.
    """
    if read_text(data).first_line().rstrip().startswith(HEADER):
        moments = _of_scc(data)
    else:
        moments = _of_text(_decoded(data, origin), origin)
    if not moments:
        raise GivenError(f"reference {origin!r} shows nothing; {_WANTED}")
    return Reference(origin, tuple(moments))


def _of_scc(data: bytes) -> list[Moment]:
    """Take the cues of the first channel that has any."""
    cues = decode(data).cues
    shown = {cue.channel for cue in cues}
    channel = next((name for name in CHANNELS if name in shown), None)
    return [
        Moment(cue.start * 1000, " ".join(row.text for row in cue.rows))
        for cue in cues
        if cue.channel == channel
    ]


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
        events = SSAFile.from_string(text.replace("\r\n", "\n").replace("\r", "\n"), format_=kind).events
    except (Pysubs2Error, ValueError, OverflowError) as error:
        raise GivenError(f"reference {origin!r}: {' '.join(str(error).split())}; {_WANTED}") from error
    return [Moment(event.start, _TAG.sub("", event.text.replace(r"\N", " "))) for event in events]
