"""The sidecar of an asset, NAME.toml beside NAME.scc: the programme that its captions belong to.

A sidecar is part of what an asset is judged by, as the profile is, so it is part of that digest: another sidecar
gives another record, the same one none. One that can't be used is a finding of the asset, never a failure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from examples.recipes.caption_qc.check import Finding, GivenError, Programme, parse_sidecar

from .assets import NotAsSeenError, as_text, beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.recipes.caption_qc.check.profiles import Profile

    from .assets import Asset

SIDECAR_RULE: Final = "JOB_SIDECAR"
LARGEST_SIDECAR: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Given:
    """What an asset is judged by beside the rules."""

    judged_by: str
    """The digest of the profile, or of profile and sidecar."""
    programme: Programme | None = None
    finding: Finding | None = None
    """Why the sidecar can't be used."""


def given_beside(asset: Asset, profile: Profile, read: Callable[[], bytes]) -> Given:
    """Judge by the asset's sidecar, if it was seen with one, as `read` returns it.

    Raises:
        NotAsSeenError: It is not the one that was seen, or gone.
        OSError: The system refused it.
    """
    if asset.sidecar is None:
        return Given(profile.sha256)
    name = as_text(beside(asset.name))
    if asset.sidecar.size > LARGEST_SIDECAR:
        found = f"it has {asset.sidecar.size} bytes, over the limit of {LARGEST_SIDECAR}"
        return _unusable(_judged_by(profile, found.encode()), f"sidecar {name!r}: {found}")
    data = read()
    try:
        return Given(_judged_by(profile, data), parse_sidecar(data, name))
    except GivenError as error:
        return _unusable(_judged_by(profile, data), str(error))


def sidecar_gone() -> NotAsSeenError:
    """Say that an asset is not as it was seen, since its sidecar is gone."""
    return NotAsSeenError("its sidecar is not there any more")


def _judged_by(profile: Profile, sidecar: bytes) -> str:
    return hashlib.sha256(profile.sha256.encode() + b"\n" + sidecar).hexdigest()


def _unusable(judged_by: str, why: str) -> Given:
    message = f"{why}; the programme was not looked at"
    return Given(judged_by, finding=Finding(rule=SIDECAR_RULE, severity="error", message=message))
