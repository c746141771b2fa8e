"""The caption checker: bytes and a profile in, a report out. No I/O, no clock, no batching.

    report = check(data, load("house"))
    report.status, report.findings, report.cues, report.figures

`load` alone reads a file, the profile's. The job's workers import this package and nothing else of it.
"""

from __future__ import annotations

from examples.recipes.caption_qc.check.checker import check, too_large
from examples.recipes.caption_qc.check.profiles import Override, Profile, ProfileError, load, parse
from examples.recipes.caption_qc.check.report import (
    Cue,
    Figures,
    Finding,
    Mode,
    Report,
    Row,
    Severity,
    Status,
    TimeBase,
)

__all__ = [
    "Cue",
    "Figures",
    "Finding",
    "Mode",
    "Override",
    "Profile",
    "ProfileError",
    "Report",
    "Row",
    "Severity",
    "Status",
    "TimeBase",
    "check",
    "load",
    "parse",
    "too_large",
]
