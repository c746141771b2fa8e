"""What one run counted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.tally import tally

from .outcomes import Checked, DeadLetter, Died
from .rows import findings_of

if TYPE_CHECKING:
    from datetime import datetime

    from .outcomes import Ending
    from .scan import Seen


@dataclass(slots=True)
class Totals:
    """The run's own counts, kept as its assets end."""

    seen: Seen
    found: int = 0
    """Assets to check: new, changed or suspect."""
    checked: int = 0
    same: int = 0
    """Checked, and their content was recorded before."""
    left: Counter[str] = field(default_factory=Counter)
    """Left for the next fire, by reason."""
    oldest_left_ns: int | None = None
    """Since when the oldest of those lies there as it is: its ctime, since its mtime may be a copy's."""
    kept: Counter[str] = field(default_factory=Counter)
    """Not checked again by `--redo`, since the bytes are not there any more, by reason."""
    died: int = 0
    dead_letters: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What was found, by rule and severity."""
    whole_queue: bool = False
    """Whether the scan came to its end."""
    whole_redo: bool = False
    """Whether all windows that were to be done again were gone through."""

    def count(self, ending: Ending, *, new: bool) -> None:
        """Count what came of one asset."""
        match ending:
            case Checked():
                self.checked += 1
                self.same += not new
                self.statuses[ending.report.status] += 1
                self._count_findings(ending)
            case DeadLetter():
                self.dead_letters += 1
                self.statuses["error"] += 1
                self._count_findings(ending)
            case Died():
                self.died += 1
                self._count_age(ending)
            case _:
                self.left[ending.why] += 1
                if ending.why != "gone":
                    self._count_age(ending)

    def _count_findings(self, ending: Checked | DeadLetter) -> None:
        for found in tally(findings_of(ending)):
            self.findings[found.rule, found.severity] += found.count

    def _count_age(self, ending: Ending) -> None:
        since = ending.asset.stat.ctime_ns
        self.oldest_left_ns = since if self.oldest_left_ns is None else min(since, self.oldest_left_ns)

    @property
    def all_found(self) -> bool:
        """Whether all that there is to do was found."""
        return self.whole_queue or self.whole_redo

    @property
    def ended(self) -> int:
        """Assets of which something came."""
        return self.checked + self.dead_letters + self.died + self.left.total()

    @property
    def waiting(self) -> int:
        """What was to be checked and is left for the next fire; what is gone is not."""
        return self.left.total() - self.left["gone"]

    @property
    def skipped(self) -> int:
        """What was met and not checked."""
        return self.seen.settling + self.seen.links + self.seen.unreadable + self.waiting

    @property
    def backlog(self) -> int | None:
        """Assets that wait for the next fire; `None` when the scan was cut short."""
        if not self.whole_queue:
            return None
        unended = self.found - self.ended
        return self.seen.settling + self.waiting + self.died + unended

    @property
    def scan_errors(self) -> int:
        """Folders and files that could not be read."""
        return self.seen.unreadable + self.left["unreadable"]

    def as_json(self) -> str:
        """Write the counts as the ledger keeps them."""
        counts = {"seen": self.seen.assets, "found": self.found, "checked": self.checked, "same": self.same}
        rest = {
            "skipped": self.skipped,
            "scan_errors": self.scan_errors,
            "backlog": self.backlog,
            "dead_letters": self.dead_letters,
        }
        tables = {"statuses": dict(self.statuses), "left": dict(self.left), "kept": dict(self.kept)}
        return json.dumps(counts | rest | tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    totals: Totals
    code: int
    """What the process exits with."""
    drained: bool
    """Whether it was asked to end before its time."""
    at: datetime
    seconds: float
