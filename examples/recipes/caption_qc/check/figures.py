"""A file's numbers, as its record carries them. Those of cues are about the profile's channel alone."""

from __future__ import annotations

from array import array
from math import ceil
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.busiest import busiest_second
from examples.recipes.caption_qc.check.measures import speed
from examples.recipes.caption_qc.check.rate_rules import over_cps
from examples.recipes.caption_qc.check.report import Figures, TimeBase

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.measures import Measures
    from examples.recipes.caption_qc.check.rule import Subject
    from examples.recipes.caption_qc.check.scc import Line

_A_MINUTE = 60


def figures_of(subject: Subject, most_cps: float) -> Figures:
    """Count what a decoded file holds; `most_cps` is the profile's limit of characters a second."""
    cues, measures, lines = subject.cues, subject.measures, subject.track.lines
    modes = [cue.mode for cue in cues]
    speeds = _speeds(measures)
    return Figures(
        time_base=_time_base(lines),
        first_tc=str(lines[0].timecode) if lines else None,
        last_tc=str(lines[-1].timecode) if lines else None,
        duration_frames=max(line.end for line in lines) - lines[0].frame if lines else None,
        cues=len(cues),
        words=sum(line.words for line in lines),
        mode_pop=modes.count("pop-on"),
        mode_roll=modes.count("roll-up"),
        mode_paint=modes.count("paint-on"),
        parity_errors=sum(line.even_bytes for line in lines),
        max_cps=speeds[-1] if speeds else None,
        p95_cps=speeds[ceil(len(speeds) * 95 / 100) - 1] if speeds else None,
        busiest_second=busiest_second(cues, measures),
        wpm=_words_a_minute(measures),
        share_over_cps=sum(over_cps(measures, most_cps)) / len(speeds) if speeds else None,
        max_rows=max((len(cue.rows) for cue in cues), default=None),
        max_cols=max((len(row.text) for cue in cues for row in cue.rows), default=None),
    )


def _speeds(measures: Measures) -> array[float]:
    """Give the characters a second of all cues of known time, from slow to fast."""
    pairs = zip(measures.characters, measures.frames, strict=True)
    return array("d", sorted(count * 30000 / (frames * 1001) for count, frames in pairs if frames))


def _words_a_minute(measures: Measures) -> float | None:
    """Say how many words a minute the whole file asks for while it shows anything of known time."""
    words = sum(count for count, frames in zip(measures.words, measures.frames, strict=True) if frames)
    return speed(words * _A_MINUTE, sum(measures.frames))


def _time_base(lines: tuple[Line, ...]) -> TimeBase | None:
    match {line.timecode.drop for line in lines}:
        case kinds if len(kinds) > 1:
            return "mixed"
        case kinds if kinds:
            return "df" if True in kinds else "ndf"
    return None
