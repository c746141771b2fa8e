"""The tables that `inspect` prints: a file's cues and its findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .job.assets import shown
from .job.terminal import badge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .check import Cue, Finding, Report


def print_tables(file: Path, report: Report) -> None:
    """Print what `file` shows and what is wrong with it."""
    console = Console()
    head = Text.assemble((shown(file), "bold"), ": ", badge(report.status), f", profile {report.profile}")
    console.print(head)
    console.print(_cues(report.cues) if report.cues else Text("no cues: nothing is ever shown"))
    console.print(_findings(report.findings) if report.findings else Text("no findings"))


def _cues(cues: Sequence[Cue]) -> Table:
    """One line a row of text; the first of a cue has its figures too."""
    table = _table("Cues", "cue", "on", "mode", "start s", "end s", "row,col", "text")
    for cue in cues:
        end = "open" if cue.end is None else _seconds(cue.end)
        figures = [str(cue.number), cue.channel, cue.mode, _seconds(cue.start), end]
        for row in cue.rows:
            table.add_row(*figures, f"{row.row},{row.column}", _plain(row.text))
            figures = [""] * len(figures)
    return table


def _findings(findings: Sequence[Finding]) -> Table:
    table = _table("Findings", "severity", "rule", "line", "word", "timecode", "message")
    for finding in findings:
        places = (finding.line, finding.word, finding.timecode)
        shown = ["" if place is None else str(place) for place in places]
        table.add_row(badge(finding.severity), finding.rule, *map(_plain, shown), _plain(finding.message))
    return table


def _table(title: str, *columns: str) -> Table:
    # Without padding a full row of 32 characters has room on 80 columns.
    return Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False)


def _plain(text: str) -> Text:
    """Take `text` for data: no markup, and nothing that would act on the terminal."""
    return Text(
        "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)
    )


def _seconds(time: float) -> str:
    return f"{time:.3f}"
