"""The first lines that `inspect` prints of a file: its status, and its figures a line each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from .check.tally import tally
from .check.timecode import seconds
from .job.assets import shown
from .job.terminal import STYLES
from .layout import QUIET, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .check import Drift, Figures, Profile, Report
    from .check.tally import Tally
    from .inspecting import Inspected
    from .layout import Cell, Page, Row

    Fact = tuple[str, list[Cell]]

_BASES: Final = {"df": "drop-frame", "ndf": "non-drop", "mixed": "drop-frame and non-drop mixed"}
_FEW: Final = 10  # Findings that need no summary.
_PLURALS: Final = {"error": "errors", "warn": "warnings", "info": "infos"}
_SINGULARS: Final = {"error": "error", "warn": "warning", "info": "info"}


def print_headline(page: Page, inspected: Inspected) -> None:
    """Print the status and the name, then what there is to say of the whole file.

    What is found in the whole file is said here where only some cues are shown, which it is not about.
    """
    report = inspected.report
    page.hanging(
        ((f"{report.status:<5} ", f"bold {STYLES[report.status]}"),), (shown(inspected.file), "bold")
    )
    for name, parts in _facts(report, inspected.profile):
        page.flow(_lead(name), parts)
    for finding in inspected.unlisted:
        rule = f"{finding.severity} {finding.rule}", SEVERITIES[finding.severity]
        page.hanging(_lead("file"), rule, ("  ", ""), (finding.message, ""))


def duration(frames: int) -> str:
    """Write a time: seconds, and from a minute on hours, minutes and seconds."""
    minutes, hundredths = divmod(round(seconds(frames) * 100), 60 * 100)
    if not minutes:
        return f"{hundredths / 100:.2f} s"
    return f"{minutes // 60}:{minutes % 60:02}:{hundredths / 100:05.2f}"


def _lead(name: str) -> Row:
    return ("      ", ""), (f"{name:<8}", QUIET)


def _facts(report: Report, profile: Profile) -> Iterator[Fact]:
    figures = report.figures
    tallies = tally(report.findings)
    yield "found", _found(tallies, profile)
    if len(report.findings) > _FEW:
        yield (
            "rules",
            [
                (f"{found.severity} {found.rule} x{found.count}", SEVERITIES[found.severity])
                for found in tallies
            ],
        )
    if figures.first_tc and figures.duration_frames is not None:
        yield "time", _time(figures, figures.duration_frames)
    if report.cues:
        yield "cues", _cues(report, profile)
    if figures.max_cps is not None:
        yield "reading", _reading(figures, figures.max_cps)
    if report.drift is not None:
        yield "drift", _drift(report.drift)


def _found(tallies: Sequence[Tally], profile: Profile) -> list[Cell]:
    counts: Counter[str] = Counter()
    for found in tallies:
        counts[found.severity] += found.count
    kinds = [
        (f"{counts[kind]} {(_SINGULARS if counts[kind] == 1 else _PLURALS)[kind]}", SEVERITIES[kind])
        for kind in _PLURALS
        if counts[kind]
    ]
    return [*(kinds or [("nothing", STYLES["pass"])]), (f"profile {profile.name}", "")]


def _time(figures: Figures, frames: int) -> list[Cell]:
    base = figures.time_base or ""
    return [
        (_BASES.get(base, base), SEVERITIES["error"] if base == "mixed" else ""),
        (f"{figures.first_tc} to {figures.last_tc}", ""),
        (duration(frames), ""),
    ]


def _cues(report: Report, profile: Profile) -> list[Cell]:
    """Count them by mode; those of other channels, which the profile does not judge, by channel."""
    judged = Counter(cue.mode for cue in report.cues if cue.channel == profile.channel)
    others = Counter(cue.channel for cue in report.cues if cue.channel != profile.channel)
    parts = [(f"{judged.total()} on {profile.channel}", "")]
    parts += [(f"{count} {mode}" if len(judged) > 1 else mode, "") for mode, count in judged.items()]
    if report.figures.max_rows:
        parts.append((f"max {_some(report.figures.max_rows, 'row')}", ""))
        parts.append((f"max {_some(report.figures.max_cols or 0, 'column')}", ""))
    return parts + [(f"{count} on {channel}", "") for channel, count in sorted(others.items())]


def _reading(figures: Figures, most: float) -> list[Cell]:
    parts = [(f"max {most:.1f} cps", "")]
    if figures.p95_cps is not None:
        parts.append((f"p95 {figures.p95_cps:.1f} cps", ""))
    if figures.share_over_cps:
        parts.append((f"{figures.share_over_cps:.1%} of cues over", SEVERITIES["warn"]))
    if figures.busiest_second is not None:
        parts.append((f"busiest second {figures.busiest_second:.0f}", ""))
    if figures.wpm is not None:
        parts.append((f"{figures.wpm:.0f} wpm overall", ""))
    return parts


def _drift(drift: Drift) -> list[Cell]:
    """Say how late the captions come, first and last, against the reference."""
    parts = [(f"{_some(drift.matched, 'cue')} matched", "")]
    if drift.first_ms is not None:
        parts.append((f"{drift.first_ms:+z.0f} ms at the first", ""))
    if drift.last_ms is not None:
        parts.append((f"{drift.last_ms:+z.0f} ms at the last", ""))
    if drift.ms_an_hour is not None:
        parts.append((f"{drift.ms_an_hour:+z.0f} ms an hour", ""))
    if drift.spread_ms is not None:
        parts.append((f"spread {drift.spread_ms:.0f} ms", ""))
    if drift.steady is not None:
        parts.append(("steady" if drift.steady else "in steps", ""))
    return parts


def _some(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
