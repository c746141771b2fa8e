"""The rules PROG_: whether the captions stay within their programme. Without one they find nothing.

Frames of two time bases can't be compared: where the file's differ from the programme's, PROG_TIMEBASE is
the one finding.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault, at_line, worst
from examples.recipes.caption_qc.check.limits import exact
from examples.recipes.caption_qc.check.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.recipes.caption_qc.check.report import Cue
    from examples.recipes.caption_qc.check.rule import Subject


def early(subject: Subject, limit: float) -> Iterator[Fault]:
    """PROG_EARLY: a cue that appears before the programme starts."""
    stretch = _stretch(subject)
    if stretch is None:
        return iter(())
    first, _ = stretch

    def tell(cue: Cue) -> Fault:
        frames = first - cue.start_frame
        return Fault(
            message=f"cue {cue.number} appears {frames} frames before the programme {subject.programme} starts",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=frames,
        )

    allowed = floor(exact(limit))
    cues = (cue for cue in subject.cues if first - cue.start_frame > allowed)
    return worst(cues, lambda cue: -cue.start_frame, tell)


def late(subject: Subject, limit: float) -> Iterator[Fault]:
    """PROG_LATE: a cue that is on screen after the programme has ended."""
    stretch = _stretch(subject)
    if stretch is None:
        return iter(())
    _, end = stretch

    def tell(cue: Cue) -> Fault:
        frames = _seen_until(cue) - end
        return Fault(
            message=f"cue {cue.number} is on screen {frames} frames after the programme {subject.programme} ends",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=frames,
        )

    allowed = floor(exact(limit))
    return worst((cue for cue in subject.cues if _seen_until(cue) - end > allowed), _seen_until, tell)


def time_base(subject: Subject, _limit: float) -> Iterator[Fault]:
    """PROG_TIMEBASE: lines in another time base than the programme's; one finding, at the first."""
    programme = subject.programme
    others = [line for line in subject.track.lines if programme and line.timecode.drop != programme.drop]
    if others:
        yield Fault(
            message=f"{others[0].timecode} and the programme {programme} are of two time bases (; is drop-frame, "
            f": is not), so cues were not compared with it; such lines: {len(others)}",
            place=at_line(others[0]),
            measured=len(others),
        )


def _stretch(subject: Subject) -> tuple[int, int] | None:
    """Give the programme's first frame and its end as the file counts; `None` where nothing can be compared."""
    programme = subject.programme
    if programme is None or not subject.cues:
        return None
    if any(line.timecode.drop != programme.drop for line in subject.track.lines):
        return None
    return programme.frames_near(subject.cues[0].start_frame)


def _seen_until(cue: Cue) -> int:
    """Give the frame after the last in which a cue is surely on screen."""
    return max(cue.start_frame + 1, cue.end_frame or 0)


RULES = (
    Rule(
        "PROG_EARLY",
        "error",
        early,
        "A cue appears before the programme starts.",
        threshold=0,
        unit="frames",
    ),
    Rule(
        "PROG_LATE",
        "error",
        late,
        "A cue is on screen after the programme has ended.",
        threshold=0,
        unit="frames",
    ),
    Rule(
        "PROG_TIMEBASE",
        "error",
        time_base,
        "The file and the programme are of two time bases: one is drop-frame and the other is not.",
        unit="lines",
    ),
)
