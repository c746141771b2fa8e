"""The commands that the page names, whole: what is copied from it works in any folder."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from examples.recipes.caption_qc.job.assets import shown

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.plan import Plan

PROGRAM: Final = "python -m examples.recipes.caption_qc"


class Commands(NamedTuple):
    """What follows from where a run keeps things."""

    replay: str
    state: str
    """The folder below which dead letters lie."""


def commands_of(plan: Plan) -> Commands:
    """Name the places that a later command has to be told: always the state folder, others where they are not in it."""
    options = ["--state", _typed(plan.state)]
    if not plan.out.is_folder(plan.state):
        options += ["--out", quote(plan.out.shown())]
    if plan.lock != plan.state / "run.lock":
        options += ["--lock", _typed(plan.lock)]
    return Commands(" ".join([PROGRAM, "replay", *options]), shown(plan.state))


def _typed(path: Path) -> str:
    """Write a path as a shell reads it; one that no page can show is left to the reader."""
    return quote(shown(path)) if shown(path) == os.fspath(path) else "FOLDER"
