"""The projections: everything on disk that is made from the ledger, and made again when it is behind.

Each is written whole. Of a window's two files the findings come first: where the assets are, so are they.
"""

from __future__ import annotations

import contextlib
import errno
import json
import stat
from typing import TYPE_CHECKING, Final

from .assets import shown
from .dashboard import dashboard_of
from .errors import Exit, JobError, cannot_write, trusting
from .files import temporary_of, whole_file
from .page import html_of
from .plan import time_of, window_name

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended

# Of how many windows the files are looked for in each run.
_NEWEST: Final = 1000
_NO_FILES: Final = "none, none"


def write_projections(plan: Plan, ledger: Ledger, ended: Ended) -> None:
    """Bring every projection up to the ledger.

    Raises:
        JobError: one can't be written, or the ledger can't be read. The next run will.
    """
    remove_pruned(plan, ledger)
    for window, changes in _behind(plan, ledger):
        _write_window(plan, ledger, window)
        ledger.mark_projected(window, changes, files_as_found(plan, window))
    with trusting(plan.ledger):
        dashboard = dashboard_of(plan, ledger, ended)
    _write_text(plan.out / "dashboard.json", json.dumps(dashboard, indent=1))
    _write_text(plan.out / "dashboard.html", html_of(dashboard))


def window_files(out: Path, window: datetime) -> tuple[Path, Path]:
    """Return where the findings and the assets of a window stand."""
    folder = f"window={window_name(window)}"
    telemetry = out / "telemetry"
    return (
        telemetry / "findings" / folder / "findings.parquet",
        telemetry / "assets" / folder / "assets.parquet",
    )


def remove_pruned(plan: Plan, ledger: Ledger) -> None:
    """Remove the files of windows whose records were dropped, and then the note that they are to go.

    Raises:
        JobError: One can't be removed, or the ledger refused.
    """
    with ledger.trusted():
        windows = [window for (window,) in ledger.read("SELECT window_start FROM pruned").fetchall()]
    for window in windows:
        # The findings last, as they are written first: where the assets are, so are they.
        for path in reversed(window_files(plan.out, time_of(window))):
            _remove(path)
        ledger.mark_removed(window)


def _remove(path: Path) -> None:
    """Remove a file, and its folder unless something else lies there."""
    try:
        for file in (path, temporary_of(path)):
            file.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.parent.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise cannot_write(error, shown(path), "--out") from error


def _behind(plan: Plan, ledger: Ledger) -> list[tuple[int, int]]:
    """List the windows whose files show less than the ledger holds, are missing, or are others."""
    with trusting(plan.ledger):
        behind = dict(ledger.read(_BEHIND).fetchall())
        others = {
            window: changes
            for window, changes, files in _looked_at(plan, ledger)
            if files != files_as_found(plan, window)
        }
        return sorted((behind | others).items())


def _looked_at(plan: Plan, ledger: Ledger) -> list[tuple[int, int, str]]:
    """List the windows whose files are looked for: the newest, or all of them once a day and in a new place."""
    windows = ledger.read(_NEWEST_WINDOWS, (_NEWEST,)).fetchall()
    if ledger.read_through or (windows and files_as_found(plan, windows[0][0]) == _NO_FILES):
        windows = ledger.read(_NEWEST_WINDOWS, (-1,)).fetchall()
    return windows


def files_as_found(plan: Plan, window: int) -> str:
    """Write down what a window's files are known by: kind, size and time, as good as a look into them."""
    found = []
    for path in window_files(plan.out, time_of(window)):
        try:
            seen = path.lstat()
        except OSError:
            found.append("none")
        else:
            found.append(f"{stat.filemode(seen.st_mode)[0]} {seen.st_size} {seen.st_mtime_ns}")
    return ", ".join(found)


def _write_window(plan: Plan, ledger: Ledger, window: int) -> None:
    # Here, because a fire that finds nothing to check is over before pyarrow would be imported.
    try:
        from .parquet import write_assets, write_findings  # noqa: PLC0415
    except ImportError as error:
        way_out = "install pyarrow, then run again: what was found is in the ledger"
        raise JobError(f"cannot write Parquet: {error}; {way_out}", Exit.BAD_CONFIG) from error

    findings, assets = window_files(plan.out, time_of(window))
    write_findings(ledger, window, findings)
    write_assets(ledger, window, assets)


def _write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


_BEHIND: Final = "SELECT window_start, changes FROM windows WHERE projected != changes"
_NEWEST_WINDOWS: Final = "SELECT window_start, changes, files FROM windows ORDER BY window_start DESC LIMIT ?"
