"""The house's profile: one that comes with the recipe, or a file that may be anything."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final

from examples.recipes.caption_qc.check import Profile, ProfileError, load, parse
from examples.recipes.caption_qc.check.profiles import built_in

from .assets import as_text, shown

LARGEST_PROFILE: Final = 1_000_000


def profile_of(name_or_path: str) -> Profile:
    """Read a profile by its name, or else from a file: a regular one, since a FIFO would hang the run.

    Raises:
        ProfileError: There is no such profile, or it can't be read or used.
    """
    names = built_in()
    if name_or_path in names:
        return load(name_or_path)
    path = Path(name_or_path)
    try:
        data = _read(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        way_out = f"give a TOML file's path, or a name: {', '.join(names)}"
        raise ProfileError(f"profile '{shown(path)}': {reason}; {way_out}") from error
    return parse(data, shown(path))


def unread(name_or_path: str) -> Profile:
    """Stand in for a profile that can't be read, under the name that was given: nothing is judged by it."""
    return replace(load("house"), name=as_text(os.fsencode(name_or_path)), sha256="0" * 64)


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(LARGEST_PROFILE + 1)
    if len(data) > LARGEST_PROFILE:
        raise ValueError(f"it is over {LARGEST_PROFILE} bytes, which no profile needs")
    return data
