"""The projections: everything that is made from the ledger, and made again when it is behind.

Each is written whole. Of a window's two files the findings come first: where the assets are, so are they. The
window that the dashboard shows comes first, then the newest; what a run has no time for is left to the next.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING, Final

from .assets import shown
from .dashboard import Dashboards
from .errors import Exit, JobError, trusting
from .files import BrokenOffError
from .plan import microseconds, time_of
from .reports import ASSETS, DASHBOARD_HTML, DASHBOARD_JSON, NONE, TooLateError, window_files
from .scan import never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended

# Of how many windows the files are looked for in each run.
_NEWEST: Final = 1000


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
    behind = True
    with contextlib.suppress(BrokenOffError, TooLateError):
        remove_pruned(plan, ledger)
        windows = _behind(plan, ledger, stopped)
        behind = bool(windows)
        for number, (window, changes) in enumerate(windows):
            if number and stopped():
                break
            _write_window(plan, ledger, window, stopped)
            ledger.mark_projected(window, changes, files_as_found(plan, [window])[window])
    return behind


def write_dashboard(plan: Plan, ledger: Ledger, ended: Ended) -> None:
    """Write the two dashboards.

    Raises:
        JobError: one can't be written, or the ledger can't be read. The next run will.
    """
    dashboards = Dashboards(plan, ledger, ended)
    for name, parts in ((DASHBOARD_JSON, dashboards.json()), (DASHBOARD_HTML, dashboards.html())):
        with plan.out.whole(name) as file:
            file.writelines(parts)


def unknown_windows(plan: Plan, ledger: Ledger, stopped: Callable[[], bool] = never) -> str | None:
    """Say that Parquet files show records that the ledger does not have, as after an older one was brought back.

    Looked for when the ledger is read through (once a day, and when it is not as the last run left it) and where
    it knows of none: in a new place, and by a new ledger.
    """
    if not ledger.read_through and not _is_new_place(plan, ledger):
        return None
    with ledger.trusted():
        known = {window_files(time_of(window))[1] for (window,) in ledger.read(_KNOWN_WINDOWS)}
    try:
        names = itertools.takewhile(lambda _: not stopped(), plan.out.parquet_below(ASSETS))
        found = {name for name in names if _OF_A_WINDOW.fullmatch(name)}
    except OSError:  # Whoever writes there complains of it.
        return None
    if not (unknown := sorted(found - known)):
        return None
    what = f"{plan.out.shown(unknown[0].rpartition('/')[0])} has records that the ledger does not know"
    more = f", and so have {len(unknown) - 1} windows more" if unknown[1:] else ""
    way_out = f"move {shown(plan.ledger)} away, and the next run makes it again from all of them"
    return f"{what}{more}; if an older ledger was brought back, {way_out}; else move these away"


def _is_new_place(plan: Plan, ledger: Ledger) -> bool:
    """Say whether the files of the newest window are not there, or there is none yet."""
    with ledger.trusted():
        newest = [window for (window,) in ledger.read(_NEWEST_WINDOW) if window is not None]
    return set(files_as_found(plan, newest).values()) <= {_NO_FILES}


def remove_pruned(plan: Plan, ledger: Ledger) -> None:
    """Remove the files of windows whose records were dropped, and then the note that they are to go.

    Raises:
        JobError: One can't be removed, or the ledger refused.
    """
    with ledger.trusted():
        windows = [window for (window,) in ledger.read("SELECT window_start FROM pruned").fetchall()]
    for window in windows:
        # The findings last, as they are written first: where the assets are, so are they.
        for name in reversed(window_files(time_of(window))):
            plan.out.remove(name)
        ledger.mark_removed(window)


def _behind(plan: Plan, ledger: Ledger, stopped: Callable[[], bool]) -> list[tuple[int, int]]:
    """List the windows whose files show less than the ledger holds, are missing, or are others, in order."""
    with trusting(plan.ledger):
        behind = dict(ledger.read(_BEHIND).fetchall()) | _others(plan, ledger, stopped)
        own = microseconds(plan.window)
        return sorted(behind.items(), key=lambda one: (one[0] == own, one[0]), reverse=True)


def _others(plan: Plan, ledger: Ledger, stopped: Callable[[], bool]) -> dict[int, int]:
    """Look for the files of the newest windows, or of all of them once a day and in a new place."""
    others: dict[int, int] = {}
    every = ledger.read_through
    with contextlib.closing(ledger.read(_NEWEST_WINDOWS)) as noted:
        while some := noted.fetchmany(_NEWEST):
            found = files_as_found(plan, [window for window, _, _ in some])
            others |= {window: changes for window, changes, files in some if files != found[window]}
            every = every or found[some[0][0]] == _NO_FILES
            if not every or stopped():
                break
    return others


def files_as_found(plan: Plan, windows: Iterable[int]) -> dict[int, str]:
    """Write down what the files of each window are known by."""
    names = {window: window_files(time_of(window)) for window in windows}
    known = plan.out.known_by(name for pair in names.values() for name in pair)
    return {window: ", ".join(known.get(name, NONE) for name in pair) for window, pair in names.items()}


_NO_FILES: Final = f"{NONE}, {NONE}"


def _write_window(plan: Plan, ledger: Ledger, window: int, stopped: Callable[[], bool]) -> None:
    # Here, because a fire that finds nothing to check is over before pyarrow would be imported.
    try:
        from .parquet import write_assets, write_findings  # noqa: PLC0415
    except ImportError as error:
        way_out = (
            "install pyarrow, or raise the limit of memory, then run again: what was found is in the ledger"
        )
        raise JobError(f"cannot write Parquet: {error}; {way_out}", Exit.BAD_CONFIG) from error

    findings, assets = window_files(time_of(window))
    with plan.out.whole(findings) as file:
        write_findings(ledger, window, file, stopped)
    with plan.out.whole(assets) as file:
        write_assets(ledger, window, file, stopped)


_OF_A_WINDOW: Final = re.compile(rf"{ASSETS}/window=[^/]*/assets\.parquet")
_BEHIND: Final = "SELECT window_start, changes FROM windows WHERE projected != changes"
_KNOWN_WINDOWS: Final = "SELECT window_start FROM windows UNION SELECT window_start FROM pruned"
_NEWEST_WINDOW: Final = "SELECT MAX(window_start) FROM windows"
_NEWEST_WINDOWS: Final = "SELECT window_start, changes, files FROM windows ORDER BY window_start DESC"
