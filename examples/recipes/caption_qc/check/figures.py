"""A file's numbers, as its record carries them. Those of cues are about the profile's channel alone."""

from __future__ import annotations

from array import array
from math import ceil
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.busiest import busiest_second
from examples.recipes.caption_qc.check.cue_rules import frames_of
from examples.recipes.caption_qc.check.rate_rules import cps_of, share_over, timed, words
from examples.recipes.caption_qc.check.report import Figures, TimeBase
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.scc import Line, Track

_A_MINUTE = 60


def figures_of(track: Track, cues: Sequence[Cue], most_cps: float) -> Figures:
    """Count what a decoded file holds; `cues` are those of the profile's channel, `most_cps` its limit."""
    modes = [cue.mode for cue in cues]
    lines = track.lines
    speeds = array("d", sorted(speed for cue in cues if (speed := cps_of(cue)) is not None))
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
        busiest_second=busiest_second(cues),
        wpm=_words_a_minute(cues),
        share_over_cps=share_over(cues, most_cps),
        max_rows=max((len(cue.rows) for cue in cues), default=None),
        max_cols=max((len(row.text) for cue in cues for row in cue.rows), default=None),
    )


def _words_a_minute(cues: Sequence[Cue]) -> float | None:
    """Say how many words a minute the whole file asks for while it shows anything of known time."""
    frames = sum(map(frames_of, cues))
    return sum(map(words, timed(cues))) * _A_MINUTE / seconds(frames) if frames else None


def _time_base(lines: tuple[Line, ...]) -> TimeBase | None:
    match {line.timecode.drop for line in lines}:
        case kinds if len(kinds) > 1:
            return "mixed"
        case kinds if kinds:
            return "df" if True in kinds else "ndf"
    return None
