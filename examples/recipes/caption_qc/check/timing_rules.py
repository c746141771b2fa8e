"""The rules TC_: what the time codes of a file say, and whether its words have the time to go out.

A label that is out of range is TC_RANGE and nothing else: the rules that compare a line with the one above it
pass over it, so that one slip of the pen is one finding.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from examples.recipes.caption_qc.check.faults import Fault, at_line, each, plain, worst
from examples.recipes.caption_qc.check.limits import longest
from examples.recipes.caption_qc.check.rule import Rule, of_track
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.recipes.caption_qc.check.scc import Line, Track

    _Pair: TypeAlias = tuple[Line, Line]
    """A line after the one above it."""

_LINES_THAT_TELL_A_RATE = 50


def out_of_range(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_RANGE: a part of the label is greater than it can be; counted as written."""

    def tell(line: Line) -> Fault:
        part, value, greatest = line.timecode.beyond
        return Fault(
            message=f"{part} {value} does not exist in {line.timecode}; the greatest is {greatest}",
            place=at_line(line),
            measured=value,
            threshold=greatest,
        )

    return each((line for line in track.lines if not line.in_range), tell)


def backward(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_BACKWARD: a line before the line above."""

    def tell(pair: _Pair) -> Fault:
        above, line = pair
        return Fault(
            message=f"{line.timecode} is before {above.timecode} of line {above.number} above it",
            place=at_line(line),
            measured=above.frame - line.frame,
        )

    back = (pair for pair in pairwise(track.timed) if pair[1].frame < pair[0].frame)
    return worst(back, lambda pair: pair[0].frame - pair[1].frame, tell)


def duplicate(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_DUPLICATE: a line in the very frame of the line above."""

    def tell(pair: _Pair) -> Fault:
        above, line = pair
        return Fault(
            message=f"{line.timecode} is the frame of line {above.number} above it", place=at_line(line)
        )

    return each((pair for pair in pairwise(track.timed) if pair[1].frame == pair[0].frame), tell)


def load_overlap(track: Track, limit: float) -> Iterator[Fault]:
    """TC_LOAD_OVERLAP: a line starts before the words of the line above have gone out.

    A line before the line above is TC_BACKWARD alone. Modes that show text as it comes are only warned of.
    """

    def tell(pair: _Pair) -> Fault:
        above, line = pair
        missing = above.end - line.frame
        return Fault(
            message=f"line {above.number} has {above.words} words but only "
            f"{line.frame - above.frame} frames until {line.timecode}: {missing} are missing",
            place=at_line(line),
            measured=missing,
            severity=None if above.mode == "pop-on" else "warn",
        )

    def excess(pair: _Pair) -> tuple[bool, int]:
        above, line = pair
        return above.mode == "pop-on", above.end - line.frame

    return worst(_overlaps(track, limit), excess, tell)


def wrap(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_WRAP: the time codes pass midnight; frames go on counting."""

    def tell(pair: _Pair) -> Fault:
        above, line = pair
        return Fault(
            message=f"midnight passes between {above.timecode} and {line.timecode}", place=at_line(line)
        )

    return each((pair for pair in pairwise(track.timed) if pair[1].day > pair[0].day), tell)


def hour_offset(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_HOUR_OFFSET: the first hour is not 0."""
    first = track.timed[0] if track.timed else None
    if first and first.timecode.hour:
        yield Fault(
            message=f"the first time code is {first.timecode}: its hour is not 00",
            place=at_line(first),
            measured=first.timecode.hour,
        )


def dropped_label(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_DROPPED_FRAME_LABEL: a label that drop-frame counting leaves out."""

    def tell(line: Line) -> Fault:
        return Fault(
            message=f"{line.timecode} does not exist: in drop-frame this minute starts with frame 02",
            place=at_line(line),
        )

    return each((line for line in track.timed if not line.timecode.exists), tell)


def mixed_time_base(track: Track, _limit: float) -> Iterator[Fault]:
    """TC_MIXED_DF_NDF: both separators in one file; one finding, at the first line with the other one."""
    first = track.lines[0].timecode if track.lines else None
    others = [line for line in track.lines if first and line.timecode.drop != first.drop]
    if others:
        yield Fault(
            message=f"{others[0].timecode} and {first} are of two time bases (; is drop-frame, : is not); "
            f"lines that differ from the first: {len(others)}",
            place=at_line(others[0]),
            measured=len(others),
        )


def jump(track: Track, limit: float) -> Iterator[Fault]:
    """TC_JUMP: a long time without a line."""
    allowed = longest(limit)

    def tell(pair: _Pair) -> Fault:
        above, line = pair
        time = seconds(line.frame - above.frame)
        return Fault(
            message=f"no line for {time:.3f} s after {above.timecode} of line {above.number}; "
            f"over {plain(limit)} s is unusual",
            place=at_line(line),
            measured=time,
        )

    long = (pair for pair in pairwise(track.timed) if pair[1].frame - pair[0].frame > allowed)
    return worst(long, lambda pair: pair[1].frame - pair[0].frame, tell)


def frame_rate(track: Track, limit: float) -> Iterator[Fault]:
    """TC_FRAME_RATE: many lines, and none late in its second: the file may count 24 or 25 frames."""
    if len(track.lines) < _LINES_THAT_TELL_A_RATE:
        return
    highest = max(line.timecode.frame for line in track.lines)
    if highest <= limit:
        yield Fault(
            message=f"no frame number of {len(track.lines)} lines is over {highest}; "
            "SCC counts 30 a second, so the file may have been made for 24 or 25",
            measured=highest,
        )


def _overlaps(track: Track, limit: float) -> Iterator[_Pair]:
    return (
        (above, line)
        for above, line in pairwise(track.timed)
        if above.end - line.frame > limit and line.frame >= above.frame
    )


RULES = (
    Rule(
        "TC_RANGE",
        "error",
        of_track(out_of_range),
        "A part of a time code is greater than it can be; it is counted as written.",
    ),
    Rule("TC_BACKWARD", "error", of_track(backward), "A line is before the line above it.", unit="frames"),
    Rule("TC_DUPLICATE", "warn", of_track(duplicate), "A line is in the very frame of the line above it."),
    Rule(
        "TC_LOAD_OVERLAP",
        "error",
        of_track(load_overlap),
        "A line starts before the words of the line above, one a frame, have gone out.",
        threshold=0,
        unit="frames",
        also="warn",
    ),
    Rule("TC_WRAP", "info", of_track(wrap), "The time codes pass midnight; frames go on counting."),
    Rule("TC_HOUR_OFFSET", "info", of_track(hour_offset), "The first hour is not 00.", unit="hours"),
    Rule(
        "TC_DROPPED_FRAME_LABEL",
        "error",
        of_track(dropped_label),
        "A time code is one that drop-frame counting leaves out.",
    ),
    Rule(
        "TC_MIXED_DF_NDF",
        "error",
        of_track(mixed_time_base),
        "Both separators, `;` and `:`, are in one file.",
        unit="lines",
    ),
    Rule(
        "TC_JUMP",
        "warn",
        of_track(jump),
        "A long time passes without a line.",
        threshold=600,
        unit="seconds",
    ),
    Rule(
        "TC_FRAME_RATE",
        "warn",
        of_track(frame_rate),
        "No frame number of 50 lines or more is high: the file may count 24 or 25 frames a second.",
        threshold=23,
        unit="frames",
    ),
)
