"""What a report's findings add up to: how often each rule was broken, and what is said of the whole file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from examples.recipes.caption_qc.check.report import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from examples.recipes.caption_qc.check.report import Finding

COUNTED = "findings"
"""The unit of the finding that says how many there were of a rule, where a report does not list them all."""

_WORST_FIRST = get_args(Severity)[::-1]


@dataclass(frozen=True, slots=True)
class Tally:
    """How often one rule was broken in one severity."""

    severity: Severity
    rule: str
    count: int
    of_file: bool
    """Whether one of these findings is about the whole file."""


def tally(findings: Iterable[Finding]) -> list[Tally]:
    """Count findings by rule and severity, what matters most first.

    Those that a report does not list are counted too, as severe as the finding that sums them up. Errors come
    before warnings; among these what is said of the whole file, then what was found most often.
    """
    counts: Counter[tuple[Severity, str]] = Counter()
    listed: Counter[str] = Counter()
    whole, sums = set(), []
    for finding in findings:
        if finding.unit == COUNTED:
            sums.append(finding)
            continue
        counts[finding.severity, finding.rule] += 1
        listed[finding.rule] += 1
        if is_of_file(finding):
            whole.add((finding.severity, finding.rule))
    for finding in sums:
        counts[finding.severity, finding.rule] += int(finding.measured or 0) - listed[finding.rule]
    tallies = (Tally(*key, count, key in whole) for key, count in counts.items())
    return sorted(tallies, key=_weight)


def is_of_file(finding: Finding) -> bool:
    """Say whether a finding is about the file as a whole: it has no place, or is about its first line's form."""
    if finding.line is None:
        return finding.unit != COUNTED
    return finding.rule == "FMT_HEADER" or (finding.rule == "FMT_ENCODING" and finding.measured is None)


def _weight(found: Tally) -> tuple[int, bool, int, str]:
    return _WORST_FIRST.index(found.severity), not found.of_file, -found.count, found.rule
