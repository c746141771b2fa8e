"""Whose a file of metrics is: one that is there is written over by the state folder alone whose it is.

Textfile folders hold other programs' files, and those of other queues. So the first line of ours is a comment,
which collectors pass over, that names the state folder; a file of an older version, which has none, is taken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .assets import shown
from .errors import Exit, JobError, cannot_write
from .files import require_regular, whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan

PREFIX: Final = "caption_qc_"
_OWNER: Final = "# Of the state folder "
_OUR_LINE: Final = re.compile(rf"# (HELP|TYPE) {PREFIX}[a-z_]+ .*|{PREFIX}[a-z_]+(\{{.*\}})? [0-9.e+-]+")
_MOST_BYTES: Final = 1 << 20


def require_own_metrics(plan: Plan, path: Path) -> None:
    """Refuse metrics of another state folder, and a file of something else.

    Raises:
        JobError: with exit code 73, or that of the system's reason.
    """
    if path.parent == plan.state:  # It may have been moved with all that is in it.
        return
    first, *rest = _lines(path) or [""]
    if first.startswith(_OWNER):
        owner = first.removeprefix(_OWNER)
        if owner != shown(plan.state):
            found = f"the metrics {shown(path)} are those of the state folder {owner}"
            way_out = "give each state folder a --metrics-file of its own"
            raise JobError(f"{found}; {way_out}; if {owner} is gone, delete that file", Exit.CANNOT_CREATE)
    elif not all(map(_OUR_LINE.fullmatch, filter(None, (first, *rest)))):
        found = f"{shown(path)} holds something else than these metrics, which is not written over"
        raise JobError(f"{found}; give --metrics-file another path", Exit.CANNOT_CREATE)


def lines_kept(path: Path) -> list[str]:
    """Return the lines of figures that the file has; none where there is no file.

    Raises:
        JobError: it can't be read.
    """
    return [line for line in _lines(path) if _OUR_LINE.fullmatch(line)]


def write_metrics_file(plan: Plan, path: Path, text: str) -> None:
    """Write `text` whole into the place of what is there, and whose it is.

    Raises:
        JobError: what is there is not ours, or it can't be written.
    """
    require_own_metrics(plan, path)
    with whole_file(path) as file:
        file.write(f"{_OWNER}{shown(plan.state)}\n{text}".encode())


def _lines(path: Path) -> list[str]:
    require_regular(path)
    try:
        with path.open("rb") as file:
            # After a power cut a file can have its length and not yet its bytes.
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip("\0").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_write(error, shown(path), "--metrics-file") from error
