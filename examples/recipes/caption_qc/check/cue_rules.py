"""The rules over cues: how long one stays on screen, how many rows it takes, and in what colours.

Times are compared as whole frames. A cue of unknown end has no length, and no rule invents one; a cue that
ends before it starts is CUE_ZERO_OR_NEGATIVE and nothing else.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil, floor
from operator import itemgetter
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault, each, plain, worst
from examples.recipes.caption_qc.check.limits import exact, longest, shortest
from examples.recipes.caption_qc.check.measures import frames_of
from examples.recipes.caption_qc.check.report import PLAIN
from examples.recipes.caption_qc.check.rule import Rule
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from examples.recipes.caption_qc.check.report import Cue, Row
    from examples.recipes.caption_qc.check.rule import Subject

_MOST_ROWS = 4  # CEA-608: no decoder has to show more at a time.
_SHORTEST = 5 / 6


def rows(subject: Subject, limit: float) -> Iterator[Fault]:
    """LAY_ROWS: more rows than the limit, or than any decoder has to show. Roll-up has its depth instead."""
    allowed = floor(exact(limit))
    hard = max(allowed, _MOST_ROWS)

    def tell(cue: Cue) -> Fault:
        count = len(cue.rows)
        most = hard if count > hard else limit
        return Fault(
            message=f"cue {cue.number} takes {count} rows; at most {plain(most)} are wanted",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=count,
            threshold=most,
            severity="error" if count > hard else None,
        )

    def is_over(cue: Cue) -> bool:
        return len(cue.rows) > (hard if cue.mode == "roll-up" else allowed)

    return worst(filter(is_over, subject.cues), lambda cue: len(cue.rows), tell)


def zero_or_negative(subject: Subject, _limit: float) -> Iterator[Fault]:
    """CUE_ZERO_OR_NEGATIVE: an end that is not after the start."""

    def tell(cue: Cue) -> Fault:
        frames = (cue.end_frame or 0) - cue.start_frame
        return Fault(
            message=f"cue {cue.number} ends before it starts, by frames: {-frames}"
            if frames
            else f"cue {cue.number} ends in the frame in which it starts",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=frames,
        )

    cues = (cue for cue in subject.cues if cue.end_frame is not None and cue.end_frame <= cue.start_frame)
    return worst(cues, lambda cue: cue.start_frame - (cue.end_frame or 0), tell)


def short(subject: Subject, limit: float) -> Iterator[Fault]:
    """CUE_SHORT: a pop-on or paint-on cue that is gone too soon."""
    wanted = shortest(limit)
    cues = ((cue, wanted - frames) for cue, frames in _lasting(subject) if 0 < frames < wanted)
    return _told(
        subject, (over for over in cues if over[0].mode != "roll-up"), f"at least {plain(limit)} s are wanted"
    )


def long(subject: Subject, limit: float) -> Iterator[Fault]:
    """CUE_LONG: a pop-on or paint-on cue that stays too long."""
    allowed = longest(limit)
    cues = (over for over in _lasting(subject) if over[1] > allowed and over[0].mode != "roll-up")
    return _told(subject, cues, f"at most {plain(limit)} s are wanted")


def stuck(subject: Subject, limit: float) -> Iterator[Fault]:
    """CUE_STUCK: a cue of any mode that stays so long that decoders may blank it."""
    allowed = longest(limit)
    cues = (over for over in _lasting(subject) if over[1] > allowed)
    return _told(subject, cues, f"after {plain(limit)} s decoders may blank it")


def gap(subject: Subject, limit: float) -> Iterator[Fault]:
    """CUE_GAP: the screen is blank for less than the limit before the next cue; not at all is fine.

    The decoder saw whether it was: a carriage return, RDC and RCL leave the old text on screen, EDM does not.
    """

    def tell(pair: tuple[tuple[Cue, int], tuple[Cue, int]]) -> Fault:
        (above, _), (cue, frames) = pair
        return Fault(
            message=f"frames without text between cue {above.number} and cue {cue.number}: {frames}; "
            f"none, or at least {plain(limit)}, are wanted",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=frames,
        )

    wanted = ceil(exact(limit))
    cues = zip(subject.track.cues, subject.track.blank_before, strict=True)
    judged = ((cue, frames) for cue, frames in cues if cue.channel == subject.channel)
    return worst(
        (pair for pair in pairwise(judged) if 0 < pair[1][1] < wanted), lambda pair: -pair[1][1], tell
    )


def colour(subject: Subject, _limit: float) -> Iterator[Fault]:
    """STYLE_COLOUR: text in a colour that the profile does not list."""
    listed = subject.profile.colours
    if listed is None:
        return iter(())
    allowed = frozenset(listed)

    def others(cue: Cue) -> set[str]:
        return {colour for row in cue.rows for colour in _colours(row)} - allowed

    def tell(cue: Cue) -> Fault:
        return Fault(
            message=f"cue {cue.number} has text in {' and '.join(sorted(others(cue)))}; "
            f"the profile lists {', '.join(listed)}",
            place=subject.track.place_of(cue),
            cue=cue.number,
        )

    return each((cue for cue in subject.cues if others(cue)), tell)


def _colours(row: Row) -> set[str]:
    """Name the colours that a row's visible characters have: a coloured space is nothing to see."""
    plain, colours = list(row.text), set()
    for span in row.styles:
        part = slice(span.column - row.column, span.column - row.column + span.length)
        if not row.text[part].isspace():
            colours.add(span.style.colour)
        plain[part] = " " * span.length
    return colours if "".join(plain).isspace() else colours | {PLAIN.colour}


def _lasting(subject: Subject) -> Iterator[tuple[Cue, int]]:
    """Give each cue with its frames on screen: 0 where its end is unknown, or not after its start."""
    return zip(subject.cues, subject.measures.frames, strict=True)


def _told(subject: Subject, cues: Iterable[tuple[Cue, int]], wanted: str) -> Iterator[Fault]:
    """Tell of cues, each with how far it goes over its limit."""

    def tell(over: tuple[Cue, int]) -> Fault:
        cue, _ = over
        time = seconds(frames_of(cue))
        return Fault(
            message=f"cue {cue.number} is on screen for {time:.3f} s; {wanted}",
            place=subject.track.place_of(cue),
            cue=cue.number,
            measured=time,
        )

    return worst(cues, itemgetter(1), tell)


RULES = (
    Rule(
        "LAY_ROWS",
        "warn",
        rows,
        "A pop-on or paint-on cue takes more rows than the limit; more than 4 (or a greater limit) in any mode "
        "are an error.",
        threshold=2,
        unit="rows",
        also="error",
    ),
    Rule(
        "CUE_ZERO_OR_NEGATIVE",
        "error",
        zero_or_negative,
        "A cue ends in the frame in which it starts, or before it.",
        unit="frames",
    ),
    Rule(
        "CUE_SHORT",
        "warn",
        short,
        "A pop-on or paint-on cue is on screen for less time than the limit.",
        threshold=_SHORTEST,
        unit="seconds",
    ),
    Rule(
        "CUE_LONG",
        "warn",
        long,
        "A pop-on or paint-on cue is on screen for more time than the limit.",
        threshold=7,
        unit="seconds",
    ),
    Rule(
        "CUE_STUCK",
        "warn",
        stuck,
        "A cue of any mode is on screen for so long that decoders may blank it.",
        threshold=16,
        unit="seconds",
    ),
    Rule(
        "CUE_GAP",
        "warn",
        gap,
        "The screen is blank before a cue for fewer frames than the limit; back to back is fine.",
        threshold=2,
        unit="frames",
    ),
    Rule("STYLE_COLOUR", "warn", colour, "Text stands in a colour that the profile does not list."),
)
