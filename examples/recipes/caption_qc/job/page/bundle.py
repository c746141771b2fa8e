"""DataTables, which makes the table sort and filter: the copy in the package itables, which is found, not imported."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = "html"
_SCRIPT: Final = "dt_bundle.js"
_STYLE: Final = "dt_bundle.css"
# The last such statement of the module says under which of its short names it gives DataTable away.
_DEFAULT: Final = " as default"
_EXPORTED: Final = re.compile(r"export\s*\{[^{}]*?([\w$]+) as default\b[^{}]*\}")
# Each run looks for it: from near the end on that takes a twentieth of the time.
_LONGEST_EXPORT: Final = 10_000
_ENDS: Final = re.compile(r"</script", re.IGNORECASE)
_NEVER_ENDS: Final = re.compile(r"<script[\s/>]", re.IGNORECASE)


class Bundle(NamedTuple):
    """What is written into the page."""

    script: str
    """A module's text that leaves `DataTable` to the scripts after it."""
    style: str


def bundle() -> Bundle | None:
    """Return the installed DataTables; `None` where there is none that can be written into a page."""
    folder = _folder()
    if folder is None:
        return None
    try:
        script = (folder / _SCRIPT).read_text(encoding="utf-8")
        style = (folder / _STYLE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    exported = _EXPORTED.findall(script, max(0, script.rfind(_DEFAULT) - _LONGEST_EXPORT))
    if not exported or not _fits_in(script) or "</" in style:
        return None
    return Bundle(f"{script}\nglobalThis.DataTable = {exported[-1]};\n", style)


def _fits_in(script: str) -> bool:
    """Say whether a script element with this text ends where it should: HTML looks into strings and comments too."""
    return not _ENDS.search(script) and not _NEVER_ENDS.search(script.partition("<!--")[2])


def _folder() -> Path | None:
    try:
        found = find_spec("itables")
    except (ImportError, ValueError):
        return None
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / _FOLDER
