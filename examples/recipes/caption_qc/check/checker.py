"""The check itself: decode a file, let the rules look at it, and weigh what they find by the profile."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, get_args

from examples.recipes.caption_qc.check.drift import drift_of, untold
from examples.recipes.caption_qc.check.faults import MOST_LISTED, Fault
from examples.recipes.caption_qc.check.figures import figures_of
from examples.recipes.caption_qc.check.measures import measure
from examples.recipes.caption_qc.check.report import Cue, Figures, Finding, Report, Severity, Status
from examples.recipes.caption_qc.check.rule import Rule, Subject
from examples.recipes.caption_qc.check.rules import RULES
from examples.recipes.caption_qc.check.scc import decode
from examples.recipes.caption_qc.check.tally import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from examples.recipes.caption_qc.check.profiles import Profile
    from examples.recipes.caption_qc.check.programme import Programme
    from examples.recipes.caption_qc.check.reference import Reference

_MILD_TO_BAD: tuple[Severity, ...] = get_args(Severity)


NO_REFERENCE = "no reference track was given: an SCC file alone cannot show drift"


def check(
    data: bytes,
    profile: Profile,
    *,
    programme: Programme | None = None,
    reference: Reference | None = None,
) -> Report:
    """Check a file's bytes, whatever they are. Equal arguments give an equal report."""
    track = decode(data, profile.channel)
    cues = tuple(cue for cue in track.cues if cue.channel == profile.channel)
    subject = Subject(
        track=track,
        profile=profile,
        cues=cues,
        measures=measure(cues),
        programme=programme,
        drift=drift_of(cues, reference.moments_for(profile.channel)) if reference else None,
    )
    findings = [
        finding
        for rule in RULES.values()
        for finding in _findings(rule, profile, rule.find(subject, _threshold(rule, profile)))
    ]
    figures = figures_of(subject, _threshold(RULES["RATE_CPS"], profile))
    report = _report(profile, findings, track.cues, figures)
    return replace(report, drift=subject.drift, notes=tuple(_notes(subject)))


def _notes(subject: Subject) -> Iterator[str]:
    """Say what could not be looked at, which no rule finds."""
    if subject.drift is None:
        yield NO_REFERENCE
    elif note := untold(subject.drift, _threshold(RULES["DRIFT"], subject.profile)):
        yield note
    if subject.track.cues and not subject.cues:
        others = sorted({cue.channel for cue in subject.track.cues})
        yield f"{subject.channel} shows nothing, and it alone is judged; there are cues on {', '.join(others)}"


def too_large(size: int, profile: Profile) -> Report | None:
    """Report on a file of so many bytes if the profile refuses it for that; `None` if it is to be checked."""
    if size <= profile.max_bytes:
        return None
    fault = Fault(
        message=f"the file has {size} bytes, over the limit of {profile.max_bytes}; it was not read",
        measured=size,
        threshold=profile.max_bytes,
    )
    return _report(profile, _findings(RULES["FMT_TOO_LARGE"], profile, [fault]), (), Figures())


def _threshold(rule: Rule, profile: Profile) -> float:
    changed = profile.override(rule).threshold
    return (rule.threshold or 0) if changed is None else changed


def _findings(rule: Rule, profile: Profile, faults: Iterable[Fault]) -> list[Finding]:
    """List the first faults that the rule tells of, errors before warnings; one more counts all if any was left out.

    It is as severe as the worst of those left out, so that a file's status follows from its findings.
    """
    first: dict[Severity, list[Fault]] = {severity: [] for severity in reversed(_MILD_TO_BAD)}
    counts = dict.fromkeys(first, 0)
    which = "first"
    for fault in faults:
        which = "worst" if fault.mildest else which
        severity = _severity(rule, profile, fault)
        counts[severity] += fault.count
        if len(first[severity]) < MOST_LISTED:
            first[severity].append(fault)
    kept = islice(chain.from_iterable(first.values()), MOST_LISTED)
    listed = [_finding(rule, profile, fault) for fault in kept]
    for finding in listed:
        counts[finding.severity] -= 1
    unlisted = sum(counts.values())
    if unlisted:
        worst = next(severity for severity, count in counts.items() if count)
        told = f"only the {which} {len(listed)} are listed"
        listed.append(_summary(rule, profile, worst, len(listed) + unlisted, told))
    return listed


def _summary(rule: Rule, profile: Profile, severity: Severity, count: int, told: str) -> Finding:
    return Finding(
        rule=rule.name,
        severity=severity,
        channel=profile.channel if rule.of_channel else None,
        message=f"{rule.name} was found {count} times; {told}",
        measured=count,
        threshold=MOST_LISTED,
        unit=COUNTED,
    )


def _severity(rule: Rule, profile: Profile, fault: Fault) -> Severity:
    return profile.override(rule).severity or fault.severity or rule.severity


def _finding(rule: Rule, profile: Profile, fault: Fault) -> Finding:
    threshold = _threshold(rule, profile) if rule.threshold is not None else None
    return Finding(
        rule=rule.name,
        severity=_severity(rule, profile, fault),
        message=fault.message,
        line=fault.place.line,
        word=fault.place.word,
        timecode=fault.place.timecode,
        frame=fault.place.frame,
        cue=fault.cue,
        channel=fault.channel or (profile.channel if rule.of_channel else None),
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
