"""A file's numbers, as its record carries them. Those of cues are about the profile's channel alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.report import Figures, TimeBase

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.scc import Line, Track


def figures_of(track: Track, channel: str) -> Figures:
    """Count what a decoded file holds."""
    cues = [cue for cue in track.cues if cue.channel == channel]
    modes = [cue.mode for cue in cues]
    lines = track.lines
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
        max_rows=max((len(cue.rows) for cue in cues), default=None),
        max_cols=max((len(row.text) for cue in cues for row in cue.rows), default=None),
    )


def _time_base(lines: tuple[Line, ...]) -> TimeBase | None:
    match {line.timecode.drop for line in lines}:
        case kinds if len(kinds) > 1:
            return "mixed"
        case kinds if kinds:
            return "df" if True in kinds else "ndf"
    return None
