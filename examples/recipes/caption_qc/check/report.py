"""What a check found: frozen values, and nothing that computes.

Lines, rows and columns count from 1; words from 0, so that a word goes out at its line's frame + word.
Frames are frame numbers as `captions` count them (30000/1001 a second), times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["info", "warn", "error"]
Status: TypeAlias = Literal["pass", "warn", "fail", "error"]
Mode: TypeAlias = Literal["pop-on", "roll-up", "paint-on"]
TimeBase: TypeAlias = Literal["df", "ndf", "mixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with its place. A field that the rule has no value for is `None`."""

    rule: str
    severity: Severity
    message: str
    line: int | None = None
    word: int | None = None
    timecode: str | None = None
    frame: int | None = None
    cue: int | None = None
    channel: str | None = None
    measured: float | None = None
    threshold: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """How characters look. Colours are the eight of the standard, by their lower-case names."""

    colour: str = "white"
    background: str = "black"
    italics: bool = False
    underline: bool = False
    flash: bool = False


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Span:
    """Characters of a row, side by side and of one style: the first one's column, and how many."""

    column: int
    length: int
    style: Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of text as it stood on screen; `column` is that of the first character."""

    row: int
    column: int
    text: str
    styles: tuple[Span, ...] = ()
    """The parts that are not `PLAIN`, from left to right."""
    unwritten: int = 0
    """Cells of `text` that show as spaces, but were not written and part no words that nothing else parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """One stretch in which the screen showed the same text.

    `end_frame` and `end` are `None` where the file does not say when the text leaves.
    """

    number: int
    channel: str
    mode: Mode
    load_frame: int
    start_frame: int
    end_frame: int | None
    start: float
    end: float | None
    rows: tuple[Row, ...]
    line: int = 0
    """The file's line in which it appears."""
    load_line: int = 0
    """The file's line in which its text begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A file's numbers, as its record carries them. `None`: the file has no such number."""

    time_base: TimeBase | None = None
    first_tc: str | None = None
    last_tc: str | None = None
    duration_frames: int | None = None
    cues: int = 0
    words: int = 0
    mode_pop: int = 0
    mode_roll: int = 0
    mode_paint: int = 0
    parity_errors: int = 0
    max_cps: float | None = None
    p95_cps: float | None = None
    """By nearest rank: 95 % of the cues of known time ask for no more."""
    busiest_second: float | None = None
    """The characters of the fullest second, each cue's spread evenly over its time."""
    wpm: float | None = None
    """Words a minute of all cues of known time together."""
    share_over_cps: float | None = None
    """Of the cues of known time, those over the profile's characters a second: from 0 to 1."""
    max_rows: int | None = None
    max_cols: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How a file's distance from its reference track changes. Without two matches all but `matched` is `None`."""

    matched: int
    """Cues whose text both tracks have once."""
    first_ms: float | None = None
    """How much later than the reference the first of them appears, in milliseconds; of a steady drift, its line."""
    last_ms: float | None = None
    spread_ms: float | None = None
    """Between the greatest and the smallest such distance, single cues that were moved aside."""
    ms_an_hour: float | None = None
    """The slope: over 0, the file comes later and later."""
    steady: bool | None = None
    """Whether the slope explains the most of the spread; else it comes in steps. `None`: too few to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one check of one file says."""

    status: Status
    findings: tuple[Finding, ...]
    cues: tuple[Cue, ...]
    figures: Figures
    profile: str
    profile_sha256: str
    drift: Drift | None = None
    """`None` without a reference track."""
    notes: tuple[str, ...] = ()
    """What was not looked at, and why."""
