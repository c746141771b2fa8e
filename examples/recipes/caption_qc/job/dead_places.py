"""Where dead letters lie: below `dead-letter/` in the state folder, each under the name it had in the queue.

Where something lies under that name already, an older file of it, the next one goes below `~2/`, then `~3/`: a
name in the queue never begins so, since the scan passes over those.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

from .assets import NotAsSeenError, open_asset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .plan import Plan

_AGAIN: Final = re.compile(rb"~\d+/")
# Where one name died so often with other bytes each time, its next file stays in the queue.
_MOST_PLACES: Final = 1000


def dead_letter_folder(plan: Plan) -> Path:
    """Return the folder of the dead letters."""
    return plan.state / "dead-letter"


def below(folder: Path, name: bytes) -> Path:
    """Return the path of `name` below `folder`."""
    return folder / os.fsdecode(name)


def free_place(folder: Path, name: bytes) -> bytes | None:
    """Choose a place below `folder` for the file `name`, with its folders made; `None` where there is none.

    Raises:
        OSError: A folder can't be made.
    """
    for number in range(1, _MOST_PLACES):
        place = name if number == 1 else b"~%d/%s" % (number, name)
        path = below(folder, place)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # A file lies where a folder would be.
            continue
        if not os.path.lexists(path):
            return place
    return None


def leads_elsewhere(path: Path) -> bool:
    """Say whether a folder on the way to `path` is a link by now: the file would be of another place."""
    return os.path.realpath(path.parent) != os.path.abspath(path.parent)  # noqa: PTH100 - no link is followed


def letters_in(plan: Plan) -> Iterator[tuple[bytes, bytes]]:
    """Yield the files below `dead-letter/`: the name that each had in the queue, and its place."""
    top = bytes(dead_letter_folder(plan))
    for folder, _, files in os.walk(top):
        for file in files:
            place = os.path.relpath(folder + b"/" + file, top)
            yield _AGAIN.sub(b"", place, count=1) if _AGAIN.match(place) else place, place


def holds(path: Path, content_sha256: str) -> bool:
    """Say whether a regular file with that content lies at `path`."""
    try:
        with os.fdopen(open_asset(bytes(path)), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == content_sha256
    except (OSError, NotAsSeenError):
        return False


def remove_empty_folders(top: Path, path: Path) -> None:
    """Remove the folders between `top` and `path` that hold nothing any more."""
    for folder in path.parents:
        if not folder.is_relative_to(top) or folder == top:
            return
        try:
            folder.rmdir()
        except OSError:
            return
