"""Reference tracks that tests of drift are made with, and files to compare with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caption_cues import cleared, shown
from caption_encoder import scc
from caption_reports import HOUSE

from examples.recipes.caption_qc.check import Drift, Profile, Report, check, read_reference
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = ("north", "east", "south", "west", "harbour", "ferry", "museum")


def said(number: int) -> str:
    """Give a text that no other cue has."""
    return f"{WORDS[number % 7]} {WORDS[number // 7 % 7]} number {number}"


def spoken(frames: Sequence[int]) -> bytes:
    """Write a file of a cue from each of these frames on."""
    return scc(
        *(part for n, frame in enumerate(frames) for part in (shown(frame, said(n)), cleared(frame + 90)))
    )


def clock(milliseconds: float, mark: str = ".") -> str:
    """Write a time as WebVTT does; with a comma, as SubRip."""
    whole = round(milliseconds)
    return f"{whole // 3_600_000:02}:{whole // 60_000 % 60:02}:{whole // 1000 % 60:02}{mark}{whole % 1000:03}"


def webvtt(cues: Sequence[tuple[float, str]]) -> bytes:
    """Write a WebVTT file of starts in milliseconds and texts."""
    parts = [f"{clock(start)} --> {clock(start + 2000)}\n{text}\n" for start, text in cues]
    return ("WEBVTT\n\n" + "\n".join(parts)).encode()


def apart(
    distances: Sequence[float],
    frames: Sequence[int],
    *,
    data: bytes | None = None,
    offset: float = 10_000_000,
    profile: Profile = HOUSE,
) -> Report:
    """Check cues against a reference in which each is so many milliseconds earlier, and all so much later."""
    cues = [
        (seconds(frame) * 1000 - distance + offset, said(number))
        for number, (frame, distance) in enumerate(zip(frames, distances, strict=True))
    ]
    reference = read_reference(webvtt(cues), "right.vtt")
    return check(spoken(frames) if data is None else data, profile, reference=reference)


def drift_of(report: Report) -> Drift:
    """Give what was measured."""
    assert report.drift is not None
    return report.drift
