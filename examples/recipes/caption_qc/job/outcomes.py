"""What came of one asset: frozen values that travel from a worker to the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .assets import WithheldError
from .exits import JobError

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Report

    from .assets import Asset
    from .captions import Caption
    from .exits import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The asset was read as it was seen, and checked."""

    asset: Asset
    content_sha256: str
    report: Report
    """Its `profile_sha256` is of all that the asset was judged by: of the profile, or of profile and sidecar."""
    seconds: float
    captions: tuple[Caption | None, ...] = ()
    """Each finding's caption, in the order of the report's findings; equal ones are one value. Empty: none has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The asset is left for the next fire; nothing is recorded of it."""

    asset: Asset
    why: Literal["changed", "gone", "unreadable", "unrecorded", "stopped"]
    detail: str
    away: Exit | None = None
    """What the run ends with where the whole queue can't be read from there, so that nothing is known of this asset."""
    doubt: Literal["denied", "withheld"] | None = None
    """Why it may be none of the asset's own trouble: a worker's rights, or a store that gives nothing at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The check of this asset, alone, ended its worker: one attempt."""

    asset: Asset
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """The last attempt died too: the asset is given up until its bytes change."""

    asset: Asset
    content_sha256: str
    attempts: int
    reason: str
    judged_by: str | None = None
    """The digest of profile and sidecar; `None`: of the profile alone."""


Outcome: TypeAlias = Checked | Left
Ending: TypeAlias = Checked | Left | Died | DeadLetter


def left_because(asset: Asset, error: Exception) -> Left:
    """Say why an asset that could not be read as it was seen is left."""
    if isinstance(error, FileNotFoundError):
        return Left(asset=asset, why="gone", detail="it is not there any more")
    if isinstance(error, JobError):
        return Left(asset=asset, why="unreadable", detail=str(error), away=error.code)
    if isinstance(error, OSError):
        return Left(
            asset=asset, why="unreadable", detail=error.strerror or str(error), doubt=_doubt_of(error)
        )
    return Left(asset=asset, why="changed", detail=str(error))


def _doubt_of(error: OSError) -> Literal["denied", "withheld"] | None:
    if isinstance(error, PermissionError):
        return "denied"
    return "withheld" if isinstance(error, WithheldError) else None


def stopped(asset: Asset, why: str = "the run was asked to end") -> Left:
    """Say that an asset is left because the run ends, and why it does."""
    return Left(asset=asset, why="stopped", detail=why)
