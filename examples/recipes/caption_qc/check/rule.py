"""What a rule is: a row of data with the function that finds its faults.

A finder yields faults in the order of the file; how many are reported, and how severe they are, is the
checker's decision. It is given the threshold that holds: the profile's, or the one of its row. Rules of the
families FMT_, HEX_, TC_ and 608_PARITY read the whole file; all others judge the profile's channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.measures import Measures
    from examples.recipes.caption_qc.check.profiles import Profile
    from examples.recipes.caption_qc.check.programme import Programme
    from examples.recipes.caption_qc.check.report import Cue, Drift, Severity
    from examples.recipes.caption_qc.check.scc import Track

_OF_THE_FILE = ("FMT_", "HEX_", "TC_", "608_PARITY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the rules look at."""

    track: Track
    profile: Profile
    cues: tuple[Cue, ...]
    """Those of the profile's channel."""
    measures: Measures
    """What is counted of each of them."""
    programme: Programme | None = None
    drift: Drift | None = None
    """`None` without a reference track."""

    @property
    def channel(self) -> str:
        """The channel that is judged."""
        return self.profile.channel


Finder = Callable[[Subject, float], Iterator[Fault]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule under the profile `house`."""

    name: str
    severity: Severity
    find: Finder
    about: str
    """What trips it, in one sentence."""
    threshold: float | None = None
    """A profile may set it; `None` where the rule has no number of its own."""
    unit: str | None = None
    also: Severity | None = None
    """The other severity that it may have by itself."""

    @property
    def of_channel(self) -> bool:
        """Whether it judges the profile's channel alone, so that its faults are that channel's."""
        return not self.name.startswith(_OF_THE_FILE)


def of_track(find: Callable[[Track, float], Iterator[Fault]]) -> Finder:
    """Make a finder of one that needs nothing but the decoded file."""

    def look(subject: Subject, limit: float) -> Iterator[Fault]:
        return find(subject.track, limit)

    return look
