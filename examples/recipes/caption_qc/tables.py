"""What `inspect` prints of a file for people: its headline, its findings and its cues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .check import cps_of
from .check.scc import screens
from .check.timecode import seconds
from .grid import print_grids
from .headline import print_headline
from .inspecting import NOT_SHOWN, Form
from .job.terminal import STYLES
from .labels import label
from .layout import QUIET, SEVERITIES, Column, Page

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from .check import Cue, Finding
    from .grid import Picture
    from .inspecting import Inspected
    from .layout import Cell, Row

_FINDINGS: Final = (
    Column("severity"),
    Column("rule"),
    Column("channel", spare=True),
    Column("cue", right=True),
    Column("line", right=True),
    Column("word", right=True),
    Column("timecode"),
    Column("in"),
    Column("message"),
)
_MESSAGE: Final = 56  # Columns; in fewer most messages take a second line or a third.
_CUES: Final = (
    Column("cue", right=True),
    Column("on", spare=True),
    Column("mode", spare=True),
    Column("in"),
    Column("out"),
    Column("secs", right=True),
    Column("cps", right=True),
    Column("text"),
)
_QUOTED: Final = 24  # Characters of a cue's text.
_WHOLE: Final = 32  # A row of text is never wrapped in a table.
_OPEN: Final = "open"
_ENDS: Final = ("pass", "warn", "fail", NOT_SHOWN)
_WORST_FIRST: Final = ("error", "warn", "info")


def print_tables(inspected: Inspected) -> None:
    """Print everything, the cues as a list."""
    page = Page()
    _print_findings(page, inspected)
    if inspected.cues:
        Listing(page, inspected).print()
        page.line()


def print_with_grids(inspected: Inspected) -> None:
    """Print everything, the cues as the grid showed them."""
    page = Page()
    _print_findings(page, inspected)
    print_grids(page, _pictures(inspected))


def print_summary(counts: Counter[str]) -> None:
    """Sum many files up in a line; one file speaks for itself."""
    if counts.total() > 1:
        parts = [(f"{counts[status]} {status}", STYLES.get(status, "")) for status in _ENDS if counts[status]]
        Page().flow(((f"{counts.total()} files:  ", ""),), parts)


AS_TABLES: Final = Form(show=print_tables, sum_up=print_summary)
WITH_GRIDS: Final = Form(show=print_with_grids, sum_up=print_summary)


def _print_findings(page: Page, inspected: Inspected) -> None:
    report = inspected.report
    print_headline(page, inspected)
    if inspected.findings:
        page.line()
        Found(page, inspected).print()
    notes = [*_left_out(inspected), *report.notes]
    if notes:
        page.line()
    for note in notes:
        page.hanging((("note  ", QUIET),), (note, QUIET))
    page.line()
    if missing := _why_no_cues(inspected):
        page.line((missing, ""))
        page.line()


def _why_no_cues(inspected: Inspected) -> str:
    if inspected.data is None:
        return "not read: what it shows is not known"
    if not inspected.report.cues:
        return "no cues: nothing is ever shown"
    return "" if inspected.cues else f"none of these cues: the last one is {inspected.report.cues[-1].number}"


def _left_out(inspected: Inspected) -> Iterator[str]:
    if inspected.left_out:
        some, all_of_them = len(inspected.findings), len(inspected.report.findings)
        yield f"findings of these cues and of the lines in which they appear: {some} of {all_of_them} listed"


class Found:
    """The list of what is found, each finding with the cue that it is about."""

    def __init__(self, page: Page, inspected: Inspected) -> None:
        self._page = page
        self._findings = inspected.listed
        self._drop = inspected.drop
        self._judged = inspected.profile.channel
        numbers = {finding.cue for finding in self._findings}
        self._cues = {cue.number: cue for cue in inspected.report.cues if cue.number in numbers}

    def print(self) -> None:
        """Print a table, or a few lines a finding where it is too wide."""
        if not self._page.table(_FINDINGS, lambda: map(self._row, self._findings), _MESSAGE):
            for finding in self._findings:
                self._stack(finding)

    def _row(self, finding: Finding) -> Row:
        cue = self._cues.get(finding.cue or 0)
        return (
            (finding.severity, SEVERITIES[finding.severity]),
            (finding.rule, "bold"),
            (finding.channel or "", ""),
            *((_text(number), "") for number in (finding.cue, finding.line, finding.word)),
            (finding.timecode or "", ""),
            (label(cue.start_frame, drop=self._drop) if cue else "", ""),
            (f"{finding.message}{_beginning(cue)}", ""),
        )

    def _stack(self, finding: Finding) -> None:
        """Print its place as words, the channel where it is another than the one that is judged; the message below."""
        severity, rule, channel, *_, timecode, appears, message = self._row(finding)
        numbers = (("line", finding.line), ("word", finding.word), ("cue", finding.cue))
        places = [(f"{name} {number}", "") for name, number in numbers if number is not None]
        places += [cell for cell in (timecode, channel) if cell[0] not in {"", self._judged}]
        places += [(f"in {appears[0]}", "")] if appears[0] else []
        self._page.flow(((f"{severity[0]:<5} ", severity[1]),), [rule, *places])
        self._page.hanging((("      ", ""),), message)


def _beginning(cue: Cue | None) -> str:
    """Quote the first words of a cue, by which its author knows it."""
    if cue is None:
        return ""
    text = " ".join(" ".join(row.text.split()) for row in cue.rows)
    return f'  "{text if len(text) <= _QUOTED else text[: _QUOTED - 3].rstrip() + "..."}"'


class Listing:
    """The list of a file's cues."""

    def __init__(self, page: Page, inspected: Inspected) -> None:
        self._page = page
        self._cues = inspected.cues
        self._drop = inspected.drop
        self._worst = _worst_of(inspected.report.findings)

    def print(self) -> None:
        """Print a table, or a few lines a cue where it is too wide."""
        if not self._page.table(_CUES, self._rows, _WHOLE):
            for cue in self._cues:
                self._stack(cue)

    def _rows(self) -> Iterator[Row]:
        """One row a row of text; the first of a cue has its figures too."""
        for cue in self._cues:
            figures = self._figures(cue)
            for row in cue.rows:
                yield *figures, (row.text, "")
                figures = tuple(("", "") for _ in figures)

    def _figures(self, cue: Cue) -> Row:
        style = SEVERITIES.get(self._worst.get(cue.number, ""), "")
        on, off = times_of(cue, self._drop)
        frames = None if cue.end_frame is None else cue.end_frame - cue.start_frame
        rate = cps_of(cue)
        return (
            (str(cue.number), f"bold {style}"),
            (cue.channel, ""),
            (cue.mode, ""),
            (on, ""),
            (off, "" if cue.end_frame is not None else SEVERITIES["warn"]),
            ("" if frames is None else f"{seconds(frames):.2f}", ""),
            ("" if rate is None else f"{rate:.1f}", ""),
        )

    def _stack(self, cue: Cue) -> None:
        number, on, mode, start, end, length, rate = self._figures(cue)
        lead: Row = ((f"{number[0]:>3}  ", number[1]),)
        parts: list[Cell] = [on, mode, (f"{start[0]} - {end[0]}", end[1])]
        units = ((length, "s"), (rate, "cps"))
        self._page.flow(lead, [*parts, *((f"{cell[0]} {unit}", "") for cell, unit in units if cell[0])])
        for row in cue.rows:
            self._page.hanging((("       ", ""),), (row.text, "bold"))


def times_of(cue: Cue, drop: bool) -> tuple[str, str]:
    """Write when a cue appears and when it leaves, as labels of the file's time base."""
    end = _OPEN if cue.end_frame is None else label(cue.end_frame, drop=drop)
    return label(cue.start_frame, drop=drop), end


def _pictures(inspected: Inspected) -> Iterator[Picture]:
    chosen = {cue.number for cue in inspected.cues}
    shown = screens(inspected.data or b"")
    for cue, rows in zip(inspected.report.cues, shown, strict=True):
        if cue.number in chosen:
            title = f"cue {cue.number}  {cue.channel} {cue.mode}"
            yield (title, " - ".join(times_of(cue, inspected.drop))), rows


def _worst_of(findings: Sequence[Finding]) -> dict[int, str]:
    """Say which cues have findings, and the worst severity of each."""
    worst: dict[int, str] = {}
    for finding in findings:
        if finding.cue is not None:
            worst[finding.cue] = min(worst.get(finding.cue, "info"), finding.severity, key=_WORST_FIRST.index)
    return worst


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
