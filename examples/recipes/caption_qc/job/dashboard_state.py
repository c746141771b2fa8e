"""What the dashboards show beside the records: which window, the trend, the dead letters; looked at by each fire.

All of it is a few hundred rows, so that a digest of it says whether what is kept still holds.
"""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.util import find_spec
from os import scandir
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from examples.recipes.caption_qc.check.rules import RULES

from . import TOOL_VERSION
from .plan import microseconds, time_of

if TYPE_CHECKING:
    from datetime import datetime

    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended

VERSION: Final = "1.2.0"
TREND_WINDOWS: Final = 288
MOST_DEAD_LETTERS: Final = 200
STATUSES: Final = ("pass", "warn", "fail", "error")


class State(NamedTuple):
    """All that the kept text follows from, but for the records of the window, which `changes` counts."""

    window: int | None
    """The start of the window that is shown; `None`: there are no records."""
    changes: int
    later: int
    """The changes of later windows: a record there may take the place of one that is shown."""
    threshold: float | None
    """Characters a second that the run's profile allows."""
    trend: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    dead_letters_total: int

    def digest(self) -> str:
        """Name it, together with what makes the text of it."""
        facts = json.dumps([VERSION, TOOL_VERSION, find_spec("pygal") is not None, *_code(), *self])
        return sha256(facts.encode()).hexdigest()


def state_of(plan: Plan, ledger: Ledger, ended: Ended) -> State:
    """Look at the ledger.

    Raises:
        JobError: It can't be read.
    """
    now = microseconds(ended.at)
    with ledger.trusted():
        window, changes = ledger.read(_SHOWN, (microseconds(plan.window), now)).fetchone() or (None, 0)
        letters = ledger.read(_DEAD_LETTERS, (MOST_DEAD_LETTERS,)).fetchall()
        return State(
            window=window,
            changes=changes,
            later=ledger.read(_LATER, (window,)).fetchone()[0],
            threshold=_threshold(plan),
            trend=_trend(ledger, max(now, window or 0)),
            dead_letters=[_dead_letter(*letter) for letter in letters],
            dead_letters_total=ledger.dead_letters(),
        )


def counts_of(text: str) -> dict[str, int]:
    """Read counts by status.

    Raises:
        TypeError: They are none.
        ValueError: The text is no JSON.
    """
    counts = json.loads(text)
    if not isinstance(counts, dict):
        raise TypeError(f"{text!r} is no count by status")
    return counted(counts)


def counted(counts: dict[str, int]) -> dict[str, int]:
    """Return counts by status with all statuses in them, and their sum."""
    by_status = {status: counts.get(status, 0) for status in STATUSES}
    return {"assets": sum(by_status.values()), **by_status}


def iso(time: datetime) -> str:
    """Write a time as the dashboards do."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _threshold(plan: Plan) -> float | None:
    changed = plan.profile.override(RULES[_SPEED_RULE]).threshold
    return RULES[_SPEED_RULE].threshold if changed is None else changed


def _trend(ledger: Ledger, until: int) -> list[dict[str, Any]]:
    rows = ledger.read(_TREND, (until, TREND_WINDOWS)).fetchall()
    return [_trend_of(time_of(window), counts_of(counts)) for window, counts in reversed(rows)]


def _trend_of(window: datetime, totals: dict[str, int]) -> dict[str, Any]:
    # Down, and far enough that of a million records a single one shows.
    rate = totals["pass"] * _PARTS // totals["assets"] / _PARTS if totals["assets"] else None
    return {"window": iso(window), **totals, "pass_rate": rate}


def _dead_letter(died_at: int, *facts: str | int | None) -> dict[str, Any]:
    return dict(zip(_LETTER_NAMES, facts, strict=True)) | {"died_at": iso(time_of(died_at))}


def _code() -> list[str]:
    """Name the files that make the text: a release may change what they make and no number."""
    here = Path(__file__).parent
    names = []
    for folder, beginning in ((here, "dashboard"), (here / "page", "")):
        with scandir(folder) as entries:
            own = (entry for entry in entries if entry.name.startswith(beginning) and entry.is_file())
            stats = ((entry.name, entry.stat()) for entry in own)
            names += [f"{name} {seen.st_size} {seen.st_mtime_ns}" for name, seen in stats]
    return sorted(names)


_SPEED_RULE: Final = "RATE_CPS"
_PARTS: Final = 1_000_000
# This run's own window; else the newest that is not yet to come; else the newest there is. Of a window that is
# done again none may be left.
_SHOWN: Final = """
WITH filled AS (
    SELECT window_start, changes FROM windows w
    WHERE EXISTS (SELECT 1 FROM records r WHERE r.window_start = w.window_start)
)
SELECT window_start, changes FROM (
    SELECT *, 0 AS choice FROM filled WHERE window_start = ?1
    UNION ALL
    SELECT * FROM (
        SELECT *, 1 FROM filled WHERE window_start <= ?2 ORDER BY window_start DESC LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT *, 2 FROM filled ORDER BY window_start DESC LIMIT 1)
) ORDER BY choice LIMIT 1
"""
_LATER: Final = "SELECT COALESCE(SUM(changes), 0) FROM windows WHERE window_start > ?"
# Of windows whose files have been written once: a drain may leave others to the next run.
_TREND: Final = """
SELECT window_start, counts FROM windows WHERE counts IS NOT NULL AND window_start <= ?
ORDER BY window_start DESC LIMIT ?
"""
_LETTER_NAMES: Final = ("asset_id", "content_sha256", "reason", "attempts", "place")
_DEAD_LETTERS: Final = f"""
SELECT died_at, {", ".join(_LETTER_NAMES)} FROM dead_letters
ORDER BY died_at DESC, asset_id, content_sha256 LIMIT ?
"""  # noqa: S608 - our own names
