"""The JSON of what a window's records add up to, part by part: members of an object, in ASCII.

1. The worst assets come first. All together take about `MOST_TEXT` characters: where findings of all of them
   would take more, each shows as many as the others, and the least bad show none.
2. The text may stand in a script element: nothing in it ends one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from examples.recipes.caption_qc.check.tally import COUNTED
from examples.recipes.caption_qc.check.timecode import seconds

from .dashboard_records import SPEED_BINS, SPEED_WIDTH, WORST_FIRST, by_severity, tally_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .dashboard_records import RuleCount, Surveyed, Worst
    from .dashboard_state import State
    from .ledger import Ledger

_NOT_CHECKED: Final = "error"
FIRST_FINDINGS: Final = 20
MOST_TEXT: Final = 8_000_000
# What a page shows without its script, and more.
PLAIN_ASSETS: Final = 200
# Characters that an asset without findings, and a finding, were seen to take.
_ASSET: Final = 720
_FINDING: Final = 350
# A part of the text; SQLite and Python hold a few of these at once.
_PART: Final = 1 << 16
_DIGITS: Final = 3
# Of a share: one cue of thousands is not none.
_DIGITS_OF_SHARE: Final = 6


class Text:
    """The text of one window. Mutable state: what of the assets was written by now."""

    def __init__(self, ledger: Ledger, state: State, surveyed: Surveyed) -> None:
        self._ledger = ledger
        self._state = state
        self._surveyed = surveyed
        self._most = _findings_each([one.listed for one in surveyed.worst])
        self._written = 0
        self._first: list[dict[str, Any]] = []
        self._shown = 0

    def parts(self) -> Iterator[str]:
        """Yield the whole text; the ledger has to be trusted meanwhile."""
        for name, value in self._before_assets().items():
            yield f'"{name}":{_dumped(value)},\n'
        yield '"assets":['
        part = ""
        for line in self._lines():
            part += line
            if len(part) > _PART:
                yield part
                part = ""
        yield f'{part}\n],\n"truncated":{_dumped(self._truncated)}'

    def summary(self) -> dict[str, Any]:
        """Return the same for the page's plain part, with some of the assets, when all parts were asked for."""
        totals = {"totals": self._surveyed.totals}
        return totals | self._before_assets() | {"assets": self._first, "truncated": self._truncated}

    def _before_assets(self) -> dict[str, Any]:
        letters = self._state.dead_letters
        return {
            "profiles": self._surveyed.profiles,
            "rules": self._surveyed.rules,
            "reading_speed": _reading_speed(self._state, self._surveyed),
            "trend": self._state.trend,
            "dead_letters": letters,
            "dead_letters_truncated": len(letters) < self._state.dead_letters_total,
            "assets_total": self._surveyed.totals["assets"],
        }

    @property
    def _truncated(self) -> bool:
        return self._shown < self._surveyed.totals["assets"]

    def _lines(self) -> Iterator[str]:
        for worst in self._surveyed.worst:
            asset = _asset(self._ledger, worst, self._most if self._written < MOST_TEXT else 0)
            line = f"{',' if self._shown else ''}\n{_dumped(asset)}"
            self._written += len(line)
            if self._written > 2 * MOST_TEXT:  # Names of four thousand bytes each.
                return
            self._shown += 1
            if self._shown <= PLAIN_ASSETS:
                self._first.append(asset)
            yield line


def _findings_each(listed: Sequence[int]) -> int:
    """Say how many findings an asset may show so that all together have room."""
    room = (MOST_TEXT - _ASSET * len(listed)) // _FINDING
    for most in range(FIRST_FINDINGS, 1, -1):
        if sum(min(most, count) for count in listed) <= room:
            return most
    return 1


def _reading_speed(state: State, surveyed: Surveyed) -> dict[str, Any]:
    bins = [
        {
            "from": place * SPEED_WIDTH,
            "to": (place + 1) * SPEED_WIDTH if place < SPEED_BINS else None,
            "assets": surveyed.speeds.get(place, 0),
        }
        for place in range(SPEED_BINS + 1)
    ]
    unknown = surveyed.speeds.get(None, 0)
    return {
        "unit": "cps",
        "width": SPEED_WIDTH,
        "threshold": state.threshold,
        "over": surveyed.over,
        "bins": bins,
        "unknown": unknown,
    }


def _asset(ledger: Ledger, worst: Worst, most: int) -> dict[str, Any]:
    status, profile, time_base, cues, *speeds, frames, kept = ledger.read(_RECORD, worst.key).fetchone()
    rules = tally_of(ledger, worst.key, kept).rules
    counts = by_severity(rules)
    *speeds, share = speeds
    max_cps, p95_cps, wpm = (_rounded(speed, _DIGITS) for speed in speeds)
    return {
        "queue": worst.queue,
        "asset_id": worst.asset_id,
        "content_sha256": worst.content_sha256,
        "status": status,
        "superseded": worst.superseded,
        "worst_severity": next((name for name, count in counts.items() if count), None),
        "counts": counts,
        "findings": sum(counts.values()),
        "rules": _named(rules),
        "profile": profile,
        "profile_sha256": worst.profile_sha256,
        "time_base": time_base,
        "cues": None if status == _NOT_CHECKED else cues,
        "max_cps": max_cps,
        "p95_cps": p95_cps,
        "wpm": wpm,
        "share_over_cps": _rounded(share, _DIGITS_OF_SHARE),
        "duration_seconds": None if frames is None else round(seconds(frames), _DIGITS),
        "first_findings": [
            dict(zip(_FINDING_NAMES, row, strict=True))
            for row in ledger.read(_FIRST_FINDINGS, (*worst.key, COUNTED, most))
        ],
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _named(rules: Sequence[RuleCount]) -> dict[str, int]:
    """Count by rule alone, what matters most first."""
    found: dict[str, int] = {}
    for one in sorted(rules, key=lambda one: (WORST_FIRST.index(one.severity), -one.found, one.rule)):
        found[one.rule] = found.get(one.rule, 0) + one.found
    return found


def _dumped(value: object) -> str:
    """Write JSON in ASCII, and in strings what would end a script element as an escape."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


_FINDING_NAMES: Final = (
    "rule",
    "severity",
    "line",
    "word",
    "timecode",
    "message",
    "cue",
    "channel",
    "measured",
    "threshold",
    "unit",
    "caption",
    "caption_start",
    "caption_end",
)
_RECORD: Final = """
SELECT status, profile, time_base, cues, max_cps, p95_cps, wpm, share_over_cps, duration_frames, tally
FROM records WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
"""
# What is said of the whole file comes first among what is as severe.
_FIRST_FINDINGS: Final = f"""
SELECT {", ".join(_FINDING_NAMES)} FROM findings
WHERE queue = ? AND asset_id = ? AND content_sha256 = ? AND profile_sha256 = ?
ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END,
    line IS NULL AND unit IS NOT ? DESC, place LIMIT ?
"""  # noqa: S608 - our own names
