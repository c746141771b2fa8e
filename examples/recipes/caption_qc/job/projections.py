"""The projections: everything on disk that is made from the ledger, and made again when it is behind.

Each is written whole. Of a window's two files the findings come first: where the assets are, so are they. The
window that the dashboard shows comes first, then the newest; what a run has no time for is left to the next.
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
from .files import BrokenOffError, temporary_of, whole_file
from .page import html_of
from .plan import microseconds, time_of, window_name
from .scan import never

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended

# Of how many windows the files are looked for in each run.
_NEWEST: Final = 1000
ASSETS_FILE: Final = "assets.parquet"
_NO_FILES: Final = "none, none"


def write_projections(plan: Plan, ledger: Ledger, ended: Ended) -> None:
    """Bring every projection up to the ledger.

    Raises:
        JobError: one can't be written, or the ledger can't be read. The next run will.
    """
    write_windows(plan, ledger)
    write_dashboard(plan, ledger, ended)


def write_windows(plan: Plan, ledger: Ledger, stopped: Callable[[], bool] = never) -> bool:
    """Bring the Parquet files up to the ledger, and say whether any was behind.

    Args:
        plan: The run.
        ledger: What they are made from.
        stopped: Asked between two windows, and after each few thousand rows of one; when the answer is yes, what
            is not written whole by then is left to the next run.

    Raises:
        JobError: one can't be written, or the ledger can't be read. The next run will.
    """
    remove_pruned(plan, ledger)
    behind = _behind(plan, ledger)
    with contextlib.suppress(BrokenOffError):
        for number, (window, changes) in enumerate(behind):
            if number and stopped():
                break
            _write_window(plan, ledger, window, stopped)
            ledger.mark_projected(window, changes, files_as_found(plan, window))
    return bool(behind)


def write_dashboard(plan: Plan, ledger: Ledger, ended: Ended) -> None:
    """Write the two dashboards.

    Raises:
        JobError: one can't be written, or the ledger can't be read. The next run will.
    """
    with trusting(plan.ledger):
        dashboard = dashboard_of(plan, ledger, ended)
    _write_text(plan.out / "dashboard.json", json.dumps(dashboard, indent=1))
    _write_text(plan.out / "dashboard.html", html_of(dashboard))


def unknown_windows(plan: Plan, ledger: Ledger) -> str | None:
    """Say that Parquet files show records that the ledger does not have, as after an older one was brought back.

    Looked for when the ledger is read through (once a day, and when it is not as the last run left it) and where
    it knows of none: in a new place, and by a new ledger.
    """
    if not ledger.read_through and not _is_new_place(plan, ledger):
        return None
    with ledger.trusted():
        known = {f"window={window_name(time_of(window))}" for (window,) in ledger.read(_KNOWN_WINDOWS)}
    folder = plan.telemetry / "assets"
    try:
        found = {path.parent for path in folder.glob(f"window=*/{ASSETS_FILE}")}
    except OSError:  # Whoever writes there complains of it.
        return None
    unknown = sorted(path for path in found if path.name not in known)
    if not unknown:
        return None
    what = f"{shown(unknown[0])} has records that the ledger does not know"
    more = f", and so have {len(unknown) - 1} windows more" if unknown[1:] else ""
    way_out = f"move {shown(plan.ledger)} away, and the next run makes it again from all of them"
    return f"{what}{more}; if an older ledger was brought back, {way_out}; else move these away"


def window_files(out: Path, window: datetime) -> tuple[Path, Path]:
    """Return where the findings and the assets of a window stand."""
    folder = f"window={window_name(window)}"
    telemetry = out / "telemetry"
    return (
        telemetry / "findings" / folder / "findings.parquet",
        telemetry / "assets" / folder / ASSETS_FILE,
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
    """List the windows whose files show less than the ledger holds, are missing, or are others, in order."""
    with trusting(plan.ledger):
        behind = dict(ledger.read(_BEHIND).fetchall())
        others = {
            window: changes
            for window, changes, files in _looked_at(plan, ledger)
            if files != files_as_found(plan, window)
        }
        own = microseconds(plan.window)
        return sorted((behind | others).items(), key=lambda one: (one[0] == own, one[0]), reverse=True)


def _looked_at(plan: Plan, ledger: Ledger) -> list[tuple[int, int, str]]:
    """List the windows whose files are looked for: the newest, or all of them once a day and in a new place."""
    most = -1 if ledger.read_through or _is_new_place(plan, ledger) else _NEWEST
    return ledger.read(_NEWEST_WINDOWS, (most,)).fetchall()


def _is_new_place(plan: Plan, ledger: Ledger) -> bool:
    """Say whether the files of the newest window are not there, or there is none yet."""
    with ledger.trusted():
        newest = ledger.read(_NEWEST_WINDOWS, (1,)).fetchone()
        return newest is None or files_as_found(plan, newest[0]) == _NO_FILES


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


def _write_window(plan: Plan, ledger: Ledger, window: int, stopped: Callable[[], bool]) -> None:
    # Here, because a fire that finds nothing to check is over before pyarrow would be imported.
    try:
        from .parquet import write_assets, write_findings  # noqa: PLC0415
    except ImportError as error:
        way_out = (
            "install pyarrow, or raise the limit of memory, then run again: what was found is in the ledger"
        )
        raise JobError(f"cannot write Parquet: {error}; {way_out}", Exit.BAD_CONFIG) from error

    findings, assets = window_files(plan.out, time_of(window))
    write_findings(ledger, window, findings, stopped)
    write_assets(ledger, window, assets, stopped)


def _write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


_BEHIND: Final = "SELECT window_start, changes FROM windows WHERE projected != changes"
_KNOWN_WINDOWS: Final = "SELECT window_start FROM windows UNION SELECT window_start FROM pruned"
_NEWEST_WINDOWS: Final = "SELECT window_start, changes, files FROM windows ORDER BY window_start DESC LIMIT ?"
