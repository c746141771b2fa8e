"""`inspect`: what files show and what is wrong with them, in one of the forms in which it is printed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .check import check, too_large
from .check.tally import COUNTED, is_of_file
from .job.assets import shown
from .job.errors import Exit, JobError
from .job.streams import say
from .reading import UNREADABLE, TooLongError, read_file, reference_of, sidecar_of, why_unread

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from .check import Cue, Finding, Profile, Programme, Reference, Report, Severity

    Ended: TypeAlias = tuple[str, int]
    """How one file ended: its status, or that it was not shown; and the code for that."""

NOT_SHOWN: Final = "not shown"
_WORST_FIRST: Final = (Exit.NO_QUEUE, Exit.BAD_CONFIG, Exit.FOUND, Exit.OK)
_SEVERITIES: Final = ("error", "warn", "info")
_FAILING: Final[dict[Severity | None, frozenset[str]]] = {
    None: frozenset(),
    "error": frozenset({"fail"}),
    "warn": frozenset({"fail", "warn"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of every file."""

    profile: Profile
    programme: Programme | None = None
    """`None`: as the sidecar beside the file says."""
    reference: Reference | None = None
    cues: tuple[range, ...] | None = None
    """The numbers of those to be shown, with what is found in them; `None`: all."""
    fail_on: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A file that was checked, and what of it is to be shown."""

    file: Path
    data: bytes | None
    """`None` where the file was too large to be read."""
    report: Report
    cues: tuple[Cue, ...]
    findings: tuple[Finding, ...]
    """Those about these cues, those of no cue in the lines in which they appear, and those that say that others
    of their rule are not listed; all where all cues are shown."""
    profile: Profile

    @property
    def listed(self) -> list[Finding]:
        """These findings in the order of lists: of the whole file, the worst first; then in the order of the file."""
        return sorted(self.findings, key=_weight)

    @property
    def unlisted(self) -> list[Finding]:
        """What is found in the whole file and is not about the cues that are shown, the worst first."""
        whole = filter(is_of_file, self.report.findings)
        return sorted((finding for finding in whole if finding not in self.findings), key=_weight)

    @property
    def left_out(self) -> int:
        """How many findings are not about what is shown."""
        return len(self.report.findings) - len(self.findings)

    @property
    def drop(self) -> bool:
        """Whether times are written as drop-frame labels, like the first one in the file."""
        return ";" in (self.report.figures.first_tc or "")


def _weight(finding: Finding) -> tuple[bool, int]:
    whole = is_of_file(finding)
    return not whole, _SEVERITIES.index(finding.severity) if whole else 0


def _nothing(*_: object) -> None:
    """Do nothing: a form need not begin, nor sum anything up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How files are shown."""

    show: Callable[[Inspected], None]
    begin: Callable[[], None] = _nothing
    """Called once, before the first file."""
    not_shown: Callable[[Path, str], None] = _nothing
    """Told of a file that can't be shown, and why, beside the line on standard error."""
    sum_up: Callable[[Counter[str]], None] = _nothing
    """Told how many files ended how."""


def asked_of(options: Namespace, profile: Profile) -> Asked:
    """Read what the options name.

    Raises:
        JobError: The reference can't be read.
    """
    reference = reference_of(options.reference, profile.max_bytes) if options.reference else None
    return Asked(
        profile=profile,
        programme=options.programme,
        reference=reference,
        cues=options.cues,
        fail_on=options.fail_on,
    )


def inspect_files(files: Sequence[Path], asked: Asked, form: Form) -> int:
    """Show each file; one that can't be read is named on standard error, and the others are shown.

    Returns:
        The exit code of what weighs most: a file that can't be read, a sidecar that can't be used, a finding
        that `fail_on` names, or 0.
    """
    # `inspect ... | head` ends like any other tool whose reader has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    form.begin()
    ends = [_inspect(file, asked, form) for file in files]
    form.sum_up(Counter(status for status, _ in ends))
    return min((code for _, code in ends), key=_WORST_FIRST.index)


def inspect_file(file: Path, asked: Asked) -> Inspected:
    """Check one file; one that is too large is not read.

    Raises:
        OSError: It can't be read.
        NotAsSeenError: It is not a regular file, or it changed while it was read.
        JobError: The sidecar beside it can't be used.
    """
    data, report = _checked(file, asked)
    cues, findings = report.cues, report.findings
    if (chosen := asked.cues) is not None:
        cues = tuple(cue for cue in cues if any(cue.number in numbers for numbers in chosen))
        findings = tuple(_about(cues, findings))
    return Inspected(file=file, data=data, report=report, cues=cues, findings=findings, profile=asked.profile)


def _about(cues: Sequence[Cue], findings: Iterable[Finding]) -> Iterator[Finding]:
    numbers, lines = {cue.number for cue in cues}, {cue.line for cue in cues}
    return (
        finding
        for finding in findings
        if (finding.line in lines if finding.cue is None else finding.cue in numbers)
        or finding.unit == COUNTED
    )


def as_object(inspected: Inspected) -> dict[str, Any]:
    """Return what `--json` prints of a file."""
    report = inspected.report
    return {
        "file": shown(inspected.file),
        "status": report.status,
        "findings": [asdict(finding) for finding in inspected.findings],
        "cues": [_cue_object(cue) for cue in inspected.cues],
        "figures": asdict(report.figures),
        "drift": asdict(report.drift) if report.drift else None,
        "notes": report.notes,
        "profile": report.profile,
        "profile_sha256": report.profile_sha256,
        "findings_left_out": inspected.left_out,
    }


def print_json(inspected: Inspected) -> None:
    """Print one object on a line of its own."""
    print(json.dumps(as_object(inspected)))


AS_JSON: Final = Form(show=print_json)


def _cue_object(cue: Cue) -> dict[str, Any]:
    return {
        "number": cue.number,
        "channel": cue.channel,
        "mode": cue.mode,
        "load_frame": cue.load_frame,
        "start_frame": cue.start_frame,
        "end_frame": cue.end_frame,
        "start": cue.start,
        "end": cue.end,
        "rows": [{"row": row.row, "column": row.column, "text": row.text} for row in cue.rows],
    }


def _inspect(file: Path, asked: Asked, form: Form) -> Ended:
    try:
        inspected = inspect_file(file, asked)
    except UNREADABLE as error:
        return _not_shown(file, f"cannot read {shown(file)}: {_reason(file, error)}", form), Exit.NO_QUEUE
    except JobError as error:
        return _not_shown(file, str(error), form), error.code
    form.show(inspected)
    status = inspected.report.status
    return status, Exit.FOUND if status in _FAILING[asked.fail_on] else Exit.OK


def _not_shown(file: Path, why: str, form: Form) -> str:
    say(f"caption_qc: {why}")
    form.not_shown(file, why)
    return NOT_SHOWN


def _checked(file: Path, asked: Asked) -> tuple[bytes | None, Report]:
    try:
        data = read_file(file, asked.profile.max_bytes)
    except TooLongError as error:
        if report := too_large(error.size, asked.profile):
            return None, report
        raise
    programme = asked.programme or sidecar_of(file)
    return data, check(data, asked.profile, programme=programme, reference=asked.reference)


def _reason(file: Path, error: Exception) -> str:
    if file.is_dir():
        return "it is a folder; `run` checks the files of a folder, here give the path of one"
    return f"{why_unread(error)}; give the path of a caption file"
