"""Whose reports a folder holds: `--out` may be any folder, and of two ledgers each would write over the other's.

So a folder of reports that is not the state folder itself has a file that names the state folder whose they are.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from .assets import NotAsSeenError, open_asset, shown
from .errors import Exit, JobError, cannot_write
from .files import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan

OWNER_FILE: Final = "owner.txt"
# More than the longest path, written as text.
_LONGEST: Final = 1 << 16


def require_own_reports(plan: Plan) -> None:
    """Refuse a folder of reports that is another state folder's, or is one itself.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    note = plan.out / OWNER_FILE
    owner = _owner_in(note)
    if owner not in {"", shown(plan.state)}:
        way_out = f"give each state folder an --out of its own; if {owner} is gone, delete {shown(note)}"
        raise _refused(plan, f"holds the reports of the state folder {owner}", way_out)
    if plan.out != plan.state and os.path.lexists(plan.out / plan.ledger.name):
        raise _refused(plan, "is a state folder itself", "give --out a folder of its own, or leave it out")


def claim_reports(plan: Plan) -> None:
    """Write down whose the reports are; a state folder's own need no note.

    Raises:
        JobError: They are another's, or it can't be written.
    """
    require_own_reports(plan)
    note = plan.out / OWNER_FILE
    if plan.out != plan.state and not _owner_in(note):
        with whole_file(note) as file:
            file.write(f"{shown(plan.state)}\n".encode())


def _owner_in(note: Path) -> str:
    """Read who is named; nobody where there is no note, or one that a power cut has emptied."""
    try:
        with os.fdopen(open_asset(bytes(note)), "rb") as file:
            return file.read(_LONGEST).decode("utf-8", "replace").strip("\0\n")
    except (FileNotFoundError, NotADirectoryError):  # Making the folder says what is wrong with it.
        return ""
    except NotAsSeenError as error:
        way_out = "move it away, or choose another folder with --out"
        raise JobError(f"{shown(note)} is not a regular file; {way_out}", Exit.CANNOT_CREATE) from error
    except OSError as error:
        raise cannot_write(error, shown(note), "--out") from error


def _refused(plan: Plan, why: str, way_out: str) -> JobError:
    return JobError(f"--out {shown(plan.out)} {why}; {way_out}", Exit.CANNOT_CREATE)
