"""An example of each rule: a short file that trips it, kept beside the rules as ordinary files.

`examples/RULE.scc` is the file. Where the rule needs more, that stands beside it as it would in a queue: the
programme in `RULE.toml`, the reference track in `RULE.vtt`, and a profile in `RULE.profile.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.checker import check, too_large
from examples.recipes.caption_qc.check.profiles import load, parse
from examples.recipes.caption_qc.check.programme import parse_sidecar
from examples.recipes.caption_qc.check.reference import read_reference

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Report

_FOLDER = files("examples.recipes.caption_qc.check") / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The bytes of an example's files; `None` where it needs no such file."""

    data: bytes
    sidecar: bytes | None = None
    reference: bytes | None = None
    profile: bytes | None = None
    """`None` means `house`."""


def example(rule: str) -> Example:
    """Read the example of a rule.

    Raises:
        FileNotFoundError: The rule has none.
    """
    return Example(
        data=(_FOLDER / f"{rule}.scc").read_bytes(),
        sidecar=_read(f"{rule}.toml"),
        reference=_read(f"{rule}.vtt"),
        profile=_read(f"{rule}.profile.toml"),
    )


def run_example(rule: str) -> Report:
    """Check the example of a rule, with all that belongs to it."""
    found = example(rule)
    profile = load("house") if found.profile is None else parse(found.profile, f"{rule}.profile.toml")
    return too_large(len(found.data), profile) or check(
        found.data,
        profile,
        programme=None if found.sidecar is None else parse_sidecar(found.sidecar, f"{rule}.toml"),
        reference=None if found.reference is None else read_reference(found.reference, f"{rule}.vtt"),
    )


def _read(name: str) -> bytes | None:
    file = _FOLDER / name
    return file.read_bytes() if file.is_file() else None
