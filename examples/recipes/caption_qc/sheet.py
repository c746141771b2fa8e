"""`inspect --csv`: a row a finding, for people who work in a spreadsheet.

The law: no cell is a formula, and no file is missing.

A spreadsheet takes what begins with one of a few characters for a formula, and file names and captions come from
strangers. An apostrophe in front makes it text (OWASP, "CSV Injection"). A program whose separator is another
one reads the cells anew: at a semicolon, or at the end of a line of text. So what stands behind these is judged
like a cell of its own, and all text is in quotes.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from .inspecting import Form
from .job.assets import shown
from .job.captions import Captions
from .labels import label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .check import Finding
    from .inspecting import Inspected
    from .job.captions import Caption

    Value: TypeAlias = str | float | None

_OF_FILE: Final = ("file", "status")
_OF_FINDING: Final = (
    "rule",
    "severity",
    "line",
    "word",
    "timecode",
    "frame",
    "cue",
    "channel",
    "measured",
    "threshold",
    "unit",
    "message",
)
_OF_CAPTION: Final = ("caption", "caption_in", "caption_out", "caption_start", "caption_end")
COLUMNS: Final = (*_OF_FILE, *_OF_FINDING, *_OF_CAPTION)
_VALUES: Final[Callable[[Finding], tuple[Value, ...]]] = attrgetter(*_OF_FINDING)

_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"  # By which Excel knows UTF-8.
_FORMULA: Final = re.compile(r"""(^|[;\n])([\s"']*)(?=[-=+@＝＋－＠])""")  # noqa: RUF001 - full width counts too


def _begin() -> None:
    """Print the header. Readers are promised UTF-8, whatever the locale's encoding is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
    sys.stdout.write(_MARK)
    _print(*COLUMNS)


def _show(inspected: Inspected) -> None:
    for row in _rows(inspected):
        _print(shown(inspected.file), inspected.report.status, *row)


def _rows(inspected: Inspected) -> Iterator[tuple[Value, ...]]:
    """Give what follows the file and its status; a file without findings has one row."""
    captions = Captions(inspected.report.cues, inspected.profile.channel)
    for finding in inspected.listed:
        caption = captions.of(finding)
        yield *_VALUES(finding), *(_caption(caption, inspected.drop) if caption else ())
    if not inspected.findings:
        others = inspected.left_out
        yield _saying(
            f"nothing was found about these cues; findings about others: {others}" if others else None
        )


def _not_shown(file: Path, why: str) -> None:
    _print(shown(file), "error", *_saying(why))


def _saying(message: str | None) -> tuple[Value, ...]:
    """Fill the row of a file that has no finding."""
    return *([None] * _OF_FINDING.index("message")), message


def _caption(caption: Caption, drop: bool) -> tuple[Value, ...]:
    times = (caption.start, caption.end)
    return caption.text, *(None if time is None else label(_frame(time), drop=drop) for time in times), *times


def _frame(time: float) -> int:
    """Return the frame of so many seconds, which are a whole number of frames."""
    return round(time * 30000 / 1001)


def _print(*values: Value) -> None:
    row = [_FORMULA.sub(r"\1\2'", value) if isinstance(value, str) else value for value in values]
    row += [None] * (len(COLUMNS) - len(row))
    csv.writer(sys.stdout, quoting=csv.QUOTE_NONNUMERIC).writerow(row)


AS_CSV: Final = Form(begin=_begin, show=_show, not_shown=_not_shown)
