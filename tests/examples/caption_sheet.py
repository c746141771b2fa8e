"""What `inspect --csv` prints, as its tests read it, and files with captions that stand in it."""

from __future__ import annotations

import csv
import io
from itertools import chain
from typing import TYPE_CHECKING

from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice
from caption_inspect import inspect

if TYPE_CHECKING:
    from pathlib import Path

MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def read(sheet: str) -> list[dict[str, str]]:
    """Read a sheet as any reader of RFC 4180 does, less the mark that says it is UTF-8."""
    assert sheet.startswith(MARK)
    return list(csv.DictReader(io.StringIO(sheet.removeprefix(MARK), newline=""), strict=True))


def sheet(*arguments: str | Path) -> list[dict[str, str]]:
    """Run it, whatever its code, and read what it prints."""
    return read(inspect("--csv", *arguments).out)


def captions(*says: tuple[str, ...]) -> bytes:
    """Write captions of two seconds, each of so many rows; a backslash shows as an e with an acute accent."""
    lines: list[str] = []
    for number, rows in enumerate(says):
        loaded = [preamble(13 + row) + text(said) for row, said in enumerate(rows)]
        at = f"00:00:{10 * number + 1:02}:00"
        lines.append(line(at, twice(RCL, ENM), chain.from_iterable(loaded), twice(EOC)))
        lines.append(line(f"00:00:{10 * number + 4:02}:00", twice(EDM)))
    return scc(*lines)


def too_fast(folder: Path) -> tuple[str, Path]:
    """Choose a profile by which every caption is too fast."""
    profile = folder / "strict.toml"
    profile.write_text('name = "strict"\n[rules.RATE_CPS]\nthreshold = 0.01\n')
    return "--profile", profile
