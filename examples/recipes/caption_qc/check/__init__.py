"""The caption checker: bytes and a profile in, a report out. No I/O, no clock, no batching.

    report = check(data, load("house"))
    report.status, report.findings, report.cues, report.figures

A programme and a reference track are values too: `parse_programme`, `parse_sidecar` and `read_reference` make
them of text and bytes. `load` alone reads a file, the profile's. The job's workers import this package and
nothing else of it.
"""

from __future__ import annotations

from examples.recipes.caption_qc.check.checker import check, too_large
from examples.recipes.caption_qc.check.measures import cps_of, wpm_of
from examples.recipes.caption_qc.check.profiles import Override, Profile, ProfileError, load, parse
from examples.recipes.caption_qc.check.programme import GivenError, Programme, parse_programme, parse_sidecar
from examples.recipes.caption_qc.check.reference import Reference, read_reference
from examples.recipes.caption_qc.check.report import (
    Cue,
    Drift,
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
    "Drift",
    "Figures",
    "Finding",
    "GivenError",
    "Mode",
    "Override",
    "Profile",
    "ProfileError",
    "Programme",
    "Reference",
    "Report",
    "Row",
    "Severity",
    "Status",
    "TimeBase",
    "check",
    "cps_of",
    "load",
    "parse",
    "parse_programme",
    "parse_sidecar",
    "read_reference",
    "too_large",
    "wpm_of",
]
