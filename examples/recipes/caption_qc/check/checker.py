"""The check itself: decode a file, let the rules look at it, and weigh what they find by the profile."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault
from examples.recipes.caption_qc.check.figures import figures_of
from examples.recipes.caption_qc.check.report import Cue, Figures, Finding, Report, Status
from examples.recipes.caption_qc.check.rules import RULES, Rule
from examples.recipes.caption_qc.check.scc import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from examples.recipes.caption_qc.check.profiles import Profile

MOST_LISTED = 100
"""Findings of one rule in one file; one more says how many there were."""


def check(data: bytes, profile: Profile) -> Report:
    """Check a file's bytes, whatever they are. Equal bytes and an equal profile give an equal report."""
    track = decode(data)
    findings = [
        finding
        for rule in RULES.values()
        for finding in _findings(rule, profile, rule.find(track, _threshold(rule, profile)))
    ]
    return _report(profile, findings, track.cues, figures_of(track, profile.channel))


def too_large(size: int, profile: Profile) -> Report | None:
    """Report on a file of so many bytes if the profile refuses it for that; `None` if it is to be checked."""
    if size <= profile.max_bytes:
        return None
    fault = Fault(
        message=f"the file has {size} bytes, over the limit of {profile.max_bytes}; it was not read",
        measured=size,
        threshold=profile.max_bytes,
    )
    return _report(profile, _findings(RULES["FMT_TOO_LARGE"], profile, iter([fault])), (), Figures())


def _threshold(rule: Rule, profile: Profile) -> float:
    changed = profile.override(rule).threshold
    return (rule.threshold or 0) if changed is None else changed


def _findings(rule: Rule, profile: Profile, faults: Iterator[Fault]) -> Iterator[Finding]:
    listed = [_finding(rule, profile, fault) for fault in islice(faults, MOST_LISTED)]
    yield from listed
    if unlisted := sum(1 for _ in faults):
        count = len(listed) + unlisted
        yield Finding(
            rule=rule.name,
            severity=listed[-1].severity,
            message=f"{rule.name} was found {count} times; only the first {len(listed)} are listed",
            measured=count,
            threshold=MOST_LISTED,
            unit="findings",
        )


def _finding(rule: Rule, profile: Profile, fault: Fault) -> Finding:
    threshold = _threshold(rule, profile) if rule.threshold is not None else None
    return Finding(
        rule=rule.name,
        severity=profile.override(rule).severity or fault.severity or rule.severity,
        message=fault.message,
        line=fault.place.line,
        word=fault.place.word,
        timecode=fault.place.timecode,
        frame=fault.place.frame,
        measured=fault.measured,
        threshold=threshold if fault.threshold is None else fault.threshold,
        unit=fault.unit or rule.unit,
    )


def _report(profile: Profile, findings: Iterable[Finding], cues: tuple[Cue, ...], figures: Figures) -> Report:
    ordered = tuple(sorted(findings, key=_place))
    return Report(
        status=_status(ordered),
        findings=ordered,
        cues=cues,
        figures=figures,
        profile=profile.name,
        profile_sha256=profile.sha256,
    )


def _place(finding: Finding) -> tuple[float, int]:
    """Order by line and word, what has no line last; findings of one place stay in the order of the rules."""
    line = float("inf") if finding.line is None else finding.line
    return line, -1 if finding.word is None else finding.word


def _status(findings: Iterable[Finding]) -> Status:
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "fail"
    return "warn" if "warn" in severities else "pass"
