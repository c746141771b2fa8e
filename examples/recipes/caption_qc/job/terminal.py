"""The screen of a person: a bar while it runs, tables at the end."""

from __future__ import annotations

import contextlib
import sys
from typing import IO, TYPE_CHECKING, Any, Final, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .assets import printable
from .outcomes import Checked, DeadLetter
from .reports import DASHBOARD_HTML
from .screen import checked_of, line_of, notes_of, nothing_checked, reason_of, say_refused, status_of

if TYPE_CHECKING:
    from .errors import JobError
    from .outcomes import Ending
    from .plan import Plan
    from .totals import Ended, Totals

STYLES: Final = {"pass": "green", "warn": "yellow", "fail": "red", "error": "magenta", "info": "cyan"}
_MOST_ROWS: Final = 20


class TerminalScreen:
    """A bar and tables on standard error.

    Mutable state: the bar, and the worst assets so far, at most `_MOST_ROWS` of a kind.
    """

    def __init__(self) -> None:
        self._console = Console(file=cast("IO[str]", _Unfailing(sys.stderr)))
        columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console)
        self._bar = self._progress.add_task("checking", total=None)
        self._worst: dict[str, list[Checked | DeadLetter]] = {"error": [], "fail": [], "warn": []}

    def show(self, ending: Ending) -> None:
        """Keep it for the table if it is one of the worst; say at once what was not checked."""
        match ending:
            case Checked() | DeadLetter():
                rows = self._worst.get(status_of(ending), [])
                if len(rows) < _MOST_ROWS:
                    rows.append(ending)
            case _:
                self.warn(line_of(ending))

    def warn(self, text: str) -> None:
        """Write one line above the bar."""
        self._console.print(Text(printable(text), style="yellow"))

    def redraw(self, totals: Totals) -> None:
        """Move the bar."""
        self._progress.start()
        self._console.show_cursor()  # Shown all the time, since a second signal ends us on the spot.
        self._progress.update(self._bar, completed=totals.ended, total=totals.found)

    def finish(self, plan: Plan, ended: Ended) -> None:
        """Replace the bar by the tables."""
        totals = ended.totals
        if totals.found:
            self.redraw(totals)
        self._progress.stop()
        rows = [row for rows in self._worst.values() for row in rows][:_MOST_ROWS]
        if rows:
            self._console.print(worst_table(rows))
        self._console.print(_summary_table(ended) if totals.found else Text(nothing_checked(totals)))
        for note in notes_of(ended):
            self._console.print(Text(note, style="yellow"))
        self._console.print(Text(f"{ended.seconds:.1f} s; dashboard: {plan.out.shown(DASHBOARD_HTML)}"))

    def refuse(self, error: JobError) -> None:
        """Take the bar away, then say it in one line."""
        self._progress.stop()
        say_refused(error)

    def crash(self, error: Exception) -> None:
        """Take the bar away, and leave it to Python, which shows where it was."""
        self._progress.stop()
        raise error

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


class _Unfailing:
    """A stream whose reader may be gone: a terminal that was closed ends no run."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def badge(word: str) -> Text:
    """Return a status or severity in its colour."""
    return Text(word, style=STYLES[word])


def worst_table(rows: list[Checked | DeadLetter]) -> Table:
    """List assets with what is wrong with each."""
    table = Table("status", "asset", "findings", title="what to look at first", title_justify="left")
    for row in rows:
        table.add_row(badge(status_of(row)), Text(row.asset.asset_id), Text(reason_of(row)))
    return table


def _summary_table(ended: Ended) -> Table:
    totals = ended.totals
    table = Table("checked")
    for status in ("pass", "warn", "fail", "error"):
        table.add_column(badge(status), justify="right")
    counts = (totals.statuses[status] for status in ("pass", "warn", "fail", "error"))
    table.add_row(checked_of(totals), *map(str, counts))
    return table
