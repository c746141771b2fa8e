"""Whose reports a place holds: `--out` may be any place, and of two ledgers each would write over the other's.

So a place of reports that is not the state folder itself has a note that names the state folder whose they are: by
its path, and by an id that was made for it, since another machine may see the same place and has the same paths. Of two
that claim a place at one time, the place itself lets one have it. A store that knows no `If-None-Match` can't: there
the later has it, and the earlier is told when it looks at the note again, by its next run at the latest.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from .assets import NotAsSeenError, open_asset, shown
from .errors import Exit, JobError, cannot_write
from .files import whole_file

if TYPE_CHECKING:
    from .plan import Plan

OWNER_FILE: Final = "owner.txt"
STATE_ID: Final = "state.id"
# More than the longest path, written as text, and an id.
_LONGEST: Final = 1 << 16


class Owner(NamedTuple):
    """Who is named by a note; nobody where there is no note, or one that a power cut has emptied."""

    state: str = ""
    id: str = ""
    """Empty in a note of an older version."""


def require_own_reports(plan: Plan) -> Owner:
    """Refuse a place of reports that is another state folder's, or is one itself; return whose it is.

    Raises:
        JobError: with exit code 73, or that of the reason why it can't be read.
    """
    owner, own = _owner_in(plan), shown(plan.state)
    note = plan.out.shown(OWNER_FILE)
    if owner.state not in {"", own}:
        way_out = f"give each state folder an --out of its own; if {owner.state} is gone, delete {note}"
        raise _refused(plan, f"holds the reports of the state folder {owner.state}", way_out)
    if owner.id not in {"", _id_of(plan)}:
        found = f"holds the reports of a state folder {own} of another machine, or of one that is gone"
        way_out = f"give each state folder an --out of its own; if that one is gone, delete {note}"
        raise _refused(plan, found, way_out)
    if not owner.state and not plan.out.is_folder(plan.state) and plan.out.holds(plan.ledger.name):
        raise _refused(plan, "is a state folder itself", "give --out a place of its own, or leave it out")
    return owner


def claim_reports(plan: Plan) -> None:
    """Write down whose the reports are; a state folder's own need no note.

    Raises:
        JobError: They are another's, or it can't be written.
    """
    owner = require_own_reports(plan)
    if owner.id or plan.out.is_folder(plan.state):
        return
    own = _id_of(plan)
    if not own:
        own = secrets.token_hex(16)
        with whole_file(plan.state / STATE_ID) as file:
            file.write(f"{own}\n".encode())
    note = f"{shown(plan.state)}\n{own}\n".encode()
    # One that is there may be another's of this moment; or be empty, or ours of an older version.
    if (owner.state or not plan.out.create(OWNER_FILE, note)) and not require_own_reports(plan).id:
        plan.out.write(OWNER_FILE, note)
    require_own_reports(plan)


def _owner_in(plan: Plan) -> Owner:
    note = plan.out.shown(OWNER_FILE)
    try:
        with plan.out.opened(OWNER_FILE) as file:
            text = file.read(_LONGEST).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):  # Making the place says what is wrong with it.
        return Owner()
    except NotAsSeenError as error:
        way_out = "move it away, or choose another place with --out"
        raise JobError(f"{note} is not a regular file; {way_out}", Exit.CANNOT_CREATE) from error
    except OSError as error:
        raise cannot_write(error, note, "--out") from error
    return Owner(*text.strip("\0\n").split("\n")[: len(Owner._fields)])


def _id_of(plan: Plan) -> str:
    """Read the state folder's own id; it has none before it has reports elsewhere."""
    path = plan.state / STATE_ID
    try:
        with os.fdopen(open_asset(bytes(path)), "rb") as file:
            return file.read(_LONGEST).decode("ascii", "replace").strip("\0\n")
    except FileNotFoundError:
        return ""
    except NotAsSeenError as error:
        way_out = "move it away, or choose another folder with --state"
        raise JobError(f"{shown(path)} is not a regular file; {way_out}", Exit.CANNOT_CREATE) from error
    except OSError as error:
        raise cannot_write(error, shown(path), "--state") from error


def _refused(plan: Plan, why: str, way_out: str) -> JobError:
    return JobError(f"--out {plan.out.shown()} {why}; {way_out}", Exit.CANNOT_CREATE)
